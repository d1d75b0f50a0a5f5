"""What the outputs of a network mean, from its graph and from what the user says of it.

graph → float outputs, their parts (``seen``) → kinds (``detections``, ``single_outputs``)
      → what the user names (``named``) → branches → the task
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType

import onnx_ir as ir

from calib8.errors import UsageError
from calib8.model.states import states_of
from calib8.tasks.branches import Branch, Meaning
from calib8.tasks.composition import Size, shape_of
from calib8.tasks.detections import chosen_rows, in_one_output, in_several_outputs
from calib8.tasks.grid import Grid
from calib8.tasks.judges.find import AnyJudge
from calib8.tasks.kinds import NEEDS, OF_DETECTION, Kind, Task, task_called
from calib8.tasks.named import as_task, as_told, fits, with_named
from calib8.tasks.raw_grids import grids_by_graph, grids_by_shape
from calib8.tasks.seen import Found, Seen, seen_outputs
from calib8.tasks.single_outputs import single_output

NOTHING_NAMED: Mapping[str, str] = MappingProxyType({})


def meaning_of(
    model: ir.Model,
    *,
    task: str | None = None,
    branches: Mapping[str, str] = NOTHING_NAMED,
    left_open: bool = False,
) -> Meaning:
    """The branches of all float outputs.

    Args:
        model: a float or QDQ graph, constants as initializers, shapes inferred as far as they can be: a
            prepared model, or what ``calib8.tasks.seen.analysable`` makes of another one.
        task: what the network is for, a key of ``NEEDS``; None: told by the graph.
        branches: part of an output, such as ``output0`` or ``output0[4:84]`` → its kind; of a raw grid of
            anchors its form, such as ``yolov2-grid`` or ``yolov2-grid:1.08,1.19,3.42,4.41``.
        left_open: a task that nothing shows to fit is taken, unless the graph is sure of another one.

    Raises:
        UsageError: no such task, output or kind; parts that overlap, are empty or beyond the output; a task
            that the outputs do not fit.
    """
    wanted = task_called(task)
    seen, picture = seen_outputs(model), picture_of(model)
    found = found_by_graph(seen, picture)
    said = as_told(branches, seen, picture) if branches else ()
    if said:
        found = with_named(found, seen, said)
    if wanted == "detect" and not fits(wanted, found):
        found = _with_shaped_grids(found, seen, picture)
    if wanted is not None:
        states = states_of(model, None).values()
        found = as_task(wanted, found, seen, left_open=left_open, states=states)
    told = grouped(found)
    named = wanted is not None and fits(wanted, found)
    return Meaning(
        told, wanted if named else task_of(told), named, _whole_grids(found),
        tuple((one.piece, one.kind) for one in said),
    )  # fmt: skip


def _with_shaped_grids(found: Sequence[Found], seen: Sequence[Seen], picture: Sequence[Size]) -> list[Found]:
    """What was found, with outputs of which nothing is known as raw grids where their shapes allow it."""
    unknown = {one.piece.output for one in found if one.kind == "other" and one.sureness == "guessed"}
    grids = grids_by_shape([one for one in seen if one.name in unknown], picture)
    return [piece for one in found for piece in grids.get(one.piece.output, (one,))]


def _whole_grids(found: Sequence[Found]) -> tuple[Grid, ...]:
    """Raw grids all of whose numbers are what they were found to be."""
    grids = dict.fromkeys(one.grid for one in found if one.grid is not None)
    pieces = {grid: [one.piece for one in found if one.grid == grid] for grid in grids}
    ends = {grid: sum(piece.last - piece.first for piece in of) for grid, of in pieces.items()}
    return tuple(grid for grid in grids if ends[grid] == grid.numbers * len(grid.starts))


def judged_meaning(
    model: ir.Model, task: str | AnyJudge | None, branches: Mapping[str, str] = NOTHING_NAMED
) -> Meaning:
    """The branches where a judge of a task reads the outputs.

    Where the graph leaves open what they are, the judge has the word; where it is sure of another task, a
    judge by name is refused, and one that the user gave with its head is not.

    Args:
        model, branches: see ``meaning_of``.
        task: a name or a judge; None: told by the graph.

    Raises:
        UsageError: see ``meaning_of``.
    """
    if task is None or isinstance(task, str):
        return meaning_of(model, task=task, branches=branches, left_open=not branches)
    try:
        return meaning_of(model, task=task.task, branches=branches)
    except UsageError:
        if branches:
            raise
        return meaning_of(model)


def picture_of(model: ir.Model) -> tuple[Size, ...]:
    """Rows and columns of the first input with four axes; empty without one."""
    for value in model.graph.inputs:
        sizes = shape_of(value)
        if len(sizes) == 4:
            return sizes[1:3] if sizes[3] in (1, 3, 4) and sizes[1] not in (1, 3, 4) else sizes[2:]
    return ()


def found_by_graph(seen: Sequence[Seen], picture: Sequence[Size]) -> list[Found]:
    """What every output is, in the order of the outputs; pieces of one output in their order."""
    known = {one.name: in_one_output(one, seen) for one in seen}
    known |= grids_by_graph([one for one in seen if not known[one.name]], picture)
    known |= in_several_outputs([one for one in seen if not known[one.name]])
    if not any(found.kind == "boxes" for several in known.values() for found in several):
        known |= chosen_rows(seen)
    masks = {found.piece.last - found.piece.first for several in known.values() for found in several
             if found.kind == "mask-coefficients"}  # fmt: skip
    result = list[Found]()
    for one in seen:
        if not known.get(one.name) and one.rank == 4 and one.sizes[1] in masks:
            known[one.name] = (Found(one.whole.piece, "masks", "sure", "coefficients belong to them"),)
        result += known.get(one.name) or single_output(one, seen, picture)
    return result


def grouped(found: Sequence[Found]) -> tuple[Branch, ...]:
    """Pieces of one kind as one branch where they are parts of a detection, or neighbours of one kind."""
    joined = list[list[Found]]()
    for one in _neighbours_joined(found):
        together = next((group for group in joined if _belongs(one, group[0])), None)
        if together is None:
            joined.append([one])
        else:
            together.append(one)
    kinds = [group[0].kind for group in joined]
    return tuple(
        Branch(
            _name(group, alone=kinds.count(group[0].kind) == 1), group[0].kind,
            tuple(one.piece for one in group), group[0].sureness, group[0].why,
            any(one.chosen for one in group),
        )
        for group in joined
    )  # fmt: skip


def _name(group: Sequence[Found], *, alone: bool) -> str:
    kind = group[0].kind
    return kind if alone and kind != "other" else str(group[0].piece)


def _belongs(one: Found, other: Found) -> bool:
    of_one_grid = one.grid is not None and one.grid == other.grid
    return one.kind == other.kind and (one.kind in OF_DETECTION or of_one_grid)


def _neighbours_joined(found: Sequence[Found]) -> list[Found]:
    """Pieces that follow each other along an axis, and are of the same known kind, as one."""
    result = list(found[:1])
    for last, one in pairwise(found):
        before = result[-1]
        left, right = before.piece, one.piece
        read_alike = left.sigmoid == right.sigmoid and not (left.softmax or right.softmax)
        if left.touches(right) and read_alike and one.kind == last.kind != "other":
            piece = replace(left, last=right.last)
            result[-1] = Found(piece, before.kind, before.sureness, before.why, before.chosen or one.chosen)
        else:
            result.append(one)
    return result


def task_of(branches: Sequence[Branch]) -> Task | None:
    """The first task whose branches are there; None where there is none."""
    kinds: set[Kind] = {branch.kind for branch in branches}
    return next((task for task, ways in NEEDS.items() if any(way <= kinds for way in ways)), None)
