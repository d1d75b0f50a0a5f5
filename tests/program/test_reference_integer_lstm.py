"""What LSTMs of integers compute: curves against exact ones, and cases that are known beforehand.

LiteRT's kernel defines the bits: tests/tflite_models/test_lstm_tflite.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import ints, with_step
from integer_cells import constant_input, random_integer_lstm, zeros_everywhere

from calib8.program.instructions import IntegerLstm
from calib8.program.ops.integer_cells import GATE_BITS, normalized
from calib8.program.ops.sixteen_bit_functions import MOST_INTEGER_BITS, sigmoid_table, tanh_table
from calib8.program.reference.executor import run_program
from calib8.program.rounding.squares import reciprocal_root
from calib8.program.rules import Multipliers
from calib8.program.verify import verify

EVERY = np.arange(-(1 << 15), 1 << 15)


def test_sigmoid_is_near_the_exact_one() -> None:
    exact = 1 / (1 + np.exp(-EVERY * 2.0 ** (GATE_BITS - 15)))
    assert np.abs(sigmoid_table() - exact * 2.0**15).max() < 7
    assert sigmoid_table()[1 << 15] == 1 << 14


@pytest.mark.parametrize("bits", range(MOST_INTEGER_BITS + 1))
def test_tanh_is_near_the_exact_one(bits: int) -> None:
    table = tanh_table(bits).astype(int)
    assert np.abs(table - np.tanh(EVERY * 2.0 ** (bits - 15)) * 2.0**15).max() <= 12.1
    assert (table[1:] == -table[:0:-1]).all()  # odd; −2^15 has no counterpart


@pytest.mark.parametrize(
    "value", [1, 2, 3, 5, 100, 4097, (1 << 27) - 1, (1 << 28) + 3, 1 << 29, (1 << 31) - 1]
)
def test_reciprocal_roots_are_near_the_exact_ones(value: int) -> None:
    multiplier, shift = reciprocal_root(value)
    assert shift <= 0
    assert multiplier * 2.0 ** (shift - 31) == pytest.approx(value**-0.5, rel=2e-6)


@pytest.mark.parametrize("gates", [3, 4])
def test_weights_of_zero_leave_h_at_zero(gates: int) -> None:
    program = zeros_everywhere((2, 5, 3), gates, 4)
    verify(program)
    [h] = run_program(program, constant_input(program, 77))
    assert (h == -9).all()


def test_an_open_forget_gate_keeps_what_is_in_the_cell_but_for_a_slow_leak() -> None:
    """c of 1: i and g open at once, o open; then nothing new comes in, and Tanh(c) falls little by little."""
    program = zeros_everywhere((1, 200, 1), 4, 1)
    bias = np.array([[-32768], [32767], [0], [32767]], np.int32)
    one = program.instructions[0].weight_multipliers
    ones = type(one)(np.full(4, 1 << 30, np.int32), np.ones(4, np.int32))
    weight = np.array([[[127]], [[0]], [[127]], [[0]]], np.int8)
    program = with_step(program, weight=weight, bias=bias, weight_multipliers=ones)
    x = np.full((1, 200, 1), 5, np.int8)
    x[0, :3] = 127
    [h] = run_program(program, {"x": x})
    opened = h[0, 3:, 0].astype(int)
    assert opened.max() > -9
    assert (np.diff(opened) <= 0).all() and opened[0] - opened[-1] < 40


def test_order_of_axes_alone_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    program = random_integer_lstm(rng, (6, 3, 4, 5), plain=True)
    x = rng.integers(-128, 128, (3, 6, 4)).astype(np.int8)
    [h] = run_program(program, {"x": x})
    slots = [
        type(slot)(slot.name, (6, 3, slot.shape[2]), slot.dtype, slot.scales, slot.zero_point)
        for slot in program.slots
    ]
    turned = with_step(type(program)(**{**vars(program), "slots": tuple(slots)}), time_first=True)
    verify(turned)
    [other] = run_program(turned, {"x": x.transpose(1, 0, 2).copy()})
    np.testing.assert_array_equal(other.transpose(1, 0, 2), h)


@pytest.mark.parametrize("seed", range(8))
def test_a_norm_is_near_the_one_of_real_numbers(seed: int) -> None:
    """Rows of mean 0 and spread 1 times the coefficients, plus the bias."""
    rng = np.random.default_rng(seed)
    program = random_integer_lstm(rng, (1, 1, 2, 24), plain=True)
    layer = with_step(
        program,
        norm=rng.integers(-30000, 30000, (4, 24)).astype(np.int16),
        norm_multipliers=Multipliers(ints(*[1 << 30] * 4), ints(*[-14] * 4)),
        norm_guard=ints(1, 1, 1, 1),
        bias=rng.integers(-(1 << 24), 1 << 24, (4, 24)).astype(np.int32),
    ).instructions[0]
    assert isinstance(layer, IntegerLstm)
    read = rng.integers(-20000, 20000, (3, 24))
    centred = read - read.mean(axis=1, keepdims=True)
    scaled = centred / read.std(axis=1, keepdims=True) * layer.norm[2] + layer.bias[2] / 1024
    wanted = np.clip(scaled * 2.0**-15 * 2.0**12, -(1 << 15), (1 << 15) - 1)
    assert np.abs(normalized(layer, 2, read) - wanted).max() < 8


def test_a_row_without_spread_is_divided_by_the_guard() -> None:
    rng = np.random.default_rng(0)
    program = random_integer_lstm(rng, (1, 1, 2, 8), plain=True)
    layer = with_step(
        program,
        norm=np.full((4, 8), 1 << 14, np.int16),
        norm_multipliers=Multipliers(ints(*[1 << 30] * 4), ints(*[-14] * 4)),
        norm_guard=ints(1, 1, 4, 1),
        bias=np.zeros((4, 8), np.int32),
    ).instructions[0]
    assert isinstance(layer, IntegerLstm)
    assert (normalized(layer, 2, np.full((1, 8), 777)) == 0).all()
