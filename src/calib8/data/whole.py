"""Work on all samples of a dataset, in parts whose findings join exactly: here, or on a cluster.

    found of all samples = joined(found of some, found of the others)

Joining is associative and commutative to the last bit, so neither the parts nor their order leave a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Protocol, TypeVar

from calib8.data.batches import batches
from calib8.data.samples import Array, Dataset
from calib8.progress import Progress, SampleCounter

Found = TypeVar("Found")


class Work(Protocol[Found]):
    """What is to be found of samples. Works and findings can be pickled."""

    @property
    def batch(self) -> int:
        """Samples per run that serve speed best."""

    def over(self, feeds: Iterator[Mapping[str, Array]], threads: int, seen: Callable[[int], None]) -> Found:
        """Goes through batches, one array per input; ``seen`` is told the samples of each."""

    def joined(self, first: Found, second: Found) -> Found:
        """Of the samples of both."""


def found_of_all(work: Work[Found], dataset: Dataset, threads: int, stage: str, progress: Progress) -> Found:
    """What the work finds of all samples; those that are passed over are not noted again.

    Args:
        work: see ``Work``.
        dataset: the samples.
        threads: for decoding and for the work.
        stage, progress: see ``calib8.progress``.

    Raises:
        DataError: a sample cannot be read again, or does not fit.
    """
    if dataset.elsewhere is not None:
        found: Found = dataset.elsewhere.found(work, stage, progress)
        return found
    seen = SampleCounter(stage, dataset.count, progress)
    with closing(batches(replace(dataset, skipped=[]), work.batch, threads)) as pieces:
        return work.over((piece.inputs for piece in pieces), threads, seen)
