"""Moments told by batch normalizations: published vectors, drawn samples, and which ops pass them on."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import pytest

from calib8.passes.batch_norm_moments import Moments, batch_norm_moments, clipped_normal
from calib8.passes.prepare import prepare
from small_models import Array, normal, onnx_model

MEAN, DEVIATION = np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.5, 3.0])
NORM = "n = BatchNormalization<epsilon=0.0>(c, g, b, m, v)"
CONSTANTS = {
    "w": normal(3, 4, 1, 1),
    "g": np.array([1.0, -0.5, 3.0], np.float32),
    "b": MEAN.astype(np.float32),
    "m": normal(3, seed=1),
    "v": np.array([0.3, 2.0, 5.0], np.float32),
}
DRAWN = np.random.default_rng(1).standard_normal((400_000, 1)) * DEVIATION + MEAN


def moments_of(body: str, outputs: str = "float[N,3,6,6] y", **constants: Array) -> dict[str, Moments]:
    text = f"c = Conv(x, w) {NORM} {body}"
    return batch_norm_moments(
        ir.from_proto(onnx_model("float[N,4,6,6] x", outputs, text, CONSTANTS | constants))
    )


@pytest.mark.parametrize(
    ("mean", "deviation", "low", "high", "expected"),
    [
        (0.5, 1.0, 0.0, math.inf, 0.697797),
        (5.0, 2.0, 0.0, 6.0, 4.608415),
        (-1.0, 0.5, 0.0, 6.0, 0.004245),
        (0.5, 1.0, -math.inf, math.inf, 0.5),
        (7.0, 0.0, 0.0, 6.0, 6.0),
        (3.0, 0.0, 0.0, 6.0, 3.0),
    ],
)
def test_the_mean_of_a_clipped_normal(
    mean: float, deviation: float, low: float, high: float, expected: float
) -> None:
    found = clipped_normal(np.array([mean]), np.array([deviation]), low, high)
    assert found.mean[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("limits", [(0.0, math.inf), (0.0, 6.0), (-1.0, 1.0), (-math.inf, 0.3)])
def test_both_moments_are_those_of_drawn_samples(limits: tuple[float, float]) -> None:
    found = clipped_normal(MEAN, DEVIATION, *limits)
    drawn = np.clip(DRAWN, *limits)
    np.testing.assert_allclose(found.mean, drawn.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(found.deviation, drawn.std(axis=0), atol=0.01)  # type: ignore[arg-type]


def test_a_batch_norm_states_its_output_whatever_is_before_it() -> None:
    found = moments_of("y = Relu(n)")
    assert "c" not in found and "x" not in found
    np.testing.assert_allclose(found["n"].mean, MEAN)
    np.testing.assert_allclose(found["n"].deviation, DEVIATION, rtol=1e-6)  # type: ignore[arg-type]
    expected = clipped_normal(MEAN, DEVIATION, 0.0, math.inf)
    np.testing.assert_allclose(found["y"].mean, expected.mean, rtol=1e-6)


def test_epsilon_makes_the_spread_smaller() -> None:
    body = "c = Conv(x, w) y = BatchNormalization<epsilon=1.0>(c, g, b, m, v)"
    model = ir.from_proto(onnx_model("float[N,4,6,6] x", "float[N,3,6,6] y", body, CONSTANTS))
    variance = CONSTANTS["v"].astype(np.float64)
    expected = DEVIATION * np.sqrt(variance / (variance + 1.0))
    np.testing.assert_allclose(batch_norm_moments(model)["y"].deviation, expected, rtol=1e-6)  # type: ignore[arg-type]


SPELLED_OUT = "k = Add(n, three) q = Clip(k, low, high) p = Mul(n, q) y = Div(p, high)"
FUNCTIONS = {
    "y = HardSwish(n)": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "y = HardSigmoid<alpha=0.25>(n)": lambda x: np.clip(0.25 * x + 0.5, 0, 1),
    "y = Sigmoid(n)": lambda x: 1 / (1 + np.exp(-x)),
    "y = Tanh(n)": np.tanh,
    "y = LeakyRelu<alpha=0.2>(n)": lambda x: np.where(x < 0, 0.2 * x, x),
    "y = Clip(n, low, high)": lambda x: np.clip(x, 0.0, 6.0),
    SPELLED_OUT: lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "y = Mul(n, f)": lambda x: x * np.array([2.0, -1.0, 0.5]),
    "y = Div(n, f)": lambda x: x / np.array([2.0, -1.0, 0.5]),
    "y = Add(f, n)": lambda x: x + np.array([2.0, -1.0, 0.5]),
    "y = Sub(f, n)": lambda x: np.array([2.0, -1.0, 0.5]) - x,
}  # fmt: skip


@pytest.mark.parametrize("body", FUNCTIONS)
def test_functions_of_one_tensor(body: str) -> None:
    constants = {
        "low": np.array(0, np.float32), "high": np.array(6, np.float32), "three": np.array(3, np.float32),
        "f": np.array([2.0, -1.0, 0.5], np.float32).reshape(3, 1, 1),
    }  # fmt: skip
    found = moments_of(body, **constants)["y"]
    drawn = FUNCTIONS[body](DRAWN)
    np.testing.assert_allclose(found.mean, drawn.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(found.deviation, drawn.std(axis=0), atol=0.02)  # type: ignore[arg-type]


def test_sums_add_means_and_variances() -> None:
    found = moments_of("r = Relu(n) y = Add(n, r)")
    np.testing.assert_allclose(found["y"].mean, found["n"].mean + found["r"].mean)
    squares = [found[name].deviation ** 2 for name in ("n", "r")]  # type: ignore[operator]
    np.testing.assert_allclose(found["y"].deviation ** 2, sum(squares))  # type: ignore[operator]


def test_averages_keep_the_mean_alone() -> None:
    for body in ("y = GlobalAveragePool(n)", "y = AveragePool<kernel_shape=[2,2]>(n)"):
        found = moments_of(body, "float[N,3,A,B] y")["y"]
        assert found.deviation is None and np.array_equal(found.mean, MEAN)
    found = moments_of("p = ReduceMean<axes=[2,3], keepdims=0>(n) y = Identity(p)", "float[N,3] y")["y"]
    assert np.array_equal(found.mean, MEAN)
    behind = moments_of(
        "p = GlobalAveragePool(n) q = Flatten(p) y = Relu(p)", "float[N,3,1,1] y, float[N,3] q"
    )
    assert np.array_equal(behind["q"].mean, MEAN) and "y" not in behind


def test_concat_joins_channels() -> None:
    found = moments_of("r = Relu(n) y = Concat<axis=1>(r, n)", "float[N,6,6,6] y")["y"]
    assert np.array_equal(found.mean[3:], MEAN) and np.all(found.mean[:3] > MEAN)
    assert "y" not in moments_of("y = Concat<axis=2>(n, n)", "float[N,3,12,6] y")


@pytest.mark.parametrize(
    "body",
    ["y = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(n)", "y = Mul(n, n)", "y = Conv(n, w2)",
     "y = Mul(n, f)", "y = Transpose<perm=[0,1,3,2]>(n)", "y = Add(n, c)"],
)  # fmt: skip
def test_nothing_is_told_of_what_is_not_known(body: str) -> None:
    constants = {"w2": normal(3, 3, 1, 1), "f": normal(1, 1, 1, 6)}
    assert "y" not in moments_of(body, **constants)


def test_the_names_are_those_of_the_prepared_model() -> None:
    body = f"c = Conv(x, w) {NORM} r = Relu(n) y = Conv(r, w2)"
    proto = onnx_model("float[N,4,6,6] x", "float[N,3,6,6] y", body, CONSTANTS | {"w2": normal(3, 3, 1, 1)})
    prepared = prepare(ir.from_proto(proto), {"x": normal(1, 4, 6, 6)}).model
    assert all(node.op_type != "BatchNormalization" for node in prepared.graph)
    names = {value.name for node in prepared.graph for value in node.outputs}
    assert set(batch_norm_moments(ir.from_proto(proto))) == {"n", "r"} <= names


def test_scaled_channels() -> None:
    found = Moments(MEAN, DEVIATION).scaled(np.array([-2.0, 1.0, 0.5]))
    assert np.array_equal(found.mean, [-1.0, -1.0, 1.0])
    assert np.array_equal(found.deviation, [2.0, 0.5, 1.5])  # type: ignore[arg-type]
    assert Moments(MEAN).scaled(np.ones(1)).deviation is None
