"""The TFLite graph while it grows: a tensor per slot, constants once each, operators in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.exporting.tflite.versions import INT8, INT16
from calib8.program.instructions import Dequantize, Sub, Transpose, Weighted
from calib8.program.program import WIDE_TYPE, Slot
from calib8.program.rounding.linear import clamp
from calib8.tflite.graph import Operator, Option, Quantization, Tensor

Array = npt.NDArray[Any]
Make = Callable[[int, str], None]

BOUNDS: Final[dict[str, tuple[float | None, float | None]]] = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}
"""Fused activation → real bounds of the result."""

LOWEST, HIGHEST = -128, 127
"""int8 codes."""


@dataclass(frozen=True, eq=False)
class LayerSums:
    """A layer whose sums no instruction has made codes of yet.

    Attributes:
        step: the layer.
        moves: Transposes behind it.
    """

    step: Weighted
    moves: tuple[Transpose, ...] = ()


@dataclass(frozen=True)
class Fed:
    """An input of the model as it is fed.

    Attributes:
        place: its tensor.
        axes: its axis i is axis ``axes[i]`` of the slot.
        codes: the int8 codes of it, None where float numbers are fed.
    """

    place: int
    axes: tuple[int, ...]
    codes: int | None = None


@dataclass(eq=False)
class Builder:
    """Tensors and operators so far.

    Attributes:
        slots: of the program, all codes int8 or int16.
        tensors, operators: of the graph.
        places: slot → its tensor.
        sums: slot of sums → what makes them.
        repeated: layers of sums that are codes already, by the name of their slot.
        differences: slot of 16-bit differences of int8 codes → what makes them.
        fed: slot of an input → how it is fed.
        dequantized: slot of real values → the instruction that makes them of codes or sums.
        waiting: slot → what adds its tensor once somebody reads it.
        real: slot of codes → tensor of their real values.
        wide: slot of int8 codes → tensor of the same codes as int16.
        named: tensors that are outputs already.
        notes: what is not kept exactly, for people.
        requantizations: QUANTIZE operators between two scales.
        tables: functions that are looked up.
    """

    slots: Sequence[Slot]
    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    sums: dict[int, LayerSums] = field(default_factory=dict)
    repeated: set[str] = field(default_factory=set)
    differences: dict[int, Sub] = field(default_factory=dict)
    fed: dict[int, Fed] = field(default_factory=dict)
    dequantized: dict[int, Dequantize] = field(default_factory=dict)
    waiting: dict[int, Callable[[], int]] = field(default_factory=dict)
    real: dict[int, int] = field(default_factory=dict)
    wide: dict[int, int] = field(default_factory=dict)
    named: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    requantizations: int = 0
    tables: int = 0
    _constants: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def reserve(self, names: Sequence[str]) -> None:
        """Keeps names for the inputs and outputs of the model."""
        self._names.update(names)

    def port(
        self, name: str, shape: Sequence[int], dtype: str, quantization: Quantization | None = None
    ) -> int:
        """A tensor of a name that was reserved."""
        self.tensors.append(Tensor(name, tuple(shape), dtype, None, quantization))
        return len(self.tensors) - 1

    def slot(self, number: int) -> Slot:
        """A slot of the program."""
        return self.slots[number]

    def tensor(self, number: int) -> int:
        """The tensor of a slot, in the layout of the slot."""
        if number in self.waiting:
            self.places[number] = self.waiting.pop(number)()
        if number not in self.places:
            slot = self.slots[number]
            self.places[number] = self.add(slot.name, slot.shape, slot.dtype, slot_codes(slot))
        return self.places[number]

    def add(
        self, name: str, shape: Sequence[int], dtype: str, quantization: Quantization | None = None
    ) -> int:
        """A further tensor that an operator writes or the user feeds."""
        self.tensors.append(Tensor(self._free(name), tuple(shape), dtype, None, quantization))
        return len(self.tensors) - 1

    def like(self, place: int, tag: str, shape: Sequence[int] | None = None) -> int:
        """A tensor of the codes of another one, perhaps of another shape."""
        old = self.tensors[place]
        sizes = old.shape if shape is None else shape
        return self.add(f"{old.name}/{tag}", sizes, old.dtype, old.quantization)

    def rename(self, place: int, name: str) -> None:
        """Gives a tensor the name of an output."""
        self.tensors[place] = replace(self.tensors[place], name=name)

    def constant(self, name: str, data: Array, quantization: Quantization | None = None) -> int:
        """A constant; the same content with the same meaning is stored once."""
        meaning = (
            None
            if quantization is None
            else (quantization.scales.tobytes(), quantization.zero_points.tobytes(), quantization.axis)
        )
        key = (data.dtype.name, data.shape, data.tobytes(), meaning)
        if key not in self._constants:
            stored = np.ascontiguousarray(data)
            tensor = Tensor(self._free(name), data.shape, data.dtype.name, stored, quantization)
            self.tensors.append(tensor)
            self._constants[key] = len(self.tensors) - 1
        return self._constants[key]

    def ints(self, name: str, values: Sequence[int]) -> int:
        """A constant list of int32 numbers."""
        return self.constant(name, np.array(values, np.int32))

    def operator(
        self,
        op: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        version: int | None = None,
        /,
        **options: Option,
    ) -> None:
        """A further operator; without a version that of the codes that its first output holds, else 1."""
        if version is None:
            dtype = self.tensors[outputs[0]].dtype
            known = INT8 if dtype in ("int8", "uint8") else INT16 if dtype == WIDE_TYPE else {}
            version = known[op][0] if op in known else 1
        self.operators.append(Operator(op, tuple(inputs), tuple(outputs), options, version))

    def clamped(self, output: int, slot: Slot, low: int, high: int, make: Make, fused: bool = True) -> None:
        """An operator whose codes are limited: by its fused activation, or by operators behind it.

        Args:
            output: the tensor of the result.
            slot: its codes.
            low, high: lowest and highest code.
            make: adds the operator, given the tensor that it writes and its fused activation.
            fused: it has a fused activation.
        """
        for activation, bounds in BOUNDS.items():
            if (activation == "NONE" or fused) and clamp("tflite", slot, *bounds) == (low, high):
                make(output, activation)
                return
        ends = np.iinfo(slot.dtype)
        limits = {"MAXIMUM": (low, ends.min), "MINIMUM": (high, ends.max)}
        wanted = {op: code for op, (code, end) in limits.items() if code != end}
        place = self.like(output, "unclamped")
        make(place, "NONE")
        for number, (op, code) in enumerate(wanted.items()):
            target = output if number == len(wanted) - 1 else self.like(output, op.lower())
            limit = self.constant("limit", np.array([code], slot.dtype), slot_codes(slot))
            self.operator(op, [place, limit], [target])
            place = target

    def _free(self, name: str) -> str:
        """The name, or one that begins like it."""
        base, number = name or "tensor", 1
        name = base
        while name in self._names:
            number += 1
            name = f"{base}/{number}"
        self._names.add(name)
        return name


def slot_codes(slot: Slot) -> Quantization | None:
    """Scale and zero point of a slot of codes."""
    if not slot.is_codes:
        return None
    return codes_of(slot.scale, slot.zero_point)


def codes_of(scale: float, zero_point: int) -> Quantization:
    """One scale and zero point."""
    return Quantization(np.array([scale], np.float32), np.array([zero_point], np.int64))
