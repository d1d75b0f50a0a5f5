"""``calib8 export``, and ``calib8 quantize`` into a .tflite file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from json_output import load
from litert import litert_outputs
from tiny_models import FLAGS, cnn, save

from calib8 import InferenceSession
from calib8.tflite.graph import Graph
from calib8.tflite.read import read_tflite

IMAGE = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)
NHWC = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))


@pytest.fixture
def coded(cli, model: Path, images: Path, tmp_path: Path) -> Path:
    """The model quantized for TFLite: its output is coded."""
    path = tmp_path / "coded.onnx"
    flags = ("--data", images, *FLAGS, "--repair", "none", "--target", "tflite")
    assert cli("quantize", model, *flags, "-o", path).exit_code == 0
    return path


def port(graph: Graph, side: str) -> Any:
    [place] = graph.inputs if side == "inputs" else graph.outputs
    return graph.tensors[place]


def test_a_model_as_a_tflite_file(cli, coded: Path, out: Path) -> None:
    result = cli("export", coded, "--to", "tflite", "-o", out / "m.tflite", "--json", out / "m.json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    size = (out / "m.tflite").stat().st_size
    assert f"{out / 'm.tflite'}  {size / 1000:.1f} kB" in result.stdout
    assert "input image: float32 1×16×16×3\noutput scores: float32 1×5\n" in result.stdout
    assert " operators, 0 changes of scale, 0 tables" in result.stdout
    [want] = InferenceSession(coded, profile="tflite", runtime="reference").run(None, {"image": IMAGE})
    [got] = litert_outputs((out / "m.tflite").read_bytes(), [NHWC])
    np.testing.assert_array_equal(got, want)
    document, graph = load(out / "m.json"), read_tflite(out / "m.tflite")
    assert (document["model"], document["output"], document["to"]) == (
        str(coded),
        str(out / "m.tflite"),
        "tflite",
    )
    assert document["bytes"] == {"model": coded.stat().st_size, "output": size}
    assert sum(document["operators"].values()) == len(graph.operators)
    assert (document["requantizations"], document["tables"], document["notes"]) == (0, 0, [])
    stored = json.loads(graph.metadata["calib8_preprocess"])
    assert (stored["layout"], stored["size"]) == ("NHWC", [16, 16])


def test_the_same_model_gives_the_same_bytes(cli, coded: Path, tmp_path: Path, out: Path) -> None:
    program = tmp_path / "coded.c8p"
    flags = ("--program", "--profile", "tflite", "--save", program)
    assert cli("inspect", coded, *flags).exit_code == 0
    for number in (1, 2):
        target = out / f"{number}.tflite"
        assert cli("export", coded, "--to", "tflite", "-o", target, "--quiet").output == ""
    assert (out / "1.tflite").read_bytes() == (out / "2.tflite").read_bytes()
    assert cli("export", program, "--to", "tflite", "-o", out / "3.tflite").exit_code == 0
    first, third = read_tflite(out / "1.tflite"), read_tflite(out / "3.tflite")
    assert [found.op for found in third.operators] == [found.op for found in first.operators]


def test_codes_of_another_target_are_told(cli, model: Path, images: Path, out: Path) -> None:
    for target, noted in (("tensorrt", True), ("tflite", False)):
        flags = ("--data", images, *FLAGS, "--repair", "none", "--target", target)
        result = cli("quantize", model, *flags, "-o", out / "m.tflite")
        assert result.exit_code == 0, result.output
        assert (f"note: codes are those of --target {target}" in result.stdout) == noted


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
def test_types_of_inputs_and_outputs(cli, coded: Path, out: Path, dtype: str) -> None:
    flags = ("--inputs", dtype, "--outputs", dtype, "-o", out / "m.tflite")
    result = cli("export", coded, "--to", "tflite", *flags)
    assert result.exit_code == 0, result.output
    graph = read_tflite(out / "m.tflite")
    assert port(graph, "inputs").dtype == port(graph, "outputs").dtype == dtype
    assert f"input image: {dtype} 1×16×16×3" in result.stdout


def test_a_layer_without_a_quantizer_is_told(cli, refused, int8: Path, out: Path) -> None:
    target = out / "m.tflite"
    refused(
        cli("export", int8, "--to", "tflite", "--outputs", "int8", "-o", target), 1, "int8.onnx: 1 part has",
        "nothing quantizes the output 'scores'", "--target tflite",
    )  # fmt: skip
    assert not target.exists()
    result = cli("export", int8, "--to", "tflite", "-o", target)
    assert result.exit_code == 0, result.output
    assert "nothing quantizes its result, so it is computed in float32" in result.stdout
    [want] = InferenceSession(int8, profile="tflite").run(None, {"image": IMAGE})
    [got] = litert_outputs(target.read_bytes(), [NHWC])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_shapes(cli, refused, coded: Path, out: Path) -> None:
    target = out / "m.tflite"
    assert cli("export", coded, "--to", "tflite", "--shape", "image=3,3,16,16", "-o", target).exit_code == 0
    assert port(read_tflite(target), "inputs").shape == (3, 16, 16, 3)
    wrong = cli("export", coded, "--to", "tflite", "--shape", "image", "-o", out / "w.tflite")
    refused(wrong, 2, "--shape image: is not a name")


@pytest.mark.usefixtures("nothing_left")
def test_what_cannot_be_exported(cli, refused, model: Path, int8: Path, tmp_path: Path, out: Path) -> None:
    target = out / "m.tflite"
    to = ("--to", "tflite")
    refused(cli("export", model, *to, "-o", target), 1, "tiny.onnx: is a float model", "Quantize it first.")
    refused(cli("export", out / "none.onnx", *to, "-o", target), 1, "none.onnx: no such file")
    refused(cli("export", int8, "--to", "coffee", "-o", target), 2, "--to coffee: unknown form. Use ")
    refused(cli("export", int8, *to, "-o", out / "m.onnx"), 2, "does not end in .tflite", "such as m.tflite")
    refused(cli("export", int8, *to, "-o", out / "none" / "m.tflite"), 2, "--output", "cannot be written")
    refused(cli("export", int8, *to, "--inputs", "int4", "-o", target), 2, "--inputs int4: is not a type of")
    plan = tmp_path / "m.c8"
    assert cli("compile", int8, "-o", plan).exit_code == 0
    refused(cli("export", plan, *to, "-o", target), 2, "m.c8: is a plan")
    program = tmp_path / "m.c8p"
    assert cli("inspect", int8, "--program", "--save", program).exit_code == 0
    refused(cli("export", program, *to, "-o", target), 2, "was lowered with the profile 'onnx'")


@pytest.mark.usefixtures("nothing_left")
def test_float_nodes_without_an_operator_are_listed(
    cli, refused, images: Path, tmp_path: Path, out: Path
) -> None:
    wave = onnx.helper.make_node("Sin", ["features"], ["extra"], name="wave")
    model, coded = save(cnn([wave]), tmp_path / "m.onnx"), tmp_path / "q.onnx"
    flags = ("--data", images, *FLAGS, "--keep-float", "conv2", "-o", coded)
    assert cli("quantize", model, *flags).exit_code == 0
    result = cli("export", coded, "--to", "tflite", "-o", out / "m.tflite")
    refused(result, 1, "no operator for the float nodes", "wave (Sin)")
    assert "conv2 (Conv)" not in result.output, "it has one"


def test_quantize_writes_a_tflite_file(cli, model: Path, coded: Path, images: Path, out: Path) -> None:
    flags = ("--data", images, *FLAGS, "--repair", "none", "--json", out / "q.json")
    result = cli("quantize", model, *flags, "-o", out / "q.tflite")
    assert result.exit_code == 0, result.output
    assert load(out / "q.json")["metadata"]["target"] == "tflite"
    size = (out / "q.tflite").stat().st_size
    assert load(out / "q.json")["bytes"]["quantized"] == size
    assert re.search(rf"^size       .* → {size / 1000:.1f} kB, ", result.stdout, re.MULTILINE)
    assert f"written    {out / 'q.tflite'}\n" in result.stdout
    assert cli("export", coded, "--to", "tflite", "-o", out / "e.tflite").exit_code == 0
    exported, direct = ((out / name).read_bytes() for name in ("e.tflite", "q.tflite"))
    [want], [got] = litert_outputs(exported, [NHWC]), litert_outputs(direct, [NHWC])
    np.testing.assert_array_equal(got, want)
    assert "calib8_preprocess" in read_tflite(out / "q.tflite").metadata
