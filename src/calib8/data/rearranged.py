"""How an array that does not fit an input would fit: channels moved, an axis for the batch or channel added.

N×H×W×C  ─ transpose(0, 3, 1, 2) →  N×C×H×W        C×H×W  ─ [None] →  1×C×H×W
"""

from __future__ import annotations

from collections.abc import Iterator

Shape = tuple[int, ...]
Wanted = tuple[int | str | None, ...]


def rearrangement(given: Shape, wanted: Wanted | None, *, stacked: bool = False) -> str:
    """What makes an array fit, as NumPy writes it: ``.transpose(0, 3, 1, 2)``; empty where nothing does.

    Args:
        given: sizes of the array, a whole set of samples or one, with or without its batch axis.
        wanted: sizes of the input, batch axis first; names and None stand for any size.
        stacked: axis 0 may count whole inputs, batch axis included.
    """
    if wanted is None:
        return ""
    for code, shape, samples in _candidates(given, len(wanted), stacked):
        start = 1 if samples else 0
        if len(shape) == len(wanted) and _fits(shape[start:], wanted[start:]):
            return code
    return ""


def _candidates(given: Shape, rank: int, stacked: bool) -> Iterator[tuple[str, Shape, bool]]:
    """Code, sizes behind it, and whether axis 0 counts samples, so that any size fits there."""
    extra = len(given) - rank
    if extra in (0, int(stacked)) and rank > 2:
        front = tuple(range(1 + extra))
        back = tuple(range(1 + extra, len(given)))
        for order in ((*front, back[-1], *back[:-1]), (*front, *back[1:], back[0])):
            code = f".transpose({', '.join(map(str, order))})"
            yield code, tuple(given[axis] for axis in order)[extra:], True
    if extra == -1:
        yield "[None]", (1, *given), False
        if len(given) > 1:
            yield "[:, None]", (given[0], 1, *given[1:]), True
            yield "[..., None]", (*given, 1), True
        for order in ((2, 0, 1), (1, 2, 0)) if len(given) == 3 else ():
            yield f".transpose{order}[None]", (1, *(given[axis] for axis in order)), False
    if extra == -2:
        yield "[None, None]", (1, 1, *given), False
        yield "[None, ..., None]", (1, *given, 1), False


def _fits(shape: Shape, wanted: Wanted) -> bool:
    return all(
        not isinstance(length, int) or size == length for size, length in zip(shape, wanted, strict=True)
    )
