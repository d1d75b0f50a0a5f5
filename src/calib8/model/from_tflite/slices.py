"""SLICE and STRIDED_SLICE: a range of every axis, axes that go and axes that come."""

from __future__ import annotations

from dataclasses import dataclass

from calib8.errors import NoFormError
from calib8.model.from_tflite.builder import Builder, target_shape
from calib8.model.from_tflite.windows import number
from calib8.tflite.graph import Operator


@dataclass(frozen=True)
class Span:
    """What is taken of one axis of the input; a stop of None runs to its end."""

    start: int
    stop: int | None
    step: int


WHOLE = Span(0, None, 1)


def cut(builder: Builder, operator: Operator) -> None:
    """SLICE: begin and size of every axis, −1 to its end."""
    x = operator.inputs[0]
    begin, size = (builder.integers(place) for place in operator.inputs[1:3])
    spans = [
        Span(first, None if count < 0 or first + count == builder.sizes(x)[axis] else first + count, 1)
        for axis, (first, count) in enumerate(zip(begin, size, strict=True))
    ]
    if builder.sizes(x)[0] is None and begin[0] == 0:  # what is taken of a free batch is all of it
        spans[0] = WHOLE
    _write(builder, operator, spans, changes_axes=False)


def strided_slice(builder: Builder, operator: Operator) -> None:
    """STRIDED_SLICE: begin, end and step, with masks that say for which entries they count.

    Raises:
        NoFormError: bounds that are computed.
    """
    x, y = operator.inputs[0], operator.outputs[0]
    spans = _spans(builder, operator, len(builder.sizes(x)))
    masks = ("new_axis_mask", "shrink_axis_mask")
    changes = any(number(operator, mask, 0) for mask in masks)
    if changes and None in builder.sizes(y)[1:]:
        raise NoFormError("it moves the free batch")
    _write(builder, operator, spans, changes_axes=changes)


def _spans(builder: Builder, operator: Operator, rank: int) -> list[Span]:
    """A range per axis of the input; new axes have none."""
    begin, end, steps = (builder.integers(place) for place in operator.inputs[1:4])
    added, rest = number(operator, "new_axis_mask", 0), number(operator, "ellipsis_mask", 0)
    entries = len(begin)
    used = sum(not (added >> at & 1) and not (rest >> at & 1) for at in range(entries))
    spans: list[Span] = []
    for at in range(entries):
        if rest >> at & 1:
            spans += [WHOLE] * (rank - used)
        elif not added >> at & 1:
            sizes = builder.sizes(operator.inputs[0])
            spans.append(_span(operator, at, (begin[at], end[at], steps[at]), sizes[len(spans)]))
    return spans + [WHOLE] * (rank - len(spans))


def _span(operator: Operator, at: int, entry: tuple[int, int, int], size: int | None) -> Span:
    """What one entry of begin, end and step takes of an axis."""
    first, last, step = entry

    def masked(option: str) -> bool:
        return bool(number(operator, option, 0) >> at & 1)

    if operator.options.get("offset", False):
        last += first
    if masked("shrink_axis_mask"):
        first = first if first >= 0 or size is None else first + size
        return Span(first, first + 1, 1)
    if size is None:
        if step == 1 and (masked("begin_mask") or first == 0) and masked("end_mask"):
            return WHOLE
        raise NoFormError("it takes a part of the free batch")
    return _resolved(
        None if masked("begin_mask") else first, None if masked("end_mask") else last, step, size
    )


def _resolved(first: int | None, last: int | None, step: int, size: int) -> Span:
    """Bounds as Python's slices have them, counted from the front."""
    start, stop, step = slice(first, last, step).indices(size)
    if (start, stop, step) == (0, size, 1):
        return WHOLE
    return Span(start, stop if stop >= 0 else -size - 1, step)


def _write(builder: Builder, operator: Operator, spans: list[Span], *, changes_axes: bool) -> None:
    x, y = operator.inputs[0], operator.outputs[0]
    order = builder.filed(x) if changes_axes else builder.order(x)
    cuts = [(order.index(axis), span) for axis, span in enumerate(spans) if span != WHOLE]
    value, title = builder.read(x, order), builder.name(y)
    inputs = [value]
    if cuts:
        ends = [2**31 - 1 if span.stop is None else span.stop for _, span in cuts]
        columns = {
            "starts": [span.start for _, span in cuts],
            "ends": ends,
            "axes": [axis for axis, _ in cuts],
            "steps": [span.step for _, span in cuts],
        }
        inputs += [builder.numbers(f"{title}/{name}", column) for name, column in columns.items()]
    op = "Slice" if cuts else "Identity"
    if not changes_axes:
        builder.write(y, order, op, inputs)
        return
    part = builder.emit(f"{title}/part", op, inputs)
    shape = builder.numbers(f"{title}/shape", target_shape(builder.sizes(y)))
    builder.write(y, builder.filed(y), "Reshape", [part, shape])
