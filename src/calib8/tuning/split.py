"""Which samples calibrate and repair, and which judge: none does both.

Samples are ordered by the SHA-256 of what they are decoded from, so that neither names nor the order of files
decide. Without samples of their own to judge with, the lower half calibrates and the upper half judges.
Equal samples are on one side; what is among the samples to judge with does not calibrate.

What is read from files, or is a row of an array, comes in this order. What Python objects yield is in memory
as soon as it is there: of that only places and digests are kept. A set of it is the data gone through once
more, in their order, without what is in the other one:

    digests            3 1 2 0 5 4        of the samples as they come
    calibrating        3 . . 0 . .  …     a pass over all of them, each compared with its digest
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Final

from calib8.data.samples import Dataset, Pending, Sample
from calib8.errors import DataError, UsageError
from calib8.parameters import parameter

FEWEST_JUDGES: Final = 8
"""Fewer samples tell nothing."""


@dataclass(frozen=True)
class _Noted:
    """What is kept of a sample.

    Attributes:
        digest: of what it is decoded from, empty where that cannot be read.
        place: among all samples, from 0.
        name: of the sample.
        pending: the sample; None where it would keep its data in memory.
    """

    digest: bytes
    place: int
    name: str
    pending: Pending | None


@dataclass(frozen=True)
class Split:
    """Two sets of samples without a common one.

    Attributes:
        calibrating, judging: the sets, each in ascending order of the digests, or as the data yield them.
        calibrating_digest, judging_digest: SHA-256 over the digests of each, as hexadecimal digits.
        left_out: samples of the calibration data that are among those to judge with.
        ranks: name of a sample that judges → its place in ascending order of the digests.
    """

    calibrating: Dataset
    judging: Dataset
    calibrating_digest: str
    judging_digest: str
    left_out: int
    ranks: Mapping[str, int]


def split(data: Dataset, judges: Dataset | None) -> Split:
    """Splits the data in two, or takes ``judges`` to judge with.

    Raises:
        DataError: too few samples to judge with, or none left to calibrate with.
        UsageError: the samples to judge with are the calibration data.
    """
    items = _ordered(data)
    if judges is None:
        cut = len(items) // 2
        while 0 < cut < len(items) and items[cut - 1].digest == items[cut].digest:
            cut -= 1
        low, high, left_out, source = items[:cut], items[cut:], 0, data
    else:
        high, source = _ordered(judges), judges
        taken = {item.digest for item in high if item.digest}
        low = [item for item in items if item.digest not in taken]
        left_out = len(items) - len(low)
    high = high[: len(high) - len(high) % (source.rows_per_batch or 1)]
    _check(data, low, high, judges)
    ranks = {item.name: rank for rank, item in enumerate(high)}
    return Split(_part(data, low), _part(source, high), _digest(low), _digest(high), left_out, ranks)


def _check(data: Dataset, low: Sequence[_Noted], high: Sequence[_Noted], judges: Dataset | None) -> None:
    if judges is not None and not low:
        problem = "are the calibration data: what calibrated cannot judge"
        raise UsageError(parameter("judge_data"), problem, "Give other samples, or leave it out")
    if len(high) < FEWEST_JUDGES or not low:
        subject = data.source if judges is None else judges.source
        part = " (half of the data)" if judges is None else ""
        problem = (
            f"leaves {len(high)} samples{part} to judge with, and fewer than {FEWEST_JUDGES} tell nothing"
        )
        raise DataError(subject, problem, f"Give more data, or other samples with {parameter('judge_data')}")


def _ordered(dataset: Dataset) -> list[_Noted]:
    noted = (
        _Noted(item.fingerprint(), place, item.name, None if item.held else item)
        for place, item in enumerate(dataset.pending())
    )
    return sorted(noted, key=attrgetter("digest"))


def _part(dataset: Dataset, items: Sequence[_Noted]) -> Dataset:
    kept = [item.pending for item in items if item.pending is not None]
    chosen = {item.place: item.digest for item in items}

    def pending() -> Iterator[Pending]:
        return iter(kept) if len(kept) == len(items) else _read_again(dataset, chosen)

    return replace(dataset, pending=pending, count=len(items), skipped=[], taken=0)


def _read_again(dataset: Dataset, chosen: Mapping[int, bytes]) -> Iterator[Pending]:
    """The samples at the chosen places, in the order of the data.

    Raises:
        UsageError: there are fewer than before.
    """
    left = len(chosen)
    for place, item in enumerate(dataset.pending()):
        if place in chosen:
            digest = chosen[place]
            yield replace(item, load=partial(_loaded, item, digest), fingerprint=partial(bytes, digest))
            left -= 1
        if not left:
            return
    raise _changed(f"end {left} of the chosen samples earlier")


def _loaded(item: Pending, digest: bytes) -> Sample:
    """The sample, if it is what it was.

    Raises:
        UsageError: it is not.
        DataError: it is bad.
    """
    if item.fingerprint() != digest:
        raise _changed(f"hold another '{item.name}'")
    return item.load()


def _changed(problem: str) -> UsageError:
    cure = "Pass data that give the same samples in the same order every time, or a list of them"
    return UsageError("data", f"{problem} when they are read again", cure)


def _digest(items: Iterable[_Noted]) -> str:
    digest = hashlib.sha256()
    for item in items:
        digest.update(item.digest)
    return digest.hexdigest()
