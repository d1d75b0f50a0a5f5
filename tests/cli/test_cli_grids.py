"""A detector whose grid of anchors is raw goes through all commands, boxes and scores apart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from json_output import load
from PIL import Image

from grid_nets import pictures, yolo2, yolo3, yolo5
from slow_cases import slow_but

NETS = {"yolov2-grid": yolo2, "yolov3-grid": yolo3, "yolov5-grid": yolo5}
SIDES = "1,1.5,2,1,2.5,3,4,2,3,5"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", x=pictures(40))
    return tmp_path / "data.npz"


def saved(net: onnx.ModelProto, tmp_path: Path) -> Path:
    onnx.save(net, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.mark.parametrize("form", slow_but(["yolov3-grid"], NETS))
def test_boxes_and_scores_are_judged_apart(cli, data: Path, tmp_path: Path, out: Path, form: str) -> None:
    model = saved(NETS[form](), tmp_path)
    made = cli(
        "quantize", model, "--data", data, "--effort", "fast", "-o", out / "q.onnx", "--json", out / "q.json"
    )
    assert made.exit_code == 0, made.output
    document = load(out / "q.json")
    kinds = ["boxes", "objectness"] + ["scores"] * (form != "yolov2-grid")
    assert [one["kind"] for one in document["outputs"]] == kinds
    [verdict] = document["verdict"]["tasks"]
    assert verdict["task"] == "detect" and verdict["counted"] > 22 and verdict["figures"]["recall"] > 0.5
    judged = cli(
        "evaluate", model, out / "q.onnx", "--data", data, "--task", "detect", "--json", out / "e.json"
    )
    assert judged.exit_code == 0, judged.output
    [_, found] = load(out / "e.json")["models"]
    assert [one["name"] for one in found["branches"]] == kinds
    assert 0.5 < found["task"]["against_float"]["recall"] <= 1.0
    told = cli("diagnose", model, out / "q.onnx", "--data", data, "--top", "1")
    assert told.exit_code == 0, told.output
    assert all(kind in told.output for kind in kinds) and "detect: recall" in told.output


@pytest.mark.slow
def test_a_named_grid_is_tuned_and_stays_named(cli, data: Path, tmp_path: Path, out: Path) -> None:
    model, named = saved(yolo2(), tmp_path), ("--branch", f"grid=yolov2-grid:{SIDES}")
    found = cli("tune", model, "--data", data, *named, "--min-map-ratio", "0.5", "-o", out / "t.onnx")
    assert found.exit_code == 0, found.output
    wanted = ("tune", model, "--data", data, "--min-map-ratio", "0.5", "-o", out / "t.onnx")
    assert cli(*wanted, "--branch", "grid=yolov2-grid").exit_code != 0, "another search: other boxes"
    made = cli("quantize", model, "--data", data, *named, "--effort", "fast", "-o", out / "q.onnx")
    assert f"--branch grid=yolov2-grid:{SIDES}" in made.output.splitlines()[-1]


def labelled(folder: Path) -> tuple[Path, Path]:
    """Two pictures with an object each."""
    images, labels = folder / "images", folder / "labels"
    images.mkdir()
    labels.mkdir()
    for name in ("a", "b"):
        pixels = np.random.default_rng(ord(name)).integers(0, 255, (64, 64, 3), np.uint8)
        Image.fromarray(pixels).save(images / f"{name}.png")
        (labels / f"{name}.txt").write_text("0 0.5 0.5 0.4 0.3\n")
    return images, labels


def test_labels_need_the_anchors_of_the_network(cli, refused, tmp_path: Path, out: Path) -> None:
    model = saved(yolo2(), tmp_path)
    images, labels = labelled(tmp_path)
    data = ("--data", images, "--mean", "128", "--scale", "0.02", "--labels", labels)
    wanted = ("evaluate", model, *data, "--task", "detect", "--json", out / "e.json")
    refused(cli(*wanted), 2, "boxes whose anchors are not known", "--branch NAME=yolov2-grid:1.08,1.19")
    refused(cli(*wanted, "--branch", "grid=yolov2-grid"), 2, "boxes whose anchors are not known", "Give them")
    judged = cli(*wanted, "--branch", f"grid=yolov2-grid:{SIDES}")
    assert judged.exit_code == 0, judged.output
    assert "map50" in json.loads((out / "e.json").read_text())["models"][0]["task"]["against_labels"]
