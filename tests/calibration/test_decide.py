"""The table behind the search: given ranges, powers of two, moving averages."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calib8.calibration.choose import choose_table
from calib8.calibration.decide import Wish, check_wish, decide, with_given
from calib8.calibration.moving import Averages
from calib8.calibration.statistics import Statistics
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.errors import CalibrationError, UsageError
from calib8.qparams import INT8_SYMMETRIC, UINT8, QuantSpec, activation_qparams
from calib8.table import GIVEN, CalibrationTable, Range

VALUES = np.random.default_rng(0).standard_normal(20_000).astype(np.float32)
SEEN = {
    "normal": VALUES,
    "relu": np.maximum(VALUES, 0) * 3,
    "zeros": np.zeros(9, np.float32),
    "constant": np.full(9, -0.7, np.float32),
}


def statistics(**more: np.ndarray) -> Statistics:
    arrays = {**SEEN, **more}
    return Statistics("m", {name: TensorStatistics.from_values(a) for name, a in sorted(arrays.items())})


def table(
    method: str = "mse",
    spec: QuantSpec = UINT8,
    *,
    given: dict[str, Range] | None = None,
    averages: Averages | None = None,
    power_of_two: bool = False,
    seen: Statistics | None = None,
) -> CalibrationTable:
    wish = Wish(method, power_of_two=power_of_two)
    return decide(seen or statistics(), averages, spec, wish, given or {})


def test_without_wishes_it_is_the_table_of_the_method() -> None:
    assert table() == choose_table(statistics(), UINT8, "mse")


def test_given_ranges_win_and_say_what_they_clip() -> None:
    found = table(given={"normal": Range(-1.0, 1.0), "zeros": Range(0.0, 8.0)})
    entry = found.entries["normal"]
    assert (entry.range, entry.method) == (Range(-1.0, 1.0), GIVEN)
    assert entry.clipped == pytest.approx(np.mean(np.abs(VALUES) > 1), abs=1e-3)
    assert entry.count == VALUES.size
    assert entry.observed == Range(float(VALUES.min()), float(VALUES.max()))
    assert found.entries["zeros"].range == Range(0.0, 8.0)
    assert list(found.entries) == sorted(SEEN)
    assert found.entries["relu"] == table().entries["relu"]


def test_a_given_range_saves_a_tensor_that_holds_infinities() -> None:
    seen = statistics(mask=np.float32([0, -np.inf, 1]))
    with pytest.raises(CalibrationError, match="tensor 'mask'"):
        table(seen=seen)
    assert table(seen=seen, given={"mask": Range(-4.0, 1.0)}).entries["mask"].range == Range(-4.0, 1.0)


def test_a_table_without_statistics_takes_given_ranges_too() -> None:
    read = CalibrationTable.from_json(table().to_json())
    changed = with_given(read, {"normal": Range(-9.0, 9.0)}, {})
    assert changed.entries["normal"].clipped == 0.0
    assert changed.entries["normal"].method == GIVEN
    narrow = with_given(read, {"normal": Range(-1.0, 1.0)}, {})
    assert narrow.entries["normal"].clipped == read.entries["normal"].clipped
    assert CalibrationTable.from_json(narrow.to_json()) == narrow


@pytest.mark.parametrize("spec", [UINT8, INT8_SYMMETRIC])
@pytest.mark.parametrize("method", ["minmax", "entropy"])
def test_every_scale_is_a_power_of_two(spec: QuantSpec, method: str) -> None:
    found = table(method, spec, power_of_two=True, given={"normal": Range(-3.0, 3.0)})
    assert found.power_of_two and not table().power_of_two
    for name, entry in found.entries.items():
        scale = activation_qparams(entry.range.min, entry.range.max, spec).scale
        assert (math.frexp(scale)[0] == 0.5) == (name != "normal")
        assert entry.method == (GIVEN if name == "normal" else f"{method} power-of-two")
    assert found.entries["relu"].range.min == 0.0 and found.entries["constant"].range.max == 0.0


@pytest.mark.parametrize("spec", [UINT8, INT8_SYMMETRIC])
def test_moving_averages_become_ranges(spec: QuantSpec) -> None:
    averages = {"normal": (-2.0, 2.5), "relu": (0.5, 6.0), "constant": (-0.7, -0.7)}
    found = table("ema", spec, averages=averages).entries
    symmetric = spec.symmetric
    assert found["normal"].range == (Range(-2.5, 2.5) if symmetric else Range(-2.0, 2.5))
    assert found["relu"].range == Range(0.0, 6.0)
    assert found["zeros"].range == Range(0.0, 0.0)
    assert found["constant"].range.min == pytest.approx(-0.7) and found["constant"].range.max == 0.0
    assert {entry.method for entry in found.values()} == {"ema"}
    assert found["normal"].clipped > 0 and found["constant"].clipped == 0


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish("guess"), "method='guess': unknown method.* mse,.* ema"),
        (Wish("mse", percent=99.0), "method 'mse' takes no percent"),
        (Wish("ema", percent=99.0), "method 'ema' takes no percent"),
        (Wish("mse", decay=0.9), "method 'mse' takes no decay"),
        (Wish("ema", decay=1.5), "decay=1.5"),
        (Wish("percentile", percent=10.0), "must be in 50 … 100"),
    ],
)
def test_wishes_that_cannot_be(wish: Wish, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_wish(wish)


def test_statistics_know_nothing_of_the_order() -> None:
    check_wish(Wish("ema"))
    with pytest.raises(UsageError, match="method='ema': depends on the order"):
        check_wish(Wish("ema"), from_statistics=True)
