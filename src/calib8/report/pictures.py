"""What there is to see of one tensor's calibration: histogram, the range of every method, error curves.

lost range   1 − (length of the chosen range) / (length of the hull of 0 and all that was seen)
saturated    share of the finite values outside the range
drawn bin    2^k neighbouring bins, counted away from 0, added: at most 512 on both sides together
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calib8.calibration.choose import choose_table
from calib8.calibration.ranges import BEHIND, METHODS, clipped_share
from calib8.calibration.statistics import Statistics
from calib8.calibration.tensor_statistics import Bins, TensorStatistics
from calib8.errors import TableError
from calib8.qparams import QuantSpec
from calib8.report.curves import Curve, kl_curve, mse_curve
from calib8.table import CalibrationTable, Range, TableEntry

DRAWN_BINS = 512
"""Bins of a picture at most."""


@dataclass(frozen=True)
class Histogram:
    """Counts of the values other than 0, along the real axis.

    Attributes:
        width: of a bin, in real units, > 0.
        below: how many bins lie below 0; bin k begins at (k − below)·width.
        counts: values per bin, at most ``DRAWN_BINS``, or as many as were asked for.
    """

    width: float
    below: int
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """A range, and who chose it.

    Attributes:
        method: name of the method.
        range: of real values, 0 in it.
        saturated: share of the finite values outside of it, 0 … 1.
    """

    method: str
    range: Range
    saturated: float


@dataclass(frozen=True)
class TensorPicture:
    """All that is drawn of one tensor.

    Attributes:
        name: of the tensor.
        count: finite values seen.
        others: NaNs and infinities seen; nothing else here knows of them.
        zeros: how many of them were exactly 0; they are in no bin.
        observed: hull of 0 and all finite values seen.
        histogram: of the other values.
        chosen: the range in the table.
        methods: the range of every method that needs one pass and no graph, in the order of ``METHODS``;
            none for a tensor that held NaN or infinite values.
        kl, mse: errors over thresholds.
    """

    name: str
    count: int
    others: int
    zeros: int
    observed: Range
    histogram: Histogram
    chosen: Choice
    methods: tuple[Choice, ...]
    kl: Curve
    mse: Curve

    @property
    def lost(self) -> float:
        """Lost range, 0 … 1; 0 where nothing but zeros was seen, or the range is wider than that."""
        seen = self.observed.max - self.observed.min
        kept = self.chosen.range.max - self.chosen.range.min
        return max(1.0 - kept / seen, 0.0) if seen else 0.0


def pictures(
    statistics: Statistics, table: CalibrationTable, spec: QuantSpec, *, threads: int = 2
) -> tuple[TensorPicture, ...]:
    """A picture of every tensor of the table, in ascending order of the names.

    Args:
        statistics: from which the table was chosen; more tensors do no harm.
        table: the chosen ranges. One of another tool, which names no model, may have more tensors.
        spec: activation type that the methods assume.
        threads: tensors searched at the same time; no picture depends on it.

    Raises:
        TableError: the table was made for another model, or does not fit the statistics.
        CalibrationError: the statistics have no bins.
    """
    names = _names(statistics, table)
    shown = {name: statistics.tensors[name] for name in names}
    clean = {name: counts for name, counts in shown.items() if counts.finite == counts.count}
    searched = Statistics(statistics.model_hash, clean)
    tables = [choose_table(searched, spec, method, threads=threads) for method in METHODS if method != BEHIND]
    return tuple(
        _picture(
            name,
            counts,
            table.entries[name],
            [found.entries[name] for found in tables if name in found.entries],
            spec,
        )
        for name, counts in shown.items()
    )


def _names(statistics: Statistics, table: CalibrationTable) -> list[str]:
    """The tensors to draw."""
    both = sorted(table.entries.keys() & statistics.tensors.keys())
    missing = sorted(table.entries.keys() - statistics.tensors.keys())
    if table.model_hash not in ("", statistics.model_hash):
        raise TableError("table", "was made for another model than the statistics", "Give those of one run")
    if missing and (table.model_hash or not both):
        problem = f"{len(missing)} of {len(table.entries)} tensors are not in the statistics: '{missing[0]}'"
        raise TableError("table", problem, "Give the statistics of the model that it is for")
    return both


def drawn_histogram(statistics: TensorStatistics, most: int = DRAWN_BINS) -> Histogram:
    """The signed histogram with neighbours added until at most ``most`` bins are left."""
    counts, width, below = statistics.signed_histogram()
    negative, positive = counts[:below][::-1], counts[below:]
    size = 1
    while -(-negative.size // size) + -(-positive.size // size) > most:
        size *= 2
    left, right = _added(negative, size)[::-1], _added(positive, size)
    return Histogram(width * size, left.size, tuple(np.concatenate([left, right]).tolist()))


def _added(bins: Bins, size: int) -> Bins:
    """Sums of groups of ``size`` bins, the last one of what is left."""
    padded = np.zeros(-(-bins.size // size) * size, np.int64)
    padded[: bins.size] = bins
    added: Bins = padded.reshape(-1, size).sum(axis=1)
    return added


def _picture(
    name: str,
    counts: TensorStatistics,
    entry: TableEntry,
    found: Sequence[TableEntry],
    spec: QuantSpec,
) -> TensorPicture:
    observed = Range(counts.minimum, counts.maximum) if counts.finite else Range(0.0, 0.0)
    return TensorPicture(
        name=name,
        count=counts.finite,
        others=counts.count - counts.finite,
        zeros=counts.zeros,
        observed=observed.widened_to_zero(),
        histogram=drawn_histogram(counts),
        chosen=_choice(entry, counts),
        methods=tuple(_choice(other, counts) for other in found),
        kl=kl_curve(counts, spec),
        mse=mse_curve(counts, spec),
    )


def _choice(entry: TableEntry, counts: TensorStatistics) -> Choice:
    """The share is that of the statistics shown: a table of another tool knows none."""
    chosen = entry.range.widened_to_zero()
    return Choice(entry.method, chosen, clipped_share(counts, chosen))
