"""What the user says of outputs: ``NAME=KIND``, ``NAME[4:84]=KIND``, or a task.

output0[4:84]      entries 4 … 83 of the channels
output0[:,4:84]    of axis 1, written out
grid               of a raw grid of anchors (``raw_grids``) its form takes the place of a kind
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from calib8.errors import UsageError
from calib8.parameters import Text, either, entries, entry, parameter, with_both
from calib8.tasks.branches import Piece
from calib8.tasks.composition import Size
from calib8.tasks.judges.decode_points import COARSEST
from calib8.tasks.kinds import NEEDS, OF_DETECTION, Kind, Task, kind_called
from calib8.tasks.raw_grids import named_grid, split_forms
from calib8.tasks.seen import Found, Seen


def _such_as(kind: str) -> str:
    return f"such as {entry('branches', 'NAME', kind)}"


_BOXES: Final = entries("branches", {"NAME[0:4]": "boxes", "NAME[4:84]": "scores"})

NEEDED: Final[Mapping[Task, str]] = {
    "detect": f"Name boxes and scores, such as {_BOXES}, or the form of a raw grid of anchors, "
    + _such_as("yolov3-grid"),
    "segment": f"Name the map, {_such_as('map')}: an output [N, C, H, W] or [N, H, W]",
    "classify": f"Name the scores of classes, {_such_as('logits')}: an output [N, C]",
    "embed": f"Name the vector, {_such_as('embedding')}: an output [N, C]",
    "ctc": f"Name the characters, {_such_as('ctc')}: an output [N, T, C] or [T, N, C]",
    "keypoints": f"Name the points, {_such_as('keypoints')}: coordinates [N, K, 2], [N, K, 3] or [N, 2·K], "
    f"or a map of each point, [N, K, H, W] of at least {COARSEST} rows and columns",
    "speech": f"Name the numbers that decide, {_such_as('decisions')}",
    "enhance": f"Name the signal, {_such_as('signal')}",
}
"""What has to be there for a task, and how to say it."""

_PART: Final = re.compile(r"(?P<name>.*)\[(?P<cut>[0-9:,\s-]*)\]", re.DOTALL)


def parse_branches(given: Sequence[str]) -> dict[str, str]:
    """Branches as they are typed, ``NAME=KIND``: part of an output → kind.

    Raises:
        UsageError: no ``=``, or the same part twice.
    """
    found: dict[str, str] = {}
    for text in given:
        part, sign, kind = text.rpartition("=")
        if not sign or not part:
            cure = "Give NAME=KIND or NAME[FIRST:LAST]=KIND, such as output0[4:84]=scores"
            raise UsageError(entry("branches", text), "names no kind", cure)
        part = part.strip()
        if part in found:
            raise UsageError(entry("branches", text), f"'{part}' is named twice", "Name it once")
        found[part] = kind.strip()
    return found


def as_told(
    branches: Mapping[str, str], seen: Sequence[Seen], picture: Sequence[Size] = ()
) -> tuple[Found, ...]:
    """What the user says of parts of outputs, in the order of the outputs.

    Args:
        branches: see ``calib8.tasks.meaning.meaning_of``.
        seen: the outputs.
        picture: rows and columns of the input; empty where they are not known.

    Raises:
        UsageError: see ``calib8.tasks.meaning.meaning_of``.
    """
    grids, kinds = split_forms(branches)
    told = [
        Found(
            _piece(part, seen), kind_called(kind, entry("branches", part, kind)), "named", "named by the user"
        )
        for part, kind in kinds.items()
    ]
    for part, form in grids.items():
        told += named_grid(_whole_output(part, form, seen), form, picture)
    told.sort(key=lambda one: (one.piece.index, one.piece.first))
    for one, other in pairwise(told):
        _check_apart(one.piece, other.piece)
    return tuple(told)


def _whole_output(part: str, form: str, seen: Sequence[Seen]) -> Seen:
    """The output that a user names as a grid."""
    one = next((one for one in seen if one.name == part), None)
    if one is None:
        match = _PART.fullmatch(part)
        if match is not None and any(seen_one.name == match["name"] for seen_one in seen):
            cure = f"Name the whole of it: {match['name']}={form}"
            raise UsageError(entry("branches", part, form), "is a part, and a grid is an output", cure)
        raise UsageError(entry("branches", part), f"the model has no float output '{part}'", _listed(seen))
    return one


def _check_apart(one: Piece, other: Piece) -> None:
    if one.output != other.output:
        return
    both = f"{entry('branches', str(one))} and {either(repr(str(other)), str(other))}"
    if None not in (one.axis, other.axis) and one.axis != other.axis:
        raise UsageError(both, "are cut along different axes", "Cut an output along one axis")
    if one.axis is None or other.axis is None or other.first < one.last:
        raise UsageError(both, "overlap", "Name each entry once")


def _piece(part: str, seen: Sequence[Seen]) -> Piece:
    """The piece that a user names."""
    names = {one.name: one for one in seen}
    if part in names:
        return names[part].whole.piece
    match = _PART.fullmatch(part)
    if match is None or match["name"] not in names:
        name = part if match is None else match["name"]
        raise UsageError(entry("branches", part), f"the model has no float output '{name}'", _listed(seen))
    one = names[match["name"]]
    cuts = [cut.strip() for cut in match["cut"].split(",")]
    if len(cuts) == 1:
        axis = _channel_axis(one, part)
    else:
        cutting = [place for place, cut in enumerate(cuts) if cut not in (":", "")]
        if len(cutting) != 1 or len(cuts) > max(one.rank, 1):
            raise UsageError(entry("branches", part), "must cut one axis", f"Give such as {one.name}[:,4:84]")
        axis = cutting[0]
    return _cut(one, axis, cuts[axis if len(cuts) > 1 else 0], part)


def _cut(one: Seen, axis: int, cut: str, part: str) -> Piece:
    size = one.sizes[axis] if axis < one.rank else None
    first, sign, last = (text.strip() for text in cut.partition(":"))
    try:
        begin = int(first or 0)
        end = (int(last) if last else size) if sign else begin + 1
    except ValueError:
        end = begin = -1
    if not isinstance(end, int) or begin < 0 or end < 0:
        raise UsageError(entry("branches", part), f"'{cut}' is not a part", "Give FIRST:LAST, such as 4:84")
    if end <= begin:
        raise UsageError(
            entry("branches", part), "is empty", "Give FIRST:LAST with FIRST < LAST, such as 4:84"
        )
    if isinstance(size, int) and end > size:
        problem = f"ends beyond the {size} entries of axis {axis} of {one.shown}"
        raise UsageError(entry("branches", part), problem, f"Give at most {size}")
    return Piece(one.name, one.index, axis, begin, end)


def _channel_axis(one: Seen, part: str) -> int:
    """The axis along which an output is made of parts; else the shorter one of the last two."""
    if one.parts[0].piece.axis is not None:
        return one.parts[0].piece.axis
    if one.rank in (1, 2):
        return one.rank - 1
    if one.rank == 4:
        return 1
    known = [(size, axis) for axis, size in enumerate(one.sizes) if axis and isinstance(size, int)]
    if one.rank != 3 or not known:
        cure = f"Say which, such as {one.name}[:,4:84]"
        raise UsageError(entry("branches", part), f"which axis of {one.shown} is meant is not known", cure)
    return min(known)[1]


def with_named(found: Sequence[Found], seen: Sequence[Seen], told: Sequence[Found]) -> list[Found]:
    """What was found, with what the user says in its place; the rest of a cut output stays what it was."""
    result = list[Found]()
    for one in seen:
        named = [given for given in told if given.piece.output == one.name]
        own = [piece for piece in found if piece.piece.output == one.name]
        if not named:
            result += own
        elif named[0].piece.axis is None:
            result += named
        else:
            result += _cut_again(one, own, named)
    return result


def _cut_again(one: Seen, own: Sequence[Found], named: Sequence[Found]) -> list[Found]:
    """Pieces along the axis of the named ones; what is left of others keeps its kind."""
    axis = int(named[0].piece.axis or 0)
    size: Size = one.sizes[axis] if axis < one.rank else None
    end = size if isinstance(size, int) else max(piece.piece.last for piece in named)
    kinds: list[Found] = [Found(one.whole.piece, "other", "guessed", "")] * end
    for piece in (*(piece for piece in own if piece.piece.axis == axis), *named):
        kinds[piece.piece.first : piece.piece.last] = [piece] * (piece.piece.last - piece.piece.first)
    result, first = list[Found](), 0
    for place in range(1, end + 1):
        if place == end or kinds[place] is not kinds[first]:
            whole = kinds[first].piece
            softmax = whole.softmax and (whole.first, whole.last) == (first, place)
            cut = Piece(one.name, one.index, axis, first, place, whole.sigmoid, softmax)
            result.append(replace(kinds[first], piece=cut))
            first = place
    return result


def as_task(
    task: Task,
    found: Sequence[Found],
    seen: Sequence[Seen],
    *,
    left_open: bool = False,
    states: Collection[str] = (),
) -> list[Found]:
    """What was found, read as the task asks where it leaves that open.

    Where the graph is sure of all that another task needs, only what it guesses is read anew: not the points
    beside boxes.

    Args:
        task: what the user says.
        found, seen: what the graph shows.
        left_open: outputs that cannot be read so stay what they are, unless the graph is sure of another
            task.
        states: outputs that are read again with the next frame: they are not what the network is for.

    Raises:
        UsageError: nothing can be read so.
    """
    if fits(task, found):
        return [_confirmed(task, one) for one in found]
    outputs, sure = {one.name: one for one in seen}, [one for one in found if one.sureness == "sure"]
    other = next((name for name in NEEDS if fits(name, sure)), None)
    known = ("named",) if other is None else ("named", "sure", "likely")
    for maps in (False, True):  # coordinates come before maps
        read = [
            one
            if one.sureness in known or one.piece.output in states
            else _read_as(task, one, outputs[one.piece.output], maps=maps)
            for one in found
        ]
        if fits(task, read):
            return read
    if left_open and other is None:
        return list(found)
    problem = f"no output fits it; the model has {', '.join(one.shown for one in seen) or 'none'}"
    if other is None:
        raise UsageError(parameter("task", task), problem, NEEDED[task])
    told = ", ".join(f"{one.piece} is {one.kind} ({with_both(one.why)})" for one in sure)
    needed = f"{NEEDED[task][0].lower()}{NEEDED[task][1:]}"
    cure = f"Use {parameter('task', other)}; if the graph is read wrongly, {needed}"
    raise UsageError(parameter("task", task), f"{problem}, and its graph shows task {other}: {told}", cure)


def _confirmed(task: Task, one: Found) -> Found:
    """A guess that the task agrees with is what the user says."""
    kinds = OF_DETECTION if task == "detect" else frozenset[Kind]().union(*NEEDS[task])
    return replace(one, sureness="named") if one.sureness == "guessed" and one.kind in kinds else one


def fits(task: Task, found: Sequence[Found]) -> bool:
    """Whether there is all that a task needs."""
    kinds: set[Kind] = {one.kind for one in found}
    return any(way <= kinds for way in NEEDS[task])


def _read_as(task: Task, one: Found, seen: Seen, *, maps: bool) -> Found:
    """A whole output that may be what the task needs, as that; points in ``maps`` too."""
    if one.piece.axis is not None:
        return one
    vector = seen.rank >= 2 and all(size == 1 for size in seen.sizes[2:]) and seen.sizes[1] != 1
    scoring = seen.whole.nature in ("sigmoid", "softmax")
    single = seen.rank >= 1 and all(size == 1 for size in seen.sizes[1:])
    may: dict[Task, tuple[bool, Kind]] = {
        "classify": (vector, "probabilities" if scoring else "logits"),
        "embed": (vector, "embedding"),
        "ctc": (seen.rank == 3, "ctc"),
        "speech": (scoring or single, "decisions"),
        "enhance": (seen.rank >= 2 and not single, "signal"),
        "segment": (seen.rank in (3, 4) and not vector, "map"),
        "keypoints": (_holds_maps(seen.sizes) if maps else _holds_points(seen.sizes), "keypoints"),
    }
    fits, kind = may.get(task, (False, "other"))
    return replace(one, kind=kind, sureness="named", why=Text(parameter("task", task))) if fits else one


def _holds_maps(sizes: Sequence[Size]) -> bool:
    return len(sizes) == 4 and all(not isinstance(size, int) or size >= COARSEST for size in sizes[2:])


def _holds_points(sizes: Sequence[Size]) -> bool:
    if len(sizes) not in (2, 3):
        return False
    last = sizes[-1]
    pairs = isinstance(last, int) and last > 1 and (last % 2 == 0 or last % 3 == 0)
    return last in (2, 3) if len(sizes) == 3 else pairs


def _listed(seen: Sequence[Seen]) -> str:
    return f"It has {', '.join(one.shown for one in seen) or 'none'}"
