"""The loss of every layer: against plain arithmetic, with planted faults, on small networks."""

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
from compared import by_tensor, images
from exact_models import (
    ENDS,
    LAYERS,
    S1,
    S2,
    SR,
    SX,
    SY,
    W1,
    W2,
    ZX,
    ZY,
    codes,
    exact_float,
    exact_images,
    exact_int8,
    expected_distance,
    float_constants,
    kernel,
    layer1,
    layer2,
    sums,
)
from onnx import TensorProto, helper, numpy_helper

import calib8
from calib8.analysis.compare import compare
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.model.taps import tapped_model
from calib8.passes.prepare import prepare
from calib8.quantization.qdq import nodes
from small_models import normal, onnx_model
from small_nets import NETS, Net, clean

Array = npt.NDArray[Any]


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


@pytest.mark.one_in(3)
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


@pytest.mark.one_in(2)
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


def test_a_tensor_without_counterpart_belongs_to_the_layer_behind() -> None:
    model, data = NETS["conv_chain"](), images(3)
    before = by_tensor(compare(model, clean("conv_chain", "onnxruntime"), data))
    first, second = (
        tensor for tensor in before.values() if tensor.op_type == "Conv" and len(tensor.nodes) == 2
    )
    found = compare(model, edit.renamed(clean("conv_chain", "onnxruntime"), {first.tensor: "other"}), data)
    assert [(item.tensor, item.reason) for item in found.left_out] == [
        ("other", "the float model has no tensor of this name")
    ]
    after = by_tensor(found)
    assert after[second.tensor].node == second.node
    assert after[second.tensor].nodes == (*first.nodes, *second.nodes)
    assert after[second.tensor].local.sqnr_db < second.local.sqnr_db
    assert after[second.tensor].local == second.cumulative, "both layers are fed with the input"


def test_a_size_that_one_model_leaves_free_is_that_of_the_other() -> None:
    fixed = exact_int8()
    for end in (fixed.graph.input[0], fixed.graph.output[0]):
        end.type.tensor_type.shape.dim[0].dim_value = 2
    found = compare(exact_float(), fixed, exact_images(6))
    assert found.images == 6
    assert found.tensors == compare(exact_float(), exact_int8(), exact_images(6), batch=2).tensors


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
    """Sixteen images with activations of 7 MB each: they would take 110 MB if they stayed."""
    net = Net(shape=(1, 3, 224, 224))
    y = net.op("Relu", net.conv("x", 3, 16))
    model = net.model(net.op("GlobalAveragePool", net.op("Relu", net.conv(y, 16, 16))))
    int8 = calib8.quantize(model, [{"x": normal(1, 3, 224, 224)}], method="minmax").model
    resident: list[int] = []

    def pictures() -> Iterator[dict[str, Array]]:
        for index in range(26):
            resident.append(resident_bytes())
            yield {"x": normal(1, 3, 224, 224, seed=index)}

    compare(model, onnx.ModelProto.FromString(serialized(int8)), pictures)
    settled, last = resident[-16], resident[-1]
    assert last - settled < 30e6


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def serialized(model: Any) -> bytes:
    import onnx_ir as ir

    data: bytes = ir.to_proto(model).SerializeToString()
    return data
