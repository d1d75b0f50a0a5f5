"""What alone reads a tensor, as a function of values, and the ranges that come of it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import calib8
from calib8.analysis.basis import METHOD
from calib8.calibration.functions_behind import VERSIONS, functions_behind
from calib8.calibration.ranges.mse_behind import Floats
from small_models import Array, graph, normal, onnx_model, run

CONV = "Conv<pads=[1,1,1,1]>"
CONSTANTS: dict[str, Array] = {
    "w": normal(8, 3, 3, 3),
    "u": normal(8, 8, 3, 3, seed=1) * np.float32(0.1),
    "k": np.float32(1.4142135),
    "h": np.full((1, 1, 1), 0.5, np.float32),
    "one": np.ones((1, 1, 1, 1), np.float32),
    "slope": np.linspace(0, 0.7, 8, dtype=np.float32).reshape(8, 1, 1),
    "wide": normal(1, 8, 1, 1, seed=4),
}
X = np.linspace(-9, 9, 101)


def used(body: str) -> dict[str, Array]:
    parts = {name: (f"({name},", f", {name},", f", {name})") for name in CONSTANTS}
    return {name: CONSTANTS[name] for name, found in parts.items() if any(part in body for part in found)}


def behind(function: str) -> dict[str, Floats]:
    body = f"c = {CONV}(x, w) {function} y = {CONV}(n, u)"
    model = graph("float[N,3,8,8] x", "float[A,B,C,D] y", body, used(body))
    return {name: found(X) for name, found in functions_behind(model).items()}


@pytest.mark.parametrize(
    ("body", "formula"),
    [
        ("s = Sigmoid(c) n = Mul(c, s)", X / (1 + np.exp(-X))),
        ("d = Div(c, k) e = Erf(d) a = Add(e, one) p = Mul(c, a) n = Mul(p, h)", None),
        ("n = LeakyRelu<alpha=0.2>(c)", np.where(X > 0, X, 0.2 * X)),
        ("n = Clip(c, , k)", np.minimum(X, 1.4142135)),
        ("n = HardSwish(c)", X * np.clip(X / 6 + 0.5, 0, 1)),
        ("m = Mul(c, k) n = Tanh(m)", np.tanh(1.4142135 * X)),
    ],
)
def test_functions_of_a_layers_output(body: str, formula: Floats | None) -> None:
    found = behind(body)
    assert found.keys() == {"c"} and found["c"].shape == (1, X.size)
    if formula is None:
        lines = body.replace("(c", "(x").split(" n = ")
        proto = onnx_model("float[P] x", "float[A,B,C,P] n", f"{lines[0]} n = {lines[1]}", used(body))
        [row] = run(proto, {"x": X.astype(np.float32)})
        formula = row.reshape(-1).astype(np.float64)
    assert np.allclose(found["c"][0], formula, rtol=1e-5, atol=1e-6)


def test_every_slope_of_a_prelu_is_a_version() -> None:
    found = behind("n = PRelu(c, slope)")["c"]
    wanted = [np.where(X >= 0, X, slope * X) for slope in CONSTANTS["slope"].reshape(-1)]
    assert np.allclose(found, wanted, atol=1e-5)


def test_of_many_slopes_a_sample_is_looked_at() -> None:
    body = "n = PRelu(x, slope) y = Conv(n, w)"
    slopes = np.arange(40, dtype=np.float32)[::-1].reshape(40, 1, 1)
    model = graph("float[N,40,8,8] x", "float[A,B,C,D] y", body, {"slope": slopes, "w": normal(4, 40, 1, 1)})
    found = functions_behind(model)["x"](np.array([-1.0]))
    assert found.shape == (VERSIONS, 1) and found[0] == 0 and found[-1] == -39


def test_factors_behind_a_function_are_left_out() -> None:
    assert np.allclose(behind("t = Tanh(c) n = Mul(t, wide)")["c"], [np.tanh(X)], atol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        "n = Relu(c)",
        "n = Mul(c, k)",
        "m = Add(c, wide) n = Tanh(m)",
        "m = Mul(c, wide) n = Tanh(m)",
        "m = Mul(c, k) n = Mul(m, wide)",
        f"s = Sigmoid(c) g = {CONV}(c, u) n = Mul(s, g)",
        "n = MaxPool<kernel_shape=[1,1]>(c)",
    ],
    ids=[
        "what the layer computes itself",
        "a line",
        "an addend per channel",
        "a factor per channel",
        "factors",
        "two readers",
        "no function",
    ],
)
def test_other_readers_are_none(body: str) -> None:
    assert "c" not in behind(body)


def silu_net() -> onnx.ModelProto:
    """Layers whose SiLU forgets most of what they yield."""
    body = f"c = {CONV}(x, w, b) s = Sigmoid(c) n = Mul(c, s) y = {CONV}(n, u)"
    bias = np.linspace(-40, 2, 8, dtype=np.float32)
    return onnx_model(
        "float[N,3,8,8] x", "float[N,8,8,8] y", body, {**used(body), "w": CONSTANTS["w"], "b": bias}
    )


SAMPLES = normal(24, 3, 8, 8, seed=9)


def sqnr_db(made: calib8.Quantization) -> float:
    [expected] = run(silu_net(), {"x": SAMPLES})
    [found] = run(made.model, {"x": SAMPLES})
    return float(10 * np.log10(np.sum(expected**2) / np.sum((expected - found) ** 2)))


def test_the_method_serves_tensors_with_a_function_and_is_mse_elsewhere() -> None:
    made = {
        method: calib8.quantize(silu_net(), SAMPLES, method=method, repair=("none",), threads=1)
        for method in ("mse", "mse-behind", "minmax")
    }
    tables = {method: found.calibration.table.entries for method, found in made.items() if found.calibration}
    assert {name: entry.method for name, entry in tables["mse-behind"].items()} == {
        name: "mse-behind" if name == "c" else "mse" for name in tables["mse"]
    }
    for name, entry in tables["mse"].items():
        assert (tables["mse-behind"][name] == entry) is (name != "c")
    assert sqnr_db(made["mse-behind"]) > max(sqnr_db(made["mse"]), sqnr_db(made["minmax"])) + 2.0


def test_it_is_what_fast_and_statistics_take_and_a_candidate_of_auto() -> None:
    fast = calib8.quantize(silu_net(), SAMPLES, effort="fast", threads=1)
    assert fast.calibration is not None and fast.calibration.table.entries["c"].method == "mse-behind"
    statistics = calib8.calibrate(silu_net(), statistics=fast_statistics(), threads=1)
    assert statistics.table.entries["c"] == fast.calibration.table.entries["c"]
    auto = calib8.calibrate(silu_net(), SAMPLES, threads=1)
    assert auto.auto is not None and "mse-behind" in {check.name for check in auto.auto.checks}
    assert auto.table.entries["c"].range.min > -12.0 > auto.table.entries["c"].observed.min


def fast_statistics() -> calib8.Statistics:
    return calib8.calibrate(silu_net(), SAMPLES, method="minmax", threads=1).statistics


def test_a_model_remembers_the_method() -> None:
    made = calib8.quantize(silu_net(), SAMPLES, method="mse-behind", repair=("none",), threads=1)
    assert made.model.metadata_props["calib8.method"] == "mse-behind" != METHOD
    again = calib8.quantize(silu_net(), SAMPLES, method="mse-behind", repair=("none",), threads=2)
    assert again.qparams == made.qparams


def test_power_of_two_and_given_ranges_come_behind_it() -> None:
    made = calib8.quantize(
        silu_net(), SAMPLES, method="mse-behind", power_of_two=True, ranges={"n": (-1.0, 7.0)}, threads=1
    )
    assert np.log2(made.qparams["c"].scale) % 1 == 0
    assert made.calibration is not None and made.calibration.table.entries["n"].method == "given"
