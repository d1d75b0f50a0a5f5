"""Every field of the JSON documents is on the page of its command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from pages import json_of, rows
from PIL import Image
from typer.testing import CliRunner

import calib8
from calib8.cli import app
from calib8.demo import MODEL_PATH
from calib8.tflite.write import write_tflite
from calib8.tmfile.graph import Quantization
from calib8.tmfile.write import write_tmfile
from detector_nets import detector, pictures
from tflite_nets import quantized_classifier
from tmfile_nets import classifier, coded

CACHE = """TRT-8601-EntropyCalibration2
input: 3c010204
stem/conv: 3c010204
stem/relu: 3cec78f2
head/pool: 3cc91224
nowhere: 3c010204
"""
"""A name too many, one without codes, one that stands for two tensors, many missing."""


def paths(value: Any, documented: set[str], prefix: str = "") -> Iterator[str]:
    """``models[].top1`` and so on for all that a document holds, down to what is documented as one field.

    Null, or a list that is empty here and filled in another document, may stand for a part of which the
    fields are documented.
    """
    known = any(field.startswith((f"{prefix}.", f"{prefix}[]")) for field in documented)
    if value is None and known:
        return
    if prefix in documented or not isinstance(value, (dict, list)):
        yield prefix
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, documented, f"{prefix}.{key}" if prefix else key)
    else:
        assert value or known, f"{prefix} is empty: the test must fill it"
        for inner in value:
            yield from paths(inner, documented, f"{prefix}[]")


def one_output(path: Path) -> Path:
    """A model whose output is an image, no row of class scores."""
    head = '<ir_version: 8, opset_import: ["": 17]>'
    text = f"{head} image (float[N,1,16,16] x) => (float[N,1,16,16] y) {{y = Relu(x)}}"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def one_name_lost(path: Path) -> Path:
    """An int8 model of the demo network in which one quantized tensor bears another name."""
    quantized = calib8.quantize(MODEL_PATH, [{"input": np.ones((1, 1, 16, 16), np.float32)}], method="minmax")
    next(
        value for node in quantized.model.graph for value in node.outputs if value.name == "block2/relu"
    ).name = "x"
    quantized.save(path)
    return path


def detector_file(path: Path) -> Path:
    """A model that finds objects in the samples beside it."""
    onnx.save(detector(), path)
    np.save(path.with_suffix(".npy"), pictures(4))
    return path


def names_of_digits(path: Path) -> Path:
    """What the classes of the demo network are called."""
    path.write_text(
        "\n".join(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    )
    return path


def tflite_file(path: Path) -> Path:
    """A TFLite model with metadata and a rule broken: its weights hold the code −128."""
    net = quantized_classifier("int8", {"note": b"text"})
    image, weight, *others = net.tensors
    lowest = np.full(weight.shape, -128, np.int8)
    write_tflite(replace(net, tensors=(image, replace(weight, data=lowest), *others)), path)
    return path


def tmfile(path: Path) -> Path:
    """A Tengine model in codes, of which one tensor lost its scale."""
    net = coded(classifier())
    lost = Quantization(np.zeros(1, np.float32), np.zeros(1, np.int32))
    write_tmfile(replace(net, tensors=(*net.tensors[:-1], replace(net.tensors[-1], quantization=lost))), path)
    return path


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Command → what it writes for machines, from runs in which every list has an entry."""
    folder = tmp_path_factory.mktemp("documents")
    images = folder / "images"
    images.mkdir()
    (images / "bad.png").write_bytes(b"no image")
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save(images / "good.png")
    good = images / "good.png"
    flags = ["--color", "gray", "--mean", "128", "--scale", "1/128", "--data", str(images), "--skip-bad"]
    int8, mixed, cache, ncnn = (folder / name for name in ("int8.onnx", "mixed.onnx", "t.cache", "t.table"))
    cache.write_text(CACHE)
    ncnn.write_text("stem/conv_param_0 127 \nstem/conv 127 \n#block1/depthwise 1 \n")
    calibration = MODEL_PATH.parent / "digits_calibration.npz"
    tuned = [*flags[:6], "--data", calibration, "--samples", "24", "--min-sqnr", "20", "--effort", "fast"]
    lossy = ["--to", "tensorrt", "--lossy", "-o", folder / "lossy.cache"]
    bound = ["--partial", "--model", MODEL_PATH, "-o", folder / "bound.json"]
    asked = ["--power-of-two", "--range", "input=-1,1", "--target", "calib8", "--spot", "input"]
    runs: list[list[Any]] = [
        ["calibrate", MODEL_PATH, *flags, "-o", folder / "table.json", "--stats", folder / "stats"],
        ["stats", "show", folder / "stats"],
        ["stats", "merge", folder / "stats", "-o", folder / "merged"],
        ["quantize", MODEL_PATH, *flags, "--repair", "equalize-activations,bias", "-o", int8],
        ["evaluate", MODEL_PATH, int8, *flags],
        ["compare", MODEL_PATH, one_name_lost(folder / "lost.onnx"), *flags],
        ["diagnose", MODEL_PATH, int8, "--data", MODEL_PATH.parent / "digits_calibration.npz"],
        ["run", MODEL_PATH, *flags, "--names", names_of_digits(folder / "names.txt")],
        ["run", detector_file(folder / "detector.onnx"), "--data", folder / "detector.npy"],
        ["doctor"],
        ["run", one_output(folder / "image.onnx"), *flags],
        ["quantize", MODEL_PATH, *flags, "--keep-float", "head/dense", "--repair", "bn", "-o", mixed],
        ["inspect", mixed, "--program", "--target", "tensorrt"],
        ["inspect", mixed, "--avx2-safety", *flags],
        ["inspect", MODEL_PATH, *flags],
        ["compile", mixed, "-o", folder / "mixed.c8"],
        ["inspect", folder / "mixed.c8"],
        ["inspect", tflite_file(folder / "net.tflite"), "--program", "--target", "tflite"],
        ["inspect", tmfile(folder / "net.tmfile")],
        ["tengine-quant", "-m", MODEL_PATH, "-i", good, "-o", int8, "-w", "128", "-s", "0.01"],
        ["quantize", MODEL_PATH, "--table", cache, "--partial", *asked, "-o", folder / "q.onnx"],
        ["table", "show", ncnn],
        ["table", "convert", cache, *bound],
        ["table", "convert", folder / "table.json", *lossy],
        ["table", "diff", folder / "lossy.cache", cache],
        ["table", "plot", folder / "table.json", "--stats", folder / "stats", "-o", folder / "page.html"],
        ["tune", MODEL_PATH, *tuned, "-o", folder / "tuned.onnx"],
        ["benchmark", int8, "--runtime", "calib8", "--threads", "1", "--rounds", "1", "--profile"],
    ]
    found: dict[str, list[Any]] = {}
    for arguments in runs:
        target = folder / "result.json"
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            result = CliRunner().invoke(app, [*map(str, arguments), "--json", str(target)])
        assert result.exit_code == (1 if arguments[0] == "inspect" and "--target" in arguments else 0), (
            result.output
        )
        assert "error:" not in result.output
        name = " ".join(arguments[:2]) if arguments[0] in ("stats", "table") else arguments[0]
        found.setdefault(name, []).append(json.loads(target.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize(
    "command",
    [
        *(
            "calibrate",
            "quantize",
            "evaluate",
            "compare",
            "diagnose",
            "run",
            "inspect",
            "compile",
            "benchmark",
        ),
        *("table show", "table convert", "table diff", "table plot", "tengine-quant"),
        *("stats merge", "stats show"),
    ],
)
def test_every_field_of_a_json_document_is_documented(command: str, documents: dict[str, list[Any]]) -> None:
    listed = rows(json_of(command))
    if command == "quantize":
        shared = rows(json_of("calibrate"))
        listed += [row for row in shared if row[0].startswith(("`preflight.", "`calibration."))]
    documented = {field for row in listed for field in re.findall(r"`([^`]+)`", row[0])}
    written = {path for document in documents[command] for path in paths(document, documented)}
    assert written == documented
