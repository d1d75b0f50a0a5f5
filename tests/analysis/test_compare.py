"""The loss of every layer: against plain arithmetic, with planted faults, on graphs of other quantizers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import graph_edits as edit
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from small_nets import IMAGE, NETS, Net, clean

import calib8
from calib8.analysis.compare import Comparison, TensorComparison, compare
from calib8.errors import DataError, ModelError, UnsupportedModelError, UsageError
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.model.taps import tapped_model
from calib8.passes.prepare import prepare
from calib8.quantization.qdq import nodes
from small_models import normal, onnx_model

Array = npt.NDArray[Any]


def images(count: int, shape: tuple[int, ...] = IMAGE) -> list[dict[str, Array]]:
    return [{"x": normal(*shape, seed=100 + index)} for index in range(count)]


def by_tensor(found: Comparison) -> dict[str, TensorComparison]:
    return {tensor.tensor: tensor for tensor in found.tensors}


# A network of two layers whose scales are powers of two and whose weights are multiples of 1/64: every sum
# is exact in float32, so that the int8 model can be computed with integers here.

SX, SR, SY = 1 / 16, 1 / 4, 1 / 2
ZX, ZY = 128, 100
W1, B1 = np.array([[3, -20, 7], [-40, 25, 11]]), np.array([33, -70])
W2, B2 = np.array([[13, -27], [50, 9], [-31, 44]]), np.array([5, 0, -64])
S1, S2 = np.array([1 / 64, 1 / 32]), np.array([1 / 64, 1 / 16, 1 / 32])
LAYERS = "c = Conv(x, w1, b1) r = Relu(c) y = Conv(r, w2, b2)"
QDQ = """
xq = QuantizeLinear(x, sx, zx)  xd = DequantizeLinear(xq, sx, zx)
w1d = DequantizeLinear<axis=0>(w1q, s1)  b1d = DequantizeLinear<axis=0>(b1q, sb1)
c = Conv(xd, w1d, b1d)  r = Relu(c)
rq = QuantizeLinear(r, sr, zr)  rd = DequantizeLinear(rq, sr, zr)
w2d = DequantizeLinear<axis=0>(w2q, s2)  b2d = DequantizeLinear<axis=0>(b2q, sb2)
before = Conv(rd, w2d, b2d)
yq = QuantizeLinear(before, sy, zy)  y = DequantizeLinear(yq, sy, zy)
"""
ENDS = ("float[N,3,4,4] x", "float[N,3,4,4] y")


def exact_float() -> onnx.ModelProto:
    """Weights that the codes miss by up to a step."""
    rng = np.random.default_rng(3)
    constants = {
        "w1": kernel(W1 * S1[:, None] + rng.integers(-1, 2, W1.shape) / 64),
        "b1": (B1 * S1 * SX).astype(np.float32),
        "w2": kernel(W2 * S2[:, None] + rng.integers(-2, 3, W2.shape) / 64),
        "b2": (B2 * S2 * SR).astype(np.float32),
    }
    return onnx_model(*ENDS, LAYERS, constants)


def exact_int8() -> onnx.ModelProto:
    scales = {"sx": SX, "sr": SR, "sy": SY, "s1": S1, "s2": S2, "sb1": S1 * SX, "sb2": S2 * SR}
    codes = {"w1q": kernel(W1, np.int8), "w2q": kernel(W2, np.int8), "b1q": np.int32(B1), "b2q": np.int32(B2)}
    points = {"zx": np.uint8(ZX), "zr": np.uint8(0), "zy": np.uint8(ZY)}
    constants = {name: np.asarray(value, np.float32) for name, value in scales.items()} | codes | points
    return onnx_model(*ENDS, QDQ, constants)


def kernel(weight: Array, dtype: Any = np.float32) -> Array:
    return weight[:, :, None, None].astype(dtype)


def exact_images(count: int) -> list[dict[str, Array]]:
    """Multiples of 1/64 from −9 to 9; the codes end at −8 and 7.9375."""
    rng = np.random.default_rng(4)
    return [{"x": (rng.integers(-576, 577, (1, 3, 4, 4)) / 64).astype(np.float32)} for _ in range(count)]


def codes(values: Array, scale: float, point: int) -> Array:
    return np.clip(np.rint(values / scale) + point, 0, 255).astype(np.int64)


def sums(weight: Array, bias: Array, steps: Array) -> Array:
    return np.einsum("oi,nihw->nohw", weight, steps) + bias[:, None, None]


def layer1(x: Array) -> Array:
    """Codes of r from real values of x, in integers."""
    real = sums(W1, B1, codes(x, SX, ZX) - ZX) * (SX * S1)[:, None, None]
    return codes(real, SR, 0)


def layer2(r: Array) -> Array:
    real = sums(W2, B2, codes(r, SR, 0)) * (SR * S2)[:, None, None]
    return codes(real, SY, ZY)


def expected_distance(reference: Array, output: Array) -> tuple[float, float]:
    noise = np.sum((reference - output) ** 2)
    cosine = np.sum(reference * output) / np.sqrt(np.sum(reference**2) * np.sum(output**2))
    return 10 * math.log10(np.sum(reference**2) / noise), float(cosine)


@pytest.fixture(scope="module")
def exact() -> dict[str, Array]:
    """FP32 tensors of seven images, and what integers make of them, alone and in a row."""
    x = np.concatenate([feeds["x"] for feeds in exact_images(7)]).astype(np.float64)
    constants = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in exact_float().graph.initializer}
    w1, w2 = (constants[name][:, :, 0, 0] for name in ("w1", "w2"))
    r = np.maximum(sums(w1, constants["b1"], x), 0)
    return {
        "x": x,
        "r": r,
        "y": sums(w2, constants["b2"], r),
        "x codes": (codes(x, SX, ZX) - ZX) * SX,
        "r local": layer1(x) * SR,
        "y local": (layer2(r) - ZY) * SY,
        "y cumulative": (layer2(layer1(x) * SR) - ZY) * SY,
    }


@pytest.mark.parametrize("batch", [1, 3])
def test_the_figures_are_those_of_plain_arithmetic(exact: dict[str, Array], batch: int) -> None:
    found = compare(exact_float(), exact_int8(), exact_images(7), batch=batch)
    tensors = by_tensor(found)
    assert set(tensors) == {"x", "r", "y"}
    for name, local, cumulative in (
        ("x", "x codes", "x codes"),
        ("r", "r local", "r local"),
        ("y", "y local", "y cumulative"),
    ):
        for distance, output in ((tensors[name].local, local), (tensors[name].cumulative, cumulative)):
            sqnr, cosine = expected_distance(exact[name], exact[output])
            assert distance.sqnr_db == pytest.approx(sqnr, abs=1e-9), name
            assert distance.cosine == pytest.approx(cosine, abs=1e-12), name
        assert tensors[name].observed == (exact[name].min(), exact[name].max())
        assert tensors[name].values == exact[name].size
    assert tensors["y"].local != tensors["y"].cumulative
    assert found.outputs == tensors["y"].cumulative
    assert found.images == 7 and found.left_out == ()


def test_layers_codes_and_weights_are_told(exact: dict[str, Array]) -> None:
    tensors = by_tensor(compare(exact_float(), exact_int8(), exact_images(7)))
    x, r, y = (tensors[name] for name in "xry")
    assert (x.node, x.op_type, x.nodes, x.weight_sqnr_db) == (None, "", (), None)
    assert (r.op_type, len(r.nodes)) == ("Conv", 2)
    assert (x.dtype, x.scale, x.zero_point) == ("uint8", (SX,), (ZX,))
    assert x.representable == (-ZX * SX, (255 - ZX) * SX)
    # Up to half a step beyond the last code is rounding.
    outside = (exact["x"] < -128.5 * SX) | (exact["x"] > 127.5 * SX)
    assert 0 < x.saturated == np.mean(outside)
    float_weights = [
        numpy_helper.to_array(tensor).astype(np.float64) for tensor in exact_float().graph.initializer
    ]
    for tensor, weight, (quantized, scale) in (
        (r, float_weights[0], (W1, S1)),
        (y, float_weights[2], (W2, S2)),
    ):
        sqnr, _ = expected_distance(weight, kernel(quantized * scale[:, None], np.float64))
        assert tensor.weight_sqnr_db == pytest.approx(sqnr, abs=1e-9)


def test_both_orders_put_the_worst_first() -> None:
    model, data = NETS["residual"](), images(3)
    for sort in ("local", "cumulative"):
        found = compare(model, clean("residual", "onnxruntime"), data, sort=sort)
        figures = [getattr(tensor, sort).sqnr_db for tensor in found.tensors]
        assert found.sort == sort
        assert figures == sorted(figures) and len(set(figures)) > 3
        assert all(math.isfinite(figure) for figure in figures)


@pytest.mark.parametrize("target", ["onnxruntime", "tflite", "tensorrt"])
@pytest.mark.parametrize("name", NETS)
def test_every_target_and_every_building_block(name: str, target: str) -> None:
    found = compare(NETS[name](), clean(name, target), images(2))
    assert found.left_out == ()
    quantizers = [node for node in nodes(load_model(clean(name, target))) if node.op_type == "QuantizeLinear"]
    coded = [tensor for tensor in found.tensors if tensor.scale is not None]
    assert 0 < len(coded) <= len(quantizers)
    # Where Concat wants one scale, a small input loses much by being coded again.
    again = [tensor.tensor for tensor in found.tensors if tensor.op_type == "QuantizeLinear"]
    assert bool(again) == ((name, target) == ("concat", "tflite"))
    for tensor in found.tensors:
        if tensor.op_type == "QuantizeLinear":
            continue
        assert tensor.local.sqnr_db > 15 and tensor.cumulative.sqnr_db > 10, tensor
        assert tensor.local.cosine is not None and tensor.local.cosine > 0.98
        assert tensor.weight_sqnr_db is None or 30 < tensor.weight_sqnr_db < 60


def weight_scale(proto: onnx.ModelProto, layer: str) -> str:
    """Name of the scales of a layer's weight."""
    source = next(node for node in proto.graph.node if edit.node(proto, layer).input[1] in node.output)
    return str(source.input[1])


def with_fault(proto: onnx.ModelProto, layer: str, channel: int) -> onnx.ModelProto:
    """One channel's weight scale × 8."""
    broken = onnx.ModelProto.FromString(proto.SerializeToString())
    name = weight_scale(broken, layer)
    scales = edit.array(broken, name).copy()
    scales[channel] *= 8
    edit.store(broken, name, scales)
    return broken


def loudest_channel(model: onnx.ModelProto, tensor: str, axis: int, data: list[dict[str, Array]]) -> int:
    """The channel of most energy: where a fault cannot go unheard."""
    prepared = prepare(load_model(model), data[0]).model
    session = open_session(tapped_model(prepared, [tensor]))
    values = np.concatenate([session.run(feeds)[0] for feeds in data])
    return int(np.argmax(np.sum(np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1) ** 2, axis=1)))


@pytest.mark.parametrize("target", ["onnxruntime", "tensorrt"])
@pytest.mark.parametrize("name", ["conv_chain", "residual", "classifier", "upsample", "matmul"])
def test_a_planted_fault_comes_out_on_top(name: str, target: str) -> None:
    model, int8, data = NETS[name](), clean(name, target), images(2)
    layers = [tensor for tensor in compare(model, int8, data).tensors if tensor.weight_sqnr_db is not None]
    assert len(layers) >= 3
    for layer in layers:
        assert layer.node is not None
        axis = 1 if layer.op_type in ("Conv", "ConvTranspose") else -1
        output = edit.node(int8, layer.node).output[0].removesuffix("/float")
        channel = loudest_channel(model, output, axis, data)
        if layer.op_type == "ConvTranspose":  # two groups share their scales
            channel %= edit.array(int8, weight_scale(int8, layer.node)).size
        found = compare(model, with_fault(int8, layer.node, channel), data)
        assert found.tensors[0].node == layer.node
        assert found.tensors[0].local.sqnr_db < layer.local.sqnr_db - 10
        assert found.tensors[0].weight_sqnr_db is not None and found.tensors[0].weight_sqnr_db < 10
        others = {tensor.tensor: tensor.local for tensor in found.tensors[1:]}
        before = by_tensor(compare(model, int8, data))
        assert all(before[tensor].local == local for tensor, local in others.items()), "only one is to blame"


def test_a_sum_that_stays_float_belongs_to_the_layer_before_it() -> None:
    found = compare(NETS["residual"](), clean("residual", "tensorrt"), images(1))
    sums_of_layers = [tensor for tensor in found.tensors if any("add" in node for node in tensor.nodes)]
    assert any(tensor.op_type == "Conv" for tensor in sums_of_layers)


def test_a_layer_that_reads_the_float_tensor_is_fed_it() -> None:
    """Q and DQ before one reader only: the other one must not see the noise of the layer before."""
    proto = exact_int8()
    branch = helper.make_node("Neg", ["r"], ["n"], name="branch")
    proto.graph.node.insert(6, branch)
    proto.graph.output.append(helper.make_tensor_value_info("n", TensorProto.FLOAT, ["N", 2, 4, 4]))
    original = onnx_model(ENDS[0], f"{ENDS[1]}, float[N,2,4,4] n", f"{LAYERS} n = Neg(r)", float_constants())
    found = by_tensor(compare(original, proto, exact_images(2)))
    assert found["n"].scale is None and found["n"].saturated is None
    assert found["n"].local.sqnr_db == math.inf
    assert found["n"].cumulative.sqnr_db < 40


def float_constants() -> dict[str, Array]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in exact_float().graph.initializer}


def test_equal_quantizers_of_one_tensor_are_one() -> None:
    proto = exact_int8()
    edit.store(proto, "sr2", np.float32(SR))
    twin = [
        helper.make_node("QuantizeLinear", ["r", "sr2", "zr"], ["rq2"]),
        helper.make_node("DequantizeLinear", ["rq2", "sr2", "zr"], ["rd2"]),
    ]
    for offset, item in enumerate(twin):
        proto.graph.node.insert(8 + offset, item)
    next(node for node in proto.graph.node if "before" in node.output).input[0] = "rd2"
    found, expected = (compare(exact_float(), model, exact_images(3)) for model in (proto, exact_int8()))
    assert found.tensors == expected.tensors


def test_codes_per_channel_are_compared() -> None:
    proto = exact_int8()
    edit.store(proto, "sr", np.float32([SR, 2 * SR]))
    edit.store(proto, "zr", np.uint8([0, 3]))
    for node in proto.graph.node:
        if "rq" in [*node.input[:1], *node.output]:
            node.attribute.append(helper.make_attribute("axis", 1))
    tensor = by_tensor(compare(exact_float(), proto, exact_images(3)))["r"]
    assert (tensor.scale, tensor.zero_point) == ((SR, 2 * SR), (0, 3))
    assert tensor.representable == (-3 * 2 * SR, 252 * 2 * SR)
    assert 20 < tensor.local.sqnr_db < 45


def renamed(proto: onnx.ModelProto, names: dict[str, str]) -> onnx.ModelProto:
    for node in proto.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    del proto.graph.value_info[:]
    return proto


def test_a_tensor_without_counterpart_belongs_to_the_layer_behind() -> None:
    model, data = NETS["conv_chain"](), images(3)
    before = by_tensor(compare(model, clean("conv_chain", "onnxruntime"), data))
    first, second = (
        tensor for tensor in before.values() if tensor.op_type == "Conv" and len(tensor.nodes) == 2
    )
    found = compare(model, renamed(clean("conv_chain", "onnxruntime"), {first.tensor: "other"}), data)
    assert [(item.tensor, item.reason) for item in found.left_out] == [
        ("other", "the float model has no tensor of this name")
    ]
    after = by_tensor(found)
    assert after[second.tensor].node == second.node
    assert after[second.tensor].nodes == (*first.nodes, *second.nodes)
    assert after[second.tensor].local.sqnr_db < second.local.sqnr_db
    assert after[second.tensor].local == second.cumulative, "both layers are fed with the input"


def test_a_model_of_another_network_is_refused() -> None:
    every = {node.output[0]: f"other {index}" for index, node in enumerate(exact_int8().graph.node[:-1])}
    with pytest.raises(ModelError, match=r"none of its 1 quantized tensors between .*Give the float model"):
        compare(exact_float(), renamed(exact_int8(), every), exact_images(1))
    shorter = exact_float()
    shorter.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 2
    for name in ("w2", "b2"):
        edit.store(shorter, name, edit.array(shorter, name)[:2])
    with pytest.raises(
        ModelError, match=r"its output 'y' has shape \[1, 3, 4, 4\] instead of \[1, 2, 4, 4\]"
    ):
        compare(shorter, exact_int8(), exact_images(1))
    wider = exact_float()
    edit.store(wider, "w1", np.tile(edit.array(wider, "w1"), (2, 1, 1, 1)))
    edit.store(wider, "b1", np.tile(edit.array(wider, "b1"), 2))
    edit.store(wider, "w2", np.tile(edit.array(wider, "w2"), (1, 2, 1, 1)))
    with pytest.raises(ModelError, match=r"'r': its shape is .*it was not made from exact"):
        wider.graph.name = "exact"
        compare(wider, exact_int8(), exact_images(1))


def test_the_models_must_be_a_float_and_a_quantized_one() -> None:
    model, int8, data = exact_float(), exact_int8(), exact_images(1)
    with pytest.raises(UsageError, match=r"they are the wrong way round. Give the float model first."):
        compare(int8, model, data)
    with pytest.raises(UsageError, match=r"is quantized. Give the float model first."):
        compare(int8, int8, data)
    with pytest.raises(UsageError, match=r"is a float model. Give the quantized model second."):
        compare(model, model, data)


def test_a_float_model_may_keep_its_weights_in_codes() -> None:
    """Dequantized constants are a way to store them, no quantized model."""
    text = LAYERS.replace("c =", "w1 = DequantizeLinear<axis=0>(w1q, s1) c =")
    constants = float_constants() | {"w1q": kernel(W1, np.int8), "s1": S1.astype(np.float32)}
    del constants["w1"]
    found = compare(onnx_model(*ENDS, text, constants), exact_int8(), exact_images(2))
    plain = float_constants() | {"w1": kernel(W1 * S1[:, None])}
    expected = compare(onnx_model(*ENDS, LAYERS, plain), exact_int8(), exact_images(2))
    assert [tensor.local for tensor in found.tensors] == [tensor.local for tensor in expected.tensors]
    assert by_tensor(expected)["r"].weight_sqnr_db == math.inf


def test_other_inputs_or_outputs_are_refused() -> None:
    data = exact_images(1)
    with pytest.raises(ModelError, match=r"takes 'z' instead of 'x'. Give the float model that it was made"):
        other = renamed(exact_int8(), {"x": "z"})
        other.graph.input[0].name = "z"
        compare(exact_float(), other, data)
    with pytest.raises(ModelError, match="takes 'x: float32 N×3×4×4' instead of 'x: float32 N×3×5×5'"):
        bigger = onnx_model("float[N,3,5,5] x", "float[N,3,5,5] y", LAYERS, float_constants())
        compare(bigger, exact_int8(), data)
    with pytest.raises(ModelError, match="has 2 outputs instead of 1"):
        more = exact_int8()
        edit.add_output(more, "r")
        compare(exact_float(), more, data)


def test_a_size_that_one_model_leaves_free_is_that_of_the_other() -> None:
    fixed = exact_int8()
    for end in (fixed.graph.input[0], fixed.graph.output[0]):
        end.type.tensor_type.shape.dim[0].dim_value = 2
    found = compare(exact_float(), fixed, exact_images(6))
    assert found.images == 6
    assert found.tensors == compare(exact_float(), exact_int8(), exact_images(6), batch=2).tensors


def test_a_model_without_quantized_activations_is_refused() -> None:
    proto = exact_int8()
    kept = [node for node in proto.graph.node if not {*node.output} & {"xq", "xd", "rq", "rd", "yq", "y"}]
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    weights_only = renamed(proto, {"xd": "x", "rd": "r", "before": "y"})
    with pytest.raises(UnsupportedModelError, match=r"quantizes no activation .*Give a QDQ model."):
        compare(exact_float(), weights_only, exact_images(1))


def test_integer_ops_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r"holds QLinearConv nodes .*Quantize in QDQ form"):
        compare(NETS["residual"](), foreign(tmp_path, QuantFormat.QOperator), images(1))


@pytest.mark.parametrize("scale", [0.0, -0.25, math.nan, math.inf])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    proto = exact_int8()
    edit.store(proto, "sr", np.float32(scale))
    with pytest.raises(ModelError, match=rf"tensor 'r': its scale is {scale}\. Quantize the model again"):
        compare(exact_float(), proto, exact_images(1))


def test_bad_options_and_data_are_refused() -> None:
    model, int8 = exact_float(), exact_int8()
    with pytest.raises(UsageError, match=r"--sort best: unknown order. Use local or cumulative."):
        compare(model, int8, exact_images(1), sort="best")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="--batch 0"):
        compare(model, int8, exact_images(1), batch=0)
    with pytest.raises(UsageError, match="--threads 0"):
        compare(model, int8, exact_images(1), threads=0)
    with pytest.raises(DataError):
        compare(model, int8, [{"x": np.zeros((1, 1, 4, 4), np.float32)}])
    for value in (math.nan, math.inf):
        broken = exact_images(2)
        broken[1]["x"][0, 0, 0, 0] = value
        with pytest.raises(
            DataError, match="sample 1: the float model has NaN or infinite values in tensor 'x'"
        ):
            compare(model, int8, broken)


def test_a_tensor_of_zeros_has_no_signal() -> None:
    """All biases away, an input of zeros: nothing to lose, and nothing to divide by."""
    constants = float_constants() | {name: np.zeros_like(float_constants()[name]) for name in ("b1", "b2")}
    proto = exact_int8()
    for name in ("b1q", "b2q"):
        edit.store(proto, name, np.zeros_like(edit.array(proto, name)))
    found = compare(onnx_model(*ENDS, LAYERS, constants), proto, {"x": np.zeros((2, 3, 4, 4), np.float32)})
    for tensor in found.tensors:
        assert (tensor.local.sqnr_db, tensor.local.cosine) == (math.inf, None)
    noisy = compare(
        onnx_model(*ENDS, LAYERS, constants), exact_int8(), {"x": np.zeros((2, 3, 4, 4), np.float32)}
    )
    assert noisy.tensors[0].local.sqnr_db == -math.inf


class Images(CalibrationDataReader):  # type: ignore[misc]
    """Four random images for ONNX Runtime's own quantizer."""

    def __init__(self) -> None:
        self.left = images(4)

    def get_next(self) -> dict[str, Array] | None:
        return self.left.pop() if self.left else None


def foreign(folder: Path, quant_format: QuantFormat, name: str = "residual", **options: Any) -> Path:
    """A small network as ONNX Runtime's quantizer writes it."""
    onnx.save(NETS[name](), folder / "float.onnx")
    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    settings = types | {"quant_format": quant_format, "per_channel": True} | options
    quantize_static(folder / "float.onnx", folder / "int8.onnx", Images(), **settings)
    return folder / "int8.onnx"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"activation_type": QuantType.QInt8, "per_channel": False},
        {"activation_type": QuantType.QUInt16},
        {"extra_options": {"DedicatedQDQPair": True}},
        {"extra_options": {"AddQDQPairToWeight": True}},
        {"op_types_to_quantize": ["Conv"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["residual", "conv_chain", "classifier"])
def test_models_of_another_tool(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    found = compare(NETS[name](), foreign(tmp_path, QuantFormat.QDQ, name, **options), images(2))
    assert found.left_out == ()
    assert len(found.tensors) >= 4
    assert all(tensor.local.sqnr_db > 20 for tensor in found.tensors)
    layers = [tensor for tensor in found.tensors if tensor.op_type == "Conv"]
    assert layers and all(tensor.weight_sqnr_db is not None for tensor in layers)


def test_codes_that_clip_like_the_relu_behind_them(tmp_path: Path) -> None:
    """That quantizer gives the Conv the range of its Relu: the tensor loses its negative values."""
    options = {"extra_options": {"QDQKeepRemovableActivations": True}}
    int8 = foreign(tmp_path, QuantFormat.QDQ, "classifier", **options)
    found = by_tensor(compare(NETS["classifier"](), int8, images(2)))
    clipped, kept = found["first_out"], found["relu1_out"]
    assert clipped.representable is not None and clipped.representable[0] == 0
    assert clipped.saturated is not None and clipped.saturated > 0.2 and clipped.local.sqnr_db < 10
    assert kept.saturated is not None and kept.saturated < 0.01 and kept.local.sqnr_db > 30


def test_the_preprocessing_stored_in_the_int8_model_is_used(tmp_path: Path) -> None:
    from calib8.demo import CALIBRATION_PATH, HELDOUT_PATH, MODEL_PATH

    recipe = calib8.Preprocess(color="gray", mean=(128.0,), scale=(1 / 128,))
    calib8.quantize(MODEL_PATH, CALIBRATION_PATH, preprocess=recipe, samples=20).save(tmp_path / "int8.onnx")
    stored = calib8.compare(MODEL_PATH, tmp_path / "int8.onnx", HELDOUT_PATH, samples=20)
    given = calib8.compare(MODEL_PATH, tmp_path / "int8.onnx", HELDOUT_PATH, samples=20, preprocess=recipe)
    assert stored == given
    assert stored.agreement == 1.0 and stored.outputs.sqnr_db > 30
    steps: list[tuple[str, int, int | None]] = []
    calib8.compare(
        MODEL_PATH, tmp_path / "int8.onnx", HELDOUT_PATH, samples=3, progress=lambda *step: steps.append(step)
    )
    assert steps == [("comparing", done, 3) for done in range(4)]


def test_extra_outputs_leave_the_fused_kernels_alone() -> None:
    """The codes that are looked at are those that the file computes by itself."""
    int8, feeds = clean("residual", "onnxruntime"), images(1)[0]
    found = compare(NETS["residual"](), int8, [feeds])
    session = onnxruntime.InferenceSession(int8.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs = session.run(None, feeds)
    expected = open_session(load_model(NETS["residual"]())).run(feeds)
    signal = sum(float(np.sum(left.astype(np.float64) ** 2)) for left in expected)
    noise = sum(
        float(np.sum((a.astype(np.float64) - b) ** 2)) for a, b in zip(expected, outputs, strict=True)
    )
    assert found.outputs.sqnr_db == pytest.approx(10 * math.log10(signal / noise), abs=1e-4)


def test_memory_does_not_grow_with_the_images() -> None:
    """Fifty images with activations of 7 MB each: they would take 350 MB if they stayed."""
    net = Net(shape=(1, 3, 224, 224))
    y = net.op("Relu", net.conv("x", 3, 16))
    model = net.model(net.op("GlobalAveragePool", net.op("Relu", net.conv(y, 16, 16))))
    int8 = calib8.quantize(model, [{"x": normal(1, 3, 224, 224)}], method="minmax").model
    resident: list[int] = []

    def pictures() -> Iterator[dict[str, Array]]:
        for index in range(60):
            resident.append(resident_bytes())
            yield {"x": normal(1, 3, 224, 224, seed=index)}

    compare(model, onnx.ModelProto.FromString(serialized(int8)), pictures)
    settled, last = resident[-50], resident[-1]
    assert last - settled < 30e6


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def serialized(model: Any) -> bytes:
    import onnx_ir as ir

    data: bytes = ir.to_proto(model).SerializeToString()
    return data
