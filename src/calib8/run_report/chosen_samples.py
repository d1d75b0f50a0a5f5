"""Which samples a report runs through both models, and in which words it says so.

After ``quantize`` those held back, which judged the model: in ascending order of their digests as
``calib8.autorange.samples`` chose them; where none was held back, and for other commands, samples evenly
spaced over the data.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from calib8.autorange.samples import SCORED
from calib8.data.reading import Reading
from calib8.data.samples import Dataset, Pending, spaced
from calib8.outcomes import Quantization
from calib8.repair.wanted import effort_called
from calib8.tensors import TensorSpec

MOST: Final = 32
"""Samples that are run through both models at most."""


@dataclass(frozen=True, eq=False)
class ChosenReading(Reading):
    """Samples that are chosen already.

    Attributes:
        chosen: the samples.
        where: which they are, such as ``32 of the 64 samples held back``.
    """

    chosen: Dataset | None = None
    where: str = ""

    def opened(self, inputs: Sequence[TensorSpec], *, elsewhere: bool = False) -> Dataset:
        """The samples; those of the fields are opened where none are chosen."""
        return super().opened(inputs, elsewhere=elsewhere) if self.chosen is None else self.chosen


def chosen_reading(dataset: Dataset, threads: int, result: Quantization | None = None) -> ChosenReading:
    """At most ``MOST`` samples of a dataset.

    Args:
        dataset: the data; its list of skipped images is left alone.
        threads: how many decode, and run models.
        result: what was made of them, so that those that judged are taken; None: any.
    """
    judged = None if result is None else _held_back(dataset, result)
    if judged is not None:
        pending, count = judged
        where = f"{_of(len(pending) // (dataset.rows_per_batch or 1), count)} held back"
        return _reading(dataset, pending, threads, where)
    every = sum(1 for _ in dataset.pending()) if dataset.count is None else dataset.count
    places = set(spaced(every, MOST))  # the others are let go at once: they may hold arrays
    pending = [one for place, one in enumerate(dataset.pending()) if place in places]
    of = "the calibration data" if result is not None else "the data"
    return _reading(dataset, pending, threads, f"{_of(len(pending), every)} of {of}")


def _of(some: int, every: int) -> str:
    """Such as ``32 of the 64 samples``, or ``the 16 samples``."""
    return f"the {every} samples" if some == every else f"{some} of the {every} samples"


def _reading(dataset: Dataset, chosen: Sequence[Pending], threads: int, where: str) -> ChosenReading:
    def pending() -> Iterator[Pending]:
        return iter(chosen)

    again = replace(dataset, pending=pending, count=len(chosen), skipped=[], taken=0)
    return ChosenReading(
        data=(), preprocess=dataset.preprocess, threads=threads, skip_bad=dataset.skip_bad, chosen=again,
        where=where,
    )  # fmt: skip


def _held_back(dataset: Dataset, result: Quantization) -> tuple[list[Pending], int] | None:
    """Samples that judged, and how many runs did; None where none was held back.

    Of n runs the first min(scored, n / 2) repaired, and those behind them judged: as many or one more.
    """
    done = result.repaired
    if done is None or done.shared or not done.held_back:
        return None
    scored = effort_called(done.effort).repairing if done.effort else SCORED
    rows = dataset.rows_per_batch or 1
    first = min(scored, done.held_back) * rows
    count = min(MOST, max(done.held_back - 1, 1) if done.held_back <= scored else done.held_back)
    last = first + max(count // rows, 1) * rows
    prints = ((pending.fingerprint(), pending) for pending in dataset.pending())
    ordered = [pending for _, pending in heapq.nsmallest(last, prints, key=itemgetter(0))]
    return (ordered[first:], done.held_back) if len(ordered) > first else None
