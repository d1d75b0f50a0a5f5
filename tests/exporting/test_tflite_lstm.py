"""LSTMs of integers written as TFLite: the same codes in LiteRT's reference kernel."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from example_programs import codes, ints, single, with_step
from exported import CASES, assert_exported_exactly

from calib8.errors import UnsupportedModelError
from calib8.exporting.tflite.export import to_tflite
from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.rounding import cells

STEPS: Final = 100
"""Of a sequence: a difference in one of them is in all that follow."""


def scaled_lstm(rng: np.random.Generator) -> Program:
    """A layer whose multipliers come from scales, as an ONNX model gives them."""
    coupled, seeing, time_first = rng.integers(0, 2, 3).astype(bool).tolist()
    inputs, units = (int(rng.choice([1, 2, 3, 5, 8, 16, 17, 33])) for _ in range(2))
    steps, samples, gates = STEPS, int(rng.integers(1, 4)), 4 - coupled
    order = (steps, samples) if time_first else (samples, steps)
    dtype = str(rng.choice(["int8", "uint8"]))
    shift = 128 if dtype == "uint8" else 0
    x_scale, h_scale = (float(np.float32(rng.uniform(*ends))) for ends in ((0.005, 0.03), (0.004, 0.009)))
    h_zero, power = int(rng.integers(-30, 31)), -int(rng.integers(9, 16))

    def weight(*shape: int) -> npt.NDArray[np.int8]:
        return rng.integers(-127, 128, shape).astype(np.int8)

    def scales(count: int, size: float) -> npt.NDArray[np.float32]:
        return rng.uniform(0.5 * size, size, count).astype(np.float32)

    rows = (gates - 1) * seeing
    fields: dict[str, Any] = {
        "weight": weight(gates, units, inputs),
        "weight_multipliers": cells.product_multipliers(scales(gates, 0.02 / np.sqrt(inputs)), x_scale),
        "recurrent": weight(gates, units, units),
        "recurrent_multipliers": cells.product_multipliers(scales(gates, 0.03 / np.sqrt(units)), h_scale),
        "bias": rng.normal(0, 1500, (gates, units)).astype(np.int32),
        "peephole": rng.integers(-32767, 32768, (rows, units)).astype(np.int16),
        "peephole_multipliers": cells.peephole_multipliers(scales(rows, 1e-5), power),
        "hidden": cells.output_multiplier(h_scale),
    }
    none = cells.encoded(())
    return single(
        op.IntegerLstm,
        [codes("x", *order, inputs, scale=x_scale, zero_point=shift - 9, dtype=dtype)],
        codes("y", *order, units, scale=h_scale, zero_point=h_zero + shift, dtype=dtype),
        "tflite",
        time_first=time_first,
        coupled=coupled,
        **fields,
        norm=np.zeros((0, units), np.int16),
        norm_multipliers=none,
        norm_guard=ints(),
        cell_bits=15 + power,
        cell_clip=0,
        hidden_zero_point=h_zero,
        projection=np.zeros((0, units), np.int8),
        projection_bias=ints(),
        projection_multipliers=none,
        projection_clip=0,
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(2 * CASES))
def test_litert_gives_the_bits_of_the_program(seed: int) -> None:
    program = scaled_lstm(np.random.default_rng((34, seed)))
    exported = assert_exported_exactly(program, np.random.default_rng(seed), runs=1)
    assert exported.operators["UNIDIRECTIONAL_SEQUENCE_LSTM"] == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"reverse": True}, "goes forward alone"),
        ({"cell_clip": 100}, "keep the TFLite file that it was read from"),
        ({"weight_multipliers": None}, "no scale of its weights gives its multipliers"),
    ],
)
def test_what_tflite_cannot_hold_is_told(change: dict[str, Any], told: str) -> None:
    program = scaled_lstm(np.random.default_rng(0))
    by = program.instructions[0].weight_multipliers  # type: ignore[attr-defined]
    if "weight_multipliers" in change:  # of 31 bits, which no product of float32 numbers has
        change = {"weight_multipliers": type(by)(np.full_like(by.multiplier, (1 << 30) + 1), by.shift)}
    with pytest.raises(UnsupportedModelError, match=told):
        to_tflite(with_step(program, **change))
