"""Chains of moves from one tensor to another: reshapes, transposes, slices, gathers and borders.

    builder tensor → move → … → move → builder tensor

Moves that change nothing are left out. TFLite moves codes as they are: where the two tensors have different
scales, the codes stay and a table of all codes changes what they mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.program.instructions import Gather, Instruction, Lookup, Pad, Reshape, Slice, Transpose
from calib8.program.lower_tflite.builder import Builder
from calib8.program.program import Slot
from calib8.tflite.graph import Operator

Shape = tuple[int, ...]
Ports = tuple[str, tuple[int, ...], tuple[int, ...]]
Make = Callable[[Ports], Instruction]


@dataclass(eq=False)
class Chain:
    """Moves in their order.

    Attributes:
        shape: after the moves so far.
        moves: shape of the result, and what makes the instruction of its name and slots.
    """

    shape: Shape
    moves: list[tuple[Shape, Make]] = field(default_factory=list)

    def reshape(self, shape: Sequence[int]) -> Chain:
        """The same elements in the same order.

        Raises:
            NoFormError: another number of elements.
        """
        new = tuple(shape)
        if math.prod(new) != math.prod(self.shape) or min(new, default=1) < 1:
            raise NoFormError(f"it makes {list(new)} of {list(self.shape)}")
        return self._then(new, lambda ports: Reshape(*ports), unless=new == self.shape)

    def transpose(self, axes: Sequence[int]) -> Chain:
        """Axis i of the result is axis ``axes[i]``.

        Raises:
            NoFormError: no permutation.
        """
        order, in_order = tuple(axes), list(range(len(self.shape)))
        if sorted(order) != in_order:
            raise NoFormError(f"its axes {list(order)} are not a permutation of {len(in_order)}")
        new = tuple(self.shape[axis] for axis in order)
        return self._then(new, lambda ports: Transpose(*ports, order), unless=list(order) == in_order)

    def slice(self, starts: Sequence[int], steps: Sequence[int], counts: Sequence[int]) -> Chain:
        """``counts`` elements from ``starts`` on, every ``steps``-th.

        Raises:
            NoFormError: elements outside the tensor, or none.
        """
        firsts, paces, new = tuple(starts), tuple(steps), tuple(counts)
        for first, pace, count, size in zip(firsts, paces, new, self.shape, strict=True):
            last = first + (count - 1) * pace
            if pace == 0 or count < 1 or not (0 <= first < size and 0 <= last < size):
                raise NoFormError(f"it takes {count} from {first} in steps of {pace} out of {size}")
        whole = new == self.shape and set(paces) <= {1}
        return self._then(new, lambda ports: Slice(*ports, firsts, paces), unless=whole)

    def gather(self, axis: int, indices: npt.ArrayLike) -> Chain:
        """Elements of an axis in the order of ``indices``.

        Raises:
            NoFormError: an index outside the axis, or none at all.
        """
        places, size = np.asarray(indices, np.int64).reshape(-1), self.shape[axis]
        if not places.size or places.min() < 0 or places.max() >= size:
            raise NoFormError(f"its indices lie outside an axis of {size}")
        new = (*self.shape[:axis], places.size, *self.shape[axis + 1 :])
        same = places.size == size and np.array_equal(places, np.arange(size))
        return self._then(new, lambda ports: Gather(*ports, axis, places.astype(np.int32)), unless=same)

    def repeat(self, builder: Builder, axis: int, times: int) -> Chain:
        """An axis several times over.

        Raises:
            NoFormError: not once, or too many indices.
        """
        size = self.shape[axis]
        if times < 1:
            raise NoFormError(f"it repeats an axis of {size} {times} times")
        if times == 1:
            return self
        builder.list_indices(size * times)
        return self.gather(axis, np.tile(np.arange(size), times))

    def broadcast(self, builder: Builder, shape: Sequence[int]) -> Chain:
        """Axes of one repeated, axes of one put in front: as NumPy broadcasts.

        Raises:
            NoFormError: the shapes do not fit, or too many indices.
        """
        new = tuple(shape)
        if len(new) < len(self.shape):
            raise NoFormError(f"it broadcasts {list(self.shape)} to {list(new)}")
        chain = self.reshape((1,) * (len(new) - len(self.shape)) + self.shape)
        for axis, (old, size) in enumerate(zip(chain.shape, new, strict=True)):
            if old not in (1, size):
                raise NoFormError(f"it broadcasts {list(self.shape)} to {list(new)}")
            chain = chain.repeat(builder, axis, size // old)
        return chain

    def pad(self, before: Sequence[int], after: Sequence[int], value: int) -> Chain:
        """Borders of one code.

        Raises:
            NoFormError: fewer than no elements.
        """
        heads, tails = tuple(before), tuple(after)
        if min((*heads, *tails), default=0) < 0:
            raise NoFormError(f"it pads by {list(heads)} and {list(tails)}")
        new = tuple(head + size + tail for head, size, tail in zip(heads, self.shape, tails, strict=True))
        return self._then(new, lambda ports: Pad(*ports, heads, tails, value), unless=new == self.shape)

    def _then(self, shape: Shape, make: Make, *, unless: bool) -> Chain:
        if unless:
            return self
        return Chain(shape, [*self.moves, (shape, make)])


def chain_from(builder: Builder, place: int) -> Chain:
    """A chain without moves that begins with a tensor of the graph."""
    return Chain(builder.slots[builder.number(place)].shape)


def write(builder: Builder, operator: Operator, source: int, chain: Chain, target: int) -> None:
    """The instructions of a chain.

    Args:
        builder: the program.
        operator: that they carry out.
        source, target: slots at both ends.
        chain: the moves between them.

    Raises:
        NoFormError: the target has another shape or type than the moves give it.
    """
    old, new = builder.slots[source], builder.slots[target]
    if new.shape != chain.shape or new.dtype != old.dtype:
        made = f"{old.dtype} {list(chain.shape)}"
        raise NoFormError(f"its output is {new.dtype} {list(new.shape)}, where it makes {made}")
    name, renamed = builder.name(operator), not same_meaning(old, new)
    if renamed:
        reinterpret(builder, operator, carried(builder, operator, source, chain), target)
        return
    *moves, (_, last) = chain.moves or [(chain.shape, lambda ports: Reshape(*ports))]
    for shape, make in moves:
        source = _moved(builder, name, source, shape, make)
    builder.steps.append(last((name, (source,), (target,))))


def carried(builder: Builder, operator: Operator, source: int, chain: Chain) -> int:
    """The slot that holds a slot's elements after the moves: itself where there are none."""
    for shape, make in chain.moves:
        source = _moved(builder, builder.name(operator), source, shape, make)
    return source


def _moved(builder: Builder, name: str, source: int, shape: Shape, make: Make) -> int:
    slot = builder.slots[source]
    result = builder.add(
        Slot(f"{name}/moved{len(builder.slots)}", shape, slot.dtype, slot.scales, slot.zero_point)
    )
    builder.steps.append(make((name, (source,), (result,))))
    return result


def same_meaning(a: Slot, b: Slot) -> bool:
    """Both slots have the same type, scale and zero point."""
    return a.dtype == b.dtype and a.zero_point == b.zero_point and np.array_equal(a.scales, b.scales)


def reinterpret(builder: Builder, operator: Operator, source: int, target: int) -> None:
    """The numbers themselves as codes of another type or scale: 200 as int8 is −56."""
    old, new = builder.slots[source], builder.slots[target]
    limits = np.iinfo(old.dtype)
    table = np.arange(limits.min, limits.max + 1).astype(old.dtype).astype(new.dtype)
    builder.steps.append(Lookup(builder.name(operator), (source,), (target,), table, "Reinterpret"))


def move(builder: Builder, operator: Operator, chain: Chain) -> None:
    """The instructions of a chain from the operator's first input to its only output."""
    write(builder, operator, builder.number(operator.inputs[0]), chain, builder.number(operator.outputs[0]))


def integers(builder: Builder, place: int) -> tuple[int, ...]:
    """The elements of a constant of whole numbers, in a row.

    Raises:
        NoFormError: it is computed, or holds something else.
    """
    values = builder.constant(place)
    if values.dtype.kind not in "iu":
        raise NoFormError(f"'{builder.tensor(place).name}' holds {values.dtype}, where integers are needed")
    return tuple(int(value) for value in values.reshape(-1))


def option(operator: Operator, field_name: str) -> int:
    """A whole number among the options of an operator."""
    return int(operator.options[field_name])  # type: ignore[arg-type]


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from 0.

    Raises:
        NoFormError: there is no such axis.
    """
    if not -rank <= axis < rank:
        raise NoFormError(f"it has axis {axis}, where there are {rank}")
    return axis % rank
