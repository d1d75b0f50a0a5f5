"""``compile`` and ``export`` as functions: files that open, and what they tell of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.demo import HELDOUT_PATH, MODEL_PATH
from calib8.errors import OutputError, UnsupportedModelError, UsageError

PIXELS = np.load(HELDOUT_PATH)["images"][:4]
VALUES = ((PIXELS.astype(np.float32) - 128.0) / 128.0).transpose(0, 3, 1, 2)


def logits(model: Path, feeds: np.ndarray) -> np.ndarray:
    """Of four images, one at a time."""
    session = calib8.InferenceSession(model)
    name = session.get_inputs()[0].name
    rows = [session.run(None, {name: feeds[index : index + 1]})[0] for index in range(len(feeds))]
    return np.concatenate(rows)


def test_a_compiled_plan_gives_what_the_model_gives(digits_int8: Path, tmp_path: Path) -> None:
    found = calib8.compile(digits_int8, tmp_path / "p.c8")
    assert np.array_equal(logits(tmp_path / "p.c8", VALUES), logits(digits_int8, VALUES))
    assert (found.model, found.output) == (str(digits_int8), tmp_path / "p.c8")
    assert found.bytes == (tmp_path / "p.c8").stat().st_size
    assert found.float_share == 0.0 and found.plan.profile == "onnx" and found.notes == ()
    assert found.summary.integer_macs == sum(found.plan.step_macs)


def test_a_plan_of_pixels(digits_int8: Path, tmp_path: Path) -> None:
    expected = logits(digits_int8, VALUES)
    stored = calib8.Preprocess(mean=(128.0,), scale=(1 / 128,), color="gray")
    for pixels in (True, stored):
        calib8.compile(digits_int8, tmp_path / "p.c8", pixels=pixels)
        assert np.array_equal(logits(tmp_path / "p.c8", PIXELS), expected)
    other = calib8.compile(digits_int8, tmp_path / "p.c8", isa="reference")
    assert other.plan.isa == "reference"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"isa": "sse9"}, "isa='sse9': unknown instruction set"),
        ({"until": ["x"]}, "until='x': .*not a TFLite model"),
        ({"until": "x"}, "until='x': .*not a TFLite model"),
        ({"pixels": "toaster"}, "toaster"),
        ({"pixels": 3}, "pixels: is an int. Give a Preprocess"),
        ({"profile": "soft"}, "soft"),
    ],
)
def test_options_of_compile_that_do_not_fit(
    digits_int8: Path, tmp_path: Path, words: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        calib8.compile(digits_int8, tmp_path / "p.c8", **words)
    assert list(tmp_path.iterdir()) == []


def test_places_that_are_no_place_for_a_plan(digits_int8: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"output='.*int8.onnx': is the same file as an input"):
        calib8.compile(digits_int8, digits_int8)
    with pytest.raises(UsageError, match=r"output='.*p.onnx': has the suffix of a model"):
        calib8.compile(digits_int8, tmp_path / "p.onnx")
    with pytest.raises(OutputError, match=r"cannot be written"):
        calib8.compile(digits_int8, tmp_path / "nowhere" / "p.c8")
    with pytest.raises(UnsupportedModelError, match=r"float"):
        calib8.compile(MODEL_PATH, tmp_path / "p.c8")
    bare = onnx.load(digits_int8)
    del bare.metadata_props[:]
    onnx.save(bare, tmp_path / "bare.onnx")
    with pytest.raises(UsageError, match=r"pixels: nothing says how .*bare.onnx wants its images"):
        calib8.compile(tmp_path / "bare.onnx", tmp_path / "p.c8", pixels=True)
    gray = calib8.Preprocess(mean=(0.0,), scale=(1.0,), color="bgr")
    with pytest.raises(UsageError, match=r"color='bgr': has 3, but the images of .* have 1 channels"):
        calib8.compile(digits_int8, tmp_path / "p.c8", pixels=gray)
    assert not (tmp_path / "p.c8").exists()


def test_every_form_is_written_and_told(digits_int8: Path, tmp_path: Path) -> None:
    tflite = calib8.export(digits_int8, tmp_path / "m.tflite", "tflite", inputs="uint8")
    assert tflite.tflite is not None and tflite.qoperator is tflite.program is None
    assert tflite.operators["CONV_2D"] >= 2 and tflite.bytes == (tmp_path / "m.tflite").stat().st_size
    assert calib8.InferenceSession(tmp_path / "m.tflite").get_inputs()[0].type == "tensor(uint8)"

    operators = calib8.export(digits_int8, tmp_path / "q.onnx", "qoperator")
    written = {node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node}
    assert set(operators.operators) <= written and "QLinearConv" in operators.operators

    program = calib8.export(digits_int8, tmp_path / "m.c8p", "program", profile="single", integer_only=True)
    assert program.program is not None and program.program.profile == "single"
    assert sum(program.operators.values()) == len(program.program.instructions)
    again = calib8.InferenceSession(tmp_path / "m.c8p")
    assert again.rounding == "single"


@pytest.mark.parametrize(
    ("output", "to", "words", "told"),
    [
        ("m.tflite", "toast", {}, "to='toast': unknown form. Use one of tflite, qoperator, tmfile, program"),
        ("m.tflite", None, {}, "to: is of type NoneType, not a text"),
        ("m.onnx", "tflite", {}, "does not end in .tflite, as files of to='tflite' do"),
        ("m.onnx", "qoperator", {"inputs": "int8"}, "inputs: does not go with to='qoperator'"),
        ("m.tflite", "tflite", {"integer_only": True}, "integer_only: does not go with to='tflite'"),
        ("m.tflite", "tflite", {"outputs": "int4"}, "outputs='int4': is not a type"),
    ],
)
def test_exports_that_do_not_fit(
    digits_int8: Path, tmp_path: Path, output: str, to: Any, words: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        calib8.export(digits_int8, tmp_path / output, to, **words)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_is_neither_compiled_nor_exported(digits_int8: Path, tmp_path: Path) -> None:
    calib8.compile(digits_int8, tmp_path / "p.c8")
    with pytest.raises(UsageError, match=r"is a plan. Give the model"):
        calib8.compile(tmp_path / "p.c8", tmp_path / "again.c8")
    with pytest.raises(UsageError, match=r"is a plan. Give the model"):
        calib8.export(tmp_path / "p.c8", tmp_path / "m.tflite", "tflite")
