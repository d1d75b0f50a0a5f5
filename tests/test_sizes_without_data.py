"""Sizes of a model that leaves them open, where a table or statistics stand in place of data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import calib8
from calib8.cli import app
from calib8.errors import UnsupportedModelError, UsageError
from calib8.model.save import model_bytes
from calib8.tflite.read import read_tflite
from small_models import normal, onnx_model

CONSTANTS: dict[str, Any] = {"w": normal(4, 3, 3, 3), "p": normal(1, 4, 20, 12)}


def net(position: bool = True) -> onnx.ModelProto:
    """Takes images of 20×12 only, and does not say so, because a constant has that many places."""
    body = "a = Conv<pads=[1,1,1,1]>(x, w) r = Relu(a) "
    body += "y = Add(r, p)" if position else "y = Sigmoid(r)"
    constants = CONSTANTS if position else {"w": CONSTANTS["w"]}
    return onnx_model("float[N,3,H,W] x", "float[N,4,H,W] y", body, constants)


DATA = [{"x": normal(1, 3, 20, 12, seed=seed)} for seed in range(3)]
SHAPES = {"x": (1, 3, 20, 12)}


def test_a_table_knows_the_sizes_that_the_preprocessing_gave(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 24, 16, 3), np.uint8)
    preprocess = calib8.Preprocess(size=(20, 12))
    found = calib8.calibrate(net(), {"images": pixels}, preprocess=preprocess, method="minmax")
    assert dict(found.table.inputs) == SHAPES
    found.table.save(tmp_path / "table.json")
    table = calib8.read_table(tmp_path / "table.json")
    same = calib8.quantize(net(), table=table)
    assert model_bytes(same.model) == model_bytes(calib8.quantize(net(), table=found.table).model)
    assert dict(same.table.inputs) == SHAPES
    by_statistics = calib8.calibrate(net(), statistics=found.statistics, method="minmax")
    assert by_statistics.table.to_json() == found.table.to_json()


def test_a_table_says_nothing_of_sizes_that_samples_choose() -> None:
    """Their order, batches and shards must not show in it."""
    tall = [{"x": normal(1, 3, 40, 12, seed=seed)} for seed in range(3)]
    wide = [{"x": normal(2, 3, 20, 24, seed=seed)} for seed in range(3)]
    tables = [
        calib8.calibrate(net(False), data, method="minmax").table for data in (tall + wide, wide + tall)
    ]
    assert tables[0].to_json() == tables[1].to_json() and not tables[0].inputs


def test_sizes_that_nothing_tells_are_asked_for() -> None:
    found = calib8.calibrate(net(), DATA, method="minmax")
    with pytest.raises(UnsupportedModelError, match=r"'x' axis 2 \(H\), 'x' axis 3 \(W\).*--shape"):
        calib8.quantize(net(), table=found.table)
    calib8.quantize(net(), table=found.table, shapes=SHAPES)
    with pytest.raises(UnsupportedModelError, match="--shape"):
        calib8.calibrate(net(), statistics=found.statistics)
    again = calib8.calibrate(net(), statistics=found.statistics, method="minmax", shapes=SHAPES)
    assert again.table.to_json() == found.table.to_json()


def test_sizes_of_another_model_are_passed_over() -> None:
    found = calib8.calibrate(net(), DATA, method="minmax")
    for other in ({"x": (1, 4, 20, 12)}, {"x": (1, 3, 20)}, {"z": (1, 3, 20, 12)}):
        with pytest.raises(UnsupportedModelError, match="--shape"):
            calib8.quantize(net(), table=replace(found.table, inputs=other))


def test_data_have_their_own() -> None:
    with pytest.raises(UsageError, match="shapes"):
        calib8.quantize(net(), DATA, shapes=SHAPES)


def test_a_tflite_file_takes_the_sizes_that_are_given(tmp_path: Path) -> None:
    result = calib8.quantize(net(position=False), DATA, effort="fast", target="tflite")
    with pytest.raises(UnsupportedModelError, match="--shape"):
        result.save(tmp_path / "m.tflite")
    result.save(tmp_path / "m.tflite", shapes={"x": (1, 3, 8, 10)})
    graph = read_tflite(tmp_path / "m.tflite")
    assert tuple(graph.tensors[graph.inputs[0]].shape) == (1, 8, 10, 3)
    with pytest.raises(UsageError, match="shapes"):
        result.save(tmp_path / "m.onnx", shapes=SHAPES)
    feeds = {"x": normal(1, 3, 8, 10, seed=9)}
    expected = calib8.InferenceSession(result.lower(profile="tflite", shapes={"x": (1, 3, 8, 10)})).run(
        None, feeds
    )
    session = calib8.InferenceSession(tmp_path / "m.tflite")
    name = session.get_inputs()[0].name
    found = session.run(None, {name: feeds["x"].transpose(0, 2, 3, 1)})
    assert np.array_equal(expected[0].transpose(0, 2, 3, 1), found[0])


def test_the_command_line_takes_them(tmp_path: Path) -> None:
    found = calib8.calibrate(net(), DATA, method="minmax")
    found.table.save(tmp_path / "table.json")
    onnx.save(net(), tmp_path / "m.onnx")
    arguments = ["quantize", tmp_path / "m.onnx", "--table", tmp_path / "table.json", "-o"]
    bare = CliRunner().invoke(app, [str(argument) for argument in (*arguments, tmp_path / "q.onnx")])
    assert bare.exit_code != 0 and not (tmp_path / "q.onnx").exists()
    for output in ("q.onnx", "q.tflite"):
        call = [str(argument) for argument in (*arguments, tmp_path / output, "--shape", "x=1,3,20,12")]
        assert CliRunner().invoke(app, call).exit_code == 0
        assert (tmp_path / output).exists()
