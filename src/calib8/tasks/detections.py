"""Boxes, scores and what comes with them: in one output beside each other, or in several outputs.

one output        [N, 84, A]  4 placed, 80 sigmoid            YOLOv8, YOLO11: boxes, scores
                  [N, A, 85]  2 + 2 placed, 81 of one Sigmoid  YOLOv3 … YOLOv7: boxes, objectness, scores
                  [N, A, 6]   4, 1 sigmoid, 1 sigmoid         YOLOX: boxes, objectness, scores
                  [N, 116, A] … and 32 plain                  the mask coefficients of [N, 32, H, W]
                  [N, 56, A]  … and 51 placed                 keypoints
several outputs   [N, A, 4], [N, A, C], [N, A, 10]            SSD, RetinaFace, SCRFD: boxes, scores, keypoints
                  [N, C, H, W], [N, 2, H, W] …                heads of CenterNet: scores, boxes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from calib8.tasks.branches import Piece, Sureness
from calib8.tasks.composition import Size
from calib8.tasks.kinds import Kind
from calib8.tasks.seen import Found, Seen, SeenPart

SCORING: Final = ("sigmoid", "softmax")
WIDE: Final = tuple(4 * bins for bins in (8, 16, 17, 32))
"""Sizes of boxes whose distances are told in bins, which are averaged later."""

FEWEST_PLACES: Final = 16
"""A detector looks at more places than that, unless it chose among them."""


def in_one_output(seen: Seen, others: Sequence[Seen]) -> tuple[Found, ...]:
    """The branches of an output that holds boxes and scores; empty where it does not.

    Args:
        seen: the output.
        others: all outputs: one may hold the masks that coefficients belong to.
    """
    if seen.rank < 2 or len(seen.parts) < 2:
        return ()
    boxes, rest = _leading_box(seen.parts, transformer=seen.rank == 3)
    if not boxes or not any(part.nature in SCORING or part.nature == "chosen" for part in rest):
        return _scores_first(seen)
    if not any(part.nature in SCORING for part in rest):
        return _chosen(seen, boxes, rest)
    found = [_found(part, "boxes", "four numbers, scores beside them") for part in boxes]
    return (*found, *_behind_boxes(boxes, rest, others))


def _leading_box(parts: Sequence[SeenPart], *, transformer: bool) -> tuple[list[SeenPart], list[SeenPart]]:
    """The first parts that hold four numbers together, and the others.

    Those of transformers may come from a Sigmoid of their own.
    """
    first, second = parts[:2]
    if transformer and first.size == 4 and first.nature == second.nature == "sigmoid":
        apart = first.sigmoid is not second.sigmoid
        return ([first], list(parts[1:])) if apart else ([], [])
    total = 0
    for count, part in enumerate(parts, 1):
        total += part.size
        if part.nature in SCORING:
            break
        if total >= 4:
            return (list(parts[:count]), list(parts[count:])) if total == 4 else ([], [])
    return [], []


def _shares_sigmoid(parts: Sequence[SeenPart]) -> bool:
    """Whether one Sigmoid is in front of all parts, as in networks with anchors."""
    nodes = {id(part.sigmoid) for part in parts if part.sigmoid is not None}
    return len(nodes) == 1 and all(part.sigmoid is not None for part in parts)


def _behind_boxes(
    boxes: Sequence[SeenPart], rest: Sequence[SeenPart], others: Sequence[Seen]
) -> Iterator[Found]:
    scoring = [part for part in rest if part.nature in SCORING]
    first = scoring[0]
    anchors = _shares_sigmoid((*boxes, first)) and first.size > 1
    for place, part in enumerate(rest):
        if part.nature not in SCORING:
            yield _beside_scores(part, rest[place:], others)
        elif part is first and anchors:
            yield from _with_objectness(part)
        elif part is first and len(scoring) > 1 and part.size == 1:
            yield _found(part, "objectness", "one number by Sigmoid in front of the classes")
        else:
            yield _found(part, "scores", f"{part.nature} beside boxes")


def _with_objectness(part: SeenPart) -> Iterator[Found]:
    """One Sigmoid in front of boxes and classes: the first number is whether there is anything."""
    piece, why = part.piece, "one Sigmoid in front of boxes and classes"
    yield Found(replace(piece, last=piece.first + 1), "objectness", "likely", why)
    yield Found(replace(piece, first=piece.first + 1), "scores", "likely", why)


def _beside_scores(part: SeenPart, rest: Sequence[SeenPart], others: Sequence[Seen]) -> Found:
    masks = any(other.rank == 4 and other.sizes[1] == part.size for other in others)
    if masks:
        return _found(part, "mask-coefficients", "another output has as many masks")
    together = sum(one.size for one in rest if one.nature not in SCORING)
    if part.size == 1 and together == 1:
        return _found(part, "boxes", "one number behind the scores: an angle", "guessed")
    if together % 2 == 0 or together % 3 == 0:
        return _found(part, "keypoints", "coordinates behind the scores", "likely")
    return _found(part, "other", "", "guessed")


def _scores_first(seen: Seen) -> tuple[Found, ...]:
    """Classes by Sigmoid, and beside them distances that are not averaged yet: 4, or 4 times the bins."""
    wide = {4, *WIDE}
    scores = [part for part in seen.parts if part.nature in SCORING]
    boxes = [part for part in seen.parts if part.nature not in SCORING and part.size in wide]
    if seen.rank < 3 or not scores or not boxes or len(scores) + len(boxes) < len(seen.parts):
        return ()
    return tuple(
        _found(part, "scores", f"{part.nature} beside boxes")
        if part in scores
        else _found(part, "boxes", "distances beside the scores", "likely")
        for part in seen.parts
    )


def _chosen(seen: Seen, boxes: Sequence[SeenPart], rest: Sequence[SeenPart]) -> tuple[Found, ...]:
    """Rows that were sorted or suppressed: box, score, class."""
    why = "rows chosen by their scores"
    boxes_are: tuple[Kind, ...] = ("boxes",)
    others_are: tuple[Kind, ...] = ("other",)
    kinds: tuple[Kind, ...] = (*boxes_are * len(boxes), "scores", *others_are * (len(rest) - 1))
    parts = zip((*boxes, *rest), kinds, strict=True)
    return tuple(Found(part.piece, kind, "likely", why, True) for part, kind in parts)


def _found(part: SeenPart, kind: Kind, why: str, sureness: Sureness = "sure") -> Found:
    return Found(part.piece, kind, sureness, why, part.nature == "chosen")


def in_several_outputs(outputs: Sequence[Seen]) -> dict[str, tuple[Found, ...]]:
    """Name of an output → its branches, for outputs that are boxes and scores of the same places."""
    found: dict[str, tuple[Found, ...]] = {}
    groups: dict[tuple[object, ...], list[Seen]] = {}
    for seen in outputs:
        if seen.rank in (2, 3):
            groups.setdefault((seen.rank, seen.sizes[-2]), []).append(seen)
        elif seen.rank == 4 and seen.sizes[2:] != (1, 1):
            groups.setdefault((4, *seen.sizes[2:]), []).append(seen)
    places = [group[0].sizes[-2] for (axes, *_), group in groups.items() if axes != 4]
    few = all(isinstance(size, int) and size < FEWEST_PLACES for size in places)
    for (axes, *_), group in groups.items():
        found |= _heads(group) if axes == 4 else {} if few else _by_place(group)
    return found


def _by_place(group: Sequence[Seen]) -> dict[str, tuple[Found, ...]]:
    """Outputs [N, A, …] of as many places: one of them has four numbers for each."""
    if len(group) < 2:
        return {}
    boxes = _box_outputs(group)
    scores = [seen for seen in group if seen not in boxes and _scores_a_place(seen, group)]
    if not boxes or not scores:
        return {}
    found: dict[str, tuple[Found, ...]] = {}
    for seen in group:
        if seen in boxes:
            found[seen.name] = _boxes_of(seen)
        elif seen in scores:
            found[seen.name] = _class_scores(seen)
        elif _is_even(seen.sizes[-1]):
            why = "coordinates beside boxes of the same places"
            found[seen.name] = (_found(seen.whole, "keypoints", why, "likely"),)
    return found


def _box_outputs(group: Sequence[Seen]) -> list[Seen]:
    """Those with four numbers per place, else with four times the bins, else with coordinates behind them."""
    fours = [seen for seen in group if seen.sizes[-1] == 4 and seen.whole.nature != "softmax"]
    plain = [seen for seen in fours if seen.whole.nature not in SCORING]
    if fours:
        return plain or fours
    bins = [seen for seen in group if seen.sizes[-1] in WIDE and seen.whole.nature == "plain"]
    if bins or len(group) != 2 or not any(seen.sizes[-1] == 1 for seen in group):
        return bins
    return [seen for seen in group if _is_even(seen.sizes[-1])]


def _is_even(size: Size) -> bool:
    return isinstance(size, int) and size % 2 == 0


def _scores_a_place(seen: Seen, group: Sequence[Seen]) -> bool:
    """Sigmoid or Softmax; else the only other output, or the only one with one number per place."""
    if seen.whole.nature in SCORING:
        return True
    if any(one.whole.nature in SCORING for one in group if one.sizes[-1] != 4):
        return False
    return len(group) == 2 or seen.sizes[-1] == 1


def _boxes_of(seen: Seen) -> tuple[Found, ...]:
    """All of an output, or its first four numbers, and keypoints behind them."""
    size, axis = seen.sizes[-1], seen.rank - 1
    if size == 4 or size in WIDE or not isinstance(size, int):
        sureness: Sureness = "sure" if size == 4 else "likely"
        return (_found(seen.whole, "boxes", "beside scores of the same places", sureness),)
    why = "beside one number for each place"
    return (
        Found(Piece(seen.name, seen.index, axis, 0, 4), "boxes", "likely", why),
        Found(Piece(seen.name, seen.index, axis, 4, size), "keypoints", "likely", why),
    )


def _class_scores(seen: Seen) -> tuple[Found, ...]:
    """Scores of classes; by Softmax the first one, the background, is what the others leave.

    One number that is no score yet becomes one by a Sigmoid: how far below zero it is tells nothing.
    """
    classes, axis = seen.sizes[-1], seen.rank - 1
    if seen.whole.softmax == classes and isinstance(classes, int) and classes > 1:
        first, others = (Piece(seen.name, seen.index, axis, *ends) for ends in ((0, 1), (1, classes)))
        why = "Softmax over classes beside boxes"
        return (
            Found(first, "unused", "likely", f"{why}: the background, what the others leave"),
            Found(others, "scores", "sure", why),
        )
    score = _found(seen.whole, "scores", "beside boxes of the same places")
    if seen.whole.nature in SCORING:
        return (score,)
    raw = classes == 1 and seen.whole.nature == "plain"
    return (replace(score, piece=replace(score.piece, sigmoid=raw), sureness="likely"),)


def _heads(group: Sequence[Seen]) -> dict[str, tuple[Found, ...]]:
    """Maps [N, C, H, W] of the same size: one by Sigmoid, others that are not."""
    scores = [seen for seen in group if seen.whole.nature in SCORING]
    others = [seen for seen in group if seen not in scores]
    if not scores or not any(seen.sizes[1] in (2, 4, *WIDE) for seen in others):
        return {}
    why = "heads of one size, some by Sigmoid and some not"
    found: dict[str, tuple[Found, ...]] = {}
    for seen in scores:
        found[seen.name] = (_found(seen.whole, "scores", why, "likely"),)
    for seen in others:
        box = seen.sizes[1] in (2, 4, *WIDE)
        kind: Kind = "boxes" if box else "keypoints" if _is_even(seen.sizes[1]) else "other"
        found[seen.name] = (_found(seen.whole, kind, why, "guessed"),)
    return found


def chosen_rows(outputs: Sequence[Seen]) -> dict[str, tuple[Found, ...]]:
    """Boxes [K, 4] that were chosen among others, and the scores chosen with them."""
    boxes = [seen for seen in outputs if seen.sizes[-1:] == (4,) and seen.whole.nature == "chosen"]
    if not boxes:
        return {}
    why = "rows chosen by their scores"
    found: dict[str, tuple[Found, ...]] = {}
    for seen in boxes:
        found[seen.name] = (Found(seen.whole.piece, "boxes", "likely", why, True),)
    for seen in outputs:
        if seen not in boxes and seen.whole.nature == "chosen":
            kind: Kind = "scores" if seen.rank < 4 else "other"
            found[seen.name] = (Found(seen.whole.piece, kind, "likely", why, True),)
    return found
