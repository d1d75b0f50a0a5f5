"""The samples of lowest digest, fetched from machines that have gone through all samples.

    digests of all samples  →  the lowest ones  →  those who hold such samples send them

Whoever scores ranges, repairs or judges looks at samples of lowest digest alone, so these few stand here for
all; what has to be counted of all is counted there (``calib8.data.whole``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from calib8.data.digests import DIGEST_BYTES
from calib8.data.samples import Dataset, Pending, Sample
from calib8.errors import DataError

MOST: Final = 96
"""Runs that anybody looks at here."""

Value = TypeVar("Value")
Prints = list[tuple[bytes, Sample]]
"""SHA-256 of what a sample is decoded from, and the sample."""


@dataclass(frozen=True)
class LowestWork:
    """Samples with some digests, as work on all samples.

    Attributes:
        wanted: digests.
    """

    wanted: frozenset[bytes]

    def over(self, dataset: Dataset, threads: int, seen: Callable[[int], None]) -> Prints:
        """Those among some samples; others are not decoded."""
        found: Prints = []
        for pending in dataset.pending():
            fingerprint = pending.fingerprint()
            if fingerprint[:DIGEST_BYTES] in self.wanted:
                found.append((fingerprint, pending.load()))
            seen(1)
        return found

    def joined(self, first: Prints, second: Prints) -> Prints:
        """Those among both."""
        return sorted(first + second, key=lambda one: one[0])


def lowest_wanted(digests: Sequence[bytes], rows_per_batch: int | None) -> frozenset[bytes]:
    """Of all digests, ascending, those that may be looked at here."""
    return frozenset(digests[: MOST * (rows_per_batch or 1)])


def keep_here(dataset: Dataset, found: Prints, wanted: frozenset[bytes]) -> None:
    """From now on the dataset gives these samples here, in ascending order of their digests.

    Raises:
        DataError: some of them are not there any more.
    """
    ordered = sorted(found, key=lambda one: one[0])
    if not wanted <= {fingerprint[:DIGEST_BYTES] for fingerprint, _ in ordered}:
        cure = "Leave the data as they are until all is done, then start again"
        raise DataError(dataset.source, "has other samples when it is read again", cure)

    def pending() -> Iterator[Pending]:
        for number, (fingerprint, sample) in enumerate(ordered):
            size = sum(array.nbytes for array in sample.inputs.values())
            own = replace(sample, name=f"{sample.name} ({number})")  # parts may call samples alike
            yield Pending(own.name, partial(_given, own), partial(_given, fingerprint), size)

    dataset.pending = pending


def _given(value: Value) -> Value:
    return value
