"""Outputs that are raw grids of anchors: found in the graph, by their shapes alone, or named by the user.

graph    one convolution, only moved since, on a grid of cells of 8 … 64 pixels
         [N, A·(5+C), H, W]: A = 5, or A = 3, of all such outputs; and for every anchor the weights of the
         objectness are larger than those of each coordinate, and those of x, y together than of w, h
         [N, A, H, W, 5+C]: two anchors at least and one class; nothing else has such a shape
shape    the same without a look at the weights: with the task detect
named    grid=yolov2-grid, or with its anchors grid=yolov2-grid:1.08,1.19,3.42,4.41,…

By chance the weights of one anchor lie so in one of ten cases, of five anchors in one of 100,000. So large
the objectness has to be, as it alone tells a few cells from all others; a size hardly leaves its anchor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import UsageError
from calib8.model.graph import constant, input_at
from calib8.model.layer import layer_of
from calib8.parameters import Text, entries, entry, parameter
from calib8.tasks.branches import Piece, Sureness
from calib8.tasks.composition import Size
from calib8.tasks.grid import ANCHORS, BOX, EXCLUSIVE, FORMS, LEAST, Form, Grid, Sides, order_of
from calib8.tasks.kinds import Kind
from calib8.tasks.seen import Found, Seen

COUNTS: Final = (5, 3)
"""Anchors per cell: of one output, and of one of several."""

_FORMS: Final[Mapping[str, Form]] = {"NAHWK": "yolov5-grid"}
"""Order → the form that exporters write so; by their anchors others."""

_NAMED: Final = "Give NAME=FORM or NAME=FORM:W,H,W,H,…, such as grid=yolov2-grid:1.08,1.19,3.42,4.41"


def found_in(one: Seen, grid: Grid, sureness: Sureness, why: str) -> tuple[Found, ...]:
    """The branches of a grid: one piece of each kind for every anchor whose numbers lie apart."""
    return tuple(
        Found(
            Piece(
                one.name, one.index, grid.axis, start + first, start + last,
                sigmoid=read == "sigmoid", softmax=read == "softmax",
            ),
            kind, sureness, why, grid=grid,
        )
        for start in grid.starts
        for kind, first, last, read in _numbers(grid)
    )  # fmt: skip


def _numbers(grid: Grid) -> Iterator[tuple[Kind, int, int, str]]:
    """Kind, first and last of the numbers of an anchor, and the function of them that counts.

    Of x, y it is a place in the cell; w, h as they are say by which share a size is off. The Softmax of a
    single class is 1 whatever it is.
    """
    yield "boxes", 0, 2, "sigmoid"
    yield "boxes", 2, BOX, ""
    yield "objectness", BOX, LEAST, "sigmoid"
    exclusive, classes = grid.form == EXCLUSIVE, grid.numbers - LEAST
    if classes:
        kind: Kind = "unused" if exclusive and classes == 1 else "scores"
        yield kind, LEAST, grid.numbers, "softmax" if exclusive else "sigmoid"


def grids_by_graph(seen: Sequence[Seen], picture: Sequence[Size]) -> dict[str, tuple[Found, ...]]:
    """Name of an output → its branches, for outputs that the graph shows to be grids."""
    found: dict[str, tuple[Found, ...]] = {}
    for group in _groups(seen, picture):
        apart = all("C" not in grid.order for _, grid in group)
        if apart:
            why = "a layer on a grid of cells, its channels taken apart into anchors"
        elif all(_is_objectness_large(one.head, grid) for one, grid in group):
            why = "a layer on a grid of cells, the fifth weights of every anchor the largest"
        else:
            continue
        found |= {one.name: found_in(one, grid, "likely", why) for one, grid in group}
    return found


def grids_by_shape(seen: Sequence[Seen], picture: Sequence[Size]) -> dict[str, tuple[Found, ...]]:
    """The same of the first group of outputs whose shapes allow it: where the user says that they detect."""
    for group in _groups(seen, picture):
        return {
            one.name: found_in(one, grid, "named", Text(parameter("task", "detect"))) for one, grid in group
        }
    return {}


def _groups(seen: Sequence[Seen], picture: Sequence[Size]) -> Iterator[list[tuple[Seen, Grid]]]:
    """Outputs by one convolution each, with as many channels, that may be grids of one head."""
    groups: dict[int, list[Seen]] = {}
    for one in seen:
        channels = None if one.head is None else _rows(one.head)
        if channels is not None and one.whole.nature == "plain" and one.rank in (4, 5):
            groups.setdefault(channels, []).append(one)
    for channels, group in groups.items():
        for anchors in COUNTS[len(group) > 1 :]:
            grids = [_unnamed(one, picture, anchors, channels) for one in group]
            whole = [(one, grid) for one, grid in zip(group, grids, strict=True) if grid is not None]
            if len(whole) == len(group) and len({one.sizes for one, _ in whole}) == len(group):
                yield whole
                break


def _unnamed(one: Seen, picture: Sequence[Size], anchors: int, channels: int) -> Grid | None:
    """An output as a grid; where its axes tell the anchors, of as many."""
    if one.rank == 5:
        numbers = {size for size in one.sizes[1:] if isinstance(size, int) and size > 1}
        anchors = next((size for size in sorted(numbers) if channels % size == 0), 0)
    order = order_of(one.sizes, picture, anchors) if anchors else None
    if order is None or not all(isinstance(size, int) and size > 1 for size in (*one.sizes[1:], *picture)):
        return None
    each = channels // anchors
    size = one.sizes[order.index("C" if one.rank == 4 else "K")]
    if not picture or size != (channels if one.rank == 4 else each) or (one.rank == 5 and each == LEAST):
        return None
    form = _FORMS.get(order, "yolov2-grid" if anchors == ANCHORS["yolov2-grid"] else "yolov3-grid")
    return Grid(one.name, form, order, anchors, each)


def _rows(layer: ir.Node) -> int | None:
    """Channels that a convolution yields; None of other layers."""
    found = layer_of(layer)
    weights = None if found is None or not found.direct else found.weight
    size = None if weights is None or weights.shape is None else weights.shape[0]
    return size if isinstance(size, int) else None


def _is_objectness_large(layer: ir.Node | None, grid: Grid) -> bool:
    weights = None if layer is None else constant(input_at(layer, 1))
    if weights is None or weights.dtype.kind != "f":
        return False
    rows: npt.NDArray[np.float64] = np.abs(weights.astype(np.float64)).reshape(len(weights), -1).sum(axis=1)
    each = rows.reshape(grid.anchors, grid.numbers)
    largest = each[:, BOX] > each[:, :BOX].max(axis=1)
    return bool(np.all(largest & (each[:, :2].sum(axis=1) > each[:, 2:BOX].sum(axis=1))))


def split_forms(branches: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What the user says, apart: output → form of its grid, and all else."""
    grids = {part: kind for part, kind in branches.items() if kind.partition(":")[0].strip() in FORMS}
    return grids, {part: kind for part, kind in branches.items() if part not in grids}


def named_grid(one: Seen, told: str, picture: Sequence[Size]) -> tuple[Found, ...]:
    """The branches of an output that the user names as a grid.

    Args:
        one: the output.
        told: its form, and perhaps its anchors.
        picture: rows and columns of the input; empty where it is not known.

    Raises:
        UsageError: anchors that are none, or an output that is no such grid.
    """
    subject = entry("branches", one.name, told)
    name, sign, text = told.partition(":")
    form = next(form for form in FORMS if form == name.strip())
    sides = _sides(text, subject) if sign else None
    anchors = ANCHORS[form] if sides is None else len(sides)
    if one.whole.nature == "sigmoid":
        parts = entries("branches", {"NAME[0:4]": "boxes", "NAME[4:85]": "scores"})
        cure = f"Name its parts, such as {parts}"
        raise UsageError(subject, f"{one.shown} is behind a Sigmoid: it is not a raw grid", cure)
    order = order_of(one.sizes, picture, anchors)
    if order is None:
        raise _misfit(subject, one, picture, anchors)
    letter = "C" if "C" in order else "K"
    size = one.sizes[order.index(letter)]
    assert isinstance(size, int)
    grid = Grid(one.name, form, order, anchors, size // anchors if letter == "C" else size, sides)
    return found_in(one, grid, "named", "named by the user")


def _sides(text: str, subject: str) -> Sides:
    """Widths and heights of anchors as the user writes them."""
    try:
        numbers = [float(one) for one in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or len(numbers) % 2 or not all(math.isfinite(one) and one > 0.0 for one in numbers):
        problem = f"'{text}' is not a list of widths and heights of anchors"
        raise UsageError(subject, problem, _NAMED)
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _misfit(subject: str, one: Seen, picture: Sequence[Size], anchors: int) -> UsageError:
    """Why an output is not a grid of so many anchors, and for which numbers of them it would be."""
    others = [count for count in range(1, 16) if order_of(one.sizes, picture, count) is not None]
    if others:
        problem = f"{one.shown} does not divide into {anchors} anchors of x, y, w, h, objectness and classes"
        listed = " or ".join(map(str, others))
        return UsageError(subject, problem, f"Give its anchors ({listed}): {_NAMED[0].lower()}{_NAMED[1:]}")
    cells = "" if len(picture) != 2 else f" of a picture of {picture[0]}×{picture[1]}"
    problem = f"{one.shown} is not a grid of cells of 8, 16, 32 or 64 pixels{cells}"
    shapes = "[N, A·(5+C), H, W], [N, H, W, A·(5+C)], [N, A, H, W, 5+C] or [N, H, W, A, 5+C]"
    return UsageError(subject, problem, f"Name an output {shapes}, without its decoding")
