"""QOperator models: which operators come out, and that they compute what the QDQ model does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import numpy_helper
from qdq_cases import CASES, CodedNet, Codes, case

from calib8.errors import UnsupportedModelError
from calib8.exporting.qoperator import to_qoperator
from calib8.model.load import load_model
from calib8.model.save import model_bytes
from calib8.session import InferenceSession
from exact_sums import WEIGHTS, exact, with_uint8_weights
from small_models import normal, ops
from small_nets import NETS, clean

Array = npt.NDArray[Any]
TYPES = (np.uint8, np.int8)
QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")
IMAGES = normal(6, 4, 8, 8, seed=3) * 3
EXACT_TARGETS = ("onnxruntime", "tflite")
"""Targets whose layers all have quantized results, in uint8 and in int8."""


def fed(proto: onnx.ModelProto, feeds: Sequence[dict[str, Array]], *, optimized: bool) -> list[Array]:
    """Outputs in ONNX Runtime, feed by feed, with its integer kernels for int8 too."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    proto = with_uint8_weights(proto)
    if not has_int8_activations(proto):
        exact(options)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    runs = [session.run(None, feed) for feed in feeds]
    return [np.concatenate(outputs) for outputs in zip(*runs, strict=True)]


def has_int8_activations(proto: onnx.ModelProto) -> bool:
    """ONNX Runtime has no kernels for int8 codes and uint8 weights; what is coded last counts for nothing."""
    held = {tensor.name: tensor.data_type for tensor in proto.graph.initializer}
    layers = ("Conv", "Gemm", "MatMul", *WEIGHTS)
    coders = {node.output[0]: node for node in proto.graph.node if node.op_type == "DequantizeLinear"}
    read = [coders.get(node.input[0], node) for node in proto.graph.node if node.op_type in layers]
    return any(held.get(node.input[2]) == onnx.TensorProto.INT8 for node in read if len(node.input) > 2)


def runtime(proto: onnx.ModelProto, *, optimized: bool) -> list[Array]:
    return fed(proto, [{"x": image[None]} for image in IMAGES], optimized=optimized)


def engine(proto: onnx.ModelProto, images: Array = IMAGES) -> list[Array]:
    session = InferenceSession(proto)
    runs = [session.run(None, {"x": image[None]}) for image in images]
    return [np.concatenate(outputs) for outputs in zip(*runs, strict=True)]


def exported(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The QOperator form, checked."""
    result = ir.to_proto(to_qoperator(load_model(proto))[0])
    onnx.checker.check_model(result, full_check=True)
    return result


def assert_equal(actual: list[Array], expected: list[Array]) -> None:
    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", CASES)
def test_operators_compute_what_the_qdq_model_does(name: str, dtype: Any) -> None:
    proto, expected = case(name, dtype)
    result = exported(proto)
    operators = [node.op_type for node in result.graph.node if node.op_type not in QUANTIZERS]
    assert operators == list(expected)
    outputs = runtime(result, optimized=True)
    assert len(np.unique(outputs[0])) > 8
    assert_equal(runtime(result, optimized=False), outputs)
    assert_equal(engine(result), engine(proto))
    assert_equal(engine(result), outputs)
    assert_equal(runtime(proto, optimized=True), outputs)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", EXACT_TARGETS)
@pytest.mark.parametrize("name", NETS)
def test_whole_nets_give_the_bits_of_the_qdq_model_in_onnxruntime(name: str, target: str) -> None:
    proto = clean(name, target)
    result = exported(proto)
    expected = runtime(proto, optimized=True)
    assert_equal(runtime(result, optimized=True), expected)
    assert_equal(runtime(result, optimized=False), expected)
    assert_equal(engine(result), engine(proto))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "layer, expected",
    [("conv", {"ConvInteger": 1}), ("matmul", {"MatMulInteger": 1}), ("gemm", {"QGemm": 1})],
)
def test_sums_that_are_read_as_float_are_integer_sums(
    layer: str, expected: dict[str, int], dtype: Any
) -> None:
    net = CodedNet(Codes(dtype))
    x = net.image()
    if layer == "conv":
        y = net.conv(x)
    elif layer == "matmul":
        y = net.op(f"MatMul ({x}, {net.weight(8, 6, axis=1)})")
    else:
        weight = net.weight(256, 5, axis=1)
        flat = net.coded_as(net.op(f"Flatten ({x})"), 0.05, net.codes.middle)
        y = net.op(f"Gemm ({flat}, {weight}, {net.bias(5, weight, 0.05)})")
    proto = net.proto("float[N,4,8,8] x", y)
    result = exported(proto)
    assert expected.items() <= ops(result).items() and ops(result)["DequantizeLinear"] == 0
    values = runtime(result, optimized=False)
    for optimized in (False, True):
        for expected_values, actual in zip(runtime(proto, optimized=optimized), values, strict=True):
            np.testing.assert_allclose(actual, expected_values, rtol=1e-5, atol=1e-4)
    assert_equal(runtime(result, optimized=True), values)


def test_a_result_read_as_codes_and_as_float_is_one_integer_sum() -> None:
    net = CodedNet(Codes(np.uint8))
    sums = net.conv(net.image())
    result = exported(net.proto("float[N,4,8,8] x", sums, net.coded_as(sums, 0.08, 120)))
    assert ops(result)["ConvInteger"] == 1 and ops(result)["QuantizeLinear"] == 2
    real, coded = runtime(result, optimized=False)
    np.testing.assert_array_less(np.abs(coded - np.clip(real, -9.6, 10.8)), 0.0401)


def test_what_has_no_operator_on_codes_stays_and_the_report_says_why() -> None:
    _, report = to_qoperator(load_model(clean("upsample", "onnxruntime")))
    reasons = {kept.op_type: kept.reason for kept in report.kept}
    assert set(reasons) == {"Pad", "ConvTranspose", "Relu"}
    assert "between the codes" in reasons["Pad"] and "no ConvTranspose" in reasons["ConvTranspose"]
    assert report.fused == {"QLinearConv": 3, "Resize": 1} and report.quantizers == 8


def test_types_that_no_operator_takes_together_stay_float() -> None:
    net = CodedNet(Codes(np.uint8))
    y = net.coded(net.op(f"Relu ({net.image()})"), 0.05, 3, np.int8)
    z = net.coded(net.op(f"Sigmoid ({y})"), 1 / 256, 0, np.uint8)
    proto = net.proto("float[N,4,8,8] x", z)
    _, report = to_qoperator(load_model(proto))
    assert {kept.op_type for kept in report.kept} == {"Relu", "Sigmoid"}
    assert_equal(runtime(exported(proto), optimized=False), runtime(proto, optimized=False))


def test_only_int8_activations_are_noted() -> None:
    notes = {dtype: to_qoperator(load_model(case("strided_conv", dtype)[0]))[1].notes for dtype in TYPES}
    assert notes[np.uint8] == () and "int8" in notes[np.int8][0]


def test_the_model_stays_and_the_same_model_gives_the_same_bytes() -> None:
    model = load_model(clean("residual", "onnxruntime"))
    model.metadata_props["calib8.preprocess"] = "{}"
    before = model_bytes(model)
    first, second = (to_qoperator(model)[0] for _ in range(2))
    assert model_bytes(first) == model_bytes(second)
    assert model_bytes(model) == before
    assert first.metadata_props == model.metadata_props
    assert [str(value.shape) for value in first.graph.inputs] == [str(v.shape) for v in model.graph.inputs]
    assert set(first.opset_imports) == {"", "com.microsoft"}


def test_a_free_batch_stays_free() -> None:
    result = exported(clean("residual", "onnxruntime"))
    session = onnxruntime.InferenceSession(
        result.SerializeToString(), exact(), providers=["CPUExecutionProvider"]
    )
    together = session.run(None, {"x": IMAGES})
    assert_equal(together, runtime(result, optimized=True))


def test_refusals_name_the_node() -> None:
    with pytest.raises(UnsupportedModelError, match="is a float model"):
        to_qoperator(load_model(NETS["residual"]()))
    done = exported(clean("residual", "onnxruntime"))
    with pytest.raises(UnsupportedModelError, match=r"computes on codes already \('.+', QLinearConv\)"):
        to_qoperator(load_model(done))


def test_wider_codes_stay_quantizers_of_onnxruntime() -> None:
    body = """q = com.microsoft.QuantizeLinear(x, s, z) d = com.microsoft.DequantizeLinear(q, s, z)
              n = Relu(d) unread = Neg(d) c = QuantizeLinear(n, s8, z8) y = DequantizeLinear(c, s8, z8)"""
    constants = {
        "s": np.float32(0.001), "z": np.uint16(30000), "s8": np.float32(0.02), "z8": np.uint8(3)
    }  # fmt: skip
    head = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
    text = f"{head} net (float[N,4,8,8] x) => (float[N,4,8,8] y) {{ {body} }}"
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    result = exported(proto)
    assert ops(result) == {"QuantizeLinear": 2, "DequantizeLinear": 2, "Relu": 1}
    assert_equal(runtime(result, optimized=False), runtime(proto, optimized=False))


FOREIGN = Path(__file__).parents[1] / "foreign"
EQUAL_FOREIGN = (
    "hand_channel_shuffle", "hand_codes_at_the_border", "hand_contrib_domain", "hand_data_movement",
    "hand_duplicated_pairs", "hand_lowest_weights", "hand_nhwc_border", "hand_no_zero_points",
    "hand_odd_biases", "hand_opset_10", "hand_prelu", "hand_shared_dequantize", "hand_two_activations",
    "hand_two_scales", "hand_weight_axes", "hand_weight_zero_points", "hand_yolo_head",
    "onnxruntime_detector_qdq_s8s8_channel", "onnxruntime_mobilenet_qdq_u8s8_channel",
    "onnxruntime_pools_qdq_s8s8", "onnxruntime_resnet_qdq_asymmetric_weights",
    "onnxruntime_resnet_qdq_float_bias", "onnxruntime_resnet_qdq_keep_relu",
    "onnxruntime_resnet_qdq_u8u8_channel", "pytorch_fake_quantize_channel",
)  # fmt: skip
"""Models of other tools, and of all their odd forms of QDQ, whose layers have quantized results."""


def random_feed(proto: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Normal values for the only input, whole numbers for one of codes."""
    kind = proto.graph.input[0].type.tensor_type
    values = normal(*(dim.dim_value or 1 for dim in kind.shape.dim), seed=seed)
    if kind.elem_type == onnx.TensorProto.UINT8:
        values = np.clip(np.rint(40 * values + 128), 0, 255)
    return {proto.graph.input[0].name: values.astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", EQUAL_FOREIGN)
def test_models_of_other_tools_give_the_bits_of_their_qdq_form(name: str) -> None:
    proto = onnx.load(FOREIGN / f"{name}.onnx")
    feeds = [random_feed(proto, seed) for seed in range(2)]
    result = exported(proto)
    integer = [node for node in result.graph.node if node.op_type.startswith(("QLinear", "QGemm"))]
    assert integer
    for optimized in (False, True):
        assert_equal(fed(result, feeds, optimized=optimized), fed(proto, feeds, optimized=True))


@pytest.mark.parametrize("name", ["hand_opset_21", "pytorch_qat_symmetric"])
def test_models_that_onnxruntime_fails_to_optimize_run_as_qoperator(name: str) -> None:
    proto = onnx.load(FOREIGN / f"{name}.onnx")
    feeds = [random_feed(proto, seed=0)]
    expected = fed(proto, feeds, optimized=False)
    assert_equal(fed(exported(proto), feeds, optimized=True), expected)


def test_a_free_axis_stated_as_minus_one_is_read_back() -> None:
    proto = clean("residual", "onnxruntime")
    for value in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 4 and dims[0].dim_param:
            dims[0].dim_value = -1
    result = exported(proto)
    assert_equal(engine(result), engine(clean("residual", "onnxruntime")))
