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
    with pytest.raises(UnsupportedModelError, match=r"'x' axis 2 \(H\), 'x' axis 3 \(W\).*shapes={"):
        calib8.quantize(net(), table=found.table)
    calib8.quantize(net(), table=found.table, shapes=SHAPES)
    with pytest.raises(UnsupportedModelError, match=r"shapes=\{"):
        calib8.calibrate(net(), statistics=found.statistics)
    again = calib8.calibrate(net(), statistics=found.statistics, method="minmax", shapes=SHAPES)
    assert again.table.to_json() == found.table.to_json()


def test_sizes_of_another_model_are_passed_over() -> None:
    found = calib8.calibrate(net(), DATA, method="minmax")
    for other in ({"x": (1, 4, 20, 12)}, {"x": (1, 3, 20)}, {"z": (1, 3, 20, 12)}):
        with pytest.raises(UnsupportedModelError, match=r"shapes=\{"):
            calib8.quantize(net(), table=replace(found.table, inputs=other))


def test_data_have_their_own() -> None:
    with pytest.raises(UsageError, match="shapes"):
        calib8.quantize(net(), DATA, shapes=SHAPES)


def test_a_tflite_file_takes_the_sizes_that_are_given(tmp_path: Path) -> None:
    result = calib8.quantize(net(position=False), DATA, effort="fast", target="tflite")
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


def taken(path: Path) -> tuple[int, ...]:
    """Sizes of the first input of a TFLite file, as N×H×W×C."""
    graph = read_tflite(path)
    return tuple(graph.tensors[graph.inputs[0]].shape)


def test_a_tflite_file_takes_the_sizes_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    result = calib8.quantize(net(), [*DATA, {"x": normal(2, 3, 20, 12)}], effort="fast", target="tflite")
    told = result.save(path)
    assert told[0] == "the free sizes of 'x' are those of the first sample: 1×3×20×12"
    assert taken(path) == (1, 20, 12, 3)
    found = calib8.calibrate(net(False), DATA, method="minmax").table
    stating = replace(found, inputs={"x": (1, 3, 16, 24)})
    by_table = calib8.quantize(net(False), table=stating, target="tflite")
    assert "quantized with: 1×3×16×24" in by_table.save(path)[0] and taken(path) == (1, 16, 24, 3)
    by_hand = calib8.quantize(net(False), table=found, shapes={"x": (1, 3, 12, 8)}, target="tflite")
    by_hand.save(path)
    assert taken(path) == (1, 12, 8, 3)
    assert not by_hand.save(path, shapes={"x": (1, 3, 8, 10)}) and taken(path) == (1, 8, 10, 3)
    with_both = replace(by_hand, prepared=result.prepared, table=by_table.table)
    assert "those of the table: 1×3×16×24" in with_both.save(path)[0]


def test_sizes_of_one_input_bind_those_of_another(tmp_path: Path) -> None:
    body = "a = Conv<pads=[1,1,1,1]>(x, w) b = Conv<pads=[1,1,1,1]>(z, w) y = Add(a, b)"
    constants = {"w": CONSTANTS["w"]}
    model = onnx_model("float[N,3,H,W] x, float[N,3,H,W] z", "float[N,4,H,W] y", body, constants)
    data = [{"x": one["x"], "z": one["x"] / 2} for one in DATA]
    result = calib8.quantize(model, data, effort="fast", target="tflite")
    told = result.save(tmp_path / "m.tflite", shapes={"z": (1, 3, 8, 10)})
    graph = read_tflite(tmp_path / "m.tflite")
    assert [tuple(graph.tensors[place].shape) for place in graph.inputs] == [(1, 8, 10, 3)] * 2
    assert told == ("the free sizes of 'x' are those of the first sample: 1×3×8×10",)


def test_the_command_line_says_which_sizes_a_tflite_file_has(tmp_path: Path) -> None:
    onnx.save(net(False), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=np.concatenate([one["x"] for one in DATA]))
    call = ["quantize", tmp_path / "m.onnx", "--data", tmp_path / "d.npz", "--effort", "fast"]
    call += ["-o", tmp_path / "m.tflite"]
    told = CliRunner().invoke(app, [str(argument) for argument in call])
    assert told.exit_code == 0 and taken(tmp_path / "m.tflite") == (1, 20, 12, 3)
    assert "those of the first sample: 1×3×20×12" in " ".join(told.output.split())


def test_statistics_become_a_table_on_the_command_line(tmp_path: Path) -> None:
    found = calib8.calibrate(net(), DATA, method="minmax")
    found.statistics.save(tmp_path / "s.npz")
    onnx.save(net(), tmp_path / "m.onnx")
    call = ["calibrate", tmp_path / "m.onnx", "--from-stats", tmp_path / "s.npz", "--method", "minmax"]
    call += ["-o", tmp_path / "t.json"]
    bare = CliRunner().invoke(app, [str(argument) for argument in call])
    assert bare.exit_code == 1 and "for every axis: --shape NAME=1,3,224,224." in " ".join(
        bare.output.split()
    )
    given = [str(argument) for argument in (*call, "--shape", "x=1,3,20,12")]
    assert CliRunner().invoke(app, given).exit_code == 0
    assert (tmp_path / "t.json").read_text() == found.table.to_json()
    beside = [*given[:2], "--data", str(tmp_path / "s.npz"), *given[4:]]
    told = CliRunner().invoke(app, beside)
    assert told.exit_code == 2 and "--shape: is given beside --data" in " ".join(told.output.split())


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            {"x": (1, 3, "?", 32)},
            r"of type str \('\?'\), not a whole number|\(1, 3, '\?', 32\) are not sizes. Give whole",
        ),
        ({"x": (1, 3, 20.0, 12)}, r"float \(20.0\), not a whole number|are not sizes"),
        ({"x": 3}, r"shapes\['x'\]: is of type int \(3\), not a list|shape of 'x': 3 are not sizes"),
        ("x=1,3,32,32", r"shapes: is of type str \('x=1,3,32,32'\), not a mapping|are a str. Give a dict"),
        ({"x": (1, 3, 2**20, 2**20)}, "more than 2,147,483,647 elements"),
        ({"x": (1, 3, 0, 12)}, "sizes below 1"),
    ],
)
def test_what_are_no_sizes_is_refused(shapes: Any, message: str, tmp_path: Path) -> None:
    found = calib8.calibrate(net(), DATA, method="minmax")
    result = calib8.quantize(net(), table=found.table, shapes=SHAPES, target="tflite")
    for call in (
        lambda: calib8.quantize(net(), table=found.table, shapes=shapes),
        lambda: calib8.calibrate(net(), statistics=found.statistics, shapes=shapes),
        lambda: result.lower(shapes=shapes),
        lambda: result.save(tmp_path / "m.tflite", shapes=shapes),
    ):
        with pytest.raises(UsageError, match=message):
            call()
