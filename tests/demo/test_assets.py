"""The files of the demo are what ``calib8.demo`` says: a small trained CNN and two sets of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from calib8 import demo


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.load(demo.MODEL_PATH)


@pytest.fixture(scope="module")
def runtime() -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(demo.MODEL_PATH, providers=["CPUExecutionProvider"])


def load(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    with np.load(path, allow_pickle=False) as arrays:
        assert sorted(arrays) == ["images", "labels"]
        return arrays["images"], arrays["labels"]


def network_input(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    values = (images.astype(np.float32) - np.float32(demo.PIXEL_MEAN)) * np.float32(demo.PIXEL_SCALE)
    return values.transpose(0, 3, 1, 2)


def accuracy(runtime: onnxruntime.InferenceSession, path: Path) -> float:
    images, labels = load(path)
    logits = runtime.run(["logits"], {"input": network_input(images)})[0]
    return float((logits.argmax(axis=1) == labels).mean())


def initializer_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}


def test_the_model_is_valid_onnx_of_opset_17(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]
    assert model.ir_version == 8


def test_the_model_file_is_small() -> None:
    assert demo.MODEL_PATH.stat().st_size < 300_000


def test_inputs_and_outputs(runtime: onnxruntime.InferenceSession) -> None:
    ((name, kind, shape),) = [(value.name, value.type, value.shape) for value in runtime.get_inputs()]
    assert (name, kind, shape) == ("input", "tensor(float)", ["N", 1, *demo.IMAGE_SIZE])
    ((name, kind, shape),) = [(value.name, value.type, value.shape) for value in runtime.get_outputs()]
    assert (name, kind, shape) == ("logits", "tensor(float)", ["N", demo.CLASS_COUNT])


def test_the_model_holds_every_kind_of_op_the_demo_shows(model: onnx.ModelProto) -> None:
    ops = {node.op_type for node in model.graph.node}
    assert ops == {
        "Add",
        "BatchNormalization",
        "Concat",
        "Conv",
        "Flatten",
        "Gemm",
        "GlobalAveragePool",
        "MaxPool",
        "Relu",
    }


def test_one_convolution_is_depthwise(model: onnx.ModelProto) -> None:
    shapes = initializer_shapes(model)
    groups = {
        node.name: (onnx.helper.get_node_attr_value(node, "group"), shapes[node.input[1]][:2])
        for node in model.graph.node
        if node.op_type == "Conv"
    }
    depthwise = [name for name, (group, (_, inner)) in groups.items() if group > 1 and inner == 1]
    assert depthwise == ["block1/depthwise"]


def test_batch_normalization_of_every_convolution_is_unfolded(model: onnx.ModelProto) -> None:
    consumers = {
        node.name: [user.op_type for user in model.graph.node if node.output[0] in user.input]
        for node in model.graph.node
        if node.op_type == "Conv"
    }
    assert consumers
    assert all(users == ["BatchNormalization"] for users in consumers.values()), consumers
    statistics = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            gamma, _, mean, variance = (statistics[name] for name in node.input[1:])
            assert (variance > 1e-6).all(), node.name  # a dead channel would blow up when folded
            assert np.ptp(gamma) > 0 and np.ptp(mean) > 0, node.name  # trained, not the initial values


def test_the_addition_is_residual_and_the_concatenation_joins_computed_branches(
    model: onnx.ModelProto,
) -> None:
    nodes = {node.output[0]: node for node in model.graph.node}
    (addition,) = [node for node in model.graph.node if node.op_type == "Add"]
    branch, skip = addition.input
    reached, waiting = set[str](), [branch]
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in reached:
            reached.add(name)
            waiting += nodes[name].input
    assert skip in reached
    (concat,) = [node for node in model.graph.node if node.op_type == "Concat"]
    assert len(set(concat.input)) == 2
    assert all(nodes[name].op_type == "Relu" for name in concat.input)


def test_names_say_where_a_node_belongs(model: onnx.ModelProto) -> None:
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names)
    assert {name.split("/")[0] for name in names} == {"stem", "block1", "block2", "block3", "head"}
    inner = {node.name: list(node.output) for node in model.graph.node if node.name != "head/dense"}
    assert all(outputs == [name] for name, outputs in inner.items())


@pytest.mark.parametrize(
    ("path", "count"),
    [(demo.CALIBRATION_PATH, 100), (demo.HELDOUT_PATH, 500)],
    ids=["calibration", "heldout"],
)
def test_images_and_labels(path: Path, count: int) -> None:
    images, labels = load(path)
    assert images.dtype == np.uint8
    assert images.shape == (count, *demo.IMAGE_SIZE, 1)
    assert labels.dtype == np.int64
    assert labels.shape == (count,)
    assert (images.min(), images.max()) == (0, 255)
    frequency = np.bincount(labels, minlength=demo.CLASS_COUNT)
    assert len(frequency) == demo.CLASS_COUNT
    assert np.ptp(frequency) <= 0.1 * count / demo.CLASS_COUNT  # stratified: nearly as many of each digit


def test_calibration_and_heldout_images_are_disjoint_and_without_repeats() -> None:
    calibration = {image.tobytes() for image in load(demo.CALIBRATION_PATH)[0]}
    heldout = {image.tobytes() for image in load(demo.HELDOUT_PATH)[0]}
    assert (len(calibration), len(heldout)) == (100, 500)
    assert not calibration & heldout


def test_heldout_accuracy(runtime: onnxruntime.InferenceSession) -> None:
    assert accuracy(runtime, demo.HELDOUT_PATH) >= 0.98


def test_every_logit_of_the_digits_is_used(runtime: onnxruntime.InferenceSession) -> None:
    logits = runtime.run(["logits"], {"input": network_input(load(demo.HELDOUT_PATH)[0])})[0]
    assert set(logits.argmax(axis=1)) == set(range(demo.CLASS_COUNT))


def test_any_batch_size_gives_the_same_logits(runtime: onnxruntime.InferenceSession) -> None:
    inputs = network_input(load(demo.CALIBRATION_PATH)[0])
    together = runtime.run(["logits"], {"input": inputs})[0]
    apart = [runtime.run(["logits"], {"input": part})[0] for part in (inputs[:1], inputs[1:8], inputs[8:])]
    np.testing.assert_allclose(np.concatenate(apart), together, rtol=0, atol=1e-4)
