"""The tables of all methods that choose from statistics alone: what ``auto`` chooses from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from calib8.calibration.decide import Wish, decide
from calib8.calibration.ranges import BEHIND, METHODS
from calib8.calibration.ranges.mse_behind import Function
from calib8.calibration.statistics import Statistics
from calib8.qparams import QuantSpec
from calib8.table import CalibrationTable, Range

LOWER_PERCENT: Final = 99.99
"""A second percentile beside the default one, for tensors with rare outliers."""


def plain_tables(
    statistics: Statistics,
    spec: QuantSpec,
    *,
    power_of_two: bool = False,
    given: Mapping[str, Range] | None = None,
    functions: Mapping[str, Function] = MappingProxyType({}),
    threads: int = 2,
) -> dict[str, CalibrationTable]:
    """Name of each method → its table, in the order of ``METHODS``.

    Args:
        statistics: of all tensors.
        spec: activation type that the searches assume.
        power_of_two: all scales are to be powers of two.
        given: ranges that the user gave, by tensor; every table has them.
        functions: what alone reads a tensor, from ``calib8.calibration.functions_behind``; without any,
            ``mse-behind`` would be ``mse`` once more, and is left out.
        threads: tensors searched at a time.

    Raises:
        CalibrationError: a tensor without a given range held NaN or infinite values.
    """
    methods = [method for method in METHODS if method != BEHIND or functions]
    wishes = {method: Wish(method, power_of_two=power_of_two) for method in methods}
    wishes[f"percentile {LOWER_PERCENT}"] = Wish("percentile", LOWER_PERCENT, power_of_two=power_of_two)
    return {
        name: decide(statistics, None, spec, wish, given or {}, functions=functions, threads=threads)
        for name, wish in wishes.items()
    }
