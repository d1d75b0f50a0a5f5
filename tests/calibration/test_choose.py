"""The table: one method for all tensors, and refusals that name tensor and cure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calib8.calibration.choose import choose_table, range_method
from calib8.calibration.ranges import METHODS, WITHOUT_BINS
from calib8.calibration.statistics import Statistics
from calib8.calibration.tensor_statistics import BINS, TensorStatistics
from calib8.errors import CalibrationError, UsageError
from calib8.qparams import INT8_SYMMETRIC, UINT8
from calib8.table import Range


def statistics(**tensors: list[float]) -> Statistics:
    counted = {name: TensorStatistics.from_values(np.array(v, np.float32)) for name, v in tensors.items()}
    return Statistics("hash", counted)


def test_every_tensor_gets_an_entry_that_explains_itself() -> None:
    table = choose_table(statistics(b=[-1.0, 0.0, 0.0, 3.0], a=[0.0, 0.5]), UINT8, "minmax")
    assert list(table.entries) == ["a", "b"]
    entry = table.entries["b"]
    assert entry.range == entry.observed == Range(-1.0, 3.0)
    assert (entry.method, entry.count, entry.zeros, entry.clipped) == ("minmax", 4, 2, 0.0)
    assert table.model_hash == "hash"


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_never_seen_or_zero_gets_an_empty_range(method: str) -> None:
    table = choose_table(statistics(a=[0.0, 0.0], b=[]), INT8_SYMMETRIC, method)
    assert table.entries["a"].range == table.entries["b"].range == Range(0.0, 0.0)


def test_the_clipped_share_is_told() -> None:
    values = [*np.linspace(0, 1, 9999).tolist(), 100.0]
    table = choose_table(statistics(a=values), UINT8, "percentile", 99.9)
    assert table.entries["a"].method == "percentile 99.9"
    assert 0.0 < table.entries["a"].clipped <= 0.001


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_inf_are_refused_by_name(bad: float) -> None:
    with pytest.raises(CalibrationError, match=r"tensor 'b'.* of 3 values; so did 1 more: c\..*keep_float"):
        choose_table(statistics(a=[1.0], b=[1.0, bad, 2.0], c=[bad]), UINT8, "minmax")


def test_methods_and_percent_are_checked() -> None:
    with pytest.raises(UsageError, match=r"kl.*minmax, mean-minmax, percentile, mse, entropy"):
        range_method("kl", None)
    with pytest.raises(UsageError, match=r"'mse' takes no percent"):
        range_method("mse", 99.0)
    with pytest.raises(UsageError, match=r"percent=40"):
        range_method("percentile", 40.0)
    assert range_method("percentile", 99.99)[0] == "percentile 99.99"


@pytest.mark.parametrize("method", METHODS)
def test_threads_do_not_matter(method: str) -> None:
    rng = np.random.default_rng(6)
    tensors = {f"t{index}": rng.laplace(size=900).tolist() for index in range(12)}
    tables = {
        choose_table(statistics(**tensors), UINT8, method, threads=threads).to_json() for threads in (1, 2, 7)
    }
    assert len(tables) == 1


@pytest.mark.parametrize("method", sorted(set(METHODS) - WITHOUT_BINS))
def test_an_error_in_one_tensor_is_told(method: str) -> None:
    without = replace(
        TensorStatistics.from_values(np.array([1.0, 2.0], np.float32)),
        positive=np.zeros(BINS, np.int64),
        binned=False,
    )
    tensors = {**statistics(a=[1.0, 2.0]).tensors, "b": without}
    with pytest.raises(CalibrationError, match="no histogram"):
        choose_table(Statistics("hash", tensors), UINT8, method)
    assert choose_table(Statistics("hash", tensors), UINT8, "minmax").entries["b"].range == Range(0.0, 2.0)


@pytest.mark.parametrize("method", METHODS)
def test_a_symmetric_search_leaves_a_range_that_serves_every_type(method: str) -> None:
    rng = np.random.default_rng(5)
    values = np.abs(rng.standard_normal(5000)).tolist()
    symmetric = choose_table(statistics(a=values), INT8_SYMMETRIC, method).entries["a"].range
    assert symmetric.min == 0.0
    exact = METHODS[method](TensorStatistics.from_values(np.array(values, np.float32)), INT8_SYMMETRIC)
    assert symmetric.magnitude == exact.max == -exact.min
