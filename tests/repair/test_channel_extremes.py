"""Smallest and largest values and mean squares per channel are NumPy's, whatever the order of the runs."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.errors import DataError
from calib8.repair.candidate import RepairData
from calib8.repair.channel_extremes import channel_extremes
from small_models import graph, normal, run


@pytest.mark.parametrize("opset", [17, 18])
def test_extremes_are_those_of_the_values(opset: int) -> None:
    weight = normal(4, 3, 3, 3)
    weight[2] = 0
    model = graph("float[N,3,6,6] x", "float y", "a = Conv(x, w) y = Relu(a)", {"w": weight}, opset=opset)
    runs = tuple({"x": normal(1, 3, 6, 6, seed=seed)} for seed in range(5))
    found = channel_extremes(model, {"a": 4, "y": 4}, RepairData(runs, threads=1), power=True)
    values = np.concatenate([run(graph_of_a(weight), feeds)[0] for feeds in runs])
    np.testing.assert_allclose(found["a"].minimum, values.min(axis=(0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(found["a"].maximum, values.max(axis=(0, 2, 3)), rtol=1e-6)
    np.testing.assert_array_equal(found["y"].minimum, 0.0)
    assert (found["a"].dead, found["y"].dead) == (1, 1)
    squares = np.mean(values.astype(np.float64) ** 2, axis=(0, 2, 3))
    np.testing.assert_allclose(found["a"].power, squares, rtol=1e-6)  # type: ignore[arg-type]
    again = channel_extremes(model, {"a": 4}, RepairData(runs[::-1], threads=2), power=True)
    np.testing.assert_array_equal(again["a"].maximum, found["a"].maximum)
    np.testing.assert_array_equal(again["a"].power, found["a"].power)  # type: ignore[arg-type]
    assert channel_extremes(model, {"a": 4}, RepairData(runs))["a"].power is None


def graph_of_a(weight: np.ndarray) -> object:
    return graph("float[N,3,6,6] x", "float a", "a = Conv(x, w)", {"w": weight})


def test_no_tensors_no_run() -> None:
    model = graph("float[1,3,6,6] x", "float y", "y = Relu(x)")
    assert channel_extremes(model, {}, RepairData(())) == {}
    with pytest.raises(DataError, match="no sample"):
        channel_extremes(model, {"y": 4}, RepairData(()))
