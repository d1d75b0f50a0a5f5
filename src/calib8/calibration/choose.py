"""From statistics to a calibration table: one method for all tensors, refusals where no range can be told."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import Final

from calib8.calibration.layouts import LayoutCounts
from calib8.calibration.ranges import BEHIND, METHODS, RangeMethod, choose_range, clipped_share
from calib8.calibration.ranges.mse_behind import Function, mse_behind
from calib8.calibration.ranges.percentile import percentile
from calib8.calibration.ranges.two_pass import TWO_PASS_METHODS, needs_data_again
from calib8.calibration.statistics import Statistics
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.errors import CalibrationError, UsageError
from calib8.parameters import one_of, parameter
from calib8.qparams import QuantSpec
from calib8.table import CalibrationTable, Range, TableEntry

PLAIN: Final = "mse"
"""What stands in for ``BEHIND`` at tensors that no function alone reads."""


def choose_table(
    statistics: Statistics,
    spec: QuantSpec,
    method: str,
    percent: float | None = None,
    *,
    counts: Mapping[str, LayoutCounts] | None = None,
    functions: Mapping[str, Function] = MappingProxyType({}),
    threads: int = 2,
) -> CalibrationTable:
    """A range for every tensor.

    Args:
        statistics: the counts of one model.
        spec: activation type that the search assumes.
        method: a key of ``calib8.calibration.ranges.METHODS``, or of ``TWO_PASS_METHODS`` with ``counts``.
        percent: share of the values to keep, for ``percentile`` only.
        counts: of every tensor in the bins of a two-pass method, from ``count_again``.
        functions: what alone reads a tensor, from ``calib8.calibration.functions_behind``, for
            ``mse-behind``: tensors without one get ``mse``, and their entries say so.
        threads: tensors searched at the same time; the table does not depend on it.

    Raises:
        UsageError: unknown method, a percent that does not fit it, or a two-pass method without counts.
        CalibrationError: a tensor held NaN or infinite values (all are named), or its statistics have no bins
            and the method needs them.
    """
    methods = _tensor_methods(statistics, method, percent, counts, functions)
    refuse_non_finite(statistics)
    names = sorted(statistics.tensors)
    with ThreadPoolExecutor(threads, thread_name_prefix="calib8-choose") as pool:
        entries = pool.map(lambda tensor: _entry(statistics.tensors[tensor], spec, *methods[tensor]), names)
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


def _tensor_methods(
    statistics: Statistics,
    method: str,
    percent: float | None,
    counts: Mapping[str, LayoutCounts] | None,
    functions: Mapping[str, Function],
) -> dict[str, tuple[str, RangeMethod]]:
    """For each tensor the full name of its method and what it does, with what it needs bound."""
    if counts is not None and needs_data_again(method):
        check_method(method, percent)
        choose = TWO_PASS_METHODS[method].choose
        return {tensor: (method, partial(choose, counts[tensor])) for tensor in statistics.tensors}
    found = dict.fromkeys(statistics.tensors, range_method(method, percent))
    if method == BEHIND:
        plain = range_method(PLAIN, None)
        for tensor in found:
            function = functions.get(tensor)
            found[tensor] = plain if function is None else (BEHIND, partial(mse_behind, function=function))
    return found


def _within_observed(chosen: Range, counts: TensorStatistics) -> Range:
    """A symmetric [−T, T] without the part where nothing was seen, so that the table serves every type.

    Its magnitude stays T. Where that is more than the largest magnitude seen, as it may be in
    ``entropy-tensorrt-exact``, the side that holds this largest magnitude ends at T.
    """
    if counts.finite == 0:
        return chosen
    low, high = max(chosen.min, min(counts.minimum, 0.0)), min(chosen.max, max(counts.maximum, 0.0))
    if max(-low, high) == chosen.magnitude:
        return Range(low, high)
    return Range(low, chosen.max) if counts.maximum >= -counts.minimum else Range(chosen.min, high)


def check_method(method: str, percent: float | None) -> None:
    """Refuses what ``calib8.pipeline.calibrate`` cannot do, before any data is read.

    Raises:
        UsageError: unknown method, or a percent that does not fit it.
    """
    if not needs_data_again(method):
        range_method(method, percent)
    elif percent is not None:
        raise _no_percent(method, percent)


def range_method(method: str, percent: float | None) -> tuple[str, RangeMethod]:
    """The full name and the function of a method that statistics are enough for.

    Raises:
        UsageError: unknown method, one that reads the data twice, or a percent that does not fit it.
    """
    if needs_data_again(method):
        problem = "counts in bins of its own and reads the data twice; statistics are not enough"
        raise UsageError(
            parameter("method", method), problem, f"Give the data, or use one of {', '.join(METHODS)}"
        )
    if method not in METHODS:
        known = [*METHODS, *TWO_PASS_METHODS]
        raise UsageError(parameter("method", method), "unknown method", one_of(method, known))
    if percent is None:
        return method, METHODS[method]
    if method != "percentile":
        raise _no_percent(method, percent)
    if not 50.0 <= percent <= 100.0:
        raise UsageError(parameter("percent", percent), "must be in 50 … 100", "Try 99.99")
    return f"percentile {percent:g}", partial(percentile, percent=percent)


def _no_percent(method: str, percent: float) -> UsageError:
    problem = f"method '{method}' takes no percent"
    return UsageError(parameter("percent", percent), problem, f"Use {parameter('method', 'percentile')}")


def refuse_non_finite(statistics: Statistics) -> None:
    """Refuses tensors for which there is no range.

    Raises:
        CalibrationError: a tensor held NaN or infinite values (all are named).
    """
    bad = [name for name in statistics.tensors if _non_finite(statistics.tensors[name])]
    if not bad:
        return
    first = statistics.tensors[bad[0]]
    infinite = first.positive_infs + first.negative_infs
    others = f"; so did {len(bad) - 1} more: {', '.join(bad[1:6])}" if len(bad) > 1 else ""
    raise CalibrationError(
        f"tensor '{bad[0]}'",
        f"held {first.nans} NaN and {infinite} infinite of {first.count} values{others}",
        "Check the preprocessing and the float model, or keep the nodes around it in float with "
        + parameter("keep_float"),
    )


def _non_finite(counts: TensorStatistics) -> bool:
    return counts.nans + counts.positive_infs + counts.negative_infs > 0
