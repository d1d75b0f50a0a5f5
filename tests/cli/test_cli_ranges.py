"""Ranges and scales that the user gives, and scales that are powers of two, arrive in the INT8 file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tiny_models import FLAGS


def codes(path: Path) -> dict[str, tuple[float, int]]:
    """Tensor → scale and zero point of its QuantizeLinear."""
    graph = onnx.load(path).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    return {
        node.name.removesuffix("/QuantizeLinear"): (
            float(constants[node.input[1]]),
            int(constants[node.input[2]]),
        )
        for node in graph.node
        if node.op_type == "QuantizeLinear"
    }


@pytest.fixture
def table(cli, model: Path, images: Path, tmp_path: Path) -> Path:
    """A table by min-max."""
    path = tmp_path / "table.json"
    result = cli("calibrate", model, "--data", images, *FLAGS, "--method", "minmax", "-o", path)
    assert result.exit_code == 0, result.output
    return path


GIVEN = ("--range", "*=-1,1", "--range", "feat*=scale:0.0375,3", "--range", "image=0.5,2")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source", ["data", "stats", "table"])
def test_they_reach_the_file_whatever_the_ranges_come_from(
    cli, model: Path, images: Path, table: Path, out: Path, source: str
) -> None:
    sources = {"data": ("--data", images), "stats": ("--from-stats", out / "s"), "table": ("--table", table)}
    assert cli("calibrate", model, "--data", images, *FLAGS, "--stats", out / "s").exit_code == 0
    result = cli("quantize", model, *sources[source], *FLAGS, *GIVEN, "-o", out / "q.onnx")
    assert result.exit_code == 0, result.output
    assert "note: the range given for 'image' was widened to hold 0: [0.5, 2] → [0, 2]" in result.stdout
    found = codes(out / "q.onnx")
    assert found.pop("image") == (float(np.float32(2 / 255)), 0)
    assert found.pop("features") == (float(np.float32(0.0375)), 3)
    assert found and set(found.values()) == {(float(np.float32(2 / 255)), 127)}


def test_the_table_says_which_ranges_were_given(cli, model: Path, images: Path, out: Path) -> None:
    result = cli("calibrate", model, "--data", images, *FLAGS, *GIVEN[2:4], "-o", out / "t.json")
    assert result.exit_code == 0, result.output
    entries = json.loads((out / "t.json").read_text())["tensors"]
    assert entries["features"]["method"] == "given" and entries["maps"]["method"].startswith("auto: ")
    assert entries["features"]["range"]["min"] == pytest.approx(-3 * 0.0375)
    assert entries["features"]["clipped"] >= 0
    assert cli("quantize", model, "--table", out / "t.json", "-o", out / "q.onnx").exit_code == 0
    assert codes(out / "q.onnx")["features"] == (float(np.float32(0.0375)), 3)


def test_a_symmetric_target_gets_the_given_scale(cli, model: Path, table: Path, out: Path) -> None:
    command = ("quantize", model, "--table", table, "--target", "tensorrt", "-o", out / "q.onnx")
    assert cli(*command, "--range", "image=scale:0.0123").exit_code == 0
    assert codes(out / "q.onnx")["image"] == (float(np.float32(0.0123)), 0)


def test_what_a_table_lacks_can_be_given(cli, refused, model: Path, table: Path, out: Path) -> None:
    document = json.loads(table.read_text())
    del document["tensors"]["maps"]
    table.write_text(json.dumps(document))
    command = ("quantize", model, "--table", table, "--target", "tensorrt", "-o", out / "q.onnx")
    refused(cli(*command), 1, "lacks 1 of 4 tensors: 'maps'", "Give them with --range")
    result = cli(*command, "--range", "maps=scale:0.25")
    assert result.exit_code == 0, result.output
    assert codes(out / "q.onnx")["maps"] == (0.25, 0)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "target", ["onnxruntime", "calib8", "openvino", "tflite", "tensorrt", "tengine", "ncnn"]
)
def test_all_scales_of_activations_are_powers_of_two(
    cli, model: Path, images: Path, out: Path, target: str
) -> None:
    result = cli(
        "quantize", model, "--data", images, *FLAGS, "--target", target, "--power-of-two",
        "--table", out / "t.json", "-o", out / "q.onnx",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = codes(out / "q.onnx")
    assert found and all(math.frexp(scale)[0] == 0.5 for scale, _ in found.values()), found
    again = cli("quantize", model, "--table", out / "t.json", "--target", target, "-o", out / "again.onnx")
    assert again.exit_code == 0, again.output
    assert codes(out / "again.onnx") == found
    assert cli("inspect", out / "q.onnx", "--target", target).exit_code == 0


@pytest.mark.parametrize(
    ("value", "code", "parts"),
    [
        ("fetures=3", 2, ("--range fetures: matches none of the 6 tensors", "features")),
        ("Features=3", 2, ("--range Features: matches none",)),
        ("features", 2, ("--range features: names no tensor", "NAME=LOW,HIGH")),
        ("features=3,1", 2, ("[3, 1] is not a range", "low < high")),
        ("features=0", 2, ("is not a range",)),
        ("features=-2", 2, ("[2, -2] is not a range",)),
        ("features=0,nan", 2, ("is not a range",)),
        ("features=scale:0", 2, ("0 is not a scale",)),
        ("features=scale:-0.1", 2, ("-0.1 is not a scale",)),
        ("features=scale:1,300", 2, ("the zero point 300 does not fit", "0 … 255")),
    ],
)
def test_what_is_refused(
    cli, refused, model: Path, images: Path, table: Path, out: Path, value: str, code: int,
    parts: tuple[str, ...],
) -> None:  # fmt: skip
    sources = (
        ("quantize", "x.onnx", "--table", table), ("calibrate", "x.json", "--data", images, *FLAGS)
    )  # fmt: skip
    for command, name, *source in sources:
        result = cli(command, model, *source, "--range", value, "-o", out / name)
        refused(result, code, *parts)
    assert list(out.iterdir()) == []


def test_two_ranges_for_one_scale(cli, refused, model: Path, table: Path, out: Path) -> None:
    flags = ("--range", "pooled=0,1", "--range", "flat=0,2")
    result = cli("quantize", model, "--table", table, *flags, "-o", out / "q.onnx")
    refused(result, 1, "was given [0, ", "but shares its scale with '", "Give one of them")
    assert list(out.iterdir()) == []


def test_a_finished_table_takes_no_decay(cli, refused, model: Path, table: Path, out: Path) -> None:
    result = cli("quantize", model, "--table", table, "--decay", "0.9", "-o", out / "q.onnx")
    assert result.exit_code == 2 and "--decay" in result.stderr


def test_options_that_do_not_fit_the_default_method_are_refused_before_the_data_are_read(
    cli, refused, model: Path, images: Path, out: Path
) -> None:
    for option in (("--percent", "99"), ("--decay", "0.9")):
        result = cli("quantize", model, "--data", images, *FLAGS, *option, "-o", out / "q.onnx")
        refused(result, 2, " ".join(option), f"takes no {option[0][2:]}")
        assert result.stdout == ""
