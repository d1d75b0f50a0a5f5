"""How an array that does not fit an input would fit: channels moved, an axis for the batch or channel added.

N×H×W×C  ─ transpose(0, 3, 1, 2) →  N×C×H×W        C×H×W  ─ [None] →  1×C×H×W
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Shape = tuple[int, ...]
Wanted = tuple[int | str | None, ...]


def rearrangement(given: Shape, wanted: Wanted | None, *, stacked: bool = False, batch_axis: int = 0) -> str:
    """What makes an array fit, as NumPy writes it: ``.transpose(0, 3, 1, 2)``; empty where nothing does.

    Args:
        given: sizes of the array, a whole set of samples or one, with or without its batch axis.
        wanted: sizes of the input, batch axis first; names and None stand for any size.
        stacked: axis 0 may count whole inputs, batch axis included.
        batch_axis: the axis of the input that counts samples.
    """
    if wanted is None:
        return ""
    if batch_axis:
        return _with_samples_first(given, wanted, stacked, batch_axis)
    for code, shape, samples in _candidates(given, len(wanted), stacked):
        start = 1 if samples else 0
        if len(shape) == len(wanted) and sizes_fit(shape[start:], wanted[start:]):
            return code
    return ""


def _with_samples_first(given: Shape, wanted: Wanted, stacked: bool, axis: int) -> str:
    """Where samples are not axis 0 of the input: that axis added or moved, for rows or for a batch."""
    missing = f"[{':, ' * axis}None]"
    if len(given) == len(wanted) - 1:
        return missing if sizes_fit((*given[:axis], 1, *given[axis:]), wanted) else ""
    if len(given) != len(wanted):
        return ""
    order = (axis, *(place for place in range(len(given)) if place != axis))
    if stacked:  # a batch with the axes of the model, where axis 0 should count samples
        return f".transpose({', '.join(map(str, order))})" if sizes_fit(given, wanted) else ""
    turned = (*given[1 : axis + 1], given[0], *given[axis + 1 :])
    back = (*range(1, axis + 1), 0, *range(axis + 1, len(given)))
    return f".transpose({', '.join(map(str, back))})" if sizes_fit(turned, wanted) else ""


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


def sizes_fit(shape: Sequence[int], wanted: Sequence[int | str | None]) -> bool:
    """Whether sizes are those of as many axes, of which names and None stand for any size."""
    return all(
        not isinstance(length, int) or size == length for size, length in zip(shape, wanted, strict=True)
    )
