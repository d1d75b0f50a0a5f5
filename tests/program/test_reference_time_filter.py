"""What filters over time compute, against loops over Python's numbers; sums wrap as those of int32 do."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import EXAMPLES, ints, with_step

from calib8.program.instructions import TimeFilter
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Multipliers, Profile


def wrapped(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def doubled(x: int, multiplier: int, shift: int) -> int:
    """TFLite's two roundings: to the nearest 2^31st, then ties away from zero."""
    high = (x * multiplier + (1 << 30)) >> 31
    divisor = 1 << -shift
    magnitude = (abs(high) + divisor // 2) // divisor
    return magnitude if high >= 0 else -magnitude


@pytest.mark.parametrize("profile", PROFILES)
def test_a_sum_of_products_per_unit(profile: Profile) -> None:
    program = EXAMPLES["TimeFilter", profile]
    layer = program.instructions[0]
    assert isinstance(layer, TimeFilter)
    memory = np.random.default_rng(1).integers(-32768, 32768, (2, 12)).astype(np.int16)
    memory[0] = 32767 * np.sign(layer.weight.reshape(-1))  # the largest sums
    [found] = run_program(program, {"x": memory})
    over = 0
    for sample in range(2):
        for unit in range(2):
            values = memory[sample].reshape(2, 6)[unit].tolist()
            weights = layer.weight.reshape(2, 6)[unit].tolist()
            exact = sum(a * b for a, b in zip(values, weights, strict=True)) + int(layer.bias[unit])
            over += exact != wrapped(exact)
            code = doubled(wrapped(exact), int(layer.factor.multiplier[0]), int(layer.factor.shift[0])) - 7
            assert found[sample, unit] == min(max(code, -128), 120)
    assert over


def test_a_factor_of_zero_gives_the_zero_point() -> None:
    program = with_step(EXAMPLES["TimeFilter", "tflite"], factor=Multipliers(ints(0), ints(0)))
    [found] = run_program(program, {"x": np.full((2, 12), 999, np.int16)})
    assert (found == -7).all()
