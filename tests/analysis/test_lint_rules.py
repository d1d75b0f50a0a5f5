"""Every rule finds the one thing that was broken in a clean model, by node and rule, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import graph_edits as edit
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from calib8.analysis.lint import RULES, lint
from calib8.scheme import target_scheme
from small_nets import Net, clean, quantized

Plant = Callable[[onnx.ModelProto], object]
Case = tuple[str, str, Plant, str]
"""A clean network, the target, what is broken, and the nodes that must be named, separated by spaces."""


def compute_scale(proto: onnx.ModelProto) -> None:
    size = helper.make_node("ReduceMax", ["x"], ["size"], name="size", keepdims=0)
    edit.insert(proto, "x/QuantizeLinear", size)
    edit.rewire(proto, "last_out/QuantizeLinear", 1, "size")
    edit.rewire(proto, "last_out/DequantizeLinear", 1, "size")


def compute_zero_point(proto: onnx.ModelProto) -> None:
    point = helper.make_node("Identity", ["last_out/zero_point"], ["point"], name="point")
    cast = helper.make_node("Cast", ["x"], ["ignored"], name="ignored", to=TensorProto.UINT8)
    pick = helper.make_node("ReduceMin", ["ignored"], ["least"], name="least", keepdims=0)
    edit.insert(proto, "x/QuantizeLinear", point, cast, pick)
    edit.rewire(proto, "last_out/DequantizeLinear", 2, "least")


def set_scale(value: float) -> Plant:
    return lambda proto: edit.store(proto, "last_out/scale", np.float32(value))


def other_zero_point_type(proto: onnx.ModelProto) -> None:
    edit.store(proto, "other", np.int8(0))
    edit.rewire(proto, "relu12_out/DequantizeLinear", 2, "other")


def shorten_scales(proto: onnx.ModelProto) -> None:
    for part in ("scale", "zero_point"):
        edit.store(proto, f"c5/codes/{part}", edit.array(proto, f"c5/codes/{part}")[:3])


def lengthen_zero_points(proto: onnx.ModelProto) -> None:
    edit.store(proto, "last_out/zero_point", np.zeros(4, np.uint8))


def block_scales(proto: onnx.ModelProto) -> None:
    edit.store(proto, "last_out/scale", np.ones((2, 2), np.float32))


def other_scale_behind(proto: onnx.ModelProto) -> None:
    edit.store(proto, "other", np.float32(2) * edit.array(proto, "last_out/scale"))
    edit.rewire(proto, "last_out/DequantizeLinear", 1, "other")


def read_codes(proto: onnx.ModelProto) -> None:
    cast = helper.make_node("Cast", ["last_out/quantized"], ["as_float"], name="reader", to=TensorProto.FLOAT)
    proto.graph.node.append(cast)
    edit.add_output(proto, "as_float")


def move_codes_then_read_wrongly(proto: onnx.ModelProto) -> None:
    """DQ(Transpose(Q)) is allowed; its scale must still be that of Q."""
    move = helper.make_node("Transpose", ["last_out/quantized"], ["moved"], name="moved", perm=[0, 1, 3, 2])
    edit.insert(proto, "last_out/DequantizeLinear", move)
    edit.rewire(proto, "last_out/DequantizeLinear", 0, "moved")
    other_scale_behind(proto)


def store_floats(proto: onnx.ModelProto) -> None:
    """The weight of the last layer as float constant → Q → DQ."""
    name = "c10/codes"
    parameters = [f"{name}/scale", f"{name}/zero_point"]
    values = edit.array(proto, name).astype(np.float32) * edit.array(proto, parameters[0]).reshape(
        -1, 1, 1, 1
    )
    edit.store(proto, "weight", values)
    coder = helper.make_node("QuantizeLinear", ["weight", *parameters], ["coded"], name="coder", axis=0)
    edit.insert(proto, f"{name}/DequantizeLinear", coder)
    edit.rewire(proto, f"{name}/DequantizeLinear", 0, "coded")


def scale_bias(proto: onnx.ModelProto) -> None:
    scale = edit.array(proto, "c9/codes/scale").copy()
    scale[2] *= 1.001
    edit.store(proto, "c9/codes/scale", scale)


def shift_bias(proto: onnx.ModelProto) -> None:
    edit.store(proto, "c9/codes/zero_point", np.full(4, 1, np.int32))


def narrow_bias(proto: onnx.ModelProto) -> None:
    for part in ("codes", "codes/zero_point"):
        edit.recode(proto, f"c9/{part}", np.int8)


def one_bias_scale_too_few(proto: onnx.ModelProto) -> None:
    """A transposed convolution of two groups with the scales of one group."""
    for part in ("", "/scale", "/zero_point"):
        edit.store(proto, f"c8/codes{part}", edit.array(proto, f"c8/codes{part}")[:3])


def code_bias(proto: onnx.ModelProto) -> None:
    scale = edit.array(proto, "c13/codes/scale") * edit.array(proto, "activated_add_out/scale")
    edit.store(proto, "bias/codes", np.ones(2, np.int32))
    edit.store(proto, "bias/scale", scale.astype(np.float32))
    inputs = ["bias/codes", "bias/scale"]
    edit.insert(proto, "last", helper.make_node("DequantizeLinear", inputs, ["bias"], name="bias", axis=0))
    edit.rewire(proto, "last", 2, "bias")


def per_channel_input(proto: onnx.ModelProto) -> None:
    edit.store(proto, "x/scale", np.full(4, 0.1, np.float32))
    edit.store(proto, "x/zero_point", np.zeros(4, np.int8))


def fully_float(proto: onnx.ModelProto) -> None:
    edit.float_constant(proto, "last", 1)
    edit.rewire(proto, "last", 0, "activated_add_out")


def codes_before_relu(proto: onnx.ModelProto) -> None:
    edit.insert(proto, "relu12", *edit.pair(proto, "d_out", 0.1, np.int8(0), "inside"))
    edit.rewire(proto, "relu12", 0, "inside")


def codes_on_both_branches(proto: onnx.ModelProto) -> None:
    edit.insert(proto, "plain_add", *edit.pair(proto, "a_out", 0.1, np.int8(0), "branch"))
    edit.rewire(proto, "plain_add", 0, "branch")


def second_quantizer(proto: onnx.ModelProto) -> None:
    """Of the two readers of a sum, one gets a Q/DQ of its own."""
    scale, point = (edit.array(proto, f"plain_add_out/{part}") for part in ("scale", "zero_point"))
    edit.insert(proto, "b", *edit.pair(proto, "plain_add_out", float(scale), point, "second"))
    edit.rewire(proto, "b", 0, "second")


def unsigned_weight(name: str) -> Plant:
    def plant(proto: onnx.ModelProto) -> None:
        edit.recode(proto, name, np.uint8)
        edit.recode(proto, f"{name}/zero_point", np.uint8)

    return plant


def shift_weight(proto: onnx.ModelProto) -> None:
    edit.store(proto, "c10/codes/zero_point", np.array([0, 0, 5, 0], np.int8))


def set_point(tensor: str, value: int, dtype: type[np.integer]) -> Plant:
    return lambda proto: edit.store(proto, f"{tensor}/zero_point", dtype(value))


def rewired(node: str, index: int, value: str) -> Plant:
    return lambda proto: edit.rewire(proto, node, index, value)


def without_axis(node: str) -> Plant:
    return lambda proto: edit.drop_attribute(proto, node, "axis")


def with_axis(node: str, axis: int) -> Plant:
    return lambda proto: edit.set_axis(proto, node, axis)


def float_constant(layer: str, index: int) -> Plant:
    return lambda proto: edit.float_constant(proto, layer, index)


def float_operand(proto: onnx.ModelProto) -> None:
    edit.rewire(proto, "bias", 1, edit.store(proto, "shift", np.ones(6, np.float32)))


def float_result(proto: onnx.ModelProto) -> None:
    edit.unquantize_output(proto, "last_out")


def set_softmax_scale(value: float) -> Plant:
    return lambda proto: edit.store(proto, "softmax_out/scale", np.float32(value))


LAST = "last_out/QuantizeLinear last_out/DequantizeLinear"
SYMMETRIC = ("tensorrt", "tengine", "ncnn")
ORT = "onnxruntime"

PLANTED: dict[str, list[Case]] = {
    "scale-is-constant": [
        ("conv_chain", ORT, compute_scale, LAST),
        ("conv_chain", ORT, compute_zero_point, "last_out/DequantizeLinear"),
    ],
    "scale-is-positive": [
        ("conv_chain", ORT, set_scale(value), LAST) for value in (0.0, -0.5, np.inf, np.nan)
    ],
    "zero-point-type": [("residual", ORT, other_zero_point_type, "relu12_out/DequantizeLinear")],
    "channel-axis-fits": [
        ("conv_chain", "openvino", without_axis("c10/codes/DequantizeLinear"), "c10/codes/DequantizeLinear"),
        ("conv_chain", "openvino", with_axis("c10/codes/DequantizeLinear", 4), "c10/codes/DequantizeLinear"),
        ("residual", "tensorrt", shorten_scales, "c5/codes/DequantizeLinear"),
        ("conv_chain", "openvino", lengthen_zero_points, LAST),
        ("conv_chain", "openvino", block_scales, LAST),
    ],
    "pairs-agree": [
        ("conv_chain", ORT, other_scale_behind, "last_out/DequantizeLinear"),
        ("conv_chain", ORT, read_codes, "reader"),
        ("conv_chain", ORT, move_codes_then_read_wrongly, "last_out/DequantizeLinear"),
    ],
    "constants-are-stored-as-codes": [("conv_chain", "tflite", store_floats, "coder")],
    "layer-is-whole": [
        ("conv_chain", ORT, float_constant("last", 1), "last"),
        ("conv_chain", "openvino", rewired("last", 0, "clip4_out"), "last"),
    ],
    "weight-axis-is-output": [
        ("residual", ORT, with_axis("c3/codes/DequantizeLinear", 1), "c3/codes/DequantizeLinear"),
    ],
    "bias-has-product-scale": [
        ("conv_chain", ORT, scale_bias, "c9/codes/DequantizeLinear"),
        ("conv_chain", ORT, shift_bias, "c9/codes/DequantizeLinear"),
        ("conv_chain", ORT, narrow_bias, "c9/codes/DequantizeLinear"),
        ("upsample", ORT, one_bias_scale_too_few, "c8/codes/DequantizeLinear"),
    ],
    "bias-is-coded": [
        ("conv_chain", target, float_constant("last", 2), "last") for target in (ORT, "tflite", "tengine")
    ],
    "bias-stays-float": [("residual", target, code_bias, "last") for target in ("tensorrt", "ncnn")],
    "zero-point-is-zero": [
        ("residual", target, set_point("x", 3, np.int8), "x/QuantizeLinear") for target in SYMMETRIC
    ],
    "codes-are-int8": [
        ("residual", "tensorrt", unsigned_weight("c3/codes"), "c3/codes/DequantizeLinear"),
        *(("residual", target, set_point("x", 0, np.uint8), "x/QuantizeLinear") for target in SYMMETRIC),
        ("residual", "tensorrt", set_point("relu12_out", 0, np.int16), "relu12_out/QuantizeLinear"),
    ],
    "codes-are-int8-or-int16": [
        ("residual", "tflite", set_point("x", 0, np.uint8), "x/QuantizeLinear"),
        ("residual", "tflite", unsigned_weight("c3/codes"), "c3/codes/DequantizeLinear"),
        ("conv_chain", "tflite", set_point("last_out", 1, np.int16), "last_out/QuantizeLinear"),
    ],
    "activations-are-per-tensor": [("residual", "tensorrt", per_channel_input, "x/QuantizeLinear")],
    "layer-inputs-are-coded": [("residual", "tensorrt", fully_float, "last")],
    "no-codes-inside-fusion": [("residual", "tensorrt", codes_before_relu, "inside/DQ")],
    "residual-branch-is-coded": [
        ("residual", "tensorrt", codes_on_both_branches, "plain_add"),
        ("residual", "tensorrt", rewired("plain_add", 1, "relu1_out"), "plain_add"),
        ("residual", "tensorrt", rewired("two", 0, "short_out"), "two"),
        ("residual", "tensorrt", rewired("activated_add", 0, "relu12_out"), "activated_add"),
    ],
    "average-pool-input-is-coded": [("classifier", "tensorrt", rewired("global", 0, "relu7_out"), "global")],
    "inputs-are-all-coded": [("matmul", ORT, float_operand, "bias")],
    "result-goes-to-one-quantizer": [
        ("residual", ORT, lambda proto: edit.add_output(proto, "a_out"), "a"),
        ("residual", ORT, second_quantizer, "plain_add"),
        ("conv_chain", ORT, float_result, "last"),
    ],
    "sums-become-codes": [
        ("residual", "calib8", lambda proto: edit.add_output(proto, "a_out"), "a"),
        ("conv_chain", "calib8", float_result, "last"),
    ],
    "activation-is-implied": [
        ("conv_chain", ORT, set_point("relu2_out", 10, np.uint8), "relu2"),
        ("conv_chain", ORT, set_point("clip4_out", 10, np.uint8), "clip4"),
    ],
    "types-combine": [
        ("conv_chain", ORT, set_point("last_out", 0, np.int8), "last"),
        ("conv_chain", ORT, set_point("last_out", 0, np.int16), "last"),
        ("conv_chain", "calib8", set_point("last_out", 0, np.int8), "last"),
    ],
    "moves-keep-codes": [("classifier", ORT, set_point("maxpool2_out", 1, np.uint8), "maxpool2")],
    "activations-have-8-bits": [
        ("conv_chain", "openvino", set_point("last_out", 0, np.uint16), "last_out/QuantizeLinear"),
    ],
    "weights-are-int8": [
        ("conv_chain", "openvino", unsigned_weight("c10/codes"), "c10/codes/DequantizeLinear"),
    ],
    "concat-inputs-share-scale": [("concat", "openvino", set_point("end1_out", 1, np.uint8), "ends")],
    "weights-are-symmetric": [("conv_chain", "tflite", shift_weight, "c10/codes/DequantizeLinear")],
    "scale-stays-the-same": [
        ("classifier", "tflite", set_point("maxpool2_out", 1, np.int8), "maxpool2"),
        ("classifier", "tflite", set_point("average_out", 1, np.int8), "average"),
        ("concat", "tflite", set_point("end1_out", 1, np.int8), "ends"),
    ],
    "fixed-outputs": [
        ("classifier", "tflite", set_softmax_scale(1 / 255), "softmax"),
        ("heads", "tflite", set_point("sigmoid_out", -127, np.int8), "sigmoid"),
        ("heads", "tflite", set_point("tanh_out", 1, np.int8), "tanh"),
    ],
    "layer-results-are-coded": [
        ("conv_chain", target, float_result, "last") for target in ("tflite", "tengine")
    ],
    "softmax-scale-is-fixed": [("classifier", "tengine", set_softmax_scale(1 / 128), "softmax")],
}

CASES = [(rule, index) for rule, cases in PLANTED.items() for index in range(len(cases))]


@pytest.mark.parametrize(("rule", "index"), CASES)
def test_a_planted_violation_is_named(rule: str, index: int) -> None:
    net, target, plant, names = PLANTED[rule][index]
    proto = clean(net, target)
    assert lint(proto, target) == ()
    plant(proto)
    found = lint(proto, target)
    assert [violation.node for violation in found] == names.split()
    assert {violation.rule for violation in found} == {rule}
    for violation in found:
        assert violation.problem and violation.cure and violation.node in str(violation)


def test_one_scale_per_channel_needs_operator_set_13() -> None:
    net = Net()
    proto = quantized(
        net.model(net.op("Gemm", net.op("Flatten", "x"), net.weight(256, 3), name="scores")),
        target_scheme("openvino"),
    )
    assert lint(proto, "openvino") == ()
    proto.opset_import[0].version = 12
    edit.drop_attribute(proto, "c0/codes/DequantizeLinear", "axis")
    [violation] = lint(proto, "openvino")
    assert (violation.node, violation.rule) == ("c0/codes/DequantizeLinear", "per-channel-needs-opset-13")


def test_int8_activations_take_no_uint8_weights_in_onnxruntime() -> None:
    net = Net()
    scheme = target_scheme("onnxruntime").with_activations("int8")
    proto = quantized(net.model(net.conv("x", 4, 4, name="layer")), scheme)
    assert lint(proto, "onnxruntime") == ()
    unsigned_weight("c1/codes")(proto)
    assert [(v.node, v.rule) for v in lint(proto, "onnxruntime")] == [("layer", "types-combine")]


def test_16_bit_codes_stand_beside_others_in_calib8() -> None:
    proto = clean("conv_chain", "calib8")
    set_point("last_out", 0, np.int16)(proto)
    assert lint(proto, "calib8") == ()


def test_16_bit_spots_are_clean_for_tflite() -> None:
    """int16 with zero point 0, as ``quantize --target tflite --spot`` writes them."""
    for net, tensor in (("conv_chain", "last_out"), ("heads", "sigmoid_out")):
        proto = clean(net, "tflite")
        set_point(tensor, 0, np.int16)(proto)
        assert lint(proto, "tflite") == (), net


def test_weights_that_saturate_without_vnni_are_named() -> None:
    proto = clean("conv_chain", "onnxruntime-avx2")
    assert lint(proto, "onnxruntime-avx2") == ()
    codes = edit.array(proto, "c10/codes").copy()
    codes[2, :2] = 65
    edit.store(proto, "c10/codes", codes)
    [violation] = lint(proto, "onnxruntime-avx2")
    assert (violation.node, violation.rule) == ("last", "pairs-cannot-saturate")
    assert "channel 2 with weights 65 and 65" in violation.problem
    assert lint(proto, "onnxruntime") == ()


def test_every_rule_of_every_target_is_planted_somewhere() -> None:
    rules = {rule.__name__.replace("_", "-") for rules in RULES.values() for rule in rules}
    assert rules == {*PLANTED, "per-channel-needs-opset-13", "pairs-cannot-saturate"}


def test_every_rule_says_what_it_demands() -> None:
    for rules in RULES.values():
        assert len(set(rules)) == len(rules)
        assert all(rule.__doc__ for rule in rules)
