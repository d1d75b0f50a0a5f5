"""The program of a TFLite model while it grows: a slot per tensor, laid out as the file has it (NHWC)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.program.instructions import Instruction
from calib8.program.program import CODE_TYPES, WIDE_TYPE, Slot
from calib8.qparams import QParams
from calib8.tflite.graph import Graph, Operator, Tensor

NO_SCALES = np.zeros(0, np.float32)
ABSENT = -1
"""Place of an input that is left out."""
MAX_INDICES = 1 << 24
"""That a program lists, of all axes which operators repeat, mirror or resize: 64 MB of them."""


@dataclass(eq=False)
class Builder:
    """Slots and instructions so far.

    Attributes:
        graph: the model, checked.
        slots: of the program.
        steps: its instructions.
        numbers: tensor of the graph → its slot.
        listed: indices that operators with sizes alone made so far: a small file may ask for any number.
    """

    graph: Graph
    slots: list[Slot] = field(default_factory=list)
    steps: list[Instruction] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    listed: int = 0

    def tensor(self, place: int) -> Tensor:
        """A tensor of the graph."""
        return self.graph.tensors[place]

    def given(self, operator: Operator, place: int) -> bool:
        """Whether an operator has an input at a place."""
        return place < len(operator.inputs) and operator.inputs[place] != ABSENT

    def number(self, place: int) -> int:
        """The slot of a tensor that is computed or fed.

        Raises:
            NoFormError: it is a constant, or quantized per channel.
        """
        if place not in self.numbers:
            tensor = self.tensor(place)
            if tensor.data is not None:
                raise NoFormError(f"it computes with the constant '{tensor.name}'")
            self.numbers[place] = self.add(slot_of(tensor))
        return self.numbers[place]

    def codes(self, place: int) -> Slot:
        """The slot of a tensor of codes, of 8 bits or, in operators of ``wide.OPERATORS``, of 16.

        Raises:
            NoFormError: it holds something else, or is a constant.
        """
        slot = self.slots[self.number(place)]
        if not slot.is_codes:
            raise NoFormError(f"'{slot.name}' holds {slot.dtype}, no 8-bit codes")
        return slot

    def qparams(self, place: int) -> QParams:
        """Scale and zero point of a tensor of codes.

        Raises:
            NoFormError: it holds something else, or is a constant.
        """
        slot = self.codes(place)
        return QParams(slot.scale, slot.zero_point)

    def is_constant(self, place: int) -> bool:
        """Whether the file holds the elements of a tensor."""
        return self.tensor(place).data is not None

    def constant(self, place: int) -> npt.NDArray[Any]:
        """The elements of a constant.

        Raises:
            NoFormError: the tensor is computed.
        """
        tensor = self.tensor(place)
        if tensor.data is None:
            raise NoFormError(f"'{tensor.name}' is computed, where a constant is needed")
        return tensor.data

    def list_indices(self, count: int) -> None:
        """Counts the indices of an axis, before they are made.

        Raises:
            NoFormError: the program would list more than ``MAX_INDICES`` of them.
        """
        if self.listed + count > MAX_INDICES:
            raise NoFormError(
                f"it lists the indices of an axis of {count}; the most of a model are {MAX_INDICES}"
            )
        self.listed += count

    def add(self, slot: Slot) -> int:
        """A further slot."""
        self.slots.append(slot)
        return len(self.slots) - 1

    def between(self, like: Slot, shape: Sequence[int], tag: str) -> int:
        """A slot for what an operator needs on its way: the codes of another slot in another shape."""
        return self.add(Slot(f"{like.name}/{tag}", tuple(shape), like.dtype, like.scales, like.zero_point))

    def name(self, operator: Operator) -> str:
        """What messages and listings call an operator: its first output."""
        return self.tensor(operator.outputs[0]).name


def slot_of(tensor: Tensor) -> Slot:
    """The slot of a tensor; 8-bit integers without a scale count as codes of scale 1, int16 as plain numbers.

    Raises:
        NoFormError: it is quantized per channel.
    """
    quantization = tensor.quantization
    if tensor.dtype not in CODE_TYPES and (tensor.dtype != WIDE_TYPE or quantization is None):
        return Slot(tensor.name, tensor.shape, tensor.dtype, NO_SCALES)
    if quantization is None:
        return Slot(tensor.name, tensor.shape, tensor.dtype, np.ones(1, np.float32))
    if quantization.scales.size != 1:
        raise NoFormError(f"'{tensor.name}' has a scale per channel")
    return Slot(
        tensor.name, tensor.shape, tensor.dtype, quantization.scales, int(quantization.zero_points[0])
    )
