"""What moves codes without changing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from calib8.errors import NoFormError
from calib8.exporting.c.shapes import collapsed, dense_steps, product
from calib8.exporting.c.text import Value
from calib8.exporting.c.unit import Unit, whole
from calib8.program.instructions import (
    Concat,
    Constant,
    Gather,
    Instruction,
    Pad,
    Reshape,
    ResizeNearest,
    Slice,
    Transpose,
)
from calib8.program.program import Slot

AXES: Final = 5
"""Of what is moved, at most, once axes that lie together are one."""


def _item(slot: Slot) -> int:
    """Bytes of an element."""
    return int(np.dtype(slot.dtype).itemsize)


def place_fields(
    item: int, sizes: Sequence[int], source: tuple[int, Sequence[int]], target: tuple[int, Sequence[int]]
) -> dict[str, Value]:
    """The structure ``place``.

    Args:
        item: bytes of an element.
        sizes: of the axes that are walked.
        source, target: first element, and elements from one index to the next.

    Raises:
        NoFormError: too many axes.
    """
    axes, (read, written) = collapsed(sizes, (source[1], target[1]))
    if (read[-1], written[-1]) == (1, 1):  # a row at once
        item_bytes = item * axes[-1]
        axes, read, written = axes[:-1], read[:-1], written[:-1]
    else:
        item_bytes = item
    if len(axes) > AXES:
        raise NoFormError(f"it moves more than {AXES} axes")
    missing = AXES - len(axes)
    return {
        "size": [1] * missing + axes,
        "from": source[0] * item,
        "in": [0] * missing + [step * item for step in read],
        "to": target[0] * item,
        "out": [0] * missing + [step * item for step in written],
        "bytes": item_bytes,
    }


def _place(unit: Unit, step: Instruction, fields: dict[str, Value]) -> None:
    layer = unit.describe("place", fields, step.name)
    unit.call("place", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))


def transpose(unit: Unit, step: Transpose) -> None:
    """Axes in another order."""
    source, result = unit.source(step), unit.result(step)
    steps = dense_steps(source.shape)
    read = (0, [steps[axis] for axis in step.axes])
    _place(unit, step, place_fields(_item(source), result.shape, read, (0, dense_steps(result.shape))))


def take_slice(unit: Unit, step: Slice) -> None:
    """Every so-many-th element."""
    source, result = unit.source(step), unit.result(step)
    steps = dense_steps(source.shape)
    first = sum(start * own for start, own in zip(step.starts, steps, strict=True))
    read = (first, [stride * own for stride, own in zip(step.steps, steps, strict=True)])
    _place(unit, step, place_fields(_item(source), result.shape, read, (0, dense_steps(result.shape))))


def pad(unit: Unit, step: Pad) -> None:
    """Borders of one code."""
    source, result = unit.source(step), unit.result(step)
    steps = dense_steps(result.shape)
    first = sum(before * own for before, own in zip(step.before, steps, strict=True))
    code, count = step.value & 0xFF, product(result.shape)
    unit.calls.append(f"memset({unit.at(step.outputs[0])}, {code}, {count});")
    _place(
        unit, step, place_fields(_item(source), source.shape, (0, dense_steps(source.shape)), (first, steps))
    )


def concat(unit: Unit, step: Concat) -> None:
    """One tensor after the other."""
    result = unit.result(step)
    item, steps, layer = _item(result), dense_steps(result.shape), unit.layer
    first = 0
    for place, slot in enumerate(step.inputs):
        shape = unit.slots[slot].shape
        fields = place_fields(item, shape, (0, dense_steps(shape)), (first, steps))
        unit.layer = f"{layer}_{place}"
        unit.call("place", unit.describe("place", fields, step.name), unit.at(slot), unit.at(step.outputs[0]))
        first += shape[step.axis] * steps[step.axis]
    unit.layer = layer


def reshape(unit: Unit, step: Reshape) -> None:
    """The tensor lies where it lay."""
    fixed = unit.fixed.get(step.inputs[0])
    if fixed is not None:
        unit.fixed[step.outputs[0]] = fixed


def gather(unit: Unit, step: Gather) -> None:
    """Some of the indices of an axis."""
    source = unit.source(step)
    fields: dict[str, Value] = {
        "outer": product(source.shape[: step.axis]),
        "axis": source.shape[step.axis],
        "count": int(step.indices.size),
        "inner": product(source.shape[step.axis + 1 :]) * _item(source),
        "index": unit.keep("index", whole(step.indices), step.name),
    }
    layer = unit.describe("gather", fields, step.name)
    unit.call("gather", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))


def resize_nearest(unit: Unit, step: ResizeNearest) -> None:
    """Pixels are repeated or left out."""
    source, result = unit.source(step), unit.result(step)
    fields: dict[str, Value] = {
        "images": source.shape[0],
        "in_rows": source.shape[1],
        "in_columns": source.shape[2],
        "pixel": source.shape[3] * _item(source),
        "out_rows": result.shape[1],
        "out_columns": result.shape[2],
        "rows": unit.keep("rows", whole(step.rows), step.name),
        "columns": unit.keep("columns", whole(step.columns), step.name),
    }
    layer = unit.describe("nearest", fields, step.name)
    unit.call("nearest", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))


def constant(unit: Unit, step: Constant) -> None:
    """Codes that stay in flash."""
    name = unit.keep("codes", step.values, step.name)
    unit.fixed[step.outputs[0]] = name
