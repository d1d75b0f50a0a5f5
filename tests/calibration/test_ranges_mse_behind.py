"""The range with the smallest error behind a function, against the values themselves."""

from __future__ import annotations

from collections.abc import Callable
from math import erf

import numpy as np
import numpy.typing as npt
import pytest

from calib8.calibration.ranges.minmax import minmax
from calib8.calibration.ranges.mse import mse
from calib8.calibration.ranges.mse_behind import Curve, mse_behind
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import INT8, INT8_SYMMETRIC, UINT8, QuantSpec, activation_qparams, dequantize, quantize
from calib8.table import Range

Floats = npt.NDArray[np.float64]
Plain = Callable[[Floats], Floats]

FUNCTIONS: dict[str, Plain] = {
    "SiLU": lambda x: x / (1 + np.exp(-x)),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "GELU": lambda x: 0.5 * x * (1 + np.array([erf(v / 2**0.5) for v in x])),
    "LeakyReLU": lambda x: np.where(x >= 0, x, 0.1 * x),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
}
RNG = np.random.default_rng(5)
VALUES = {
    "normal": RNG.standard_normal(20000) * 3,
    "low tail": np.concatenate([RNG.standard_normal(20000), -RNG.exponential(12.0, 2000)]),
    "high tail": np.concatenate([RNG.standard_normal(20000) - 1, RNG.exponential(9.0, 400)]),
    "negative": -np.abs(RNG.standard_normal(20000)) * 4,
    "positive": np.abs(RNG.standard_normal(20000)) * 4,
}
SPECS = {"uint8": UINT8, "int8": INT8, "symmetric": INT8_SYMMETRIC}


def values_of(name: str) -> npt.NDArray[np.float32]:
    return VALUES[name].astype(np.float32)


def rows(function: Plain) -> Callable[[Floats], Floats]:
    return lambda x: np.stack([function(x)])


def error(values: npt.NDArray[np.float32], function: Plain, chosen: Range, spec: QuantSpec) -> float:
    """Of the values, coded one by one."""
    q = activation_qparams(chosen.min, chosen.max, spec)
    coded = dequantize(quantize(values, q.scale, q.zero_point, spec), q.scale, q.zero_point)
    return float(np.sum((function(values.astype(np.float64)) - function(coded.astype(np.float64))) ** 2))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_is_that_of_the_values(name: str, kind: str, spec: str) -> None:
    values, code = values_of(kind), SPECS[spec]
    statistics = TensorStatistics.from_values(values)
    curve = Curve(statistics, rows(FUNCTIONS[name]))
    ends = (min(statistics.minimum, 0.0), max(statistics.maximum, 0.0))
    for share in (1.0, 0.6, 0.3):
        low, high = share * ends[0], share * ends[1]
        if code.symmetric:
            high = max(high, -low)
            low = -high
        [found] = curve.errors(np.array([low]), np.array([high]), code)
        assert found == pytest.approx(error(values, FUNCTIONS[name], Range(low, high), code), rel=0.03)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_range_of_a_grid_is_better(name: str, kind: str, spec: str) -> None:
    values, code, function = values_of(kind)[::4], SPECS[spec], FUNCTIONS[name]
    statistics = TensorStatistics.from_values(values)
    chosen = mse_behind(statistics, code, rows(function))
    found = error(values, function, chosen, code)
    assert found <= 1.03 * error(values, function, mse(statistics, code), code)
    assert found <= 1.03 * error(values, function, minmax(statistics, code), code)
    for low in np.linspace(0.1, 1.0, 7) * min(statistics.minimum, 0.0):
        for high in np.linspace(0.1, 1.0, 7) * max(statistics.maximum, 0.0):
            if low < 0.0 or high > 0.0:
                top = max(-low, high)
                other = Range(-top, top) if code.symmetric else Range(float(low), float(high))
                assert found <= 1.03 * error(values, function, other, code)


def test_what_the_function_forgets_gets_no_codes() -> None:
    values = values_of("low tail")
    statistics = TensorStatistics.from_values(values)
    assert statistics.minimum < -60
    plain, behind = mse(statistics, UINT8), mse_behind(statistics, UINT8, rows(FUNCTIONS["SiLU"]))
    assert -9.0 < behind.min < -2.0 and plain.min < -30
    silu = FUNCTIONS["SiLU"]
    assert error(values, silu, behind, UINT8) < 0.1 * error(values, silu, plain, UINT8)


def test_the_upper_end_is_cut_where_the_function_is_flat() -> None:
    values = -values_of("low tail")
    chosen = mse_behind(TensorStatistics.from_values(values), UINT8, rows(FUNCTIONS["Sigmoid"]))
    assert 3.0 < chosen.max < 12.0


def test_a_straight_line_gets_the_range_of_mse() -> None:
    for kind in VALUES:
        values = values_of(kind)
        statistics = TensorStatistics.from_values(values)
        line = error(values, lambda x: x, mse_behind(statistics, UINT8, rows(lambda x: x)), UINT8)
        assert line == pytest.approx(error(values, lambda x: x, mse(statistics, UINT8), UINT8), rel=0.02)


def test_versions_count_together() -> None:
    """Slopes of 0 and 1 on the left: the range lies between those of ReLU and of the identity."""
    statistics = TensorStatistics.from_values(values_of("low tail"))
    both = mse_behind(statistics, UINT8, lambda x: np.stack([np.maximum(x, 0), x]))
    relu = mse_behind(statistics, UINT8, rows(lambda x: np.maximum(x, 0)))
    assert mse(statistics, UINT8).min <= both.min < relu.min <= 0.0


def test_without_a_function_or_where_it_is_no_number_it_is_mse() -> None:
    statistics = TensorStatistics.from_values(values_of("normal"))
    assert mse_behind(statistics, UINT8) == mse(statistics, UINT8)
    with np.errstate(all="ignore"):
        assert mse_behind(statistics, UINT8, rows(lambda x: 1 / (x - x))) == mse(statistics, UINT8)


def test_it_does_not_depend_on_how_often_values_were_seen() -> None:
    once = TensorStatistics.from_values(values_of("normal"))
    function = rows(FUNCTIONS["SiLU"])
    assert mse_behind(once.merge(once), UINT8, function) == mse_behind(once, UINT8, function)
