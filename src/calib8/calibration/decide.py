"""From what was gathered to the table: a method for all tensors, then what the user wants otherwise.

method → power-of-two scales, where asked for → ranges that the user gave, which nothing changes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from calib8.calibration.choose import check_method, choose_table
from calib8.calibration.layouts import LayoutCounts
from calib8.calibration.moving import DEFAULT_DECAY, EMA, Averages, check_decay, ema_range
from calib8.calibration.ranges import METHODS, clipped_share
from calib8.calibration.ranges.mse_behind import Function
from calib8.calibration.ranges.power_of_two import power_of_two
from calib8.calibration.ranges.two_pass import TWO_PASS_METHODS, needs_data_again
from calib8.calibration.statistics import Statistics, TensorStatistics
from calib8.errors import UsageError
from calib8.parameters import one_of, parameter
from calib8.qparams import QuantSpec
from calib8.table import GIVEN, POWER_OF_TWO, CalibrationTable, Range, TableEntry

AUTO: Final = "auto"
"""The method that tries all others on the samples, see ``calib8.autorange``."""

NEEDS_DATA: Final[dict[str, str]] = {
    EMA: "depends on the order of the samples, of which statistics know nothing; mean-minmax does not",
    AUTO: "looks at the samples a second time, which statistics do not hold",
}
"""Methods that saved statistics cannot serve, and why."""


@dataclass(frozen=True)
class Wish:
    """How ranges are to be chosen.

    Attributes:
        method: name of a method.
        percent: for ``percentile``, None for its default.
        decay: for ``ema``, None for its default.
        power_of_two: every scale is to be a power of two.
    """

    method: str
    percent: float | None = None
    decay: float | None = None
    power_of_two: bool = False

    @property
    def moving_decay(self) -> float | None:
        """The decay of the moving averages to follow, None where the method needs none."""
        if self.method != EMA:
            return None
        return DEFAULT_DECAY if self.decay is None else self.decay


def check_wish(wish: Wish, *, from_statistics: bool = False) -> None:
    """Refuses, before any work is done, what cannot be.

    Raises:
        UsageError: unknown method, options that do not fit it, or one that saved statistics cannot serve.
    """
    if from_statistics and wish.method in NEEDS_DATA:
        raise UsageError(
            parameter("method", wish.method),
            NEEDS_DATA[wish.method],
            f"Give {parameter('data')}, or another method",
        )
    if from_statistics and needs_data_again(wish.method):
        problem = "counts in bins of its own and reads the data twice; statistics are not enough"
        cure = f"Give {parameter('data')}, or use one of {', '.join(METHODS)}"
        raise UsageError(parameter("method", wish.method), problem, cure)
    if wish.method != EMA:
        if wish.method not in METHODS and wish.method != AUTO and not needs_data_again(wish.method):
            known = [AUTO, *METHODS, *TWO_PASS_METHODS, EMA]
            raise UsageError(parameter("method", wish.method), "unknown method", one_of(wish.method, known))
        if wish.method == AUTO:
            _check_auto(wish)
        else:
            check_method(wish.method, wish.percent)
        if wish.decay is not None:
            problem = f"method '{wish.method}' takes no decay"
            raise UsageError(parameter("decay", wish.decay), problem, f"Use {parameter('method', 'ema')}")
        return
    if wish.percent is not None:
        raise UsageError(
            parameter("percent", wish.percent),
            "method 'ema' takes no percent",
            f"Use {parameter('method', 'percentile')}",
        )
    if wish.decay is not None:
        check_decay(wish.decay)


def _check_auto(wish: Wish) -> None:
    if wish.percent is not None:
        problem = "method 'auto' takes no percent"
        raise UsageError(
            parameter("percent", wish.percent), problem, f"Use {parameter('method', 'percentile')}"
        )


def needs_bins(wish: Wish, given: Mapping[str, Range]) -> bool:
    """Whether the table needs histograms.

    Most methods choose by them, and what a range clips is read from them. ``minmax`` clips nothing; a range
    that the user gave may, and so may one whose power of two float32 does not hold.
    """
    return wish.method != "minmax" or wish.power_of_two or bool(given)


def decide(
    statistics: Statistics,
    averages: Averages | None,
    spec: QuantSpec,
    wish: Wish,
    given: Mapping[str, Range],
    counts: Mapping[str, LayoutCounts] | None = None,
    functions: Mapping[str, Function] = MappingProxyType({}),
    *,
    threads: int = 2,
) -> CalibrationTable:
    """A range for every tensor.

    Args:
        statistics: of all tensors.
        averages: moving averages of the extremes, for ``ema``.
        spec: activation type that the search assumes.
        wish: how to choose.
        given: ranges that the user gave, by tensor.
        counts: of all tensors without a given range in the bins of a method that reads the data twice.
        functions: what alone reads a tensor, for ``mse-behind``, see ``choose_table``.
        threads: tensors searched at the same time; the table does not depend on it.

    Raises:
        UsageError: unknown method, or a percent that does not fit it.
        CalibrationError: a tensor without a given range held NaN or infinite values.
    """
    searched = {name: found for name, found in statistics.tensors.items() if name not in given}
    table = _searched(
        Statistics(statistics.model_hash, searched), averages, counts, functions, spec, wish, threads
    )
    if wish.power_of_two:
        table = with_power_of_two(table, searched, spec)
    return with_given(table, given, statistics.tensors)


def _searched(
    statistics: Statistics,
    averages: Averages | None,
    counts: Mapping[str, LayoutCounts] | None,
    functions: Mapping[str, Function],
    spec: QuantSpec,
    wish: Wish,
    threads: int,
) -> CalibrationTable:
    if wish.method != EMA:
        return choose_table(
            statistics, spec, wish.method, wish.percent, counts=counts, functions=functions, threads=threads
        )
    table = choose_table(statistics, spec, "minmax", threads=threads)

    def smoothed(name: str, entry: TableEntry) -> TableEntry:
        if averages is None or name not in averages:
            return replace(entry, method=EMA)
        found = ema_range(averages[name], spec)
        if found.magnitude == 0.0:
            return replace(entry, method=EMA)
        within = Range(max(found.min, entry.range.min), min(found.max, entry.range.max))
        return _changed(entry, within, EMA, statistics.tensors[name])

    return _mapped(table, smoothed)


def with_power_of_two(
    table: CalibrationTable, statistics: Mapping[str, TensorStatistics], spec: QuantSpec
) -> CalibrationTable:
    """The table with every range widened so that its scale is a power of two."""

    def rounded(name: str, entry: TableEntry) -> TableEntry:
        chosen = one_sided_power_of_two(entry.range, spec)
        return _changed(entry, chosen, entry.method + POWER_OF_TWO, statistics.get(name))

    return _mapped(table, rounded)


def one_sided_power_of_two(chosen: Range, spec: QuantSpec) -> Range:
    """``power_of_two``, but a range that begins or ends at 0 still does; the scale is the same.

    A symmetric range would else get the half in which nothing was seen.
    """
    found = power_of_two(chosen, spec)
    return Range(found.min if chosen.min < 0.0 else 0.0, found.max if chosen.max > 0.0 else 0.0)


def with_given(
    table: CalibrationTable, given: Mapping[str, Range], statistics: Mapping[str, TensorStatistics]
) -> CalibrationTable:
    """The table with the ranges that the user gave; those of tensors that it has not are added.

    Args:
        table: what was chosen or read.
        given: tensor → range.
        statistics: what is known of the tensors; without it, the clipped share of a range that does not
            hold everything seen stays what it was in the table.
    """
    entries = dict(table.entries)
    for name, chosen in given.items():
        counts = statistics.get(name)
        entry = entries.get(name)
        if entry is None:
            finite = counts.finite if counts else 0
            observed = Range(counts.minimum, counts.maximum) if counts and finite else Range(0.0, 0.0)
            entry = TableEntry(chosen, GIVEN, 0.0, finite, counts.zeros if counts else 0, observed)
        entries[name] = _changed(entry, chosen, GIVEN, counts)
    return CalibrationTable(table.model_hash, {name: entries[name] for name in sorted(entries)})


def _mapped(table: CalibrationTable, change: Callable[[str, TableEntry], TableEntry]) -> CalibrationTable:
    return CalibrationTable(
        table.model_hash, {name: change(name, entry) for name, entry in table.entries.items()}
    )


def _changed(
    entry: TableEntry, chosen: Range, method: str, statistics: TensorStatistics | None
) -> TableEntry:
    if statistics is not None:
        clipped = clipped_share(statistics, chosen)
    else:
        all_inside = chosen.min <= entry.observed.min and entry.observed.max <= chosen.max
        clipped = 0.0 if all_inside else entry.clipped
    return replace(entry, range=chosen, method=method, clipped=clipped)
