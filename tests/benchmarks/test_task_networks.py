"""The networks and pictures of docs/detectors.md: what is changed in models computes what it did before."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import task_archives
import task_graphs
import task_networks
import task_pictures
import task_tfjs
from calib8.model.from_tflite.translate import float_model
from calib8.tflite.graph import Graph, Operator, Tensor
from needed import needed

RANDOM = np.random.default_rng(7)


def run(model: onnx.ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(found) for found in session.run(None, feeds)]


def spelled_prelu(slope: np.ndarray) -> onnx.ModelProto:
    """Relu(x) + slope/2 · (x − |x|) behind a Transpose, [2, 3, 3, 2] in, as TFLite has it."""
    nodes = [
        helper.make_node("Transpose", ["image"], ["x"], perm=[0, 3, 1, 2]),
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("Abs", ["x"], ["magnitude"]),
        helper.make_node("Sub", ["x", "magnitude"], ["twice"]),
        helper.make_node("Mul", ["half", "twice"], ["negative"]),
        helper.make_node("Add", ["positive", "negative"], ["sum"]),
        helper.make_node("Reshape", ["sum", "sizes"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array((slope / 2).astype(np.float32), "half"),
        numpy_helper.from_array(np.array([2, 18]), "sizes"),
    ]
    graph = helper.make_graph(
        nodes, "spelled",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (2, 3, 3, 2))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 18))],
        constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_tflite_model_takes_one_picture_channels_first_and_has_prelu() -> None:
    slope = np.array([0.25, -0.5], np.float32).reshape(2, 1, 1)
    pictures = RANDOM.normal(size=(2, 3, 3, 2)).astype(np.float32)
    model = spelled_prelu(slope)
    [before] = run(model, image=pictures)
    task_graphs.batch_of_one(model)
    task_graphs.channels_first(model)
    task_graphs.with_prelu(model)
    assert [node.op_type for node in model.graph.node] == ["PRelu", "Reshape"]
    for row, picture in enumerate(pictures):
        [after] = run(model, image=np.ascontiguousarray(picture.transpose(2, 0, 1)[None]))
        np.testing.assert_allclose(after[0], before[row], rtol=1e-6)


def test_a_sum_that_is_no_prelu_stays() -> None:
    model = spelled_prelu(np.ones((2, 1, 1), np.float32))
    model.graph.node[3].input[:] = ["magnitude", "x"]
    task_graphs.with_prelu(model)
    assert [node.op_type for node in model.graph.node].count("Add") == 1


def test_the_transposed_convolution_of_mediapipe() -> None:
    weights = RANDOM.normal(size=(1, 2, 2, 3)).astype(np.float32)
    bias = np.array([0.5], np.float32)
    tensors = (
        Tensor("x", (1, 2, 2, 3), "float32"),
        Tensor("weights", weights.shape, "float32", weights),
        Tensor("bias", bias.shape, "float32", bias),
        Tensor("y", (1, 4, 4, 1), "float32"),
    )
    custom = Operator("CUSTOM", (0, 1, 2), (3,), custom_code=task_graphs.UPSAMPLING)
    graph = Graph(tensors, (custom,), (0,), (3,), "up", "", {})
    x = RANDOM.normal(size=(1, 2, 2, 3)).astype(np.float32)
    [found] = run(ir.to_proto(float_model(task_graphs.known_operators(graph), "up")), x=x)
    expected = np.zeros((1, 4, 4, 1))
    for row, column, down, right in np.ndindex(2, 2, 2, 2):
        value = float(x[0, row, column] @ weights[0, down, right]) + 0.5
        expected[0, 2 * row + down, 2 * column + right, 0] = value
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_sizes_of_resize_follow_another_input_size() -> None:
    nodes = [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest")]
    graph = helper.make_graph(
        nodes, "up",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 8, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, 16, 8))],
        [numpy_helper.from_array(np.array([1, 2, 16, 8]), "sizes")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    task_graphs.with_sizes(model, (1, 2, 4, 4))
    assert [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim] == [1, 2, 8, 8]


def test_weights_are_read_from_8_bit_numbers() -> None:
    numbers = np.array([0, 10, 255, 4], np.uint8)
    plain = np.array([1.5, -2.0], np.float32)
    manifest = [
        {
            "weights": [
                {
                    "name": "small", "shape": [2, 2], "dtype": "float32",
                    "quantization": {"dtype": "uint8", "scale": 0.5, "min": -3.0},
                },
                {"name": "plain", "shape": [2], "dtype": "float32"},
            ]
        }
    ]  # fmt: skip
    found = task_tfjs.stored_weights(json.dumps(manifest).encode(), numbers.tobytes() + plain.tobytes())
    np.testing.assert_array_equal(found["small"], [[-3.0, 2.0], [124.5, -1.0]])
    np.testing.assert_array_equal(found["plain"], plain)


@pytest.mark.parametrize("depthwise", [False, True])
def test_a_layer_is_that_of_tensorflow(depthwise: bool) -> None:
    weight = RANDOM.normal(size=(3, 3, 2, 1 if depthwise else 4)).astype(np.float32)
    bias = RANDOM.normal(size=2 if depthwise else 4).astype(np.float32)
    made = task_tfjs.Layers()
    y = made.conv("image", weight, bias, 2, task_tfjs.same(3, 2))
    picture = RANDOM.normal(size=(1, 2, 6, 6)).astype(np.float32)
    graph = helper.make_graph(
        made.nodes, "one",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 2, 6, 6))],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
        made.constants,
    )  # fmt: skip
    [found] = run(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), image=picture
    )
    padded = np.pad(picture, ((0, 0), (0, 0), (0, 1), (0, 1)))  # SAME, an even size, stride 2
    for row, column, output in np.ndindex(3, 3, len(bias)):
        part = padded[0, :, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3].transpose(1, 2, 0)
        value = (part[..., output] * weight[..., output, 0]) if depthwise else part * weight[..., output]
        assert found[0, output, row, column] == pytest.approx(float(value.sum()) + bias[output], rel=1e-4)


def test_boxes_of_the_ssd_are_decoded_as_tensorflow_does() -> None:
    offsets = RANDOM.normal(size=(1, 5, 4)).astype(np.float32)  # x, y, w, h
    corners = np.sort(RANDOM.random((2, 5, 2)), axis=0).astype(np.float32)
    priors = np.concatenate([corners[0], corners[1]], axis=1)[None]  # y, x, y, x
    made = task_tfjs.Layers()
    y = task_tfjs.decoded(made, "offsets", priors)
    graph = helper.make_graph(
        made.nodes, "boxes",
        [helper.make_tensor_value_info("offsets", TensorProto.FLOAT, (1, 5, 4))],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, (1, 5, 4))],
        made.constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    [found] = run(model, offsets=offsets)
    for number in range(5):
        top, left, bottom, right = (float(place) for place in priors[0, number])
        x, y_, w, h = (float(value) for value in offsets[0, number])
        width, height = right - left, bottom - top
        centre = left + width / 2 + x / 10 * width, top + height / 2 + y_ / 10 * height
        half = width * np.exp(w / 5) / 2, height * np.exp(h / 5) / 2
        expected = [centre[0] - half[0], centre[1] - half[1], centre[0] + half[0], centre[1] + half[1]]
        np.testing.assert_allclose(found[0, number], expected, rtol=1e-4, atol=1e-5)


def photographs(data: Path) -> None:
    """Ten flat pictures to calibrate with, nine and one to judge with; each has a gray of its own."""
    for folder, first, count in (("imagenet/calib", 0, 10), ("imagenet/eval", 100, 9), ("photos", 200, 1)):
        (data / folder).mkdir(parents=True)
        for number in range(count):
            gray = first + 5 * number
            Image.new("RGB", (40, 30), (gray, gray, gray)).save(data / folder / f"{number}.png")


@pytest.mark.parametrize("kind", ["scenes", "characters", "words", "lines", "labels"])
def test_pictures_are_always_the_same(kind: str, tmp_path: Path) -> None:
    photographs(tmp_path)
    files = task_pictures.sources(tmp_path)["judged"]
    maker = getattr(task_pictures, kind)
    first, again, other = (
        [picture.tobytes() for picture in maker(files, 4, np.random.default_rng(seed))] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_mosaics_of_both_kinds_share_no_photograph(tmp_path: Path) -> None:
    photographs(tmp_path)
    grays = {
        part: {
            int(gray)
            for picture in task_pictures.scenes(files, 20, np.random.default_rng(0))
            for gray in np.unique(np.asarray(picture))
        }
        for part, files in task_pictures.sources(tmp_path).items()
    }
    assert grays["calibration"] and grays["judged"]
    assert not grays["calibration"] & grays["judged"]
    assert grays["judged"] <= {*range(100, 145, 5), 200}


def test_faces_are_mirrored_only_after_all_were_taken_as_they_are(tmp_path: Path) -> None:
    picture = Image.fromarray(RANDOM.integers(0, 256, (200, 200, 3), dtype=np.uint8))
    picture.save(tmp_path / "a.png")
    boxes = [(20.0, 20.0, 80.0, 80.0), (100.0, 100.0, 160.0, 170.0)]
    found = list(
        task_pictures.faces([tmp_path / "a.png"], 3, np.random.default_rng(0), lambda image: list(boxes))
    )
    assert [crop.size for crop in found] == [(112, 112)] * 3
    margin = 0.15 * 60
    box = (round(20 - margin), round(20 - margin), round(80 + margin), round(80 + margin))
    assert found[0].tobytes() == picture.crop(box).resize((112, 112), Image.Resampling.BICUBIC).tobytes()
    assert found[2].tobytes() != found[0].tobytes()


def test_boxes_on_one_face() -> None:
    assert task_networks.apart((0, 0, 10, 10), (20, 20, 30, 30))
    assert task_networks.apart((0, 0, 10, 10), (6, 0, 16, 10))  # IoU 0.25
    assert not task_networks.apart((0, 0, 10, 10), (5, 0, 15, 10))  # IoU 0.33


def test_another_file_under_the_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = task_archives.SOURCES["ultraface"]
    (tmp_path / "models").mkdir()
    (tmp_path / source.member).write_bytes(b"weights")
    with pytest.raises(SystemExit, match="SHA-256"):
        task_archives.gathered("ultraface", tmp_path, tmp_path)
    right = hashlib.sha256(b"weights").hexdigest()
    monkeypatch.setitem(task_archives.SOURCES, "ultraface", dataclasses.replace(source, sha256=right))
    assert task_archives.gathered("ultraface", tmp_path, tmp_path) == b"weights"


def test_every_network_has_a_source_and_pictures() -> None:
    for name, network in task_networks.NETWORKS.items():
        assert name in task_archives.SOURCES or name in ("yolov5s", "resnet20_leaky", "bilstm")
        assert network.pictures in (*task_networks.SEEDS, *task_networks.ARRAYS, "cifar10")
    kinds = [(network.pictures, network.judged) for network in task_networks.NETWORKS.values()]
    assert len(dict(kinds)) == len(set(kinds))  # all of the pictures are judged, whoever asks


@pytest.mark.filterwarnings("ignore")  # of the exporter
def test_every_relu_of_resnet20_becomes_leaky(tmp_path: Path) -> None:
    torch = needed("torch")
    from qat_networks import ResNet20
    from task_training import SLOPE, exported, with_leaky

    torch.manual_seed(0)
    network = with_leaky(ResNet20()).eval()
    exported(network, tmp_path / "leaky.onnx")
    model = onnx.load(tmp_path / "leaky.onnx")
    slopes = [node.attribute[0].f for node in model.graph.node if node.op_type == "LeakyRelu"]
    assert slopes == pytest.approx([SLOPE] * 19)
    assert "Relu" not in {node.op_type for node in model.graph.node}
    pictures = RANDOM.normal(size=(2, 3, 32, 32)).astype(np.float32)
    [found] = run(model, input=pictures)
    with torch.no_grad():
        np.testing.assert_allclose(found, network(torch.from_numpy(pictures)), rtol=1e-3, atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # of the exporter
def test_the_recogniser_reads_both_ways_twice(tmp_path: Path) -> None:
    torch = needed("torch")
    from task_recogniser import Recogniser, lines_with_signs, recogniser, trained

    recogniser(tmp_path / "lines.onnx", steps=1, count=4)
    model = onnx.load(tmp_path / "lines.onnx")
    layers = [node for node in model.graph.node if node.op_type == "LSTM"]
    directions = [each.s for node in layers for each in node.attribute if each.name == "direction"]
    assert directions == [b"bidirectional"] * 2
    [logits] = run(model, line=np.zeros((3, 1, 32, 128), np.float32))
    assert logits.shape == (3, 32, 37)

    random = np.random.default_rng(3)
    lines, signs, lengths = lines_with_signs(4, random)
    torch.manual_seed(0)
    plain = Recogniser()
    before = [each.detach().clone() for each in plain.parameters()]
    after = list(trained(plain, (lines, signs, lengths), 2, random).parameters())
    for old, new in zip(before, after, strict=True):
        assert torch.isfinite(new).all() and not torch.equal(old, new)
    assert all(4 <= count <= 8 and np.all(row[:count] > 0) and not row[count:].any()
               for row, count in zip(signs, lengths, strict=True))  # fmt: skip
