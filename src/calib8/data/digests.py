"""Which samples a run used up, told by what they are decoded from, whatever they are called.

    digest of a sample    the first 16 bytes of its fingerprint
    digests of a run      the lowest MOST_DIGESTS of its samples, ascending

Those of several runs together follow from those of each, and memory ends somewhere. Which samples are among
the lowest is as by lot: of two runs with thousands of samples in common some are found again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

from calib8.data.samples import Dataset, Pending, Sample

DIGEST_BYTES: Final = 16
MOST_DIGESTS: Final = 1 << 16
"""Digests that a run keeps: 1 MB in a file."""


def lowest_digests(*runs: Sequence[bytes]) -> tuple[bytes, ...]:
    """Those of several runs as those of one, in ascending order; equal ones are in it each."""
    return tuple(sorted(chain(*runs))[:MOST_DIGESTS])  # what is in order already costs a merge


class DigestLog:
    """Notes the digests of samples where they are decoded, which may be in other threads.

    Attributes:
        dataset: gives the same samples, and notes them.
    """

    def __init__(self, dataset: Dataset) -> None:
        """Follows ``dataset``, with which it shares the list of what is skipped.

        What it gives does not point back to it: samples are let go as soon as the log is, without a search
        for circles.
        """
        self._loaded: dict[str, bytes] = {}
        self._passed: list[bytes] = []
        self.dataset = replace(dataset, pending=partial(_noting, dataset, self._loaded))

    def advance(self, names: Sequence[str]) -> tuple[bytes, ...]:
        """The samples of these names were used up; returns their digests, empty where one is not known."""
        found = tuple(self._loaded.pop(name) for name in names)
        self._passed.extend(digest for digest in found if digest)
        if len(self._passed) >= 2 * MOST_DIGESTS:
            self._passed = list(self.digests())
        return found

    def digests(self) -> tuple[bytes, ...]:
        """Those of the samples that were used up, in ascending order; equal samples are in it each."""
        return lowest_digests(self._passed)


def _noting(dataset: Dataset, loaded: dict[str, bytes]) -> Iterator[Pending]:
    """The samples of a dataset; the digest of each that is loaded comes under its name."""
    for item in dataset.pending():
        yield replace(item, load=partial(_load, item, loaded))


def _load(item: Pending, loaded: dict[str, bytes]) -> Sample:
    sample = item.load()
    loaded[item.name] = item.fingerprint()[:DIGEST_BYTES]
    return sample
