"""From statistics to a calibration table: one method for all tensors, refusals where no range can be told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from calib8.calibration.ranges import METHODS, RangeMethod, choose_range, clipped_share
from calib8.calibration.ranges.percentile import percentile
from calib8.calibration.statistics import Statistics
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.errors import CalibrationError, UsageError
from calib8.qparams import QuantSpec
from calib8.table import CalibrationTable, Range, TableEntry


def choose_table(
    statistics: Statistics,
    spec: QuantSpec,
    method: str,
    percent: float | None = None,
    *,
    threads: int = 2,
) -> CalibrationTable:
    """A range for every tensor.

    Args:
        statistics: the counts of one model.
        spec: activation type that the search assumes.
        method: a key of ``calib8.calibration.ranges.METHODS``.
        percent: share of the values to keep, for ``percentile`` only.
        threads: tensors searched at the same time; the table does not depend on it.

    Raises:
        UsageError: unknown method, or a percent that does not fit it.
        CalibrationError: a tensor held NaN or infinite values (all are named), or its statistics have no bins
            and the method needs them.
    """
    name, function = range_method(method, percent)
    _refuse_non_finite(statistics)
    names = sorted(statistics.tensors)
    with ThreadPoolExecutor(threads, thread_name_prefix="calib8-choose") as pool:
        entries = pool.map(lambda tensor: _entry(statistics.tensors[tensor], spec, name, function), names)
        return CalibrationTable(statistics.model_hash, dict(zip(names, entries, strict=True)))


def _entry(counts: TensorStatistics, spec: QuantSpec, name: str, function: RangeMethod) -> TableEntry:
    chosen = _within_observed(choose_range(counts, spec, function), counts)
    return TableEntry(
        range=chosen,
        method=name,
        clipped=clipped_share(counts, chosen),
        count=counts.finite,
        zeros=counts.zeros,
        observed=Range(counts.minimum, counts.maximum) if counts.finite else Range(0.0, 0.0),
    )


def _within_observed(chosen: Range, counts: TensorStatistics) -> Range:
    """A symmetric [−T, T] without the part where nothing was seen, so that the table serves every type.

    Its magnitude stays T, which is at most the largest magnitude seen.
    """
    if counts.finite == 0:
        return chosen
    return Range(max(chosen.min, min(counts.minimum, 0.0)), min(chosen.max, max(counts.maximum, 0.0)))


def range_method(method: str, percent: float | None) -> tuple[str, RangeMethod]:
    """The full name and the function of a method.

    Raises:
        UsageError: unknown method, or a percent that does not fit it.
    """
    if method not in METHODS:
        raise UsageError(f"--method {method}", "unknown method", f"Use one of {', '.join(METHODS)}")
    if percent is None:
        return method, METHODS[method]
    if method != "percentile":
        raise UsageError(
            f"--percent {percent}", f"method '{method}' takes no percent", "Use --method percentile"
        )
    if not 50.0 <= percent <= 100.0:
        raise UsageError(f"--percent {percent}", "must be in 50 … 100", "Try 99.99")
    return f"percentile {percent:g}", partial(percentile, percent=percent)


def _refuse_non_finite(statistics: Statistics) -> None:
    bad = [name for name in statistics.tensors if _non_finite(statistics.tensors[name])]
    if not bad:
        return
    first = statistics.tensors[bad[0]]
    infinite = first.positive_infs + first.negative_infs
    others = f"; so did {len(bad) - 1} more: {', '.join(bad[1:6])}" if len(bad) > 1 else ""
    raise CalibrationError(
        f"tensor '{bad[0]}'",
        f"held {first.nans} NaN and {infinite} infinite of {first.count} values{others}",
        "Check the preprocessing and the float model, or keep the nodes around it in float with --keep-float",
    )


def _non_finite(counts: TensorStatistics) -> bool:
    return counts.nans + counts.positive_infs + counts.negative_infs > 0
