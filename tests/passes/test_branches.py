"""Branches that constants, fixed inputs or sizes decide: the chosen one takes the place of its node."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.errors import DataError, UnsupportedModelError
from calib8.model.fix_inputs import with_fixed
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.passes.prepare import prepare
from small_models import onnx_model, ops, run

ROWS = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)


def chosen_by(condition: str, inputs: str = "float[N,K] x, int64 rate") -> onnx.ModelProto:
    """x → Relu where ``c``, the result of ``condition``, is true, else Neg."""
    body = f"""
        {condition}
        y = If(c) <then_branch = yes () => (float[N,K] a) {{ a = Relu(x) }},
                   else_branch = no () => (float[N,K] b) {{ b = Neg(x) }}>
    """
    return onnx_model(inputs, "float[N,K] y", body, {"k": np.array(16000), "four": np.array(4)})


@pytest.mark.parametrize(("rate", "op"), [(16000, "Relu"), (8000, "Neg")])
def test_a_fixed_input_chooses_the_branch_and_is_gone(rate: int, op: str) -> None:
    proto = chosen_by("c = Equal(rate, k)")
    model = load_model(with_fixed(proto, {"rate": rate}))
    prepared = prepare(model, {"x": ROWS})
    assert [spec.name for spec in graph_inputs(prepared.model)] == ["x"]
    assert ops(prepared.model) == {op: 1}
    expected = run(proto, {"x": ROWS, "rate": np.array(rate)})
    assert np.array_equal(run(prepared.model, {"x": ROWS})[0], expected[0])


def test_sizes_decide_where_constants_do_not() -> None:
    proto = chosen_by("s = Shape<start=1, end=2>(x) q = Squeeze(s) c = Equal(q, four)", "float[N,K] x")
    for columns, op in ((4, "Relu"), (8, "Neg")):
        rows = ROWS.reshape(-1, columns)
        prepared = prepare(load_model(proto), {"x": rows})
        assert ops(prepared.model) == {op: 1}
        [spec] = graph_inputs(prepared.model)
        assert spec.shape == ("N", columns)  # the batch decides nothing and stays free


def test_the_batch_is_fixed_only_where_it_decides() -> None:
    proto = chosen_by("s = Shape<start=0, end=1>(x) q = Squeeze(s) c = Equal(q, four)", "float[N,K] x")
    prepared = prepare(load_model(proto), {"x": ROWS.reshape(4, 2)})
    assert ops(prepared.model) == {"Relu": 1}
    assert graph_inputs(prepared.model)[0].shape == (4, 2)


def test_a_branch_inside_a_branch_is_resolved_too() -> None:
    body = """
        c = Equal(rate, k)
        y = If(c) <then_branch = yes () => (float[N,4] a) {
                       d = Equal(rate, k)
                       a = If(d) <then_branch = yes2 () => (float[N,4] e) { e = Abs(x) },
                                  else_branch = no2 () => (float[N,4] f) { f = Exp(x) }> },
                   else_branch = no () => (float[N,4] b) { b = Neg(x) }>
    """
    proto = onnx_model("float[N,4] x, int64 rate", "float[N,4] y", body, {"k": np.array(16000)})
    prepared = prepare(load_model(with_fixed(proto, {"rate": 16000})), {"x": ROWS})
    assert ops(prepared.model) == {"Abs": 1}


def test_what_is_left_names_the_inputs_that_decide_it() -> None:
    inputs = "float[N,K] x, int64 rate, int64 factor, int64 z"
    proto = chosen_by("m = Mul(rate, factor) c = Equal(m, k)", inputs)
    sample = {"x": ROWS, "rate": np.array(2), "factor": np.array(3), "z": np.array(1)}
    with pytest.raises(UnsupportedModelError) as caught:
        prepare(load_model(proto), sample)
    assert "decided by the inputs 'rate', 'factor'." in str(caught.value)
    assert "fix={'rate': 'VALUE', 'factor': 'VALUE'}" in str(caught.value)
    with pytest.raises(UnsupportedModelError, match="decided by the input 'factor'"):
        prepare(load_model(with_fixed(proto, {"rate": 1})), {**sample})


def test_the_only_input_cannot_be_fixed() -> None:
    proto = chosen_by(
        "s = ReduceSum<keepdims=0>(x) zero = Constant<value_float=0.0>() c = Greater(s, zero)", "float[N,K] x"
    )
    with pytest.raises(UnsupportedModelError) as caught:
        prepare(load_model(proto), {"x": ROWS})
    assert "decided by the input 'x', its only one. Export it with the condition" in str(caught.value)
    assert "fix=" not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        [{"x": ROWS}],
        {"x": ROWS[None]},
        [ROWS],
        [{"x": ROWS, "rate": np.array([1, 2])}],
    ],
)
def test_data_that_lack_what_decides_say_that_it_can_be_fixed(data: Any) -> None:
    with pytest.raises(DataError) as caught:
        calib8.quantize(chosen_by("c = Equal(rate, k)"), data, effort="fast")
    assert "or fix the input that chooses a branch of the model: fix={'rate': 'VALUE'}" in str(caught.value)
    with pytest.raises(DataError) as plain:  # no branch, no advice
        calib8.quantize(onnx_model("float[N,K] x, int64 rate", "float[N,K] y", "y = Relu(x)"), data)
    assert "fix" not in str(plain.value)


def test_data_that_decide_are_named_too() -> None:
    proto = chosen_by("m = ReduceMax<keepdims=0>(x) z = Sub(m, m) c = Greater(m, z)", "float[N,K] x")
    with pytest.raises(UnsupportedModelError, match="decided by the input 'x'"):
        prepare(load_model(proto), {"x": ROWS})
