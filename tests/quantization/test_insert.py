"""The QDQ graph: valid, complete, and named like the float model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto
from quantized_models import CONV, ORT, SCHEMES, initializers, quantized

from calib8.model.graph import graph_inputs, graph_outputs, model_hash
from calib8.model.load import load_model
from calib8.passes.place import Placement, place
from calib8.passes.prepare import prepare
from calib8.quantization.insert import QuantizedModel, insert_quantizers, keep_layers_float
from calib8.scheme import TARGETS
from calib8.table import Range
from small_models import normal, onnx_model, ops, relative_difference, run

IMAGE = normal(2, 3, 8, 8, seed=9)


def network() -> onnx.ModelProto:
    """Conv-Relu, residual addition, pooling, two heads, one inner tensor as output."""
    body = f"""c = {CONV}(x, w, b) r = Relu(c) d = {CONV}(r, u, b) s = Add(r, d) t = Relu(s)
               p = GlobalAveragePool(t) f = Flatten(p) logits = Gemm<transB=1>(f, fw, fb)
               prob = Softmax(logits)"""
    constants = {
        "w": normal(8, 3, 3, 3),
        "b": normal(8, seed=1),
        "u": normal(8, 8, 3, 3, seed=2) * np.float32(0.2),
        "fw": normal(5, 8, seed=3),
        "fb": normal(5, seed=4),
    }
    outputs = "float[N,5] logits, float[N,5] prob, float[N,8,8,8] t"
    return onnx_model("float[N,3,8,8] x", outputs, body, constants)


@pytest.mark.parametrize("name", SCHEMES)
def test_the_graph_is_valid_and_keeps_its_face(name: str) -> None:
    prepared, _, result = quantized(network(), {"x": IMAGE}, SCHEMES[name])
    proto = ir.to_proto(result.model)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.opset_import[0].version >= 13
    assert graph_inputs(result.model) == graph_inputs(prepared)
    assert graph_outputs(result.model) == graph_outputs(prepared)
    assert len({node.name for node in proto.graph.node}) == len(proto.graph.node)
    for feeds in ({"x": IMAGE[:1]}, {"x": np.tile(IMAGE, (3, 1, 1, 1))}):
        expected, actual = run(prepared, feeds), run(result.model, feeds)
        assert relative_difference(expected[::2], actual[::2]) < 0.05
        assert np.max(np.abs(expected[1] - actual[1])) < 0.15, "probabilities follow the logits"


@pytest.mark.parametrize("name", SCHEMES)
def test_the_prepared_model_is_not_changed(name: str) -> None:
    prepared, placement, _ = quantized(network(), {"x": IMAGE}, SCHEMES[name])
    before = model_hash(prepared)
    _, again, _ = quantized(network(), {"x": IMAGE}, SCHEMES[name])
    assert (model_hash(prepared), again) == (before, placement)


@pytest.mark.parametrize("name", SCHEMES)
def test_weights_are_int8_biases_int32_and_no_float_weight_is_left(name: str) -> None:
    scheme = SCHEMES[name]
    _, _, result = quantized(network(), {"x": IMAGE}, scheme)
    arrays = initializers(result.model)
    assert not {"w", "u", "fw"} & set(arrays)
    for key in ("w", "u", "fw"):
        codes = arrays[f"{key}/codes"]
        assert codes.dtype == np.int8
        largest = np.abs(codes.astype(int)).max()
        assert largest == 127 if scheme.pair_limit is None else 64 <= largest <= 127
    biases = [key for key, array in arrays.items() if array.dtype == np.int32 and "zero_point" not in key]
    assert len(biases) == (3 if scheme.quantize_bias else 0)
    assert ("fb" in arrays) is not scheme.quantize_bias


@pytest.mark.parametrize("name", SCHEMES)
def test_the_stored_scales_are_those_reported(name: str) -> None:
    scheme = SCHEMES[name]
    _, placement, result = quantized(network(), {"x": IMAGE}, scheme)
    assert list(result.qparams) == list(placement.readers)
    arrays = initializers(result.model)
    for tensor, qparams in result.qparams.items():
        assert (
            arrays[f"{tensor}/scale"] == np.float32(qparams.scale) and arrays[f"{tensor}/scale"].shape == ()
        )
        assert arrays[f"{tensor}/zero_point"] == qparams.zero_point
        assert arrays[f"{tensor}/zero_point"].dtype == scheme.activations.dtype
        assert not scheme.activations.symmetric or qparams.zero_point == 0


def test_every_op_of_the_placement_reads_codes_only() -> None:
    _, placement, result = quantized(network(), {"x": IMAGE}, ORT)
    for node in result.model.graph:
        if node.name in placement.quantized_nodes() and node.op_type != "Relu":
            producers = [value.producer() for value in node.inputs if value is not None]
            assert all(p is not None and p.op_type == "DequantizeLinear" for p in producers), node.name


def test_outputs_that_carry_codes_are_multiples_of_their_scale() -> None:
    _, _, result = quantized(network(), {"x": IMAGE}, TARGETS["tflite"])
    _, prob, t = run(result.model, {"x": IMAGE})
    for name, values in (("prob", prob), ("t", t)):
        steps = values / np.float32(result.qparams[name].scale)
        assert np.max(np.abs(steps - np.rint(steps))) < 1e-3


def test_tensorrt_reads_floats_where_the_layer_can_add_them() -> None:
    _, placement, result = quantized(network(), {"x": IMAGE}, TARGETS["tensorrt"])
    assert placement.readers["r"] == {next(n for n in placement.readers["r"] if n != "s"), "s"}
    addition = next(node for node in result.model.graph if node.op_type == "Add")
    kinds = [value.producer().op_type for value in addition.inputs if value is not None]  # type: ignore[union-attr]
    assert sorted(kinds) == ["Conv", "DequantizeLinear"]


def test_constants_between_layers_stay_float_for_tensorrt() -> None:
    body = f"c = {CONV}(x, w) m = Mul(c, k) r = Sigmoid(m) n = Mul(r, k) y = {CONV}(n, u)"
    constants = {"w": normal(8, 3, 3, 3), "u": normal(8, 8, 3, 3), "k": normal(1, 1, 8, 1)}
    proto = onnx_model("float[N,3,8,8] x", "float[N,8,8,8] y", body, constants)
    _, _, result = quantized(proto, {"x": IMAGE}, TARGETS["tensorrt"])
    assert "k" in initializers(result.model)
    _, _, result = quantized(proto, {"x": IMAGE}, replace(ORT, joins_pointwise=False))
    assert "k" not in initializers(result.model)
    assert initializers(result.model)["k/codes"].dtype == np.uint8


def test_weights_shared_by_layers_with_different_inputs_get_their_own_biases() -> None:
    body = f"c = {CONV}(x, w, b) d = {CONV}(c, w, b) y = {CONV}(d, w, b)"
    constants = {"w": normal(3, 3, 3, 3), "b": normal(3, seed=1) * np.float32(10)}
    proto = onnx_model("float[N,3,8,8] x", "float[N,3,8,8] y", body, constants)
    prepared, _, result = quantized(proto, {"x": IMAGE}, ORT)
    arrays = initializers(result.model)
    biases = [key for key, array in arrays.items() if array.dtype == np.int32 and "zero_point" not in key]
    scales = {key: arrays[f"{key}/scale"] for key in biases}
    weights = {tuple(arrays[key].ravel()) for key in arrays if arrays[key].shape == (3, 3, 3, 3)}
    assert len(scales) == 3 and len({float(scale[0]) for scale in scales.values()}) == 3
    assert len(weights) == 1
    assert relative_difference(run(prepared, {"x": IMAGE}), run(result.model, {"x": IMAGE})) < 0.05


def test_names_that_are_taken_are_avoided() -> None:
    body = f"c = {CONV}(x, w) r = Relu(c) y = {CONV}(r, u)"
    proto = onnx_model(
        "float[N,3,8,8] x", "float[N,4,8,8] y", body, {"w": normal(8, 3, 3, 3), "u": normal(4, 8, 3, 3)}
    )
    for node in proto.graph.node:
        node.input[:] = ["r/scale" if name == "u" else name for name in node.input]
    proto.graph.initializer[1].name = "r/scale"
    prepared, _, result = quantized(proto, {"x": IMAGE}, ORT)
    assert relative_difference(run(prepared, {"x": IMAGE}), run(result.model, {"x": IMAGE})) < 0.05


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "taken", ["float", "quantized", "dequantized", "scale", "zero_point", "DequantizeLinear"]
)
@pytest.mark.parametrize("scheme", ["uint8", "openvino", "tensorrt"])
def test_values_and_nodes_called_like_the_added_ones_keep_their_names(scheme: str, taken: str) -> None:
    """A float tensor ``y/float`` beside an output ``y``, and a node of the same name."""
    body = f"""y = {CONV}(x, w) r = Relu(y) d = {CONV}(x, u) c = Concat<axis=1>(y, r, d) z = {CONV}(c, v)"""
    constants = {
        "w": normal(3, 3, 3, 3), "u": normal(2, 3, 3, 3) * np.float32(20), "v": normal(4, 8, 3, 3)
    }  # fmt: skip
    proto = onnx_model(
        "float[N,3,8,8] x", "float[N,3,8,8] y, float[N,3,8,8] r, float[N,4,8,8] z", body, constants
    )
    relu = proto.graph.node[1]
    relu.name = f"y/{taken}" if taken[0].isupper() else "x/QuantizeLinear"
    for node in proto.graph.node:
        node.input[:] = [f"y/{taken}" if name == "r" else name for name in node.input]
        node.output[:] = [f"y/{taken}" if name == "r" else name for name in node.output]
    proto.graph.output[1].name = f"y/{taken}"
    prepared, _, result = quantized(proto, {"x": IMAGE}, SCHEMES[scheme])
    onnx.checker.check_model(ir.to_proto(result.model), full_check=True)
    assert [spec.name for spec in graph_outputs(result.model)] == ["y", f"y/{taken}", "z"]
    assert relative_difference(run(prepared, {"x": IMAGE}), run(result.model, {"x": IMAGE})) < 0.05


def test_a_tensor_whose_name_ends_like_a_renamed_one_is_coded_once_more_before_a_concat() -> None:
    """``s/float`` is a tensor of its own here, not the float side of an output ``s``."""
    body = f"a = {CONV}(x, w) r = Sigmoid(a) b = {CONV}(x, u) c = Concat<axis=1>(r, b) y = {CONV}(c, v)"
    constants = {"w": normal(3, 3, 3, 3), "u": normal(3, 3, 3, 3), "v": normal(4, 6, 3, 3)}
    proto = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", body, constants)
    for node in proto.graph.node:
        node.input[:] = ["s/float" if name == "r" else name for name in node.input]
        node.output[:] = ["s/float" if name == "r" else name for name in node.output]
    _, _, result = quantized(proto, {"x": IMAGE}, TARGETS["tflite"])
    [concat] = [node for node in result.model.graph if node.op_type == "Concat"]
    scales = {value.producer().inputs[1].const_value.numpy().item() for value in concat.inputs}
    assert scales == {np.float32(result.qparams["c"].scale).item()}


@pytest.mark.parametrize("target", ["openvino", "tflite"])
def test_around_a_concat_scales_and_zero_points_are_one(target: str) -> None:
    """Those of Sigmoid are 1/256 and the lowest code; here only the zero point of the result is another."""
    body = f"a = {CONV}(x, w) s = Sigmoid(a) b = {CONV}(x, u) c = Concat<axis=1>(s, b) y = {CONV}(c, v)"
    constants = {"w": normal(3, 3, 3, 3), "u": normal(3, 3, 3, 3), "v": normal(4, 6, 3, 3)}
    proto = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", body, constants)
    half = (-0.5, 127 / 256)
    _, _, result = quantized(proto, {"x": IMAGE}, TARGETS[target], {"b": half, "c": half})
    [concat] = [node for node in result.model.graph if node.op_type == "Concat"]
    pairs = [value.producer().inputs[1:] for value in concat.inputs]
    found = {tuple(value.const_value.numpy().item() for value in pair) for pair in pairs}
    assert found == {(np.float32(1 / 256).item(), result.qparams["c"].zero_point)}
    assert result.qparams["s"].zero_point != result.qparams["c"].zero_point


@pytest.mark.parametrize("scheme", ["uint8", "symmetric", "tensorrt", "tengine", "ncnn"])
@pytest.mark.parametrize("limit", [0.5, 0.01])
def test_a_clip_from_above_only_leaves_room_for_what_is_negative(scheme: str, limit: float) -> None:
    body = f"c = {CONV}(x, w) r = Clip(c, , limit) y = {CONV}(r, u)"
    constants = {"w": normal(3, 3, 3, 3), "u": normal(4, 3, 3, 3), "limit": np.float32(limit)}
    proto = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", body, constants)
    prepared, _, result = quantized(proto, {"x": IMAGE}, SCHEMES[scheme])
    assert relative_difference(run(prepared, {"x": IMAGE}), run(result.model, {"x": IMAGE})) < 0.05


def test_an_input_that_is_also_an_output_keeps_its_name() -> None:
    proto = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", f"y = {CONV}(x, w)", {"w": normal(4, 3, 3, 3)})
    proto.graph.output.append(proto.graph.input[0])
    _, _, result = quantized(proto, {"x": IMAGE}, ORT)
    assert [spec.name for spec in graph_inputs(result.model)] == ["x"]
    assert [spec.name for spec in graph_outputs(result.model)] == ["y", "x"]
    np.testing.assert_array_equal(run(result.model, {"x": IMAGE})[1], IMAGE)


def test_a_layer_whose_sums_can_overflow_is_reported_and_keeps_its_weights() -> None:
    constants = {"w": np.ones((70_000, 2), np.float32), "u": normal(2, 3)}
    proto = onnx_model(
        "float[N,70000] x", "float[N,3] y", "h = MatMul(x, w) r = Relu(h) y = MatMul(r, u)", constants
    )
    feeds = {"x": normal(1, 70_000)}
    prepared, placement, result = quantized(proto, feeds, ORT)
    assert result.float_layers == {"h": "its int32 sums can overflow"}
    assert "w" in initializers(result.model) and "u" not in initializers(result.model)
    kept = keep_layers_float(placement, result.float_layers)
    assert kept.quantized_nodes() == placement.quantized_nodes() - {"h"}
    assert "1 of 2 MatMul quantized; 1 float because its int32 sums can overflow" in kept.summary()
    again = place(prepared, ORT, frozenset(result.float_layers))
    assert "x" not in again.readers


def test_float_nodes_read_the_dequantized_values() -> None:
    body = f"c = {CONV}(x, w) e = LpNormalization(c) y = {CONV}(e, u)"
    constants = {"w": normal(3, 3, 3, 3), "u": normal(4, 3, 3, 3)}
    proto = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", body, constants)
    _, placement, result = quantized(proto, {"x": IMAGE}, ORT)
    assert "e" not in placement.quantized_nodes()
    assert list(result.qparams) == ["x", "c", "e", "y"]
    assert ops(result.model)["QuantizeLinear"] == 4


def test_concat_inputs_are_coded_once_more_where_the_target_wants_one_scale() -> None:
    body = f"c = {CONV}(x, w) s = Sigmoid(c) a = Concat<axis=1>(s, c) y = {CONV}(a, u)"
    constants = {"w": normal(4, 3, 3, 3), "u": normal(4, 8, 3, 3)}
    proto = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", body, constants)
    _, _, result = quantized(proto, {"x": IMAGE}, TARGETS["tflite"])
    concat = next(node for node in result.model.graph if node.op_type == "Concat")
    scales = []
    for value in concat.inputs:
        producer = None if value is None else value.producer()
        assert producer is not None and producer.op_type == "DequantizeLinear"
        tensor = producer.inputs[1]
        assert tensor is not None and tensor.const_value is not None
        scales.append(float(tensor.const_value.numpy()))
    assert scales == [np.float32(result.qparams["a"].scale)] * 2
    assert ops(result.model)["QuantizeLinear"] == len(result.qparams) + 1
    _, _, result = quantized(proto, {"x": IMAGE}, ORT)
    assert ops(result.model)["QuantizeLinear"] == len(result.qparams)


def quantized_with_finite_ranges(proto: onnx.ModelProto) -> tuple[ir.Model, Placement, QuantizedModel]:
    """With ranges of [−8, 8], where no calibration could give finite ones."""
    prepared = prepare(load_model(proto), {"x": normal(4, 6)}).model
    placement = place(prepared, ORT)
    ranges = {name: Range(-8.0, 8.0) for name in placement.readers}
    return prepared, placement, insert_quantizers(prepared, placement, ranges, ORT)


def test_a_constant_of_minus_infinity_leaves_its_addition_float() -> None:
    mask = np.where(np.eye(4, dtype=bool), 0.0, -np.inf).astype(np.float32)
    constants = {"w": normal(6, 4), "k": mask, "u": normal(4, 2)}
    body = "h = MatMul(x, w) m = Add(h, k) s = Sigmoid(m) y = MatMul(s, u)"
    proto = onnx_model("float[4,6] x", "float[4,2] y", body, constants)
    prepared, placement, result = quantized_with_finite_ranges(proto)
    [decision] = [d for d in placement.decisions if d.node == "m"]
    assert decision.reason == "one of its constants is empty or holds NaN or Inf"
    assert (
        relative_difference(run(prepared, {"x": normal(4, 6)}), run(result.model, {"x": normal(4, 6)})) < 0.1
    )


def test_codes_of_activations_are_stored_in_the_chosen_type() -> None:
    for name, kind in (("uint8", TensorProto.UINT8), ("int8", TensorProto.INT8)):
        _, _, result = quantized(network(), {"x": IMAGE}, SCHEMES[name])
        proto = onnx.shape_inference.infer_shapes(ir.to_proto(result.model), strict_mode=True)
        kinds = {v.name: v.type.tensor_type.elem_type for v in proto.graph.value_info}
        assert {kinds[f"{tensor}/quantized"] for tensor in result.qparams} == {kind}
