"""Work on all samples of a dataset, in parts whose findings join exactly: here, or on a cluster.

    found of all samples = joined(found of some, found of the others)

Joining is associative and commutative to the last bit, so neither the parts nor their order leave a trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from calib8.data.batches import Batch, batches
from calib8.data.fingerprints import array_fingerprint
from calib8.data.samples import Array, Dataset, Pending, Sample
from calib8.progress import Progress, SampleCounter

Found = TypeVar("Found")


class Work(Protocol[Found]):
    """What is to be found of samples. Works and findings can be pickled."""

    def over(self, dataset: Dataset, threads: int, seen: Callable[[int], None]) -> Found:
        """Goes through some samples, at least one; ``seen`` is told how many as they are done."""

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
    return work.over(replace(dataset, skipped=[]), threads, seen)


@contextmanager
def batched(dataset: Dataset, size: int, threads: int) -> Iterator[Iterator[Batch]]:
    """``batches`` for a ``with``: their threads end with it."""
    with closing(batches(dataset, size, threads)) as pieces:
        yield pieces


def dataset_of_runs(runs: Sequence[Mapping[str, Array]]) -> Dataset:
    """Feeds of single runs as a dataset that gives them one by one, as they are."""

    def pending() -> Iterator[Pending]:
        for number, run in enumerate(runs):
            name = f"run {number}"
            yield Pending(name, partial(Sample, name, run, None), partial(array_fingerprint, run))

    return Dataset("runs", pending, len(runs), 1, None, False, [])
