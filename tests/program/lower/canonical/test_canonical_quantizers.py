"""Quantizers: what is none is refused by name, all at once; the others come in one form."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from canonical_checks import Net, canonical, node_of, op_types, path
from onnx import helper, numpy_helper

from calib8.errors import UnsupportedModelError
from calib8.program.lower.canonical import canonical_qdq
from calib8.quantization.qdq import QUANTIZERS, codes_of


def refusal(proto: onnx.ModelProto) -> str:
    with pytest.raises(UnsupportedModelError) as caught:
        canonical_qdq(ir.from_proto(proto), None)
    return str(caught.value)


def pair(net: Net, scale: str, point: str = "", axis: str = "") -> onnx.ModelProto:
    codes = net.op(f"QuantizeLinear {axis} (x, {scale}{point})", name="coder")
    net.constants.setdefault("fine", np.float32(0.1))
    return net.model("float[2, 3, 4] x", net.op(f"DequantizeLinear ({codes}, fine)", name="reader"))


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (0.0, "its scale is 0"),
        (-0.5, "its scale is -0.5"),
        (np.nan, "its scale is nan"),
        (np.inf, "its scale is inf"),
        (1e-40, "its scale is 9.99995e-41"),
    ],
)
def test_a_scale_is_finite_and_positive(scale: float, text: str) -> None:
    net = Net()
    message = refusal(pair(net, net.constant(scale)))
    assert f"'coder' (QuantizeLinear): {text}" in message and "Quantize the model again" in message


def test_the_channel_of_a_wrong_scale_is_named() -> None:
    net = Net()
    codes, points = net.constant(net.codes(4, 3), np.int8), net.constant([0, 0, 0, 0], np.int8)
    scales = net.constant([0.1, 0.2, 0.0, 0.1])
    weight = net.op(f"DequantizeLinear <axis = 0> ({codes}, {scales}, {points})", name="weight")
    assert "'weight' (DequantizeLinear): its scale of channel 2 is 0" in refusal(
        net.model("float[1] x", weight)
    )


def test_a_scale_is_constant() -> None:
    net = Net()
    assert "'coder' (QuantizeLinear): its scale is computed" in refusal(
        pair(net, net.op("ReduceMax<keepdims=0>(x)"))
    )
    net = Net()
    point = net.op(f"Cast <to = 2> ({net.op('ReduceMax<keepdims=0>(x)')})")
    assert "its zero point is computed" in refusal(pair(net, net.constant(0.1), f", {point}"))


def test_a_zero_point_has_the_type_of_its_codes() -> None:
    net = Net()
    codes = net.constant(net.codes(4), np.int8)
    read = net.op(
        f"DequantizeLinear ({codes}, {net.constant(0.1)}, {net.constant(0, np.uint8)})", name="reader"
    )
    assert "'reader' (DequantizeLinear): its zero point is uint8, its codes are int8" in refusal(
        net.model("float[1] x", read)
    )


@pytest.mark.parametrize(
    ("scales", "points", "axis", "text"),
    [
        (4, 4, 1, "has 4 scales for axis 1 of size 3"),
        (3, 3, 3, "axis 3 does not exist in a tensor of 3 axes"),
        (3, 3, -4, "axis -4 does not exist in a tensor of 3 axes"),
        (3, 2, 1, "has 3 scales and 2 zero points"),
    ],
)
def test_scales_per_channel_fit_their_axis(scales: int, points: int, axis: int, text: str) -> None:
    net = Net()
    zeros = f", {net.constant(np.zeros(points), np.uint8)}"
    assert text in refusal(pair(net, net.constant(np.full(scales, 0.1)), zeros, f"<axis = {axis}>"))


def test_scales_of_half_precision_are_refused() -> None:
    net = Net(opset=19)
    half = net.constant(0.1, np.float16)
    codes = net.op(f"QuantizeLinear (x, {half}, {net.constant(0, np.uint8)})", name="coder")
    back = net.op(f"DequantizeLinear ({codes}, {half}, {net.constant(0, np.uint8)})")
    message = refusal(net.model("float16[2, 3] x", back, types=["float16"]))
    assert "its scale is float16" in message and "it codes float16" in message


def test_all_problems_are_told_and_many_are_counted() -> None:
    net = Net()
    value = "x"
    for index in range(11):
        value = net.op(f"QuantizeLinear ({value}, {net.constant(-index - 1.0)})", name=f"coder{index}")
        value = net.op(f"DequantizeLinear ({value}, {net.constant(1.0)})")
    message = refusal(net.model("float[2] x", value))
    assert (
        "'coder0'" in message
        and "'coder7'" in message
        and "'coder8'" not in message
        and "and 3 more" in message
    )


def test_computed_scales_of_an_op_on_codes_are_refused() -> None:
    net = Net()
    scale, point = net.op("ReduceMax<keepdims=0>(x)"), net.constant(0, np.uint8)
    codes = net.op(f"QuantizeLinear (x, {net.constant(0.1)}, {point})")
    weight = net.constant(net.codes(4, 3, 1, 1), np.int8)
    weights = f"{weight}, {net.constant(0.1)}, {net.constant(0, np.int8)}"
    bias = net.constant(np.zeros(4), np.int32)
    line = f"QLinearConv ({codes}, {scale}, {point}, {weights}, {net.constant(0.1)}, {point}, {bias})"
    proto = net.model("float[1, 3, 4, 4] x", net.op(line, name="layer"), types=["uint8"])
    assert "'layer' (QLinearConv): its scales are computed" in refusal(proto)


def test_quantizers_of_one_number_get_one_form() -> None:
    net = Net(opset=21)
    scale = net.constant([0.1])
    codes = net.op(f"QuantizeLinear <output_dtype = 3> (x, {scale})")
    first = net.op(f"DequantizeLinear ({codes}, {net.constant(0.1)})")
    other = net.op(f"QuantizeLinear <saturate = 1> (x, {net.constant(0.2)})")
    second = net.op(f"DequantizeLinear ({other}, {net.constant([0.2])}, {net.constant([0], np.uint8)})")
    model = canonical(net.model("float[2, 3] x", first, second))
    kinds = [codes_of(node).dtype for node in model.graph if node.op_type in QUANTIZERS]
    assert sorted(str(kind) for kind in kinds) == ["INT8", "INT8", "UINT8", "UINT8"]


def test_negative_axes_count_from_the_front() -> None:
    net = Net()
    codes, scales = net.constant(net.codes(4, 3), np.int8), net.constant([0.1, 0.2, 0.3])
    weight = net.op(f"DequantizeLinear <axis = -1> ({codes}, {scales})")
    model = canonical(net.model("float[2, 4] x", net.op(f"MatMul ({net.coded('x')}, {weight})")))
    stored = node_of(model, "MatMul").inputs[1]
    assert stored is not None
    producer = stored.producer()
    assert producer is not None and producer.attributes["axis"].as_int() == 1


def test_quantizers_of_the_runtimes_own_domain_are_standard_ones() -> None:
    net = Net(opset=12)
    proto = net.model("float[2, 3] x", net.coded(net.op(f"Relu ({net.coded('x')})"), 0.03))
    for node in proto.graph.node:
        node.domain = "com.microsoft" if node.op_type in QUANTIZERS else ""
    assert {node.domain for node in canonical(proto).graph} == {""}


def test_codes_of_other_types_and_blocks_stay_as_they_are() -> None:
    net = Net(opset=21)
    wide = net.coded("x", 0.001, 300, np.uint16)
    blocks = net.op(
        f"DequantizeLinear <axis = 1, block_size = 2> ({net.constant(net.codes(3, 4), np.int8)}, "
        f"{net.constant(np.full((3, 2), 0.1))})"
    )
    model = canonical(net.model("float[2, 3] x", net.op(f"MatMul ({wide}, {blocks})")))
    assert [node.op_type for node in model.graph] == [
        "QuantizeLinear",
        "DequantizeLinear",
        "DequantizeLinear",
        "MatMul",
    ]


def test_scales_per_channel_of_activations_stay() -> None:
    net = Net()
    parameters = f"{net.constant([0.1, 0.2, 0.3])}, {net.constant([0, 1, 2], np.uint8)}"
    codes = net.op(f"QuantizeLinear <axis = -2> (x, {parameters})")
    value = net.op(f"DequantizeLinear <axis = -2> ({codes}, {parameters})")
    model = canonical(net.model("float[2, 3, 4] x", net.op(f"Flatten ({value})")))
    assert path(model) == ["Q", "DQ", "Flatten"]


def test_codes_read_with_other_parameters_are_left_alone() -> None:
    net = Net()
    codes = net.q("x", 0.05, 120)
    pooled = net.op(f"Flatten ({codes})")
    model = canonical(net.model("float[2, 3, 4] x", net.dq(pooled, 0.025, 7)))
    assert path(model) == ["Q", "DQ", "Flatten", "Q", "DQ"]
    assert float(codes_of(list(model.graph)[-1]).scale or 0) == np.float32(0.025)  # type: ignore[arg-type]


def test_old_operator_sets_are_brought_up() -> None:
    net = Net(opset=10)
    x = net.coded("x")
    clipped = net.op(f"Clip <min = 0.0, max = 2.0> ({x})")
    model = canonical(net.model("float[2, 3] x", net.coded(clipped, 0.01, 0)))
    assert model.opset_imports[""] == 17 and op_types(model) == ["Clip"]


def test_constants_as_nodes_become_initializers() -> None:
    scale = helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(np.float32(0.1)))
    nodes = [
        scale,
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:])
    assert path(
        canonical(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    ) == [
        "Q",
        "DQ",
    ]
