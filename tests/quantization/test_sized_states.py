"""Recurrent layers that begin with zeros of a computed size: Shape → ConstantOfShape → first states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

import calib8
from small_models import normal, onnx_model

UNITS, SIZE, STEPS = 4, 6, 5
ROWS = {"LSTM": 4 * UNITS, "GRU": 3 * UNITS}


def net(op: str) -> onnx.ModelProto:
    """x [T, N, 6] → a layer whose first states are zeros [1, N, 4] → a product → y [T, N, 3]."""
    constants: dict[str, npt.NDArray[Any]] = {
        "W": normal(1, ROWS[op], SIZE, seed=1) / 2,
        "R": normal(1, ROWS[op], UNITS, seed=2) / 2,
        "V": normal(UNITS, 3, seed=3),
        "one": np.array([1]),
        "units": np.array([UNITS]),
    }
    body = f"""
        shape = Shape(x)
        count = Gather(shape, one)
        sizes = Concat<axis=0>(one, count, units)
        zeros = ConstantOfShape(sizes)
        Y = {op}<hidden_size={UNITS}>(x, W, R, , , {"zeros, zeros" if op == "LSTM" else "zeros"})
        flat = Squeeze(Y, one)
        y = MatMul(flat, V)
    """
    return onnx_model(f"float[T,N,{SIZE}] x", "float[T,N,3] y", body, constants)


@pytest.mark.parametrize("op", ROWS)
def test_such_a_layer_is_repaired(op: str) -> None:
    """Values of heavy tails lose much, so that repairs ask what each tensor costs."""
    data = normal(40, STEPS, SIZE, seed=4) ** 5
    made = calib8.quantize(
        net(op), data, target="calib8", recurrent="integer", effort="balanced", threads=1
    )  # fmt: skip
    assert op in {one.op_type for one in made.placement.decisions if one.quantized}
    assert made.repaired is not None and made.repaired.steps


@pytest.mark.parametrize("op", ROWS)
def test_such_a_layer_is_diagnosed(op: str, tmp_path: Path) -> None:
    data = normal(12, STEPS, SIZE, seed=4)
    made = calib8.quantize(
        net(op), data, target="calib8", recurrent="integer", effort="fast", threads=1
    )  # fmt: skip
    made.save(tmp_path / "int8.onnx")
    found = calib8.diagnose(net(op), tmp_path / "int8.onnx", data, threads=1)
    damages = {layer.row.tensor: layer.damage.both for layer in found.diagnosis.layers}
    assert damages["zeros"] == 120.0 and damages["Y"] < 60 and damages["y"] < 60
