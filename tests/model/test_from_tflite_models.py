"""Float TFLite models as ONNX models: how tensors lie, free batches, names, constants, refusals."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest
from float_operators import FloatNet, feeds
from litert import litert_outputs
from single_op import Net

import calib8
from calib8.errors import Calib8Error, ModelError, UnsupportedModelError
from calib8.model.from_tflite.translate import float_model, operators_as_onnx
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.tflite.graph import Graph, Operator, Quantization, Tensor
from calib8.tflite.write import serialize, write_tflite

WINDOW = {"padding": "SAME", "stride_h": 1, "stride_w": 1}


def network() -> Graph:
    """Two layers, a gate of channels, a residual sum, a mean over the image, a classifier; free batch."""
    net = FloatNet(np.random.default_rng(0))
    x = net.add(Tensor("image", (1, 12, 12, 3), "float32"))
    net.inputs.append(x)
    first = net.op(
        "CONV_2D", [x, net.normal(8, 3, 3, 3), net.normal(8)], **WINDOW, fused_activation_function="RELU6"
    )
    same = {**WINDOW, "depth_multiplier": 1}
    deep = net.op("DEPTHWISE_CONV_2D", [first, net.normal(1, 3, 3, 8), net.normal(8)], **same)
    gate = net.op("MEAN", [deep, net.constant([1, 2], "int32")], keep_dims=True)
    gated = net.op("MUL", [deep, net.op("LOGISTIC", [gate])])
    total = net.op("ADD", [gated, first])
    joined = net.op("CONCATENATION", [total, first], axis=3)
    padded = net.op("PAD", [joined, net.constant([[0, 0], [1, 1], [0, 2], [0, 0]], "int32")])
    mean = net.op("MEAN", [padded, net.constant([1, 2], "int32")])
    rows = net.op("RESHAPE", [mean, net.constant([-1, 16], "int32")], new_shape=(-1, 16))
    scores = net.op("FULLY_CONNECTED", [rows, net.normal(5, 16), net.normal(5)])
    return with_free_batch(net.graph(net.op("SOFTMAX", [scores], beta=1.0)))


def with_free_batch(graph: Graph) -> Graph:
    live = {*graph.inputs, *(place for operator in graph.operators for place in operator.outputs)}
    tensors = [
        replace(tensor, signature=(-1, *tensor.shape[1:])) if place in live else tensor
        for place, tensor in enumerate(graph.tensors)
    ]
    return replace(graph, tensors=tuple(tensors))


def ops(model: ir.Model) -> Counter[str]:
    return Counter(node.op_type for node in model.graph)


def results(model: ir.Model, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    session = open_session(model, threads=1)
    [result] = session.run({session.inputs[0].name: x})
    return result


def test_a_network_lies_channels_first_behind_one_transpose() -> None:
    model = float_model(network(), "net")
    assert ops(model)["Transpose"] == 1
    assert next(iter(model.graph)).op_type == "Transpose"


def test_the_batch_stays_free() -> None:
    graph = network()
    model = float_model(graph, "net")
    [spec] = open_session(model).inputs
    assert spec.shape == ("batch", 12, 12, 3)
    x = np.random.default_rng(1).normal(0, 1, (3, 12, 12, 3)).astype(np.float32)
    wanted = [litert_outputs(serialize(graph), [x[at : at + 1]])[0] for at in range(3)]
    np.testing.assert_allclose(results(model, x), np.concatenate(wanted), rtol=1e-4, atol=1e-6)


def test_a_tensor_without_a_free_size_fixes_the_batch() -> None:
    graph = network()
    place = graph.operators[0].outputs[0]
    tensors = list(graph.tensors)
    tensors[place] = replace(tensors[place], signature=())
    [spec] = open_session(float_model(replace(graph, tensors=tuple(tensors)), "net")).inputs
    assert spec.shape == (1, 12, 12, 3)


def test_free_sizes_other_than_the_batch_are_refused() -> None:
    graph = network()
    tensors = list(graph.tensors)
    tensors[0] = replace(tensors[0], signature=(-1, -1, -1, 3))
    with pytest.raises(UnsupportedModelError, match=r"'image0' \[-1, -1, -1, 3\].*fixed input shape"):
        float_model(replace(graph, tensors=tuple(tensors)), "net")


def test_computed_sizes_are_not_needed() -> None:
    """What converters write to flatten a free batch."""
    net = FloatNet(np.random.default_rng(0))
    x = net.fed(1, 6)
    size = net.op("SHAPE", [x], dtype="int32", out_type="INT32")
    bounds = [net.constant([value], "int32") for value in (0, 1, 1)]
    batch = net.op("STRIDED_SLICE", [size, *bounds], dtype="int32", shrink_axis_mask=1)
    rest = [net.constant(value, "int32") for value in (2, 3)]
    shape = net.op("PACK", [batch, *rest], dtype="int32", axis=0, values_count=3)
    y = net.op("RESHAPE", [x, shape])
    graph = net.graph(y)
    tensors = [
        replace(tensor, signature=(-1, *tensor.shape[1:])) if place in (x, y) else tensor
        for place, tensor in enumerate(graph.tensors)
    ]
    model = float_model(replace(graph, tensors=tuple(tensors)), "net")
    assert ops(model) == {"Reshape": 1}
    assert results(model, np.zeros((4, 6), np.float32)).shape == (4, 2, 3)


def test_float16_weights_become_float32_under_their_names() -> None:
    net = FloatNet(np.random.default_rng(0))
    x = net.fed(2, 6)
    narrow = net.add(Tensor("weight", (4, 6), "float16", net.rng.normal(0, 1, (4, 6)).astype(np.float16)))
    wide = net.op("DEQUANTIZE", [narrow], shape=(4, 6))
    graph = net.graph(net.op("FULLY_CONNECTED", [x, wide, net.normal(4)]))
    model = float_model(graph, "net")
    weight = model.graph.initializers[net.tensors[narrow].name].const_value
    assert weight is not None and weight.dtype == ir.DataType.FLOAT
    [fed] = feeds(net.rng, graph)
    np.testing.assert_allclose(results(model, fed), litert_outputs(serialize(graph), [fed])[0], rtol=1e-5)


def test_tensors_keep_their_names() -> None:
    graph = network()
    names = {value.name for node in float_model(graph, "net").graph for value in node.outputs}
    computed = {graph.tensors[place].name for operator in graph.operators for place in operator.outputs}
    assert computed <= names


def test_nodes_are_called_after_the_last_of_joined_names() -> None:
    graph = network()
    tensors = list(graph.tensors)
    place = graph.operators[0].outputs[0]
    tensors[place] = replace(tensors[place], name="net/relu;net/bias;net/conv")
    model = float_model(replace(graph, tensors=tuple(tensors)), "net")
    assert [node.name for node in model.graph][1:3] == ["net/conv", "net/conv/relu6"]


def test_an_input_may_be_an_output_and_a_constant_another() -> None:
    net = FloatNet(np.random.default_rng(0))
    x, k = net.add(Tensor("x", (2, 3), "float32")), net.normal(3)
    graph = Graph(tuple(net.tensors), (), (x,), (x, k), "net")
    session = open_session(float_model(graph, "net"))
    fed = np.ones((2, 3), np.float32)
    same, fixed = session.run({session.inputs[0].name: fed})
    np.testing.assert_array_equal(same, fed)
    np.testing.assert_array_equal(fixed, net.tensors[k].data)


def test_all_operators_without_nodes_are_listed() -> None:
    net = FloatNet(np.random.default_rng(0))
    x = net.add(Tensor("x", (2, 3), "float32"))
    a, b = (net.add(Tensor(name, (2, 3), "float32")) for name in "ab")
    operators = (Operator("CUSTOM", (x,), (a,), custom_code="Frob"), Operator("RANK", (x,), (b,)))
    with pytest.raises(UnsupportedModelError, match=r"2 operators .*Frob: no ONNX node.*RANK: no ONNX node"):
        float_model(Graph(tuple(net.tensors), operators, (x,), (a, b)), "net")


def test_contradicting_shapes_are_an_error() -> None:
    net = FloatNet(np.random.default_rng(0))
    x = net.add(Tensor("x", (1, 4, 4, 3), "float32"))
    y = net.op("CONV_2D", [x, net.normal(5), net.normal(5)], shape=(1, 4, 4, 5), **WINDOW)
    graph = Graph(tuple(net.tensors), tuple(net.operators), (x,), (y,))
    with pytest.raises(UnsupportedModelError, match="do not fit each other"):
        float_model(graph, "net")


def test_outputs_of_another_rank_are_an_error() -> None:
    net = FloatNet(np.random.default_rng(0))
    x = net.add(Tensor("x", (2,), "float32"))
    y = net.op("NEG", [x], shape=(5, 6))
    with pytest.raises(
        UnsupportedModelError, match=r"NEG\): 'y\d*' has 2 axes in the file, and 1 are computed"
    ):
        float_model(Graph(tuple(net.tensors), tuple(net.operators), (x,), (y,)), "net")


def test_constants_of_another_rank_are_an_error() -> None:
    half = np.ones(3, np.float16)
    tensors = (Tensor("half", (3,), "float16", half), Tensor("wide", (3, 1), "float32"))
    graph = Graph(tensors, (Operator("DEQUANTIZE", (0,), (1,)),), (), (1,))
    with pytest.raises(UnsupportedModelError, match=r"DEQUANTIZE\): 'wide' has 2 axes in the file, and 1"):
        float_model(graph, "net")


def coded(name: str, shape: tuple[int, ...], data: npt.NDArray[Any] | None = None) -> Tensor:
    return Tensor(name, shape, "int8", data, Quantization(np.array([0.1], np.float32), np.zeros(1, np.int64)))


def test_quantized_models_are_refused(tmp_path: Path) -> None:
    tensors = (coded("x", (1, 4)), coded("y", (1, 4)))
    path = tmp_path / "codes.tflite"
    write_tflite(Graph(tensors, (Operator("RELU", (0,), (1,)),), (0,), (1,)), path)
    with pytest.raises(UnsupportedModelError, match=r"codes\.tflite: is quantized already: 2 of 2 tensors"):
        load_model(path)


def test_dynamic_range_models_are_refused() -> None:
    weight = coded("w", (3, 4), np.ones((3, 4), np.int8))
    tensors = (Tensor("x", (1, 4), "float32"), weight, Tensor("y", (1, 3), "float32"))
    graph = Graph(tensors, (Operator("FULLY_CONNECTED", (0, 1, -1), (2,)),), (0,), (2,))
    with pytest.raises(
        UnsupportedModelError, match=r"dynamic-range model: 'y' \(FULLY_CONNECTED\) has float"
    ):
        float_model(graph, "net")


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    """Cut off, or with bytes changed at random."""
    whole, rng = serialize(network()), np.random.default_rng(0)
    path = tmp_path / "net.tflite"
    for _ in range(60):
        data = np.frombuffer(
            whole[: int(rng.integers(8, len(whole)))] if rng.random() < 0.3 else whole, np.uint8
        )
        data = data.copy()
        data[rng.integers(8, len(data), 4)] = rng.integers(0, 256, 4)
        path.write_bytes(data.tobytes())
        try:
            load_model(path)
        except Calib8Error as error:
            assert isinstance(error, ModelError)


def test_operators_as_onnx_keeps_the_order_of_the_file() -> None:
    graph = network()
    part = graph.operators[1:3]
    source, result = part[0].inputs[0], part[-1].outputs[0]
    session = open_session(operators_as_onnx(graph, part, {source: "in"}, {result: "out"}))
    assert [(spec.name, spec.shape) for spec in session.inputs] == [("in", (1, 12, 12, 8))]
    assert [(spec.name, spec.shape) for spec in session.outputs] == [("out", (1, 1, 1, 8))]


REAL = {"mlperftiny_pretrainedResnet": (32, 255.0), "mlperftiny_vww_96_float": (96, 1.0)}
"""Float models of the shared data: size of their images and their largest input."""


def photos(shared_data: Path, size: int, count: int) -> npt.NDArray[np.float32]:
    """Images 0 … 255, larger ones than 32 × 32 as tiles of small ones."""
    images = np.load(shared_data / "cifar10" / "test5000.npz")["images"]
    tiles = size // 32
    parts = images[: count * tiles * tiles].reshape(count, tiles, tiles, 32, 32, 3)
    return parts.transpose(0, 1, 3, 2, 4, 5).reshape(count, size, size, 3).astype(np.float32)


@pytest.mark.parametrize("name", REAL)
def test_real_models_beside_litert(shared_data: Path, name: str) -> None:
    path, (size, peak) = shared_data / "tflite" / f"{name}.tflite", REAL[name]
    model = load_model(path)
    assert ops(model)["Transpose"] == 1
    x = photos(shared_data, size, 10) * np.float32(peak / 255)
    got = results(model, x)
    for at, row in enumerate(got):
        [wanted] = litert_outputs(path.read_bytes(), [x[at : at + 1]])
        np.testing.assert_allclose(row[None], wanted, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_a_real_model_is_quantized(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "tflite" / "mlperftiny_pretrainedResnet.tflite"
    images = np.load(shared_data / "cifar10" / "train1024.npz")["images"][:64].astype(np.float32)
    made = calib8.quantize(path, [{"input_1": image[None]} for image in images], method="mse")
    made.save(tmp_path / "int8.onnx")
    test = np.load(shared_data / "cifar10" / "test5000.npz")
    x, labels = test["images"][:400].astype(np.float32), test["labels"][:400]
    answers = [results(load_model(model), x).argmax(1) for model in (path, tmp_path / "int8.onnx")]
    assert np.mean(answers[0] == answers[1]) >= 0.97
    assert abs(np.mean(answers[0] == labels) - np.mean(answers[1] == labels)) <= 0.015
    assert np.mean(answers[0] == labels) >= 0.85
    assert [layer.op_type for layer in made.placement.decisions].count("Conv") == 9


def test_inputs_without_onnx_type_are_refused() -> None:
    tensors = (Tensor("words", (1, 4), "string"), Tensor("y", (1, 4), "float32"))
    graph = Graph(tensors, (Operator("CAST", (0,), (1,)),), (0,), (1,))
    with pytest.raises(UnsupportedModelError, match="'words' holds string"):
        float_model(graph, "net")


@pytest.mark.parametrize("op", ["FLOOR_DIV", "BATCH_MATMUL", "GATHER_ND", "SQUEEZE", "RESHAPE", "PADV2"])
def test_an_output_that_its_operator_does_not_have(op: str) -> None:
    net = Net()
    x, y, more = net.plain((2, 3), "float32"), net.output((2, 3), "float32"), net.output((2, 3), "float32")
    inputs = [x] if op in ("SQUEEZE", "RESHAPE") else [x, net.constant(np.ones((2, 3), np.float32))]
    with pytest.raises(UnsupportedModelError, match=r"nothing computes|cannot be translated"):
        float_model(net.graph(op, inputs, [y, more]), "net")


def test_a_variable_that_nothing_writes_is_no_output() -> None:
    net = Net()
    x, y = net.plain((2, 3), "float32"), net.output((2, 3), "float32")
    tensors = [replace(one, is_variable=index == y) for index, one in enumerate(net.tensors)]
    with pytest.raises(UnsupportedModelError, match=r"nothing computes 'y1'"):
        float_model(Graph(tuple(tensors), (), (x,), (y,), "net"), "net")
