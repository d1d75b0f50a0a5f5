"""Constants that vary from place to place: a tensor laid out so that a Lookup has one table per place.

    x[n, c, h, w] · k[c]          lies as [n, h, w, c],     tables [c, 256]
    x[n, c, h, w] + k[h, w]       lies as [n, c, h·w],      tables [h·w, 256]

Constants of an expression are held with all axes of the tensor in logical order, those along which they do
not vary of size 1, or as plain numbers; only for its tables do they become vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.expressions import Apply, Constant, Expression, Source
from calib8.program.instructions import Instruction, Lookup, Reshape
from calib8.program.lower.builder import Builder
from calib8.program.lower.forms import Coded
from calib8.program.lower.layout import physical
from calib8.program.program import Slot
from calib8.program.rules import Table

MAX_TABLES: Final = 1 << 15
"""Most tables of one Lookup: 8 MB."""


@dataclass(frozen=True)
class Rows:
    """A tensor whose varying axes lie last.

    Attributes:
        source: the tensor.
        shape: its logical sizes.
        axes: logical axes that vary, in the order in which they lie.
    """

    source: Coded
    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def tables(self) -> int:
        """How many places there are."""
        return math.prod(self.shape[axis] for axis in self.axes)


def wide_constant(array: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[Any] | None:
    """A constant with all axes of a tensor, of size 1 where it does not vary; None if it is larger.

    Args:
        array: broadcasts against the tensor.
        shape: logical sizes of the tensor.
    """
    if array.ndim > len(shape) or array.size == 0:
        return None
    wide = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if any(size not in (1, whole) for size, whole in zip(wide.shape, shape, strict=True)):
        return None
    for axis, size in enumerate(wide.shape):
        first = wide.take([0], axis=axis)
        if size > 1 and np.array_equal(wide, np.broadcast_to(first, wide.shape)):
            wide = first
    return wide


def varying_axes(expression: Expression) -> frozenset[int]:
    """Logical axes along which constants of an expression vary."""
    if isinstance(expression, Source):
        return frozenset()
    if isinstance(expression, Constant):
        return frozenset(axis for axis, size in enumerate(expression.array.shape) if size > 1)
    return frozenset().union(*(varying_axes(arg) for arg in expression.args))


def in_rows(builder: Builder, source: Coded, axes: frozenset[int]) -> Rows:
    """The tensor with some axes moved behind the others."""
    last = tuple(axis for axis in source.order if axis in axes)
    order = (*(axis for axis in source.order if axis not in axes), *last)
    return Rows(builder.in_order(source, order), builder.shape(source), last)


def vector(rows: Rows, wide: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A constant with one number per table, or just one number."""
    if wide.size == 1:
        return wide.reshape(())
    sizes = tuple(size if axis in rows.axes else 1 for axis, size in enumerate(rows.shape))
    return np.broadcast_to(wide, sizes).transpose(rows.source.order).reshape(-1)


def with_vectors(rows: Rows, expression: Expression) -> Expression:
    """The expression with its constants as a table needs them."""
    if isinstance(expression, Constant):
        return Constant(vector(rows, expression.array))
    if isinstance(expression, Apply):
        args = tuple(with_vectors(rows, arg) for arg in expression.args)
        return Apply(expression.op, args, expression.attributes)
    return expression


def lookup(
    builder: Builder, rows: Rows, name: str, outputs: tuple[int, ...], table: Table, function: str
) -> Instruction:
    """The instruction that writes ``outputs``; several varying axes are joined to one before it.

    Args:
        builder: gets what must go before.
        rows: what is looked up.
        name, function: of the Lookup.
        outputs: one slot of the sizes of ``rows.source``.
        table: [256] or [tables, 256].
    """
    source = rows.source.slot
    if len(rows.axes) <= 1:
        return Lookup(name, (source,), outputs, table, function)
    sizes = physical(rows.shape, rows.source.order)
    joined = (*sizes[: len(sizes) - len(rows.axes)], rows.tables)
    before, after = (_like(builder, slot, joined) for slot in (source, outputs[0]))
    builder.steps.append(Reshape(name, (source,), (before,)))
    builder.steps.append(Lookup(name, (before,), (after,), table, function))
    return Reshape(name, (after,), outputs)


def _like(builder: Builder, slot: int, shape: tuple[int, ...]) -> int:
    old = builder.slots[slot]
    return builder.slot(Slot(f"{old.name}/rows", shape, old.dtype, old.scales, old.zero_point))
