"""Moving averages of the extremes of samples: the vector of the paper's formula, order, going on."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.calibration.moving import MovingExtremes, check_decay, ema_range
from calib8.calibration.statistics import Statistics
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.errors import UsageError
from calib8.qparams import INT8_SYMMETRIC, UINT8
from calib8.table import Range

SAMPLES = ((-1.0, 2.0), (-0.5, 3.0), (-2.0, 1.0))


def of(*samples: tuple[float, ...]) -> Statistics:
    found = TensorStatistics.empty()
    for values in samples:
        found = found.merge(TensorStatistics.from_values(np.float32(values)))
    return Statistics("", {"t": found})


def averages(samples: tuple[tuple[float, ...], ...], decay: float = 0.99) -> tuple[float, float]:
    moving = MovingExtremes(decay)
    for index in range(len(samples)):
        moving.update(of(*samples[: index + 1]))
    return moving.averages["t"]


def test_the_vector_of_the_definition() -> None:
    assert averages(SAMPLES) == pytest.approx((-1.00505, 1.9999), abs=1e-12)


def test_a_plain_loop_gives_the_same() -> None:
    samples = tuple(map(tuple, np.random.default_rng(0).standard_normal((20, 7)).astype(np.float32)))
    low, high = float(min(samples[0])), float(max(samples[0]))
    for values in samples[1:]:
        low = 0.9 * low + 0.1 * float(min(values))
        high = 0.9 * high + 0.1 * float(max(values))
    assert averages(samples, 0.9) == pytest.approx((low, high), rel=1e-12)


def test_the_order_of_the_samples_matters() -> None:
    assert averages(SAMPLES) != averages(SAMPLES[::-1])


def test_a_sample_without_a_finite_value_changes_nothing() -> None:
    empty = (float("nan"), float("inf"))
    assert averages((SAMPLES[0], empty, *SAMPLES[1:])) == averages(SAMPLES)
    moving = MovingExtremes()
    moving.update(of(empty))
    assert moving.averages == {}


def test_a_run_goes_on_with_the_averages_of_the_one_before() -> None:
    first = MovingExtremes(0.9)
    first.update(of(SAMPLES[0]))
    first.update(of(*SAMPLES[:2]))
    second = MovingExtremes(0.9, first.averages)
    second.update(of(SAMPLES[2]))
    assert second.averages["t"] == averages(SAMPLES, 0.9)


def test_ranges_hold_zero_and_are_symmetric_where_the_code_is() -> None:
    assert ema_range((-1.0, 2.0), UINT8) == Range(-1.0, 2.0)
    assert ema_range((0.5, 2.0), UINT8) == Range(0.0, 2.0)
    assert ema_range((-3.0, 2.0), INT8_SYMMETRIC) == Range(-3.0, 3.0)


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.5, 2.0, float("nan")])
def test_what_is_no_decay(decay: float) -> None:
    with pytest.raises(UsageError, match="must be above 0 and below 1"):
        check_decay(decay)
