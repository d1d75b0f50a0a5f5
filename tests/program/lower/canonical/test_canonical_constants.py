"""Weights become codes right in front of their layer, whatever way they came."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from canonical_checks import Net, canonical, node_of, op_types

from calib8.coded_array import CodedArray
from calib8.model.graph import constant
from calib8.program.lower.canonical.codings import constant_codes
from small_models import normal


def weight_of(model: ir.Model, op_type: str, place: int = 1) -> CodedArray:
    codes = constant_codes(node_of(model, op_type).inputs[place])
    assert codes is not None
    return codes


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("axis", [None, 0, -4])
def test_float_weights_behind_quantizers(axis: int | None, dtype: type) -> None:
    net = Net()
    count = () if axis is None else 6
    scale = net.constant(net.rng.uniform(0.01, 0.02, count))
    point = net.constant(np.full(count or (), 3), dtype)
    attribute = "" if axis is None else f"<axis = {axis}>"
    values = np.concatenate([normal(3, 2, 3, 3), np.full((3, 2, 3, 3), 0.015)]).astype(np.float32)
    codes = net.op(f"QuantizeLinear {attribute} ({net.constant(values)}, {scale}, {point})")
    weight = net.op(f"DequantizeLinear {attribute} ({codes}, {scale}, {point})")
    model = canonical(
        net.model("float[1, 2, 5, 5] x", net.coded(net.op(f"Conv ({net.coded('x')}, {weight})"), 0.1))
    )
    assert weight_of(model, "Conv").values.dtype == dtype and weight_of(model, "Conv").axis == (
        None if axis is None else 0
    )


def test_weights_whose_codes_are_clipped() -> None:
    net = Net()
    parameters = f"{net.constant(0.01)}, {net.constant(0, np.int8)}"
    codes = net.op(f"QuantizeLinear ({net.constant(normal(4, 2, 1, 1) * 3)}, {parameters})")
    narrow = net.op(f"Clip ({codes}, {net.constant(-7, np.int8)}, {net.constant(7, np.int8)})")
    value = net.op(f"Conv ({net.coded('x')}, {net.op(f'DequantizeLinear ({narrow}, {parameters})')})")
    model = canonical(net.model("float[1, 2, 5, 5] x", net.coded(value)))
    assert np.abs(weight_of(model, "Conv").values).max() == 7 and op_types(model) == ["Conv"]


@pytest.mark.parametrize("axis", [None, 0])
def test_a_transposed_weight(axis: int | None) -> None:
    net = Net()
    turned = net.op(f"Transpose <perm = [1, 0]> ({net.weight(5, 7, axis=axis)})")
    model = canonical(net.model("float[3, 7] x", net.op(f"MatMul ({net.coded('x')}, {turned})")))
    assert op_types(model) == ["MatMul"] and weight_of(model, "MatMul").values.shape == (7, 5)
    assert weight_of(model, "MatMul").axis == (None if axis is None else 1)


@pytest.mark.parametrize("axis", [None, 0])
def test_a_reshaped_weight(axis: int | None) -> None:
    net = Net()
    wide = net.op(f"Unsqueeze ({net.weight(5, 6, 3, axis=axis)}, {net.constant([2], np.int64)})")
    deep = net.op(f"Reshape ({wide}, {net.constant([5, 6, 1, 3], np.int64)})")
    model = canonical(net.model("float[1, 6, 4, 4] x", net.coded(net.op(f"Conv ({net.coded('x')}, {deep})"))))
    assert op_types(model) == ["Conv"] and weight_of(model, "Conv").axis == axis


def test_a_weight_whose_channels_are_split_is_float() -> None:
    net = Net()
    split = net.op(f"Reshape ({net.weight(6, 4, axis=0)}, {net.constant([3, 8], np.int64)})")
    model = canonical(net.model("float[2, 3] x", net.op(f"MatMul ({net.coded('x')}, {split})")))
    assert op_types(model) == ["MatMul"] and constant(node_of(model, "MatMul").inputs[1]) is not None


def test_codes_that_are_coded_once_more() -> None:
    net = Net()
    twice = net.coded(net.weight(5, 3, 1, 1), 0.02, 3, np.int8)
    model = canonical(
        net.model("float[1, 3, 4, 4] x", net.coded(net.op(f"Conv ({net.coded('x')}, {twice})")))
    )
    assert weight_of(model, "Conv").zero_point == 3


def test_shared_codes_stay_shared() -> None:
    net = Net()
    x, weight = net.coded("x"), net.weight(3, 3, 3, 3, axis=0)
    first = net.coded(net.op(f"Conv <pads = [1, 1, 1, 1]> ({x}, {weight})"))
    model = canonical(net.model("float[1, 3, 4, 4] x", net.coded(net.op(f"Conv ({first}, {weight})"))))
    layers = [node for node in model.graph if node.op_type == "Conv"]
    assert layers[0].inputs[1] is layers[1].inputs[1]


def test_parameters_in_codes_become_float() -> None:
    net = Net()
    vectors = [net.weight(3, codes=np.int8([3, 40, 100])) for _ in range(4)]
    value = net.op(f"Sigmoid ({net.coded('x')})")
    value = net.op(f"BatchNormalization ({value}, {', '.join(vectors)})")
    limit = net.op(f"DequantizeLinear ({net.constant(100, np.int32)}, {net.constant(0.01)})")
    model = canonical(
        net.model("float[1, 3, 4, 4] x", net.coded(net.op(f"Clip ({value}, , {limit})"))), within=0.0501
    )
    assert op_types(model) == ["Sigmoid", "Mul", "Add", "Clip"]
    assert constant(node_of(model, "Clip").inputs[2]) == np.float32(1.0)


def test_operands_keep_one_scale_and_lose_several() -> None:
    net = Net()
    one = net.op(f"Add ({net.coded('x')}, {net.weight(3, 1, 1)})")
    many = net.op(f"Mul ({net.coded(one, 0.1)}, {net.weight(3, 1, 1, axis=0)})")
    model = canonical(net.model("float[1, 3, 4, 4] x", net.coded(many, 0.1)))
    assert constant_codes(node_of(model, "Add").inputs[1]) is not None
    assert constant(node_of(model, "Mul").inputs[1]) is not None


@pytest.mark.parametrize("trans_b", [0, 1])
def test_factors_of_a_gemm(trans_b: int) -> None:
    net = Net()
    weight = net.weight(*((4, 6) if trans_b else (6, 4)), axis=0 if trans_b else 1)
    attributes = f"alpha = 0.5, beta = 2.0, transA = 1, transB = {trans_b}"
    value = net.op(f"Gemm <{attributes}> ({net.coded('x')}, {weight}, {net.constant(normal(4))})")
    model = canonical(net.model("float[6, 3] x", net.coded(value, 0.05)), within=0.0501)
    assert op_types(model) == ["Transpose", "Gemm"]
    assert {"alpha", "beta", "transA"}.isdisjoint(node_of(model, "Gemm").attributes)


def test_negative_factors_and_computed_biases_stay() -> None:
    net = Net()
    value = net.op(f"Gemm <alpha = -0.5, beta = 3.0> ({net.coded('x')}, {net.weight(6, 4)}, b)")
    model = canonical(net.model("float[3, 6] x, float[4] b", net.coded(value)))
    assert {"alpha", "beta"} <= set(node_of(model, "Gemm").attributes)


def test_a_factor_of_no_bias_vanishes() -> None:
    net = Net()
    model = canonical(
        net.model("float[3, 6] x", net.op(f"Gemm <beta = 3.0> ({net.coded('x')}, {net.weight(6, 4)})"))
    )
    assert "beta" not in node_of(model, "Gemm").attributes
