"""The program of a Tengine model while it grows: a slot per tensor, images in the order NHWC.

The file has images in the order NCHW, and operators that flatten or join know elements by that order:
``flat`` and ``unflat`` go from one to the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.program.instructions import Constant, Gather, Instruction, Lookup, Reshape, Transpose
from calib8.program.program import Slot
from calib8.tmfile.graph import Graph, Node, Tensor

Shape = tuple[int, ...]
I8 = npt.NDArray[np.int8]
MakeStep = Callable[[tuple[tuple[int], tuple[int]]], Instruction]

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
LOWEST = -128
"""Codes that Tengine's kernels write end at −127; only what is fed, copied or clipped may hold this one."""


@dataclass(eq=False)
class Builder:
    """Slots and instructions so far.

    Attributes:
        graph: the model, checked, its axes in the order NCHW.
        slots: of the program.
        steps: its instructions.
        numbers: tensor of the graph → its slot.
        full: slots that may hold the code −128.
    """

    graph: Graph
    slots: list[Slot] = field(default_factory=list)
    steps: list[Instruction] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    full: set[int] = field(default_factory=set)

    def tensor(self, place: int) -> Tensor:
        """A tensor of the graph."""
        return self.graph.tensors[place]

    def title(self, place: int) -> str:
        """What messages and slots call a tensor."""
        return self.tensor(place).name or f"tensor_{place}"

    def name(self, node: Node) -> str:
        """What messages and instructions call a node."""
        return node.name or self.title(node.outputs[0])

    def number(self, place: int) -> int:
        """The slot of a tensor that is computed or fed.

        Raises:
            NoFormError: it is a constant.
        """
        if place not in self.numbers:
            raise NoFormError(
                f"it computes with the constant '{self.title(place)}', which Tengine takes for codes"
            )
        return self.numbers[place]

    def read(self, place: int) -> Slot:
        """The slot itself.

        Raises:
            NoFormError: it is a constant.
        """
        return self.slots[self.number(place)]

    def operand(self, place: int, node: Node) -> int:
        """The slot of a tensor, or of a constant in int8 codes, N×H×W×C where it has four axes.

        Raises:
            NoFormError: a constant of another type, which Tengine takes for codes.
        """
        tensor = self.tensor(place)
        if place in self.numbers or tensor.role != "const" or tensor.quantization is None:
            return self.number(place)
        if tensor.dtype != "int8" or tensor.quantization.scales.size != 1:
            return self.number(place)
        codes = self.constant(place, "int8").astype(np.int8, copy=False)
        scale = tensor.quantization.scales[0]
        if scale == 0:  # whatever its codes are, they stand for 0
            codes, scale = np.zeros_like(codes), np.float32(1)
        if codes.ndim == 4:
            codes = np.ascontiguousarray(codes.transpose(TO_NHWC))
        number = self.add(Slot(self.title(place), codes.shape, "int8", np.array([scale], np.float32)))
        self.steps.append(Constant(self.name(node), (), (number,), codes))
        return number

    def image(self, place: int) -> Slot:
        """The slot of an image, N×H×W×C.

        Raises:
            NoFormError: it is none.
        """
        slot = self.read(place)
        if len(slot.shape) != 4:
            raise NoFormError(f"'{slot.name}' has {len(slot.shape)} axes, not 4")
        return slot

    def constant(self, place: int, dtype: str) -> npt.NDArray[np.generic]:
        """The elements of a constant of this type.

        Raises:
            NoFormError: it is computed, of another type, or the file holds no values of it.
        """
        tensor, title = self.tensor(place), self.title(place)
        if tensor.role != "const":
            raise NoFormError(f"'{title}' is computed, where a constant is needed")
        if tensor.dtype != dtype:
            raise NoFormError(f"'{title}' holds {tensor.dtype}, where {dtype} is needed")
        if tensor.data is None:
            raise NoFormError(f"the file holds no values of '{title}'")
        return tensor.data

    def add(self, slot: Slot) -> int:
        """A new slot."""
        self.slots.append(slot)
        return len(self.slots) - 1

    def between(self, like: Slot, shape: Sequence[int], what: str) -> int:
        """A slot for codes on the way, with type and scale of another one."""
        return self.add(Slot(f"{like.name}/{what}{len(self.slots)}", tuple(shape), like.dtype, like.scales))

    def slot_of(self, place: int, shape: Sequence[int]) -> Slot:
        """What holds a tensor, in this shape."""
        tensor = self.tensor(place)
        assert tensor.quantization is not None
        return Slot(self.title(place), tuple(shape), tensor.dtype, tensor.quantization.scales)

    def write(self, place: int) -> int:
        """The slot that a tensor is written to."""
        self.numbers[place] = self.add(self.slot_of(place, stored(self.tensor(place).shape)))
        return self.numbers[place]

    def same(self, node: Node, source: int, place: int) -> None:
        """Codes of a slot are a tensor's, with the meaning that the tensor's scale gives them."""
        old, new = self.slots[source], self.slot_of(place, stored(self.tensor(place).shape))
        if old.shape != new.shape:
            raise NoFormError(f"its output is {list(new.shape)}, where it makes {list(old.shape)}")
        if np.array_equal(old.scales, new.scales):
            self.numbers[place] = source
            return
        self.look_up(node, source, place, np.arange(LOWEST, 128).astype(np.int8), "Reinterpret")

    def look_up(self, node: Node, source: int, place: int, table: I8, function: str) -> None:
        """A tensor's codes from a table, [256] or [channels, 256]; none where that changes nothing."""
        target = self.slot_of(place, self.slots[source].shape)
        reached = table[..., 0 if source in self.full else 1 :]
        codes = np.arange(LOWEST, 128)[-reached.shape[-1] :]
        if (reached == codes).all() and np.array_equal(target.scales, self.slots[source].scales):
            self.same(node, source, place)
            return
        if stored(self.tensor(place).shape) != target.shape:
            raise NoFormError(f"its output is {list(self.tensor(place).shape)}")
        number = self.add(target)
        self.steps.append(Lookup(self.name(node), (source,), (number,), table, function))
        if (reached == LOWEST).any():
            self.full.add(number)
        self.numbers[place] = number

    def between_table(self, name: str, source: int, table: I8, scale: float) -> int:
        """A slot on the way with a scale of its own, codes from a table; the slot itself if that is it."""
        old = self.slots[source]
        reached = table[0 if source in self.full else 1 :]
        if scale == old.scale and (reached == np.arange(LOWEST, 128)[-reached.size :]).all():
            return source
        number = self.between(replace(old, scales=np.array([scale], np.float32)), old.shape, "rescaled")
        self.steps.append(Lookup(name, (source,), (number,), table, "Rescale"))
        return number

    def reshape(self, name: str, source: int, shape: Sequence[int]) -> int:
        """The same elements in the same order.

        Raises:
            NoFormError: another number of them.
        """
        old = self.slots[source]
        if old.shape == tuple(shape):
            return source
        if math.prod(old.shape) != math.prod(shape):
            raise NoFormError(f"it makes {list(shape)} of {list(old.shape)}")
        return self._moved(source, shape, lambda slots: Reshape(name, *slots))

    def transpose(self, name: str, source: int, axes: Sequence[int]) -> int:
        """Axis i of the result is axis ``axes[i]``; a Reshape where no element moves."""
        shape, order = self.slots[source].shape, tuple(axes)
        new = tuple(shape[axis] for axis in order)
        longer = [axis for axis in order if shape[axis] > 1]
        if longer == sorted(longer):
            return self.reshape(name, source, new)
        return self._moved(source, new, lambda slots: Transpose(name, *slots, order))

    def gather(self, name: str, source: int, axis: int, indices: npt.NDArray[np.int32]) -> int:
        """Elements of an axis in the order of the indices."""
        shape = self.slots[source].shape
        if indices.size == shape[axis] and np.array_equal(indices, np.arange(indices.size)):
            return source
        new = (*shape[:axis], indices.size, *shape[axis + 1 :])
        return self._moved(source, new, lambda slots: Gather(name, *slots, axis, indices))

    def flat(self, name: str, source: int) -> int:
        """A slot in the order of the file."""
        return self.transpose(name, source, TO_NCHW) if len(self.slots[source].shape) == 4 else source

    def unflat(self, name: str, source: int) -> int:
        """A slot in the order of the program, from one in the order of the file."""
        return self.transpose(name, source, TO_NHWC) if len(self.slots[source].shape) == 4 else source

    def _moved(self, source: int, shape: Sequence[int], make: MakeStep) -> int:
        result = self.between(self.slots[source], shape, "moved")
        self.steps.append(make(((source,), (result,))))
        if source in self.full:
            self.full.add(result)
        return result


def stored(shape: Sequence[int]) -> Shape:
    """Sizes as they lie in the program: images NHWC."""
    return tuple(shape[axis] for axis in TO_NHWC) if len(shape) == 4 else tuple(shape)
