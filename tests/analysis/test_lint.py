"""Our own models are clean for every target, other tools' models are judged, and silence means clean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import graph_edits as edit
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from calib8.analysis.lint import RULES, Violation, lint
from calib8.analysis.rules.onnxruntime import COMPUTING_OPS
from calib8.errors import ModelError, UnsupportedModelError, UsageError
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.pipeline import quantize
from calib8.scheme import TARGETS, target_scheme
from slow_cases import slow_but
from small_nets import IMAGE, NETS, Net, clean, int8_forms, quantized


def test_every_target_has_rules() -> None:
    assert set(RULES) == set(TARGETS)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("net", NETS)
def test_our_own_models_are_clean(net: str, target: str) -> None:
    assert lint(clean(net, target), target) == ()


@pytest.mark.parametrize(
    "model",
    slow_but(
        ["resnet20_cifar10", "squeezenet_v1.1"],
        ["resnet20_cifar10", "ch_ppocr_mobile_v2.0_cls_infer", "squeezenet_v1.1", "ultraface_RFB-320"],
    ),
)
def test_real_models_are_clean_for_every_target(model: str, shared_data: Path) -> None:
    proto = onnx.load(shared_data / "models" / f"{model}.onnx")
    for target, form in int8_forms(proto, tuple(TARGETS), samples=1).items():
        assert lint(form, target) == (), target


def left_in_float(proto: onnx.ModelProto, folder: Path) -> set[str]:
    """Names of our nodes that ONNX Runtime could run on codes, but leaves in float."""
    path = folder / "optimized.onnx"
    open_session(load_model(proto), save_optimized=str(path))
    kinds = COMPUTING_OPS | {"FusedConv", "FusedGemm"}
    ours = {node.name for node in proto.graph.node}
    return {node.name for node in onnx.load(path).graph.node if node.op_type in kinds} & ours


@pytest.mark.parametrize("net", NETS)
def test_onnxruntime_fuses_what_is_clean(net: str, tmp_path: Path) -> None:
    """The rules are those of the runtime: no op that it can run on codes is left in float.

    Class probabilities at the end are float on purpose, and a Concat there: its parts have finer codes.
    """
    assert left_in_float(clean(net, "onnxruntime"), tmp_path) - {"softmax", "ends"} == set()


def raw_skip(proto: onnx.ModelProto) -> None:
    edit.rewire(proto, "activated_add", 0, "relu12_out")
    edit.add_output(proto, "relu12_out")


@pytest.mark.parametrize(
    ("net", "plant", "node"),
    [
        ("conv_chain", lambda proto: edit.store(proto, "relu2_out/zero_point", np.uint8(10)), "first"),
        ("conv_chain", lambda proto: edit.store(proto, "clip4_out/zero_point", np.uint8(10)), "depthwise"),
        ("residual", lambda proto: edit.add_output(proto, "a_out"), "a"),
        ("residual", raw_skip, "activated_add"),
        ("conv_chain", lambda proto: edit.unquantize_output(proto, "last_out"), "last"),
    ],
)
def test_onnxruntime_leaves_in_float_what_breaks_a_rule(
    net: str, plant: Callable[[onnx.ModelProto], None], node: str, tmp_path: Path
) -> None:
    proto = clean(net, "onnxruntime")
    plant(proto)
    assert lint(proto, "onnxruntime") != ()
    assert node in left_in_float(proto, tmp_path)


class Images(CalibrationDataReader):  # type: ignore[misc]
    """Four random images for ONNX Runtime's own quantizer."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.left = [rng.normal(0, 1, IMAGE).astype(np.float32) for _ in range(4)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return {"x": self.left.pop()} if self.left else None


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A residual network as ONNX Runtime's quantizer writes it."""
    folder = tmp_path_factory.mktemp("foreign")
    onnx.save(NETS["residual"](), folder / "float.onnx")
    quantize_static(
        folder / "float.onnx",
        folder / "int8.onnx",
        Images(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return folder / "int8.onnx"


def test_a_model_of_another_tool_is_clean_where_it_is_meant_to_run(foreign: Path) -> None:
    assert lint(foreign, "onnxruntime") == ()
    assert lint(foreign, "openvino") == ()


def test_a_model_of_another_tool_is_told_what_tensorrt_refuses(foreign: Path) -> None:
    """It codes activations as uint8, biases as int32 and both branches of every addition."""
    violations = lint(foreign, "tensorrt")
    found = Counter(violation.rule for violation in violations)
    assert found["codes-are-int8"] == 12
    assert found["bias-stays-float"] == 7
    additions = {violation.node for violation in violations if violation.rule == "residual-branch-is-coded"}
    assert additions == {"plain_add", "relu_add", "two", "activated_add"}
    assert found["layer-is-whole"] == found["scale-is-positive"] == found["pairs-agree"] == 0


def test_shape_arithmetic_is_no_concern() -> None:
    """A Concat of sizes runs on integers: it needs no quantizer."""
    net = Net(shape=("N", 4, "H", "W"))
    y = net.op("Relu", net.conv("x", 4, 4, name="first"))
    sizes = [
        net.op("Slice", net.op("Shape", y), *(net.const([i], np.int64) for i in (at, at + 2, 0)))
        for at in (0, 2)
    ]
    pooled = net.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    size = net.op("Concat", *sizes, axis=0, name="size")
    y = net.op("Resize", pooled, "", "", size, mode="nearest", name="resize")
    proto = quantized(net.model(net.conv(y, 4, 4, name="last")), target_scheme("onnxruntime"))
    assert any(node.name == "size" for node in proto.graph.node)
    assert lint(proto, "onnxruntime") == ()


def test_class_probabilities_at_the_end_are_float_on_purpose() -> None:
    """Also where they are read from codes, behind a pool."""
    net = Net()
    y = net.op("GlobalAveragePool", net.op("Relu", net.conv("x", 4, 4, name="first")))
    proto = quantized(net.model(net.op("Softmax", y, axis=1)), target_scheme("onnxruntime"))
    assert lint(proto, "onnxruntime") == ()


@pytest.mark.parametrize("target", TARGETS)
def test_a_cubic_resize_needs_another_scale_behind(target: str) -> None:
    net = Net()
    y = net.op("Relu", net.conv("x", 4, 4, name="first"))
    y = net.op("Resize", y, "", net.const([1, 1, 2, 2]), mode="cubic", name="resize")
    assert lint(quantized(net.model(net.conv(y, 4, 4)), target_scheme(target)), target) == ()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", TARGETS)
def test_a_layer_left_float_with_its_reason_is_no_violation(target: str) -> None:
    net = Net(shape=(1, *IMAGE[1:]))
    y = net.op("GlobalMaxPool", net.op("Relu", net.conv("x", 4, 4, name="first")))
    y = net.op("Gemm", net.op("Reshape", y, net.const([2, 2], np.int64)), net.weight(2, 3), net.weight(2, 3))
    data = [{"x": np.random.default_rng(0).normal(0, 1, IMAGE).astype(np.float32)}]
    result = quantize(net.model(y), data, target=target)
    assert "its bias is a matrix" in result.placement.summary()
    assert lint(ir.to_proto(result.model), target) == ()


def test_a_violation_reads_as_one_line() -> None:
    violation = Violation("conv1", "scale-is-positive", "its scale is 0", "Give it a finite scale")
    assert str(violation) == "conv1: its scale is 0 [scale-is-positive]. Give it a finite scale."


def test_a_node_without_name_is_called_after_its_output() -> None:
    proto = clean("conv_chain", "onnxruntime")
    edit.store(proto, "last_out/scale", np.float32(0))
    for node in proto.graph.node:
        node.name = ""
    names = [violation.node for violation in lint(proto, "onnxruntime")]
    assert names == ["QuantizeLinear of 'last_out/quantized'", "DequantizeLinear of 'last_out'"]


def test_constants_in_nodes_count_as_constants() -> None:
    proto = clean("conv_chain", "onnxruntime")
    for name in ("last_out/scale", "last_out/zero_point"):
        tensor = numpy_helper.from_array(edit.array(proto, name), name)
        proto.graph.initializer.remove(next(old for old in proto.graph.initializer if old.name == name))
        proto.graph.node.insert(0, helper.make_node("Constant", [], [name], value=tensor))
    assert lint(proto, "onnxruntime") == ()


def test_nodes_in_branches_are_judged_too() -> None:
    scale, point = helper.make_tensor("s", TensorProto.FLOAT, [], [0.0]), helper.make_tensor("z", 2, [], [0])
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quantizer"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="dequantizer"),
        ],
        "branch",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [scale, point],
    )
    choose = helper.make_node("If", ["flag"], ["out"], name="choose", then_branch=graph, else_branch=graph)
    inputs = [
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
    ]
    outer = helper.make_graph(
        [choose], "outer", inputs, [helper.make_tensor_value_info("out", TensorProto.FLOAT, [4])]
    )
    proto = helper.make_model(outer, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = lint(proto, "openvino")
    assert {violation.node for violation in found} == {"quantizer", "dequantizer"}
    assert {violation.rule for violation in found} == {"scale-is-positive"}


def test_an_unknown_target_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="target='vulkan'"):
        lint(clean("conv_chain", "onnxruntime"), "vulkan")


def test_a_missing_file_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        lint(tmp_path / "none.onnx", "onnxruntime")


def test_a_float_model_is_refused_rather_than_called_clean() -> None:
    with pytest.raises(UnsupportedModelError, match="float model"):
        lint(NETS["conv_chain"](), "onnxruntime")


def test_the_qoperator_form_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "qoperator.onnx"
    open_session(load_model(clean("matmul", "onnxruntime")), save_optimized=str(path))
    with pytest.raises(UnsupportedModelError, match=r"not in QDQ form.*QLinear"):
        lint(path, "onnxruntime")
