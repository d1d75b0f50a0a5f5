"""Recurrent layers whose first states or lengths are constants: hybrid for every target that has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.model.load import load_model
from calib8.passes.recurrent_nodes import why_recurrent_float
from small_models import onnx_model, run

Array = npt.NDArray[Any]
STEPS, SAMPLES, SIZE, UNITS = 6, 2, 5, 8
ROWS = {"LSTM": 4, "GRU": 3, "RNN": 1}


def normal(*shape: int, seed: int) -> npt.NDArray[np.float32]:
    return (np.random.default_rng(seed).normal(size=shape) / 2).astype(np.float32)


def net(op: str, state: Array | None, lengths: list[int]) -> onnx.ModelProto:
    """x → a layer with constants beside it → a product → y."""
    rows = ROWS[op] * UNITS
    constants: dict[str, Array] = {
        "W": normal(1, rows, SIZE, seed=1),
        "R": normal(1, rows, UNITS, seed=2),
        "B": normal(1, 2 * rows, seed=3),
        "V": normal(UNITS, 3, seed=4),
        "lens": np.array(lengths, np.int32),
        "axes": np.array([1]),
    }
    given = "lens"
    if state is not None:
        constants |= {"h0": state, "c0": 2 * state}
        given += ", h0, c0" if op == "LSTM" else ", h0"
    body = f"""
        Y, last = {op}<hidden_size={UNITS}>(x, W, R, B, {given})
        flat = Squeeze(Y, axes)
        y = MatMul(flat, V)
    """
    shape = f"{STEPS},{SAMPLES}"
    return onnx_model(f"float[{shape},{SIZE}] x", f"float[{shape},3] y", body, constants)


def samples(count: int, seed: int = 5) -> list[dict[str, Array]]:
    return [{"x": normal(STEPS, SAMPLES, SIZE, seed=seed * 50 + number)} for number in range(count)]


@pytest.mark.parametrize("runtime", ["calib8", "reference"])
@pytest.mark.parametrize("op", ROWS)
def test_the_layer_becomes_hybrid(op: str, runtime: str) -> None:
    proto = net(op, normal(1, SAMPLES, UNITS, seed=7), [6, 3])
    made = calib8.quantize(proto, samples(8), target="calib8", effort="fast", threads=1)
    assert all(one.quantized for one in made.placement.decisions if one.op_type in ROWS)
    session = calib8.InferenceSession(ir.to_proto(made.model), runtime=runtime)
    for sample in samples(3, seed=8):
        [wanted], [found] = run(proto, sample), session.run(None, sample)
        [without] = run(net(op, None, [6, 6]), sample)
        error = np.abs(found - wanted).max()
        assert error < 0.04 * np.abs(wanted).max() and error < 0.2 * np.abs(without - wanted).max()
    assert not session.program.float_instructions


def test_onnx_runtime_has_them_too() -> None:
    proto = net("LSTM", normal(1, SAMPLES, UNITS, seed=7), [6, 3])
    words: dict[str, Any] = {"target": "onnxruntime", "recurrent": "hybrid", "effort": "fast", "threads": 1}
    made = calib8.quantize(proto, samples(8), **words)
    assert "DynamicQuantizeLSTM" in {node.op_type for node in made.model.graph}
    [wanted], [found] = run(proto, samples(1)[0]), run(made.model, samples(1)[0])
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("state", "lengths", "reason"),
    [
        (normal(1, SAMPLES, UNITS, seed=7), [6, 6], "its first states are constants that are not 0"),
        (None, [6, 3], "its sequences have lengths"),
    ],
)
def test_what_stays_float_says_why(state: Array | None, lengths: list[int], reason: str) -> None:
    words: dict[str, Any] = {"target": "calib8", "effort": "fast", "threads": 1}
    made = calib8.quantize(net("GRU", state, lengths), samples(8), recurrent="integer", **words)
    assert [one.reason for one in made.placement.decisions if one.op_type == "GRU"] == [reason]


def test_first_states_that_are_no_numbers_stay_float() -> None:
    model = load_model(net("GRU", np.full((1, SAMPLES, UNITS), np.nan, np.float32), [6, 6]))
    [cell] = [node for node in model.graph if node.op_type == "GRU"]
    assert why_recurrent_float(cell) == "its first states hold NaN or Inf"
