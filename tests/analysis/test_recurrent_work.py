"""The products of recurrent layers, wherever work is counted: G·H·(I + H) per direction and step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from test_inspect_recurrent import GATES, HIDDEN, SIZE, STEPS, network

import calib8
from calib8.analysis.tflite_inspect import inspect_tflite
from calib8.analysis.workloads import open_workload
from calib8.cli.verdict import _in_float
from calib8.model.load import load_model
from calib8.model.work import macs_or_weights, node_macs
from calib8.number_texts import percent
from calib8.program.listing import summary
from calib8.repair.spots import work_of_codes

WORDS = {"method": "minmax", "repair": ("none",), "threads": 1}
CASES = [("LSTM", 1), ("GRU", 2), ("RNN", 1)]
SAMPLE = {"x": np.zeros((STEPS, 1, SIZE), np.float32)}


def samples() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(4)
    return [{"x": rng.standard_normal((STEPS, 1, SIZE), np.float32)} for _ in range(4)]


def of_cell(op: str, directions: int, steps: int = STEPS) -> int:
    return steps * directions * GATES[op] * HIDDEN * (SIZE + HIDDEN)


def of_product(directions: int) -> int:
    return directions * HIDDEN * 3


@pytest.mark.parametrize(("op", "directions"), CASES)
def test_of_the_float_model(op: str, directions: int, tmp_path: Path) -> None:
    model = load_model(network(op, directions))
    assert node_macs(model, SAMPLE) == {"cell": of_cell(op, directions), "product": of_product(directions)}
    assert work_of_codes(model, SAMPLE) == {"product": of_product(directions)}
    onnx.save(network(op, directions), tmp_path / "float.onnx")
    assert open_workload(tmp_path / "float.onnx").macs == of_cell(op, directions) + of_product(directions)


def test_of_free_sizes_the_weights_count() -> None:
    proto = network("LSTM", 1)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "steps"
    [cell, _] = load_model(proto).graph
    assert macs_or_weights(cell) == of_cell("LSTM", 1, steps=1)


@pytest.mark.parametrize(("op", "directions"), CASES)
def test_a_layer_in_float_is_told_with_its_share(op: str, directions: int) -> None:
    made = calib8.quantize(network(op, directions), samples(), target="tflite", **WORDS)
    whole = of_cell(op, directions) + of_product(directions)
    share = of_cell(op, directions) / whole
    assert made.float_work().share == pytest.approx(share)
    assert f"{percent(share)} of the multiply-accumulates: cell {percent(share)}" in _in_float(made)
    found = summary(made.lower())
    assert found.float_macs == of_cell(op, directions) and found.integer_macs == of_product(directions)
    hybrid = calib8.quantize(network(op, directions), samples(), target="calib8", **WORDS)
    assert hybrid.float_work().share == 0 and _in_float(hybrid) == "none of the multiply-accumulates"


def test_of_a_tflite_file(tmp_path: Path) -> None:
    made = calib8.quantize(network("LSTM", 1), samples(), target="tflite", recurrent="integer", **WORDS)
    made.save(tmp_path / "a.tflite")
    assert inspect_tflite(tmp_path / "a.tflite").macs == of_cell("LSTM", 1) + of_product(1)
