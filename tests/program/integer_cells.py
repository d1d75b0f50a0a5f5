"""Random LSTMs of integers as programs of one instruction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from example_programs import codes, ints, single

from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.rules import Multipliers


def random_integer_lstm(
    rng: np.random.Generator, sizes: tuple[int, int, int, int], *, plain: bool = False
) -> Program:
    """T, N, I and C; half of the layers have peepholes, a norm, coupled gates, a projection, bounds."""
    steps, samples, inputs, units = sizes
    coupled, seeing, normed, projected, time_first = (
        (rng.integers(0, 2, 5) * (not plain)).astype(bool).tolist()
    )
    gates = 3 if coupled else 4
    width = int(rng.integers(1, 70)) if projected else units
    h_zero = int(rng.integers(-128, 128))
    order = (steps, samples) if time_first else (samples, steps)
    loud = float(rng.choice([0.02, 0.1, 1.0]))
    return single(
        op.IntegerLstm,
        [codes("x", *order, inputs, zero_point=int(rng.integers(-128, 128)), dtype="int8")],
        codes("y", *order, width, scale=0.0078125, zero_point=h_zero, dtype="int8"),
        "tflite",
        time_first=time_first,
        coupled=coupled,
        weight=random_weights(rng, gates, units, inputs),
        weight_multipliers=random_factors(rng, gates, 40.0 * loud / np.sqrt(inputs)),
        recurrent=random_weights(rng, gates, units, width),
        recurrent_multipliers=random_factors(rng, gates, 40.0 * loud / np.sqrt(width)),
        bias=rng.normal(0, 3e5 if normed else 3e3, (gates, units)).astype(np.int32),
        peephole=_words(rng, (gates - 1) * seeing, units),
        peephole_multipliers=random_factors(rng, (gates - 1) * seeing, 2.0**-15),
        norm=_words(rng, gates * normed, units),
        norm_multipliers=random_factors(rng, gates * normed, 2.0**-15),
        norm_guard=rng.integers(1, 40, gates * normed).astype(np.int32),
        cell_bits=int(rng.integers(0, 7)),
        cell_clip=int(rng.integers(1, 32768)) if not plain and rng.random() < 0.3 else 0,
        hidden=random_factors(rng, 1, 2.0**-22),
        hidden_zero_point=int(rng.integers(-128, 128)) if projected else h_zero,
        projection=random_weights(rng, 1, width * projected, units)[0],
        projection_bias=rng.integers(-9999, 9999, width * projected).astype(np.int32),
        projection_multipliers=random_factors(rng, int(projected), 0.01 / np.sqrt(units)),
        projection_clip=int(rng.integers(1, 128)) if projected and rng.random() < 0.5 else 0,
    )


def random_weights(rng: np.random.Generator, *shape: int) -> npt.NDArray[np.int8]:
    return rng.integers(-127, 128, shape).astype(np.int8)


def _words(rng: np.random.Generator, *shape: int) -> npt.NDArray[np.int16]:
    return rng.integers(-32768, 32768, shape).astype(np.int16)


def random_factors(rng: np.random.Generator, count: int, size: float) -> Multipliers:
    """Some near a size."""
    fractions, powers = np.frexp(size * rng.uniform(0.5, 1.5, count))
    return Multipliers(
        np.minimum(np.rint(fractions * 2.0**31), 2.0**31 - 1).astype(np.int32), powers.astype(np.int32)
    )


def constant_input(program: Program, code: int) -> dict[str, npt.NDArray[np.int8]]:
    """The same code everywhere."""
    [port] = program.inputs
    return {port.name: np.full(program.slots[port.slot].shape, code, np.int8)}


def zeros_everywhere(shape: Sequence[int], gates: int, units: int) -> Program:
    """Weights and biases of 0: gates of ½ and a cell of 0."""
    none = Multipliers(ints(), ints())
    zero = Multipliers(ints(*[0] * gates), ints(*[0] * gates))
    return single(
        op.IntegerLstm,
        [codes("x", *shape, zero_point=5, dtype="int8")],
        codes("y", *shape[:2], units, scale=0.0078125, zero_point=-9, dtype="int8"),
        "tflite",
        time_first=False,
        coupled=gates == 3,
        weight=np.zeros((gates, units, shape[2]), np.int8),
        weight_multipliers=zero,
        recurrent=np.zeros((gates, units, units), np.int8),
        recurrent_multipliers=zero,
        bias=np.zeros((gates, units), np.int32),
        peephole=np.zeros((0, units), np.int16),
        peephole_multipliers=none,
        norm=np.zeros((0, units), np.int16),
        norm_multipliers=none,
        norm_guard=ints(),
        cell_bits=4,
        cell_clip=0,
        hidden=Multipliers(ints(1 << 30), ints(-22)),
        hidden_zero_point=-9,
        projection=np.zeros((0, units), np.int8),
        projection_bias=ints(),
        projection_multipliers=none,
        projection_clip=0,
    )
