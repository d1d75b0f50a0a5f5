"""Whether a judge reads parts of outputs as the user named them: what is named otherwise is refused.

What the user calls boxes, scores or objectness has to be read as that, and nothing else of what is named as
any of them; a name that changed no figure would be a wrong answer without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from calib8.errors import UsageError
from calib8.parameters import entry, parameter
from calib8.tasks.branches import Meaning, Piece
from calib8.tasks.judges.detection_places import Places, Shown
from calib8.tasks.kinds import Kind

_READ: Final[frozenset[Kind]] = frozenset({"boxes", "scores", "objectness"})
"""What a judge of boxes looks for."""


@dataclass(frozen=True)
class _Read:
    """Entries ``first`` … ``last`` − 1 along an axis of an output, as a judge reads them."""

    kind: Kind
    index: int
    axis: int
    first: int
    last: int


def check_places(meaning: Meaning, places: Places, shown: Shown) -> None:
    """Refuses names of parts that the judge of boxes would read as something else.

    Raises:
        UsageError: such a part.
    """
    read = list(_read(places, shown))
    for piece, kind in meaning.said:
        index, axis = shown.index(piece), shown.axis(piece) if shown.index(piece) >= 0 else None
        wanted: Kind = "scores" if kind == "objectness" and not places.objectness else kind
        here = {one.kind for one in read if one.index == index and _overlap(one, axis, piece)}
        right = {wanted} if wanted in _READ else set[Kind]()
        if index >= 0 and here != right:
            raise _not_so(piece, kind, sorted(here - right))


def _overlap(one: _Read, axis: int | None, piece: Piece) -> bool:
    return axis is None or (axis == one.axis and piece.first < one.last and one.first < piece.last)


def _not_so(piece: Piece, kind: Kind, others: Sequence[Kind]) -> UsageError:
    read = f"can only be read as {' and '.join(others)}" if others else "is not read"
    problem = f"{read} by the judge of boxes: no decoding of boxes is known for such outputs"
    cure = "Mend the names, or from Python give a DetectionHead that says what the outputs are"
    return UsageError(entry("branches", str(piece), kind), problem, cure)


def _read(places: Places, shown: Shown) -> Iterator[_Read]:
    """What is read as boxes, scores and objectness."""
    outputs, layout = places.outputs, places.layout
    if layout in ("pair", "listed"):
        box, score = outputs[:2]
        yield _Read("boxes", box, _last(box, shown), 0, 4)
        columns = shown.parts[score].shape[-1]
        first, last = 1 if places.background == 0 else 0, columns - (places.background == -1)
        yield _Read("scores", score, _last(score, shown), first, last)
    elif layout == "levels":
        half = len(outputs) // 2
        for index in outputs[:half]:
            yield _Read("scores", index, _last(index, shown), 0, max(shown.parts[index].shape))
        for index in outputs[half:]:
            yield _Read("boxes", index, _last(index, shown), 0, max(shown.parts[index].shape))
    else:
        wide = 4 * places.bins if layout == "maps" else 4
        for index in outputs:
            axis = _last(index, shown) if layout in ("rows", "final") else 0
            end = shown.parts[index].shape[axis] - places.extra
            yield _Read("boxes", index, axis, 0, wide)
            if places.objectness:
                yield _Read("objectness", index, axis, 4, 5)
            first = wide + places.objectness
            yield _Read("scores", index, axis, first, first + 1 if layout == "final" else end)


def _last(index: int, shown: Shown) -> int:
    return shown.parts[index].ndim - 1


def check_whole(task: str, meaning: Meaning, kinds: Sequence[Kind]) -> None:
    """Refuses a part of an output as what a judge reads that takes whole ones.

    Args:
        task: whose judge it is.
        meaning: what the user named is in it.
        kinds: what the judge reads.

    Raises:
        UsageError: a part is named as one of them.
    """
    for piece, kind in meaning.said:
        if kind in kinds and piece.axis is not None:
            problem = f"is a part, and the judge of {parameter('task', task)} reads whole outputs"
            cure = f"Make it an output of its own, or leave out {parameter('task')}: branches have SQNRs"
            raise UsageError(entry("branches", str(piece), kind), problem, cure)
