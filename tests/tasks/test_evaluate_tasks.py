"""``evaluate`` with a task or a judge of one's own: small models whose outputs are written in the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image
from typer.testing import CliRunner

import calib8
from calib8 import Preprocess
from calib8.cli import app
from calib8.errors import DataError, UsageError
from calib8.tasks.judges.detection_heads import DetectionHead
from calib8.tasks.judges.detections import DetectionJudge

WIDTH = 40
HEIGHT = 32
PLAIN = Preprocess(resize="none", mean=(0.0,), scale=(1.0,))


def detector(path: Path, factor: float) -> Path:
    """Rows 0 … 3 of the red channel are boxes, rows 4 and 5 scores of two classes times factor / 255."""
    scale = np.array([1, 1, 1, 1, factor / 255, factor / 255], np.float32).reshape(1, 6, 1)
    ends = {"start": [0, 0], "stop": [1, 6], "axes": [1, 2]}
    nodes = [
        helper.make_node("Slice", ["x", "start", "stop", "axes"], ["part"]),
        helper.make_node("Squeeze", ["part", "one"], ["rows"]),
        helper.make_node("Mul", ["rows", "scale"], ["y"]),
    ]
    constants = [helper.make_tensor(name, TensorProto.INT64, [2], value) for name, value in ends.items()]
    constants += [
        helper.make_tensor("one", TensorProto.INT64, [1], [1]),
        helper.make_tensor("scale", TensorProto.FLOAT, [1, 6, 1], scale.reshape(-1).tolist()),
    ]
    return saved(path, nodes, constants, [1, 6, WIDTH])


def segmenter(path: Path, factor: float) -> Path:
    """The colour that is highest; blue counts ``factor`` times."""
    weights = np.diag([1, 1, factor]).astype(np.float32).reshape(-1)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    constants = [helper.make_tensor("w", TensorProto.FLOAT, [3, 3, 1, 1], weights.tolist())]
    return saved(path, nodes, constants, [1, 3, HEIGHT, WIDTH])


def saved(path: Path, nodes: Any, constants: Any, shape: list[int]) -> Path:
    spec = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "net", [spec("x", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])],
        [spec("y", TensorProto.FLOAT, shape)], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def scene(objects: list[tuple[int, int, int, int, int, int]]) -> Any:
    """An image: centre x, y, width, height, class and score (0 … 255) of each object."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[2:4] = 2  # boxes without an object lie at 0, 0
    for column, (cx, cy, w, h, kind, score) in enumerate(objects):
        pixels[:4, column, 0] = cx, cy, w, h
        pixels[4 + kind, column, 0] = score
    return pixels


SCENES = {
    "a.png": [(10, 10, 12, 12, 0, 250), (30, 20, 8, 8, 1, 200)],
    "b.png": [(20, 16, 30, 20, 1, 70)],
    "c.png": [],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "images"
    path.mkdir()
    for name, objects in SCENES.items():
        Image.fromarray(scene(objects)).save(path / name)
    return path


def labels(folder: Path) -> Path:
    """What is in the scenes, but for one object that FP32 sees."""
    rows, names = [], sorted(SCENES)
    for image, name in enumerate(names):
        for cx, cy, w, h, kind, score in SCENES[name]:
            if score != 200:
                rows.append(
                    {"id": len(rows), "image_id": image, "category_id": kind, "area": w * h, "iscrowd": 0,
                     "bbox": [cx - w / 2, cy - h / 2, w, h]}
                )  # fmt: skip
    document = {
        "images": [
            {"id": n, "file_name": name, "width": WIDTH, "height": HEIGHT} for n, name in enumerate(names)
        ],
        "categories": [{"id": 0}, {"id": 1}],
        "annotations": rows,
    }
    path = folder / "labels.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    return [detector(tmp_path / "float.onnx", 1.0), detector(tmp_path / "weak.onnx", 0.9)]


def test_detections_beside_fp32(pair: list[Path], folder: Path) -> None:
    first, second = calib8.evaluate(pair, folder, preprocess=PLAIN, task="detect", threads=1)
    assert first.task is not None and second.task is not None
    assert first.task.against_float == {} and first.task.against_labels == {}
    # 70/255 is above .25, nine tenths of it are not: one of three boxes is lost, though not for mAP
    assert second.task.against_float == {
        "recall": pytest.approx(2 / 3), "precision": 1.0, "map50": pytest.approx(1.0),
        "map": pytest.approx(1.0),
    }  # fmt: skip
    assert second.task.samples == 3 and second.task.task == "detect"
    batched = calib8.evaluate(pair, folder, preprocess=PLAIN, task="detect", threads=2, batch=1)
    assert batched[1].task == second.task


def test_detections_beside_labels(pair: list[Path], folder: Path, tmp_path: Path) -> None:
    first, second = calib8.evaluate(
        pair, folder, preprocess=PLAIN, task="detect", labels=labels(tmp_path), threads=1
    )
    assert first.task is not None and second.task is not None
    for told in (first.task, second.task):
        # class 0: found; class 1: the unlabelled box comes first, so precision is one half
        assert told.against_labels["map50"] == pytest.approx((1.0 + 0.5) / 2)
    assert first.task.against_labels["recall"] == 1.0 and second.task.against_labels["recall"] == 0.5
    assert second.task.against_labels["map_ratio"] == pytest.approx(1.0)
    assert "map_ratio" not in first.task.against_labels
    assert second.task.against_float["recall"] == pytest.approx(2 / 3)


def test_labels_that_fp32_does_not_find(pair: list[Path], folder: Path, tmp_path: Path) -> None:
    """Neither model finds them: no share of FP32's mAP is told, and a warning says what to look at."""
    marked = labels(tmp_path)
    document = json.loads(marked.read_text())
    document["annotations"] = document["annotations"][:1]
    for found, told in (([4.0, 4.0, 12.0, 12.0], True), ([0.0, 0.0, 4.0, 4.0], False)):
        document["annotations"][0]["bbox"] = found
        marked.write_text(json.dumps(document))
        first, second = calib8.evaluate(
            pair, folder, preprocess=PLAIN, task="detect", labels=marked, threads=1
        )
        assert second.task is not None and ("map_ratio" in second.task.against_labels) is told
        assert any("FP32 itself does not find these labels" in one for one in first.warnings) is not told
        assert not any("does not find" in one for one in second.warnings)
    [warning] = first.warnings
    assert "(mAP@[.5:.95] 0.00 %)" in warning and "Check that the labels are of these pictures" in warning


def test_the_order_of_arrays_changes_nothing(pair: list[Path]) -> None:
    """All scores are alike: which box comes first decides about the average precision."""
    rng, samples = np.random.default_rng(2), []
    for _ in range(12):
        boxes = [(*rng.integers(8, 30, 2), *rng.integers(6, 20, 2), 0, 200) for _ in range(3)]
        samples.append(scene(boxes).transpose(2, 0, 1))
    blurred = shifted_detector(pair[1])
    told = [
        calib8.evaluate([pair[0], blurred], {"x": np.asarray(order, np.float32)}, task="detect", threads=1)
        for order in (samples, samples[::-1], samples[5:] + samples[:5])
    ]
    first, *others = (found[1].task for found in told)
    assert first is not None and 0.0 < first.against_float["map"] < 1.0
    assert all(other == first for other in others)


def shifted_detector(path: Path) -> Path:
    """All boxes but those in the right half lie somewhere else."""
    model = onnx.load(path)
    model.graph.node[-1].output[0] = "z"
    model.graph.node.extend(
        [
            helper.make_node("Greater", ["z", "middle"], ["right"]),
            helper.make_node("Where", ["right", "z", "nothing"], ["y"]),
        ]
    )
    middle = np.array([20, -1, -1, -1, -1, -1], np.float32)
    model.graph.initializer.append(helper.make_tensor("middle", TensorProto.FLOAT, [1, 6, 1], middle))
    model.graph.initializer.append(helper.make_tensor("nothing", TensorProto.FLOAT, [], [0.0]))
    onnx.save(model, path.with_name("shifted.onnx"))
    return path.with_name("shifted.onnx")


def test_a_head_given_by_hand(pair: list[Path], folder: Path) -> None:
    judge = DetectionJudge(DetectionHead("columns", (HEIGHT, WIDTH)), least_score=0.1)
    told = calib8.evaluate(pair, folder, preprocess=PLAIN, task=judge, threads=1)[1].task
    assert told is not None and told.against_float["recall"] == 1.0


def list_of_boxes(path: Path, least: float) -> Path:
    """As with an NMS inside: columns with a score above ``least`` alone come out, often none."""
    nodes = [
        helper.make_node("Slice", ["x", "start", "stop", "axes"], ["part"]),
        helper.make_node("Squeeze", ["part", "front"], ["rows"]),  # 6×40
        helper.make_node("Transpose", ["rows"], ["columns"]),
        helper.make_node("ReduceMax", ["columns"], ["best"], axes=[1], keepdims=0),
        helper.make_node("Greater", ["best", "least"], ["sure"]),
        helper.make_node("Compress", ["columns", "sure"], ["kept"], axis=0),
        helper.make_node("Split", ["kept", "sizes"], ["boxes", "score", "other"], axis=1),
        helper.make_node("Mul", ["score", "part255"], ["scores"]),
        helper.make_node("Cast", ["scores"], ["labels"], to=TensorProto.INT64),
    ]
    integers = {"start": [0, 0], "stop": [1, 6], "axes": [1, 2], "front": [0, 1], "sizes": [4, 1, 1]}
    constants = [
        helper.make_tensor(name, TensorProto.INT64, [len(value)], value) for name, value in integers.items()
    ]
    constants += [
        helper.make_tensor("least", TensorProto.FLOAT, [], [least]),
        helper.make_tensor("part255", TensorProto.FLOAT, [], [1 / 255]),
    ]
    spec = helper.make_tensor_value_info
    outputs = [spec("boxes", TensorProto.FLOAT, ["n", 4]), spec("scores", TensorProto.FLOAT, ["n", 1]),
               spec("labels", TensorProto.INT64, ["n", 1])]  # fmt: skip
    graph = helper.make_graph(
        nodes, "net", [spec("x", TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])], outputs, constants
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_a_first_sample_without_boxes_waits_for_one_with(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for name, objects in (("a", []), ("b", [(3, 4, 20, 24, 0, 250), (5, 6, 30, 30, 0, 200)])):
        Image.fromarray(scene(objects)).save(folder / f"{name}.png")
    models = [list_of_boxes(tmp_path / "float.onnx", 100.0), list_of_boxes(tmp_path / "less.onnx", 220.0)]
    told = calib8.evaluate(models, folder, preprocess=PLAIN, task="detect", threads=1)[1].task
    assert told is not None and told.samples == 2 and told.against_float["recall"] == 0.5
    (folder / "b.png").unlink()
    with pytest.raises(UsageError, match="outputs are empty for all of the 1 samples"):
        calib8.evaluate(models, folder, preprocess=PLAIN, task="detect", threads=1)


def test_masks_beside_fp32_and_labels(folder: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    marks = tmp_path / "masks"
    marks.mkdir()
    expected = []
    for name in SCENES:
        pixels = rng.integers(0, 256, (HEIGHT, WIDTH, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / name)
        best = np.argmax(pixels, axis=2)
        Image.fromarray(best.astype(np.uint8)).save(marks / name)
        expected.append((best, np.argmax(pixels * [1, 1, 0.8], axis=2)))
    models = [segmenter(tmp_path / "float.onnx", 1.0), segmenter(tmp_path / "weak.onnx", 0.8)]
    first, second = calib8.evaluate(models, folder, preprocess=PLAIN, task="segment", labels=marks, threads=1)
    assert first.task is not None and second.task is not None
    assert first.task.against_labels == {"miou": 1.0, "dice": 1.0, "pixels": 1.0}
    truth, own = (np.stack(maps) for maps in zip(*expected, strict=True))
    iou = [((truth == c) & (own == c)).sum() / ((truth == c) | (own == c)).sum() for c in range(3)]
    assert second.task.against_labels["miou"] == pytest.approx(np.mean(iou), abs=1e-15)
    assert second.task.against_float == second.task.against_labels


def embedder(path: Path, factor: float) -> Path:
    """Means of the colours, blue ``factor`` times."""
    weights = np.diag([1, 1, factor]).astype(np.float32).reshape(-1)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    return saved(path, nodes, [helper.make_tensor("w", TensorProto.FLOAT, [3, 3, 1, 1], weights)], [1, 3])


def test_labels_of_embeddings_say_who_is_who(tmp_path: Path) -> None:
    """Three people, one colour each; numbers beyond the three values of the embedding are no error."""
    folder, rng = tmp_path / "people", np.random.default_rng(1)
    folder.mkdir()
    lines = []
    for number in range(9):
        pixels = rng.integers(0, 60, (HEIGHT, WIDTH, 3))
        pixels[:, :, number % 3] += 150
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
        lines.append(f"{number}.png {100 + number % 3}")
    (tmp_path / "who.txt").write_text("\n".join(lines))
    models = [embedder(tmp_path / "float.onnx", 1.0), embedder(tmp_path / "blind.onnx", 0.0)]
    first, second = calib8.evaluate(
        models, folder, preprocess=PLAIN, task="embed", labels=tmp_path / "who.txt", threads=1
    )
    assert first.task is not None and second.task is not None
    assert first.top1 is None and second.agreement is None and not first.warnings
    assert first.task.against_labels == {"verification": 1.0}
    assert second.task.against_labels["verification"] == 1.0  # red, green, or dark
    assert second.task.against_float["least_cosine"] < 0.5 < second.task.against_float["cosine"]


def test_a_judge_of_ones_own(pair: list[Path], folder: Path) -> None:
    seen: list[tuple[int, ...]] = []

    def kept(left: list[Any], right: list[Any]) -> float:
        seen.append(left[0].shape)
        return 1.0 - float(np.max(left[0][:, 4:] - right[0][:, 4:]))

    first, second = calib8.evaluate(pair, folder, preprocess=PLAIN, judge=kept, threads=1)
    assert first.own is None and second.own is not None and seen == [(1, 6, WIDTH)] * 3
    expected = [1 - 0.1 * 250 / 255, 1 - 0.1 * 70 / 255, 1.0]
    assert second.own.against_float == {
        "score": pytest.approx(np.mean(expected)), "least_score": pytest.approx(expected[0]),
    }  # fmt: skip


def test_a_judge_that_fails_names_the_sample(pair: list[Path], folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.png: the judge returned nan"):
        calib8.evaluate(pair, folder, preprocess=PLAIN, judge=lambda a, b: float("nan"), threads=1)
    with pytest.raises(UsageError, match="compares with a float model"):
        calib8.evaluate([quantized(tmp_path, folder)], folder, preprocess=PLAIN, judge=lambda a, b: 1.0)


def test_without_a_float_model_only_labels_judge(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a float model to compare with, or labels"):
        calib8.evaluate([quantized(tmp_path, folder)], folder, preprocess=PLAIN, task="segment", threads=1)


def test_a_float_model_alone_needs_labels(pair: list[Path], folder: Path, tmp_path: Path) -> None:
    """Of boxes that is known before anything runs; class numbers may lie beside the data."""
    with pytest.raises(UsageError, match=r"task='detect': has nothing to judge.*Add an int8 model"):
        calib8.evaluate(pair[:1], folder, preprocess=PLAIN, task="detect", threads=1)
    with pytest.raises(UsageError, match="judge: compares with the float model, and nothing else"):
        calib8.evaluate(pair[:1], folder, preprocess=PLAIN, judge=lambda a, b: 1.0, threads=1)
    alone, _ = (
        calib8.evaluate(models, folder, preprocess=PLAIN, task="detect", labels=labels(tmp_path), threads=1)[
            0
        ]
        for models in (pair[:1], pair)
    )
    assert alone.task is not None and alone.task.against_labels["recall"] == 1.0
    classes = [embedder(tmp_path / "classes.onnx", 1.0)]
    with pytest.raises(UsageError, match="task='classify': has nothing to judge"):
        calib8.evaluate(classes, folder, preprocess=PLAIN, task="classify", threads=1)
    (tmp_path / "list.txt").write_text("\n".join(f"{name} 1" for name in SCENES))
    found = calib8.evaluate(
        classes, folder, preprocess=PLAIN, task="classify", labels=tmp_path / "list.txt", threads=1
    )
    assert found[0].task is not None and "top1" in found[0].task.against_labels


def quantized(tmp_path: Path, folder: Path) -> Path:
    out = tmp_path / "int8.onnx"
    model = segmenter(tmp_path / "plain.onnx", 1.0)
    calib8.quantize(model, folder, preprocess=PLAIN, effort="fast", threads=1).save(out)
    return out


def test_bad_requests(pair: list[Path], folder: Path, tmp_path: Path) -> None:
    def evaluate(**options: Any) -> None:
        calib8.evaluate(pair, folder, preprocess=PLAIN, threads=1, **options)

    file = labels(tmp_path)
    with pytest.raises(UsageError, match=r"task='fly': unknown task\. Use one of detect, segment"):
        evaluate(task="fly")
    with pytest.raises(UsageError, match="outputs y 1×6×40: none is one row of numbers"):
        evaluate(task="embed")
    with pytest.raises(UsageError, match="holds labels of objects or pixels"):
        evaluate(labels=file)
    with pytest.raises(UsageError, match="not of task embed"):
        evaluate(labels=file, task="embed")
    with pytest.raises(UsageError, match="a str is not a function"):
        evaluate(judge="mine")
    arrays = {"x": np.zeros((2, 3, HEIGHT, WIDTH), np.float32)}
    with pytest.raises(UsageError, match="need an image folder"):
        calib8.evaluate(pair, arrays, task="detect", labels=file)


def test_the_command(pair: list[Path], folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    words = [
        "evaluate", *pair, "--data", folder, "--resize", "none", "--mean", 0, "--scale", 1, "--threads", 1,
        "--task", "detect", "--labels", labels(tmp_path), "--json", out,
    ]  # fmt: skip
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "detect, beside FP32" in result.output and "detect, beside labels" in result.output
    assert "66.67" in result.output
    document = json.loads(out.read_text())["models"]
    assert document[1]["task"]["against_float"]["recall"] == pytest.approx(2 / 3)
    assert document[0]["task"]["against_float"] == {} and document[0]["task"]["samples"] == 3
