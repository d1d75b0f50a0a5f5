"""Which samples calibrate and repair, and which judge: none does both.

Samples are ordered by the SHA-256 of what they are decoded from, so that neither names nor the order of files
decide. Without samples of their own to judge with, the lower half calibrates and the upper half judges.
Equal samples are on one side; what is among the samples to judge with does not calibrate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final

from calib8.data.samples import Dataset, Pending
from calib8.errors import DataError, UsageError
from calib8.parameters import parameter

FEWEST_JUDGES: Final = 8
"""Fewer samples tell nothing."""

_Item = tuple[bytes, Pending]


@dataclass(frozen=True)
class Split:
    """Two sets of samples without a common one.

    Attributes:
        calibrating, judging: the sets, each in ascending order of the digests.
        calibrating_digest, judging_digest: SHA-256 over the digests of each, as hexadecimal digits.
        left_out: samples of the calibration data that are among those to judge with.
    """

    calibrating: Dataset
    judging: Dataset
    calibrating_digest: str
    judging_digest: str
    left_out: int


def split(data: Dataset, judges: Dataset | None) -> Split:
    """Splits the data in two, or takes ``judges`` to judge with.

    Raises:
        DataError: too few samples to judge with, or none left to calibrate with.
        UsageError: the samples to judge with are the calibration data.
    """
    items = _ordered(data)
    if judges is None:
        cut = len(items) // 2
        while 0 < cut < len(items) and items[cut - 1][0] == items[cut][0]:
            cut -= 1
        low, high, left_out, source = items[:cut], items[cut:], 0, data
    else:
        high, source = _ordered(judges), judges
        taken = {digest for digest, _ in high if digest}
        low = [item for item in items if item[0] not in taken]
        left_out = len(items) - len(low)
    high = high[: len(high) - len(high) % (source.rows_per_batch or 1)]
    _check(data, low, high, judges)
    return Split(_part(data, low), _part(source, high), _digest(low), _digest(high), left_out)


def _check(data: Dataset, low: Sequence[_Item], high: Sequence[_Item], judges: Dataset | None) -> None:
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


def _ordered(dataset: Dataset) -> list[_Item]:
    return sorted(((pending.fingerprint(), pending) for pending in dataset.pending()), key=itemgetter(0))


def _part(dataset: Dataset, items: Sequence[_Item]) -> Dataset:
    chosen = [pending for _, pending in items]

    def pending() -> Iterator[Pending]:
        return iter(chosen)

    return replace(dataset, pending=pending, count=len(chosen), skipped=[], taken=0)


def _digest(items: Iterable[_Item]) -> str:
    digest = hashlib.sha256()
    for fingerprint, _ in items:
        digest.update(fingerprint)
    return digest.hexdigest()
