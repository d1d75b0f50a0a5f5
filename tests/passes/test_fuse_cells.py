"""Steps of an LSTM that are written out: every order of gates, and what must be left alone."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from calib8.model.load import load_model
from calib8.model.states import found_states
from calib8.passes.prepare import prepare
from small_models import Array, normal, onnx_model, ops, relative_difference, run

INPUTS, UNITS = 5, 3
FEEDS: dict[str, Array] = {
    "x": normal(2, INPUTS, seed=1),
    "h": normal(2, UNITS, seed=2),
    "c": normal(2, UNITS, seed=3),
}
CONSTANTS = {
    "w": normal(INPUTS, 4 * UNITS, seed=4),
    "r": normal(UNITS, 4 * UNITS, seed=5),
    "b": normal(4 * UNITS, seed=6),
    "v": normal(UNITS, 2, seed=7),
}
SUMS = "p = MatMul(x, w) q = MatMul(h, r) s = Add(p, q) t = Add(s, b)"
GEMMS = "p = Gemm<transB=1>(x, wt, b) q = Gemm<transB=1>(h, rt, b) t = Add(q, p)"


def cell(
    order: str = "ifgo", sums: str = SUMS, more: str = "", change: tuple[str, str] = ("", "")
) -> onnx.ModelProto:
    """One step; ``order`` of the gates in the Split; one piece of it changed."""
    parts = ", ".join(f"g_{gate}" for gate in order)
    body = f"""
        {sums} {parts} = Split<axis=1>(t)
        i = Sigmoid(g_i) f = Sigmoid(g_f) g = Tanh(g_g) o = Sigmoid(g_o)
        k = Mul(f, c) n = Mul(i, g) cn = Add(k, n) u = Tanh(cn) hn = Mul(o, u) y = MatMul(hn, v) {more}
    """
    assert change[0] in body
    body = body.replace(*change) if change[0] else body
    inputs = f"float[N,{INPUTS}] x, float[N,{UNITS}] h, float[N,{UNITS}] c"
    outputs = f"float[N,2] y, float[N,{UNITS}] hn, float[N,{UNITS}] cn" + (", float[N,3] z" if more else "")
    constants = {**CONSTANTS, "wt": CONSTANTS["w"].T.copy(), "rt": CONSTANTS["r"].T.copy()}
    used = {name: array for name, array in constants.items() if f"{name})" in body or f"{name}," in body}
    return onnx_model(inputs, outputs, body, used)


@pytest.mark.parametrize("order", ["ifgo", "ifog", "gfio", "oifg"])
@pytest.mark.parametrize("sums", [SUMS, GEMMS])
def test_every_order_of_gates_becomes_one_lstm(order: str, sums: str) -> None:
    proto = cell(order, sums)
    prepared = prepare(load_model(proto), FEEDS)
    found = ops(prepared.model)
    assert found["LSTM"] == 1 and not {"Split", "Sigmoid", "Tanh", "Mul"} & set(found)
    assert relative_difference(run(proto, FEEDS), run(prepared.model, FEEDS)) < 1e-5
    assert [value.name for value in prepared.model.graph.outputs] == ["y", "hn", "cn"]
    assert found_states(prepared.model) == {"h": "hn", "c": "cn"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("f = Sigmoid(g_f)", "f = HardSigmoid(g_f)"), "another function"),
        (("u = Tanh(cn)", "u = Relu(cn)"), "another function of c"),
        (("t = Add(s, b)", "t = Sub(s, b)"), "no sum"),
        (("n = Mul(i, g)", "n = Mul(i, i)"), "another product"),
        (("k = Mul(f, c)", "k = Mul(o, c)"), "a gate twice"),
    ],
)
def test_what_is_no_such_step_is_left_alone(change: tuple[str, str], why: str) -> None:
    prepared = prepare(load_model(cell(change=change)), FEEDS)
    assert "LSTM" not in ops(prepared.model), why


def test_a_bias_per_sample_and_states_that_are_repeated_are_left_alone() -> None:
    for array, feeds in (
        (normal(4 * UNITS, 1, seed=6), {name: np.repeat(one, 2 * UNITS, 0) for name, one in FEEDS.items()}),
        (CONSTANTS["b"], {**FEEDS, "x": normal(1, INPUTS, seed=8)}),
    ):
        proto = cell()
        rows = {name: len(one) for name, one in feeds.items()}
        for value in proto.graph.input:
            value.type.tensor_type.shape.dim[0].dim_value = rows[value.name]
        for value in proto.graph.output:
            value.type.tensor_type.shape.dim[0].ClearField("dim_param")
        (bias,) = [one for one in proto.graph.initializer if one.name == "b"]
        bias.CopyFrom(onnx.numpy_helper.from_array(array, "b"))
        assert "LSTM" not in ops(prepare(load_model(proto), feeds).model)


def test_a_gate_that_something_else_reads_is_left_alone() -> None:
    prepared = prepare(load_model(cell(more="z = Neg(i)")), FEEDS)
    assert "LSTM" not in ops(prepared.model)
