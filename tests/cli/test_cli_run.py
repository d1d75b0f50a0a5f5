"""``run`` of detectors: objects with class, score and box in the picture; names; what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from json_output import load
from PIL import Image

import calib8
from calib8.analysis.found_objects import Finder
from calib8.data.class_names import names_in_metadata
from detector_nets import detector, pictures
from small_models import onnx_model

BOXES = np.float32([[[2, 4, 10, 12], [1, 1, 3, 3], [16, 0, 32, 8]]])
"""Corners in an input of 32 × 16."""

SCORES = np.float32([[[0.1, 0.9], [0.2, 0.05], [0.6, 0.3]]])
PLAIN = ("--mean", "0", "--scale", "1/255", "--resize", "warp", "--size", "16,32")
LISTED = [(1, 0.9, [4.0, 8.0, 20.0, 24.0]), (0, 0.6, [32.0, 0.0, 64.0, 16.0])]
"""What is above .25, best first, in a picture twice as large: class, score, box."""


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(2):
        pixels = np.random.default_rng(number).integers(0, 256, (32, 64, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


@pytest.fixture
def fixed(tmp_path: Path) -> Path:
    """A model that finds the same objects in every picture."""
    body = """
        m = GlobalAveragePool(x) f = Flatten(m) s = ReduceSum<keepdims=0>(f) z = Mul(s, zero)
        boxes = Add(b, z) scores = Add(c, z)
    """
    constants = {"b": BOXES, "c": SCORES, "zero": np.float32(0.0)}
    proto = onnx_model("float[1,3,16,32] x", "float[1,3,4] boxes, float[1,3,2] scores", body, constants)
    onnx.save(proto, tmp_path / "fixed.onnx")
    return tmp_path / "fixed.onnx"


def results(cli: Callable[..., Any], tmp_path: Path, *arguments: Any) -> tuple[str, list[dict[str, Any]]]:
    """What is printed, and the results of the JSON file."""
    done = cli("run", *arguments, "--json", tmp_path / "run.json")
    assert done.exit_code == 0, done.output
    found = load(tmp_path / "run.json")["results"]
    assert isinstance(found, list)
    return done.output, found


def told(objects: list[dict[str, Any]]) -> list[tuple[int, float, list[float]]]:
    return [(one["class"], round(one["score"], 4), [round(end, 3) for end in one["box"]]) for one in objects]


def test_objects_lie_in_the_picture_as_it_is(cli, fixed: Path, images: Path, tmp_path: Path) -> None:
    text, found = results(cli, tmp_path, fixed, "--data", images, *PLAIN, "--task", "detect")
    assert [one["image"] for one in found] == ["0.png", "1.png"]
    assert all(told(one["objects"]) == LISTED and one["in_picture"] for one in found)
    assert "box in pixels of the picture" in text and "4, 8, 20, 24" in text and "0.90" in text
    _, first = results(cli, tmp_path, fixed, "--data", images, *PLAIN, "--task", "detect", "--top", "1")
    assert [told(one["objects"]) for one in first] == [LISTED[:1]] * 2


def test_boxes_of_arrays_lie_in_the_input(cli, fixed: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 16, 32), np.float32))
    text, found = results(cli, tmp_path, fixed, "--data", tmp_path / "x.npy", "--task", "detect")
    assert "box in pixels of the model's input" in text and not found[0]["in_picture"]
    np.testing.assert_allclose([one["box"] for one in found[0]["objects"]], BOXES[0][[0, 2]])


def test_classes_have_names_from_a_file_or_the_model(cli, fixed: Path, images: Path, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("small cat\n[bold]dog\n", encoding="utf-8")
    flags = ("--data", images, *PLAIN, "--task", "detect")
    text, found = results(cli, tmp_path, fixed, *flags, "--names", names)
    assert [one["name"] for one in found[0]["objects"]] == ["[bold]dog", "small cat"]
    assert "1 [bold]dog" in text and "0 small cat" in text
    proto = onnx.load(fixed)
    onnx.helper.set_model_props(proto, {"names": "{0: 'owl', 1: 'fox'}"})
    onnx.save(proto, tmp_path / "named.onnx")
    _, found = results(cli, tmp_path, tmp_path / "named.onnx", *flags)
    assert [one["name"] for one in found[0]["objects"]] == ["fox", "owl"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("['a', 'b']", {0: "a", 1: "b"}),
        ("{3: 'a\\n b'}", {3: "a b"}),
        ("{'0': 'a'}", {}),
        ("__import__('os')", {}),
        ("{0: 1}", {}),
        ("[" * 5000, {}),
        ("x" * 200_000, {}),
        ("", {}),
    ],
)
def test_names_in_metadata_are_read_or_passed_over(text: str, names: dict[int, str]) -> None:
    assert names_in_metadata({"names": text}) == names


def test_a_graph_that_shows_a_detector_needs_no_task(cli, tmp_path: Path) -> None:
    proto = detector()
    onnx.helper.set_model_props(proto, {"names": "['a', 'b', 'c']"})
    onnx.save(proto, tmp_path / "net.onnx")
    data = pictures(6)
    np.save(tmp_path / "x.npy", data)
    calib8.quantize(proto, data, effort="fast").save(tmp_path / "int8.onnx")
    for name in ("net.onnx", "int8.onnx"):
        text, found = results(cli, tmp_path, tmp_path / name, "--data", tmp_path / "x.npy", "--samples", "3")
        assert "class" in text and len(found) == 3
        objects = [one for each in found for one in each["objects"]]
        assert objects and all(one["score"] > 0.25 and "abc"[one["class"]] == one["name"] for one in objects)
    assert cli("compile", tmp_path / "int8.onnx", "-o", tmp_path / "int8.c8").exit_code == 0
    flags = ("--data", tmp_path / "x.npy", "--samples", "3", "--runtime", "calib8")
    text, found = results(cli, tmp_path, tmp_path / "int8.c8", *flags, "--task", "detect")
    assert [one["objects"] for one in found] and "class" in text
    text, found = results(cli, tmp_path, tmp_path / "int8.c8", *flags)
    assert "objects" not in found[0], "a plan does not show what its outputs are"


def test_outputs_that_cannot_be_decoded_are_shown_as_figures(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise calib8.UsageError("task", "no decoding is known", "Export it otherwise")

    onnx.save(detector(), tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", pictures(2))
    monkeypatch.setattr(Finder, "found", refuse)
    text, found = results(cli, tmp_path, tmp_path / "net.onnx", "--data", tmp_path / "x.npy")
    assert "note: objects are not listed: no decoding is known" in text and found[0]["output"] == "y"
    named = cli("run", tmp_path / "net.onnx", "--data", tmp_path / "x.npy", "--task", "detect")
    assert named.exit_code == 2 and "no decoding is known" in named.output


def test_what_cannot_be_shown_is_refused(cli, fixed: Path, images: Path, tmp_path: Path) -> None:
    flags = ("run", fixed, "--data", images, *PLAIN)
    for task, problem in (("segment", "has no answer that is shown"), ("classify", "is not a row of scores")):
        result = cli(*flags, "--task", task)
        assert result.exit_code == 2 and problem in " ".join(result.output.split())
    for content in (b"", b"a\n\nb\n", b"\xff\xfe\x00"):
        (tmp_path / "names.txt").write_bytes(content)
        result = cli(*flags, "--names", tmp_path / "names.txt")
        assert result.exit_code == 1 and "name of a class per line" in " ".join(result.output.split())
    assert cli(*flags, "--names", tmp_path / "nowhere.txt").exit_code != 0
    assert cli(*flags, "--top", "0").exit_code == 2
