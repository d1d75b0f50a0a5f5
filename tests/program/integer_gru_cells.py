"""Random GRUs of integers, and LSTMs with states, as programs of one instruction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from example_programs import codes, wide_state, with_ports
from integer_cells import random_factors, random_integer_lstm, random_weights

from calib8.program import instructions as op
from calib8.program.program import Program, Slot
from calib8.program.rules import Profile


def random_integer_gru(
    rng: np.random.Generator, sizes: tuple[int, int, int, int], profile: Profile = "single"
) -> Program:
    """T, N, I and C; half of the layers read a first h, give the last, go backwards, reset late."""
    steps, samples, inputs, units = sizes
    time_first, reverse, late, reads, gives = rng.integers(0, 2, 5).astype(bool).tolist()
    dtypes = [str(name) for name in rng.choice(["int8", "uint8"], 2)]
    points = [int(rng.integers(-128, 128)) + (128 if dtype == "uint8" else 0) for dtype in dtypes]
    order = (steps, samples) if time_first else (samples, steps)
    loud = float(rng.choice([0.02, 0.1, 1.0]))
    state = wide_state("h", samples, units, 2.0**-15)
    return with_ports(
        op.IntegerGru,
        [codes("x", *order, inputs, zero_point=points[0], dtype=dtypes[0]), *([state] * reads)],
        [
            codes("y", *order, units, scale=0.0078125, zero_point=points[1], dtype=dtypes[1]),
            *([replace(state, name="last")] * gives),
        ],
        profile,
        time_first=time_first,
        reverse=reverse,
        reset_after=late,
        weight=random_weights(rng, 3, units, inputs),
        weight_multipliers=random_factors(rng, 3, 40.0 * loud / np.sqrt(inputs)),
        recurrent=random_weights(rng, 3, units, units),
        recurrent_multipliers=random_factors(rng, 3, 40.0 * loud / np.sqrt(units)),
        bias=rng.normal(0, 3e3, (3, units)).astype(np.int32),
        inner_bias=rng.normal(0, 3e3, units * late).astype(np.int32),
        hidden=random_factors(rng, 1, 2.0**-8),
        first=("h",) if reads else (),
    )


def random_lstm_with_states(rng: np.random.Generator, sizes: tuple[int, int, int, int]) -> Program:
    """``random_integer_lstm`` backwards or not, with first states, the last c, and codes of either sign."""
    program = random_integer_lstm(rng, sizes)
    [layer] = program.instructions
    assert isinstance(layer, op.IntegerLstm)
    x, y = program.slots
    reverse, reads_h, reads_c, gives, *flipped = rng.integers(0, 2, 6).astype(bool).tolist()
    x, y = (_unsigned(slot) if flip else slot for slot, flip in zip((x, y), flipped, strict=True))
    cell = wide_state("c", sizes[1], layer.units, 2.0 ** (layer.cell_bits - 15))
    h = Slot("h", (sizes[1], layer.width), y.dtype, y.scales, y.zero_point)
    fields = {name: value for name, value in vars(layer).items() if name not in ("name", "inputs", "outputs")}
    fields |= {"reverse": reverse, "first": ("h",) * reads_h + ("c",) * reads_c}
    outputs = [y, *([replace(cell, name="last")] * gives)]
    return with_ports(op.IntegerLstm, [x, *([h] * reads_h), *([cell] * reads_c)], outputs, "single", **fields)


def _unsigned(slot: Slot) -> Slot:
    return replace(slot, dtype="uint8", zero_point=slot.zero_point + 128)
