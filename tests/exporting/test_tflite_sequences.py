"""Float LSTMs with layers around them, quantized for TFLite: LiteRT gives the codes of the program."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from exported import as_given, litert_gives

import calib8
from calib8.exporting.tflite.export import to_tflite
from calib8.program.lower import lower
from calib8.program.reference.executor import run_program
from small_models import onnx_model

WIDTH, UNITS = 8, 12


def network(front: str, back: str, shape: str, result: str) -> onnx.ModelProto:
    """An LSTM between moves and layers, as exporters write them: layout 0, one direction."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((1, 4 * UNITS, WIDTH), np.float32) / 2,
        "r": rng.standard_normal((1, 4 * UNITS, UNITS), np.float32) / 2,
        "b": rng.standard_normal((1, 8 * UNITS), np.float32) / 4,
        "v": rng.standard_normal((UNITS, 5), np.float32),
        "u": rng.standard_normal(5, np.float32),
        "one": np.array([1]),
    }
    body = f"{front} l = LSTM<hidden_size={UNITS}>(s, w, r, b) q = Squeeze(l, one) {back}"
    used = {name: array for name, array in constants.items() if f"{name})" in body or f"{name}," in body}
    return onnx_model(f"float[{shape}] x", f"float[{result}] y", body, used)


@pytest.mark.parametrize(
    ("front", "back", "shape", "result"),
    [
        ("s = Identity(x)", "y = Identity(q)", "6,1,8", "6,1,12"),
        ("s = Identity(x)", "m = MatMul(q, v) y = Add(m, u)", "6,1,8", "6,1,5"),
        ("s = Transpose<perm=[1,0,2]>(x)", "y = Transpose<perm=[1,0,2]>(q)", "1,6,8", "1,6,12"),
        (
            "s = Transpose<perm=[1,0,2]>(x)",
            "t = Transpose<perm=[1,0,2]>(q) y = MatMul(t, v)",
            "1,6,8",
            "1,6,5",
        ),
        ("s = Concat<axis=2>(h, k)", "y = MatMul(q, v)", "6,1,8", "6,1,5"),
    ],
    ids=["alone", "layer", "samples first", "samples first, layer", "halves"],
)
def test_litert_computes_the_program(front: str, back: str, shape: str, result: str) -> None:
    """Each with tensors in the middle of the file that are left out of it."""
    halves = "h, k = Split<axis=2>(x)" if "Concat" in front else ""
    model = network(f"{halves} {front}", back, shape, result)
    sizes = [int(size) for size in shape.split(",")]
    rng = np.random.default_rng(1)
    data = [{"x": rng.standard_normal(sizes, np.float32)} for _ in range(16)]
    made = calib8.quantize(model, data, target="tflite", recurrent="integer", effort="fast")
    program = lower(made.model, profile="tflite")
    exported = to_tflite(program)
    for sample in data[:4]:
        wanted = run_program(program, sample)
        given = litert_gives(exported, [sample["x"]])
        for port, want, got in zip(program.outputs, wanted, given, strict=True):
            np.testing.assert_array_equal(as_given(got, want.shape), want, err_msg=port.name)
