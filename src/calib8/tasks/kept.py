"""How much of a branch an int8 model keeps, in figures that need no decoding.

scores, objectness    of the entries that FP32 or INT8 puts above ``FOUND``: the share that both do, of FP32's
                      and of INT8's; and the share of places whose best class is the same
decisions             share of numbers on the same side of the threshold
logits, probabilities share of samples whose best class is the same
embedding             mean cosine
map                   IoU of what lies above the middle, or of the best classes
ctc                   share of lines whose best characters are the same, repeats and blanks taken out
others                SQNR in dB
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.number_texts import percent
from calib8.parameters import Text, parameter
from calib8.tasks.branches import Branch
from calib8.tasks.counted_shares import share_of
from calib8.tasks.figures import decibels, energies_of
from calib8.tasks.kinds import Kind

Array = npt.NDArray[Any]
Runs = Sequence[Sequence[Array]]
Pairs = Sequence[tuple[Array, Array]]

FOUND: Final = 0.25
"""Scores above it are detections in the tools that are most used."""


@dataclass(frozen=True)
class Kept:
    """What is kept of one branch.

    Attributes:
        value: a share, 0 … 1, a cosine, or SQNR in dB, see the top of the file; None: nothing tells.
        text: in words, with numbers.
        counted: what a share is a share of: scores, samples or lines; None: it is no share.
    """

    value: float | None
    text: str
    counted: int | None = None


def kept(branch: Branch, expected: Runs, found: Runs) -> Kept:
    """What int8 outputs keep of a branch.

    Args:
        branch: which one.
        expected, found: float outputs of every run, of FP32 and of INT8.
    """
    way = _WAYS.get(branch.kind, _ratio)
    if branch.kind == "decisions":
        way = partial(_decisions, threshold=branch.threshold)
    return _kept(branch, expected, found, way)


def signal_kept(branch: Branch, expected: Runs, found: Runs) -> Kept:
    """The SQNR of a branch, whatever its kind; the arguments are those of ``kept``."""
    return _kept(branch, expected, found, _ratio)


def _kept(branch: Branch, expected: Runs, found: Runs, way: Callable[[Pairs], Kept]) -> Kept:
    pairs = [
        (left, right)
        for reference, outputs in zip(expected, found, strict=True)
        for left, right in zip(branch.of(reference), branch.of(outputs), strict=True)
    ]
    if any(left.shape != right.shape for left, right in pairs):
        return Kept(None, "it has as many rows as values decide: nothing to compare")
    if not all(np.isfinite(right).all() for _, right in pairs):
        return Kept(0.0, "it is not finite")
    if way is not _ratio and any(left.ndim == 0 or left.size == 0 for left, _ in pairs):
        return Kept(None, "it has no rows: nothing to compare")
    told = way(pairs)
    if branch.kind == "other" and told.value is not None:
        unknown = f"its meaning is not known ({parameter('branches')} names it)"
        return Kept(told.value, Text(f"{told.text}, {unknown}"))
    return told


def _ratio(pairs: Pairs) -> Kept:
    rows = np.array([energies_of([left], [right])[0] for left, right in pairs])
    sums = rows.sum(axis=0, keepdims=True)
    if not sums[0, 0] > 0.0:
        return Kept(None, "it is zero in these samples")
    value = float(decibels(sums)[0])
    return Kept(value, f"{value:.1f} dB")


def _scores(pairs: Pairs) -> Kept:
    both, of_float, of_int8, same, places = 0, 0, 0, 0, 0
    for left, right in pairs:
        scores, others = as_shares(left, left), as_shares(right, left)
        above, below = scores > FOUND, others > FOUND
        both, of_float = both + int(np.sum(above & below)), of_float + int(np.sum(above))
        of_int8 += int(np.sum(below))
        axis = _class_axis(left)
        if left.ndim > 1 and left.shape[axis] > 1:
            there = scores.max(axis=axis) > FOUND
            places += int(np.sum(there))
            same += int(np.sum((scores.argmax(axis=axis) == others.argmax(axis=axis)) & there))
    if not of_float:
        return Kept(None, f"FP32 finds nothing above {FOUND:g} in these samples")
    stay, new = both / of_float, 1.0 - both / of_int8 if of_int8 else 0.0
    text = f"{percent(stay, 1)} of the scores above {FOUND:g} stay there, {percent(new, 1)} of them are new"
    value = min(stay, 1.0 - new)
    if places:
        text += f", {percent(same / places, 1)} keep the class"
        value = min(value, same / places)
    return Kept(value, text, of_float)


def _class_axis(array: Array) -> int:
    """That beside rows and columns; where these are no square, classes are fewer than places."""
    if array.ndim < 3 or array.ndim == 5:
        return array.ndim - 1
    if array.ndim == 4 and array.shape[2] == array.shape[3]:
        return 1
    return 1 + int(np.argmin(array.shape[1:]))


def as_shares(array: Array, reference: Array) -> Array:
    """Numbers 0 … 1; of logits what Sigmoid makes of them; the reference tells which they are."""
    if reference.size and reference.min() >= 0.0 and reference.max() <= 1.0:
        return array
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-array.astype(np.float64))))


def _classes(pairs: Pairs) -> Kept:
    same, rows = 0, 0
    for left, right in pairs:
        a, b = (array.reshape(len(array), -1) for array in (left, right))
        if a.shape[1] == 1:  # one number: which side of the middle
            middle = 0.5 if left.min() >= 0.0 and left.max() <= 1.0 else 0.0
            equal = (a > middle) == (b > middle)
        else:
            equal = a.argmax(axis=1) == b.argmax(axis=1)
        same, rows = same + int(np.sum(equal)), rows + len(a)
    return Kept(same / rows, f"{share_of(same / rows, rows)} of the samples keep their class", rows)


def _cosines(pairs: Pairs) -> Kept:
    found = list[float]()
    for left, right in pairs:
        a, b = (array.reshape(len(array), -1).astype(np.float64) for array in (left, right))
        lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        found += [float(x) for x in np.sum(a * b, axis=1)[lengths > 0.0] / lengths[lengths > 0.0]]
    if not found:
        return Kept(None, "it is zero in these samples")
    value = float(np.mean(found))
    return Kept(value, f"mean cosine {value:.4f}, least {min(found):.4f}")


def _maps(pairs: Pairs) -> Kept:
    """IoU over all samples, the mean over the classes that FP32 gives to some point."""
    both, either = dict[int, int](), dict[int, int]()
    low, high = min(left.min() for left, _ in pairs), max(left.max() for left, _ in pairs)
    middle = 0.0 if low < 0.0 < high else 0.5 if high <= 1.0 else float(low + high) / 2.0
    for left, right in pairs:
        a, b = (_regions(array, middle) for array in (left, right))
        for name in np.unique(a):
            both[int(name)] = both.get(int(name), 0) + int(np.sum((a == name) & (b == name)))
            either[int(name)] = either.get(int(name), 0) + int(np.sum((a == name) | (b == name)))
    value = float(np.mean([both[name] / either[name] for name in both]))
    return Kept(value, f"IoU of its regions {value:.3f}")


def _regions(array: Array, middle: float) -> Array:
    """The best class of every point; of one number per point whether it is above the middle."""
    if array.ndim == 4 and array.shape[1] > 1:
        return np.asarray(array.argmax(axis=1))
    return np.asarray(array > middle)


def _lines(pairs: Pairs) -> Kept:
    same, lines = 0, 0
    best = [(left.argmax(axis=-1), right.argmax(axis=-1)) for left, right in pairs]
    seen = np.concatenate([left.reshape(-1) for left, _ in best])
    names, counts = np.unique(seen, return_counts=True)
    blank = int(names[counts.argmax()])  # the most frequent one
    for left, right in best:
        by_line = left.ndim < 2 or left.shape[0] <= left.shape[-1]
        a, b = (array if by_line else array.T for array in (left, right))
        for one, other in zip(np.atleast_2d(a), np.atleast_2d(b), strict=True):
            same, lines = same + (_string(one, blank) == _string(other, blank)), lines + 1
    return Kept(same / lines, f"{share_of(same / lines, lines)} of the lines read as before", lines)


def _string(steps: Array, blank: int) -> list[int]:
    changes = np.flatnonzero(np.diff(steps, prepend=-1))
    return [int(name) for name in steps[changes] if name != blank]


def _decisions(pairs: Pairs, threshold: float | None) -> Kept:
    low, high = min(left.min() for left, _ in pairs), max(left.max() for left, _ in pairs)
    usual = 0.5 if low >= 0.0 and high <= 1.0 else 0.0
    limit = usual if threshold is None else threshold
    same = sum(int(np.sum((left > limit) == (right > limit))) for left, right in pairs)
    count = sum(left.size for left, _ in pairs)
    return Kept(same / count, f"{share_of(same / count, count)} of the decisions are as before", count)


_WAYS: Final[Mapping[Kind, Callable[[Pairs], Kept]]] = {
    "scores": _scores,
    "objectness": _scores,
    "logits": _classes,
    "probabilities": _classes,
    "embedding": _cosines,
    "map": _maps,
    "ctc": _lines,
}
