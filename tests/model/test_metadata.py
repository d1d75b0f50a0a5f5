"""What a quantized file says of itself survives the way through the file."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from calib8.errors import ModelError
from calib8.model.load import load_model
from calib8.model.metadata import PREFIX, read_metadata, stored_entries, write_metadata
from calib8.model.save import save_model
from small_models import onnx_model


def test_entries_come_back_without_their_prefix_and_foreign_ones_stay(tmp_path: Path) -> None:
    proto = onnx_model("float[N] x", "float[N] y", "y = Relu(x)")
    helper.set_model_props(proto, {"author": "someone"})
    model = load_model(proto)
    write_metadata(model, {"target": "tflite", "preprocess": '{"mean": 0.5}'})
    path = tmp_path / "net.onnx"
    save_model(model, path)
    assert read_metadata(path) == {"target": "tflite", "preprocess": '{"mean": 0.5}'}
    assert {prop.key for prop in onnx.load(path).metadata_props} >= {"author", "calib8.target"}


def test_a_foreign_model_has_none(tmp_path: Path) -> None:
    onnx.save(onnx_model("float[N] x", "float[N] y", "y = Relu(x)"), tmp_path / "net.onnx")
    assert read_metadata(tmp_path / "net.onnx") == {}


@pytest.mark.parametrize("content", [None, b"hello world, this is text"])
def test_what_is_no_model_is_a_model_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "net.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError):
        read_metadata(path)


def test_entries_that_are_no_text_are_passed_over(tmp_path: Path) -> None:
    proto = onnx_model("float[1] x", "float[1] y", "y = Relu(x)", {})
    helper.set_model_props(proto, {"caf1": "foreign", f"{PREFIX}target": "tflite"})
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString().replace(b"caf1", b"caf\xe9"))
    assert read_metadata(path) == stored_entries(load_model(path)) == {"target": "tflite"}
