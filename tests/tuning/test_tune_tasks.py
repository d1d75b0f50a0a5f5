"""Promises about tasks on small networks: embeddings, boxes, maps, and a judge of one's own."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from PIL import Image
from tuned_nets import even_net, inputs, one_coarse_layer
from typer.testing import CliRunner

import calib8
from calib8.cli import app
from calib8.errors import DataError, TableError, UsageError
from calib8.tasks.judges.embeddings import EmbeddingJudge
from calib8.tuning.group_bounds import counted_bound
from calib8.tuning.judging import Figures
from calib8.tuning.promise import Promise, Promises
from calib8.tuning.task_evidence import Pair, TaskEvidence, Wanted, wanted_of
from calib8.tuning.trial import Settings, Trial, best_of
from calib8.tuning.tune import Tuning
from small_models import normal, onnx_model

CLASSES = 2


def detector() -> onnx.ModelProto:
    """One box per pixel of 6×6, as YOLOv8 gives them: x float[N,3,6,6] → y float[N,6,36]."""
    body = """
    c = Conv<pads = [1, 1, 1, 1]>(x, wc)
    d = Conv(x, ws)
    e = Conv<pads = [1, 1, 1, 1]>(x, wk)
    cs = Sigmoid(c)
    ds = Sigmoid(d)
    es = Sigmoid(e)
    cm = Mul(cs, six)
    dm = Mul(ds, six)
    all = Concat<axis = 1>(cm, dm, es)
    y = Reshape(all, shape)
    """
    constants: dict[str, npt.NDArray[Any]] = {
        "wc": normal(2, 3, 3, 3, seed=1), "ws": normal(2, 3, 1, 1, seed=2),
        "wk": normal(CLASSES, 3, 3, 3, seed=3), "six": np.array(6.0, np.float32),
        "shape": np.array([-1, 6, 36]),
    }  # fmt: skip
    return onnx_model("float[N,3,6,6] x", "float[N,6,36] y", body, constants)


def segmenter() -> onnx.ModelProto:
    body = "a = Conv<pads = [1, 1, 1, 1]>(x, w1)\nr = Relu(a)\ny = Conv<pads = [1, 1, 1, 1]>(r, w2)"
    constants = {"w1": normal(4, 3, 3, 3, seed=1), "w2": normal(3, 4, 3, 3, seed=2)}
    return onnx_model("float[N,3,6,6] x", "float[N,3,6,6] y", body, constants)


def tuned(tmp_path: Path, model: onnx.ModelProto, data: Any = None, **options: Any) -> Tuning:
    given = {"effort": "fast", "threads": 1, **options}
    return calib8.tune(model, inputs() if data is None else data, tmp_path / "out.onnx", **given)


def both(found: Tuning, model: onnx.ModelProto, tmp_path: Path, **options: Any) -> Any:
    """What ``evaluate`` says of the found model on other samples."""
    path = tmp_path / "float.onnx"
    onnx.save(model, path)
    unseen = {"x": inputs(64, seed=7)}
    return calib8.evaluate([path, found.path], unseen, threads=1, **options)[1]


@pytest.mark.parametrize("promise", ["min_map_ratio", "min_recall"])
def test_too_few_boxes_for_the_promise_end_the_search_with_how_many_are_needed(
    promise: str, tmp_path: Path
) -> None:
    """Of u boxes without a loss at most 1 − 0.05 ** (1 / u) are lost, by the binomial distribution."""
    found = tuned(tmp_path, detector(), effort="best", **{promise: 0.9999})
    assert not found.kept and len(found.trials) == 1 and found.complete
    [note] = [note for note in found.notes if "in the samples that judge" in note]
    counted, needed = (int(word) for word in note.split() if word.isdigit())
    assert counted == found.best.figures.counted and counted < needed
    assert 0.05 ** (1 / needed) == pytest.approx(0.9999, abs=2e-6)
    assert found.best.figures.bound <= counted_bound(1.0, counted) < 0.9999


def test_of_models_that_come_equally_close_the_cheapest_is_the_closest() -> None:
    loud = Trial(Settings("best"), Figures(0.98, 0.98, None, None, 30.0, 9), 0.0, False, 1.0)
    float_one = Trial(
        Settings("best", floats=("a",)), Figures(0.98, 0.98, None, None, 60.0, 9), 0.67, False, 1.0
    )
    assert best_of([float_one, loud], Promise("map_ratio", 0.99)) is loud


def test_a_cosine_is_kept_and_holds_on_other_samples(tmp_path: Path) -> None:
    found = tuned(tmp_path, even_net(), min_cosine=0.99)
    assert found.kept and found.best.cost == 0.0
    figures = found.best.figures
    assert figures.value >= figures.bound >= 0.99
    told = both(found, even_net(), tmp_path, task="embed").task
    assert told.against_float["cosine"] >= 0.99


def test_the_layer_that_ruins_it_becomes_float(tmp_path: Path) -> None:
    found = tuned(tmp_path, one_coarse_layer(), min_cosine=0.999)
    assert not found.trials[0].kept and found.kept and found.best.cost > 0


def test_masks(tmp_path: Path) -> None:
    found = tuned(tmp_path, segmenter(), min_iou=0.9)
    assert found.kept and found.best.figures.bound >= 0.9
    told = both(found, segmenter(), tmp_path, task="segment").task
    assert told.against_float["miou"] >= 0.9


FIGURES = {"min_recall": "recall", "min_precision": "precision", "min_map_ratio": "map"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("promise", "share"), [("min_recall", 0.8), ("min_precision", 0.8), ("min_map_ratio", 0.6)]
)
def test_boxes(tmp_path: Path, promise: str, share: float) -> None:
    found = tuned(tmp_path, detector(), **{promise: share})
    figures = found.best.figures
    assert found.kept and share <= figures.bound < figures.value <= 1.0
    told = both(found, detector(), tmp_path, task="detect").task
    assert told.against_float[FIGURES[promise]] >= share


class Boxes(NamedTuple):
    """Objects of one sample: of FP32, of int8, and of both."""

    truths: int
    claimed: int
    found: int


def precision(records: Sequence[Boxes], monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """What is told of a promised precision, and its bound."""

    def figures(self: TaskEvidence, several: Sequence[Pair]) -> dict[str, float]:
        claimed = sum(one.coded.claimed for one in several)
        return {"precision": sum(one.coded.found for one in several) / claimed} if claimed else {}

    monkeypatch.setattr(TaskEvidence, "_figure", figures)
    evidence = TaskEvidence(Wanted(Promise("precision", 0.9)), ["y"], None)
    return evidence.told([Pair(one, None) for one in records])


def test_precision_counts_what_int8_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    alike = [Boxes(9, 5, 5)] * 40
    value, bound = precision(alike, monkeypatch)
    assert value == 1.0 and bound == counted_bound(1.0, 200) < 1.0
    mixed = [Boxes(9, 5, 5 - 3 * (place % 20 < 5)) for place in range(40)]
    value, bound = precision(mixed, monkeypatch)
    each = [mixed[group].found + mixed[group + 20].found for group in range(20)]
    left = [(sum(each) - found) / 190 for found in each]
    error = math.sqrt(19 / 20 * sum((part - sum(left) / 20) ** 2 for part in left))
    assert value == pytest.approx(170 / 200)
    assert bound == pytest.approx(min(value - 1.729 * error, counted_bound(value, 200)))
    assert precision([Boxes(3, 0, 0)] * 20, monkeypatch) == (0.0, 0.0), "what finds nothing keeps no promise"
    with pytest.raises(UsageError, match="min_precision: cannot be told: FP32 finds nothing"):
        precision([Boxes(0, 0, 0)] * 20, monkeypatch)


def test_the_same_figures_every_time_and_a_search_that_goes_on(tmp_path: Path) -> None:
    first = tuned(tmp_path, detector(), min_map_ratio=0.6)
    again = tuned(tmp_path, detector(), min_map_ratio=0.6)
    assert first.best == again.best, "from the folder"
    backwards = tuned(tmp_path, detector(), inputs()[::-1], min_map_ratio=0.6, work=tmp_path / "w")
    assert backwards.best.figures == first.best.figures
    with pytest.raises(TableError):
        tuned(tmp_path, detector(), min_map_ratio=0.65)


def closeness(left: list[Any], right: list[Any]) -> float:
    return 1.0 - float(np.max(np.abs(left[0] - right[0])))


def test_a_judge_of_ones_own(tmp_path: Path) -> None:
    found = tuned(tmp_path, even_net(), judge=closeness, min_score=0.5)
    figures = found.best.figures
    assert found.kept and 0.5 <= figures.bound < figures.value <= 1.0
    own = both(found, even_net(), tmp_path, judge=closeness).own
    assert own.against_float["score"] == pytest.approx(figures.value, abs=0.1)

    def other(left: list[Any], right: list[Any]) -> float:
        return 0.5 + closeness(left, right)

    with pytest.raises(TableError):
        tuned(tmp_path, even_net(), judge=other, min_score=0.5)


def test_a_score_that_fp32_does_not_reach_beside_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"min_score=0\.99: FP32 beside itself has 0\.5 at most in \d+ samples"
    ):
        tuned(tmp_path, even_net(), judge=lambda a, b: 0.5, min_score=0.99)
    assert not (tmp_path / "out.onnx.tune").exists(), "it is told before the search"


def test_a_judge_that_fails_names_the_sample(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"array\[\d+\]: the judge returned None|\[\d+\]: the judge returned"):
        tuned(tmp_path, even_net(), judge=lambda a, b: None, min_score=0.5)


PICTURES = calib8.Preprocess(resize="none", mean=(128.0,), scale=(1 / 128,))


def pictures(folder: Path) -> Path:
    """24 pictures of 6 × 6."""
    folder.mkdir()
    rng = np.random.default_rng(3)
    for number in range(24):
        Image.fromarray(rng.integers(0, 256, (6, 6, 3)).astype(np.uint8)).save(folder / f"{number:02}.png")
    return folder


def labelled(folder: Path, moved: int = 0) -> dict[str, Any]:
    """What FP32 finds, as COCO's labels; each picture has the boxes of the one ``moved`` places behind it."""
    session = ort.InferenceSession(detector().SerializeToString())
    names = sorted(path.name for path in folder.iterdir())
    boxes = list[dict[str, Any]]()
    for image in range(len(names)):
        pixels = np.asarray(Image.open(folder / names[(image + moved) % len(names)]), np.float32)
        [outputs] = session.run(None, {"x": (pixels - 128.0).transpose(2, 0, 1)[None] / 128})
        cx, cy, w, h = outputs[0, :4]
        scores = outputs[0, 4:]
        for place in np.flatnonzero(scores.max(axis=0) > 0.9):
            x1, y1 = max(cx[place] - w[place] / 2, 0.0), max(cy[place] - h[place] / 2, 0.0)
            x2, y2 = min(cx[place] + w[place] / 2, 6.0), min(cy[place] + h[place] / 2, 6.0)
            kind, box = int(scores[:, place].argmax()), [float(one) for one in (x1, y1, x2 - x1, y2 - y1)]
            boxes.append({"id": len(boxes), "image_id": image, "category_id": kind, "bbox": box})
    images = [{"id": n, "file_name": name, "width": 6, "height": 6} for n, name in enumerate(names)]
    return {"images": images, "annotations": boxes, "categories": [{"id": 0}, {"id": 1}]}


def test_labels_of_boxes_judge_both_models(tmp_path: Path) -> None:
    """Labels that say what FP32 finds: the ratio is that of its own boxes."""
    folder, labels = pictures(tmp_path / "images"), tmp_path / "labels.json"
    document = labelled(folder)
    labels.write_text(json.dumps(document))
    asked: dict[str, Any] = {"preprocess": PICTURES, "labels": labels}
    found = tuned(tmp_path, detector(), folder, min_map_ratio=0.01, **asked)
    assert 0.5 < found.best.figures.value <= 1.0 and found.judged == 12
    assert found.float_map is not None and 0.15 < found.float_map <= 1.0
    with pytest.raises(UsageError, match="does not count for min_recall"):
        tuned(tmp_path, detector(), folder, min_recall=0.5, **asked)
    document["annotations"][0]["image_id"] = 99
    labels.write_text(json.dumps(document))
    with pytest.raises(DataError, match="names the image_id 99"):
        tuned(tmp_path, detector(), folder, min_map_ratio=0.01, work=tmp_path / "x", **asked)


@pytest.mark.parametrize(
    ("kind", "named", "cure"),
    [
        ("cosine", "people.txt", "Leave the labels out."),
        ("iou", "masks", "Leave the labels out."),
        ("recall", "boxes.json", "Leave the labels out, or give min_map_ratio."),
        ("score", "people.txt", "Leave the labels out."),
    ],
)
def test_labels_that_nothing_is_judged_by_are_refused(kind: Any, named: str, cure: str) -> None:
    own = (lambda left, right: 1.0) if kind == "score" else None
    with pytest.raises(UsageError, match=rf"{named}: does not count for min_{kind}") as refused:
        wanted_of(Promise(kind, 0.9), None, own, named)
    assert str(refused.value).endswith(cure)


def test_labels_that_fp32_does_not_find_promise_nothing(tmp_path: Path) -> None:
    """What a float model does not find, its int8 model does not find as well: that is no promise kept."""
    folder, labels = pictures(tmp_path / "images"), tmp_path / "labels.json"
    document = labelled(folder)
    for one in document["annotations"]:
        one["bbox"] = [5.5, 0.0, 0.5, 0.25]
    labels.write_text(json.dumps(document))
    why = r"min_map_ratio: FP32's own mAP@\[\.5:\.95\] by these labels is 0\.\d+ %, and a share .* chance"
    with pytest.raises(UsageError, match=why):
        tuned(tmp_path, detector(), folder, min_map_ratio=0.99, preprocess=PICTURES, labels=labels)
    assert not (tmp_path / "out.onnx").exists(), "it is told before any int8 model is made"
    assert not (tmp_path / "out.onnx.tune").exists()


def test_the_command_shows_what_fp32_finds(tmp_path: Path) -> None:
    folder, labels, out = pictures(tmp_path / "images"), tmp_path / "labels.json", tmp_path / "result.json"
    labels.write_text(json.dumps(labelled(folder)))
    onnx.save(detector(), tmp_path / "net.onnx")
    words = [
        "tune", tmp_path / "net.onnx", "--data", folder, "--labels", labels, "--min-map-ratio", 0.01,
        "--resize", "none", "--mean", 128, "--scale", 1 / 128, "--effort", "fast", "--threads", 1,
        "-o", tmp_path / "out.onnx", "--json", out,
    ]  # fmt: skip
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    value = json.loads(out.read_text())["float_map"]
    assert f"FP32's own mAP@[.5:.95] by the labels: {100 * value:.2f} %" in result.output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"min_recall": 97.0}, r"min_recall=97\.0: no model can have that.*Give 0\.97 if you mean per cent"),
        ({"min_iou": -0.1}, "it must be in 0 … 1"),
        ({"min_cosine": float("nan")}, "no model can have that"),
        ({"min_iou": 0.9, "min_lines": 0.9}, "min_iou and min_lines: are two promises"),
        ({"min_score": 0.5}, "min_score: needs a judge"),
        ({"min_iou": 0.9, "judge": closeness}, "does not go with a judge of your own"),
        ({"min_sqnr": 20.0, "judge": closeness}, "goes with min_score alone"),
        ({"judge": closeness}, r"min_score: is missing: .* Give it beside judge, such as min_score=0\.9"),
        ({"min_map_ratio": 0}, r"min_map_ratio=0: promises nothing: any model will do\. Give a share"),
        ({"min_cosine": 0.0}, r"min_cosine=0\.0: promises nothing"),
        ({"min_agreement": 0.0}, r"min_agreement=0\.0: promises nothing"),
        ({"max_drop": 100.0}, r"max_drop=100\.0: promises nothing"),
        ({"min_iou": 0.9, "task": "detect"}, "min_iou: is not a promise of task detect"),
        ({"min_iou": 0.9, "task": EmbeddingJudge()}, "is not a promise of task embed"),
        ({"min_iou": 0.9, "task": "fly"}, "unknown task"),
        ({"min_iou": 0.9}, "task='segment': outputs y"),
        ({"min_score": float("inf"), "judge": closeness}, "no model can have that"),
    ],
)
def test_promises_that_do_not_fit(tmp_path: Path, options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        tuned(tmp_path, even_net(), **options)


def test_promises_say_what_they_are() -> None:
    promise = Promises(min_map_ratio=0.99).promise()
    assert promise == Promise("map_ratio", 0.99) and promise.by_task
    assert promise.text == "share of FP32's mAP of at least 0.99" and promise.shown(0.98765) == "0.9877"
    assert Promises(min_sqnr=25.0).promise().shown(24.5) == "24.50 dB"
    assert Wanted(promise, "keypoints").task == "keypoints"


def test_the_command(tmp_path: Path) -> None:
    model, data, out = tmp_path / "net.onnx", tmp_path / "data.npz", tmp_path / "result.json"
    onnx.save(even_net(), model)
    np.savez(data, x=inputs())
    words = [
        "tune", model, "--data", data, "--min-cosine", 0.99, "--effort", "fast", "--threads", 1,
        "-o", tmp_path / "out.onnx", "--json", out,
    ]  # fmt: skip
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "kept: cosine of at least 0.99; it is 0.99" in result.output
    document = json.loads(out.read_text())
    assert document["promise"] == {"kind": "cosine", "value": 0.99}
    assert document["trials"][0]["bound"] >= 0.99
