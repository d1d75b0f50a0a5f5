"""Counts checked by hand, reasons checked by breaking a model, real models against published figures."""

from __future__ import annotations

from pathlib import Path

import graph_edits as edit
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import calib8
from calib8.analysis.inspect import LayerInspection, ModelInspection, inspect_model
from calib8.demo import MODEL_PATH
from calib8.errors import ModelError
from calib8.model.load import load_model
from calib8.model.made_up import made_up_input
from calib8.model.metadata import write_metadata
from calib8.model.runtime import open_session
from calib8.model.save import save_model
from calib8.tensors import TensorSpec
from small_nets import NETS, Net, clean


def inspected(proto: onnx.ModelProto, folder: Path) -> ModelInspection:
    onnx.save(proto, folder / "model.onnx")
    return inspect_model(folder / "model.onnx")


def by_name(result: ModelInspection) -> dict[str, LayerInspection]:
    return {layer.name: layer for layer in result.layers}


def test_the_demo_model_is_told_completely() -> None:
    result = inspect_model(MODEL_PATH)
    assert result.path == str(MODEL_PATH)
    assert [str(spec) for spec in result.inputs] == ["input: float32 N×1×16×16"]
    assert [str(spec) for spec in result.outputs] == ["logits: float32 N×10"]
    assert (result.opset, result.kind, result.metadata, result.warnings) == (17, "float", {}, ())
    assert result.ops["Conv"] == result.ops["BatchNormalization"] == 7
    assert list(result.ops.values()) == sorted(result.ops.values(), reverse=True)
    assert all(layer.quantized and not layer.reason for layer in result.layers)
    assert len(result.batch_norms) == 7
    assert result.macs == sum(layer.macs or 0 for layer in result.layers)


@given(
    inp=st.integers(1, 3),
    out=st.integers(1, 3),
    group=st.integers(1, 3),
    kernel=st.integers(1, 3),
    size=st.integers(3, 6),
    transposed=st.booleans(),
)
def test_macs_of_a_convolution_count_every_product(
    inp: int,
    out: int,
    group: int,
    kernel: int,
    size: int,
    transposed: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Each product is one: with weights and input of ones, the outputs add up to their number."""
    channels, results = inp * group, out * group
    net = Net(shape=("N", channels, size, size))
    shape = (channels, out, kernel, kernel) if transposed else (results, inp, kernel, kernel)
    op = "ConvTranspose" if transposed else "Conv"
    proto = net.model(net.op(op, "x", net.const(np.ones(shape)), name="layer", group=group))
    result = inspected(proto, tmp_path_factory.mktemp("macs"))
    ones = np.ones((1, channels, size, size), np.float32)
    [sums] = open_session(load_model(proto)).run({"x": ones})
    assert result.macs == by_name(result)["layer"].macs == int(sums.sum())
    assert result.parameters == by_name(result)["layer"].parameters == np.prod(shape)


def test_matrix_products_are_counted(tmp_path: Path) -> None:
    result = inspected(NETS["matmul"](), tmp_path)
    layers = by_name(result)
    assert layers["matmul"].macs == 64 * 4 * 6
    assert layers["gemm"].macs == 384 * 3
    assert layers["conv0"].macs == 4 * 8 * 8 * 4 * 9
    assert layers["transpose"].macs == 0
    assert result.macs == 1536 + 1152 + 9216
    assert result.parameters == (4 * 4 * 9 + 4) + 4 * 6 + 6 + (384 * 3 + 3)
    assert layers["matmul"].output_shape == (1, 64, 6)


def test_a_fixed_batch_is_counted_per_sample(tmp_path: Path) -> None:
    counts = []
    for batch in ("N", 1, 8):
        net = Net(shape=(batch, 4, 8, 8))
        counts.append(inspected(net.model(net.conv("x", 4, 2)), tmp_path).macs)
    assert counts == [2 * 64 * 4 * 9] * 3


def test_unknown_sizes_give_no_number_and_a_warning(tmp_path: Path) -> None:
    net = Net(shape=("N", 4, "H", "W"))
    result = inspected(net.model(net.conv("x", 4, 2, name="layer")), tmp_path)
    assert result.macs is None and by_name(result)["layer"].macs is None
    assert [warning for warning in result.warnings if "'layer'" in warning]
    assert result.parameters == 2 * 4 * 9 + 2
    assert by_name(result)["layer"].quantized


def test_constants_shared_or_used_as_settings_are_counted_right(tmp_path: Path) -> None:
    net = Net()
    weight = net.weight(4, 4, 1, 1)
    y = net.clip(net.op("Conv", "x", weight), 0.0, 6.0)
    result = inspected(net.model(net.op("Conv", y, weight)), tmp_path)
    assert result.parameters == 16


def test_a_float_model_says_what_stays_float_and_why(tmp_path: Path) -> None:
    net = Net()
    y = net.op("LRN", net.conv("x", 4, 4, name="first"), name="erf", size=3)
    y = net.op("HardSwish", net.conv(y, 4, 4, name="second"))
    result = inspected(net.model(net.op("Mul", y, net.weight(4, 8, 8), name="decode")), tmp_path)
    layers = by_name(result)
    assert layers["first"].quantized and layers["second"].quantized
    reason = "the op has no integer form"
    assert layers["erf"] == LayerInspection("erf", "LRN", (1, 4, 8, 8), 0, 0, False, reason)
    assert "behind the last weighted layer" in layers["decode"].reason


def test_a_layer_with_computed_weights_stays_float(tmp_path: Path) -> None:
    net = Net()
    y = net.op("Reshape", net.conv("x", 4, 4), net.const([4, 64], np.int64))
    turned = net.op("Transpose", y, perm=[1, 0])
    result = inspected(net.model(net.op("MatMul", y, turned, name="product")), tmp_path)
    assert by_name(result)["product"].reason == "its weight is computed, not constant"
    assert by_name(result)["product"].macs == 4 * 64 * 4


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "target", ["onnxruntime", "calib8", "openvino", "tflite", "tensorrt", "tengine", "ncnn"]
)
@pytest.mark.parametrize("net", NETS)
def test_every_layer_of_our_own_models_counts_as_quantized(net: str, target: str, tmp_path: Path) -> None:
    result = inspected(clean(net, target), tmp_path)
    weighted = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
    assert result.kind == "quantized"
    assert all(layer.quantized for layer in result.layers if layer.op_type in weighted)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("net", NETS)
def test_a_quantized_model_counts_as_the_float_one_said(net: str, tmp_path: Path) -> None:
    """The same operations, the same of them quantized: what ``quantize`` tells too."""
    before, after = inspected(NETS[net](), tmp_path), inspected(clean(net, "onnxruntime"), tmp_path)
    told = [{layer.name: layer.quantized for layer in one.layers} for one in (before, after)]
    assert told[0] == told[1]
    assert before.coded_share == after.coded_share == 1.0


def test_reading_a_shape_is_no_operation(tmp_path: Path) -> None:
    net = Net()
    y = net.conv("x", 4, 4, name="layer")
    head = net.op("Slice", net.op("Shape", y, name="sizes"), *(net.const([i], np.int64) for i in (0, 1, 0)))
    flat = net.op("Concat", head, net.const([-1], np.int64), axis=0)
    proto = net.model(net.op("Reshape", y, flat, name="flat"))
    made = calib8.quantize(proto, [{"x": np.ones((1, 4, 8, 8), np.float32)}], effort="fast")
    made.save(tmp_path / "int8.onnx")
    told = [one.node for one in made.placement.decisions]
    assert told == list(by_name(inspected(proto, tmp_path))) and "sizes" not in told
    assert told == list(by_name(inspect_model(tmp_path / "int8.onnx")))


def test_macs_in_float_are_a_share_of_all(tmp_path: Path) -> None:
    net = Net()
    y = net.conv(net.conv("x", 4, 4, name="first"), 4, 12, name="second")
    proto = net.model(y)
    calib8.quantize(
        proto, [{"x": np.ones((1, 4, 8, 8), np.float32)}], effort="fast", keep_float=["second"]
    ).save(tmp_path / "int8.onnx")
    assert inspect_model(tmp_path / "int8.onnx").coded_share == pytest.approx(0.25)


def test_movers_of_dequantized_values_stay_float(tmp_path: Path) -> None:
    net = Net()
    moved = net.op("Transpose", net.conv("x", 4, 4, name="layer"), perm=[0, 2, 3, 1], name="move")
    proto = net.model(net.op("Sin", moved, name="sine"))
    quantized = calib8.quantize(proto, [{"x": np.ones((1, 4, 8, 8), np.float32)}], effort="fast")
    quantized.save(tmp_path / "int8.onnx")
    layers = by_name(inspect_model(tmp_path / "int8.onnx"))
    expected = {one.node: one.quantized for one in quantized.placement.decisions}
    assert {name: layer.quantized for name, layer in layers.items()} == expected
    assert layers["move"].reason == "only float nodes read it" and layers["layer"].quantized


@pytest.mark.one_in(2)
@pytest.mark.parametrize("net", NETS)
def test_quantizing_changes_neither_parameters_nor_macs(net: str, tmp_path: Path) -> None:
    """Batch norms are folded first, so that only models without them keep their number."""
    proto = NETS[net]()
    result = inspected(proto, tmp_path)
    after = inspected(clean(net, "onnxruntime"), tmp_path)
    assert after.macs == result.macs
    if not result.batch_norms:
        assert after.parameters == result.parameters


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("last", "its weight 'last/float1' does not come from DequantizeLinear"),
        ("plain_add", "its input 'relu1_out' does not come from DequantizeLinear"),
        ("a", "its input 'relu1_out' does not come from DequantizeLinear"),
    ],
)
def test_a_quantized_model_says_what_is_missing(node: str, reason: str, tmp_path: Path) -> None:
    proto = clean("residual", "onnxruntime")
    if node == "last":
        edit.float_constant(proto, "last", 1)
    else:
        edit.rewire(proto, node, 1 if node == "plain_add" else 0, "relu1_out")
    layers = by_name(inspected(proto, tmp_path))
    assert [layer.name for layer in layers.values() if not layer.quantized] == [node]
    assert layers[node].reason == reason


def test_the_qoperator_form_counts_as_quantized(tmp_path: Path) -> None:
    path = tmp_path / "qoperator.onnx"
    open_session(load_model(clean("conv_chain", "onnxruntime")), save_optimized=str(path))
    result = inspect_model(path)
    assert result.kind == "quantized"
    assert result.ops["QLinearConv"] == 3
    assert [layer.quantized for layer in result.layers if layer.op_type == "QLinearConv"] == [True] * 3
    as_pairs = inspected(clean("conv_chain", "onnxruntime"), tmp_path)
    assert result.parameters == as_pairs.parameters
    assert result.macs == as_pairs.macs and not result.warnings


def test_the_integer_convolution_of_onnx_is_counted(tmp_path: Path) -> None:
    net = Net()
    scale, point = net.const(0.1), net.const(3, np.uint8)
    codes, bias = net.const(np.ones((6, 4, 3, 3)), np.int8), net.const(np.ones(6), np.int32)
    weight = (codes, net.const(0.2), net.const(0, np.int8))
    y = net.op("QuantizeLinear", "x", scale, point)
    y = net.op("QLinearConv", y, scale, point, *weight, scale, point, bias, name="layer")
    result = inspected(net.model(net.op("DequantizeLinear", y, scale, point)), tmp_path)
    assert [(layer.name, layer.quantized) for layer in result.layers] == [("layer", True)]
    assert result.macs == 6 * 6 * 6 * 4 * 9
    assert result.parameters == 6 * 4 * 9 + 6


def test_stored_metadata_is_shown(tmp_path: Path) -> None:
    model = load_model(clean("conv_chain", "tflite"))
    write_metadata(model, {"target": "tflite", "version": "1"})
    save_model(model, tmp_path / "model.onnx")
    assert inspect_model(tmp_path / "model.onnx").metadata == {"target": "tflite", "version": "1"}


def test_a_dead_channel_before_a_batch_norm_is_reported(tmp_path: Path) -> None:
    net = Net()
    variance = np.array([1.0, 1.0, 1e-7, 1.0])
    y = net.batch_norm(net.conv("x", 4, 4), 4, variance, name="norm")
    result = inspected(net.model(net.conv(y, 4, 2)), tmp_path)
    [norm] = result.batch_norms
    k = 1 / np.sqrt(variance.astype(np.float32).astype(np.float64) + np.float32(1e-5))
    assert (norm.name, norm.channel, norm.suspicious) == ("norm", 2, True)
    assert norm.k_min == pytest.approx(k.min()) and norm.k_max == pytest.approx(k.max())
    assert norm.ratio == pytest.approx(k.max() / np.median(k))
    assert norm.shift_min == pytest.approx(0.1 - 0.2 * k.max())
    assert norm.shift_max == pytest.approx(0.1 - 0.2 * k.min())
    assert (norm.gamma, norm.mean) == (1.0, pytest.approx(0.2))
    assert norm.variance == norm.smallest_variance == pytest.approx(1e-7)
    assert norm.constant_channels == (2,)
    [warning] = result.warnings
    assert warning.startswith("norm: ") and "channel 2" in warning and "σ²=1e-07" in warning


def test_many_such_normalizations_are_one_line_with_the_worst(tmp_path: Path) -> None:
    net, y = Net(), "x"
    smallest = (1e-6, 1.0, 1e-9, 1e-7, 1e-8)
    for index, one in enumerate(smallest):
        variance = np.array([1.0, 1.0, one, 1.0])
        y = net.batch_norm(net.conv(y, 4, 4), 4, variance, name=f"norm{index}")
    result = inspected(net.model(net.conv(y, 4, 2)), tmp_path)
    [warning] = result.warnings
    assert warning.startswith("4 of 5 BatchNormalizations have a channel that is almost constant")
    named = [warning.find(f"norm{index}") for index in (2, 4, 3)]
    assert -1 not in named and named == sorted(named), "the three worst, worst first"
    assert "norm0" not in warning and "norm1" not in warning
    assert "batch_norms" in warning and sum(norm.suspicious for norm in result.batch_norms) == 4


def test_an_exploding_channel_is_reported_by_its_gain(tmp_path: Path) -> None:
    net = Net()
    gamma = np.array([1.0, -200.0, 0.5, 2.0])
    constants = [net.const(part) for part in (gamma, np.zeros(4), np.full(4, 0.5), np.ones(4))]
    y = net.op("BatchNormalization", net.conv("x", 4, 4), *constants, name="norm", epsilon=0.0)
    result = inspected(net.model(net.conv(y, 4, 2)), tmp_path)
    [norm] = result.batch_norms
    assert (norm.channel, norm.gamma, norm.suspicious, norm.constant_channels) == (1, -200.0, True, ())
    assert norm.ratio == pytest.approx(200 / 1.5)
    assert (norm.k_min, norm.k_max, norm.shift_min, norm.shift_max) == (-200.0, 2.0, -1.0, 100.0)
    assert "channel 1 has 133 times" in result.warnings[0]


def test_healthy_batch_norms_give_numbers_but_no_warning(tmp_path: Path) -> None:
    result = inspected(NETS["conv_chain"](), tmp_path)
    assert [norm.suspicious for norm in result.batch_norms] == [False]
    assert result.warnings == ()


def test_control_flow_is_told_not_raised(tmp_path: Path) -> None:
    net = Net(shape=(1, 4, 8, 8))
    y = net.conv("x", 4, 4, name="layer")
    flag = net.op("Greater", net.op("ReduceMax", y, keepdims=0), net.const(0.0))
    out = [helper.make_tensor_value_info("r", TensorProto.FLOAT, (1, 4, 8, 8))]
    branches = [
        helper.make_graph([helper.make_node(kind, [y], ["r"], name=f"in_{kind}")], kind, [], out)
        for kind in ("Relu", "Neg")
    ]
    result = inspected(
        net.model(net.op("If", flag, name="choose", then_branch=branches[0], else_branch=branches[1])),
        tmp_path,
    )
    [warning] = result.warnings
    assert "control flow" in warning and "If 'choose'" in warning
    assert result.ops["Relu"] == result.ops["Neg"] == result.ops["If"] == 1
    layers = by_name(result)
    assert {"layer", "in_Relu", "in_Neg"} <= set(layers)
    assert not any(layer.quantized for layer in layers.values())
    assert all(layer.reason for layer in layers.values())
    assert layers["layer"].macs == 4 * 64 * 4 * 9


def test_broken_files_are_model_errors(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        inspect_model(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("this is no model")
    with pytest.raises(ModelError):
        inspect_model(tmp_path / "text.onnx")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((None, 3, "H", 8), (1, 3, 64, 8)), ((), ()), (None, (1,)), (("N",), (1,))],
)
def test_made_up_inputs_have_the_stated_shape(
    shape: tuple[int | str | None, ...] | None, expected: tuple[int, ...]
) -> None:
    array = made_up_input(TensorSpec("x", np.dtype(np.float32), shape))
    assert array.shape == expected and array.dtype == np.float32
    assert np.array_equal(array, made_up_input(TensorSpec("x", np.dtype(np.float32), shape)))


@pytest.mark.parametrize(
    ("model", "parameters", "macs"),
    [
        ("mobilenet_v2_torchvision", 3_487_816, 300_774_272),
        ("resnet20_cifar10", 269_034, 40_551_040),
        ("efficientnet_lite0", 4_631_000, 385_187_552),
    ],
)
def test_real_models_have_the_published_size(
    model: str, parameters: int, macs: int, shared_data: Path
) -> None:
    """MobileNetV2: 300.8 M multiply-accumulates, ResNet-20: 0.27 M parameters, 40.6 M."""
    result = inspect_model(shared_data / "models" / f"{model}.onnx")
    assert (result.parameters, result.macs) == (parameters, macs)
    assert all(layer.quantized for layer in result.layers)


def test_dynamic_sizes_of_a_real_model(shared_data: Path) -> None:
    result = inspect_model(shared_data / "models" / "ch_PP-OCRv4_det_infer.onnx")
    assert result.macs is None and result.opset == 12
    assert sum(layer.op_type == "Conv" and layer.quantized for layer in result.layers) >= 62


@pytest.mark.slow
def test_box_decoding_of_a_real_model_stays_float(shared_data: Path) -> None:
    result = inspect_model(shared_data / "models" / "ultraface_RFB-320.onnx")
    left = {layer.op_type for layer in result.layers if not layer.quantized}
    assert "Exp" in left and "Conv" not in left
    assert len(result.inputs) == 1


def test_a_model_with_lstm_and_branches_gets_a_clear_answer(shared_data: Path) -> None:
    result = inspect_model(shared_data / "models" / "silero_vad_16k_op15.onnx")
    assert result.kind == "float" and result.macs is None
    assert result.warnings[0].startswith("Cannot be quantized as it is: ")  # not with made-up sizes
    kinds = {layer.op_type for layer in result.layers}
    assert {"Conv", "LSTM"} <= kinds
    assert not any(layer.quantized for layer in result.layers)
    assert 250_000 < result.parameters < 330_000
