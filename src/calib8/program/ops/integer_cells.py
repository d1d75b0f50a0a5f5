"""LSTM in integers throughout: 8-bit codes of x and h, 16-bit gates and cell, as TFLite has it.

    u_k = sat(M(Σ (x − z_x)·W_k + bias_k, m_k))               of gate k = i, f, g, o; no bias where a norm is
    a_k = sat(u_k + M(Σ (h − z_h)·R_k, n_k))                  Q3.12; of a norm what its multipliers say
    a_k = sat(a_k + M(c·P_k, p_k))                            with peepholes: i and f see the old c, o the new
                                                              one, g none
    a_k = N_k(a_k)                                            where there is a norm
    i, f, o = Sigmoid(a),   g = Tanh(a);                      i = 32767 − f where gates are coupled
    c = sat(D(f·c, 15) + D(i·g, 15 + b)),   ±clip             c has b integer bits
    h = clip(M(o·Tanh(c), r) + z_r, −128, 127)

    with a projection    y = clip(M(o·Tanh(c), r) − z_r, −128, 127)
                         h = clip(M(Σ (y + z_r)·Q + bias, q) + z_h, −128, 127),   codes within ±clip

    N(a)    μ = ⌊1024·Σa/C⌋,   v = ⌊(Σa²·⌊2^20/C⌋ − μ²)/2^20⌋ or the guard below 1         towards 0
            t = M(1024·a − μ, 1/√v) · norm + bias of 32 bits,   sat(M((t ± 512)/1024, s·2^12))

M multiplies and rounds twice (``fixedpoint``: double), D divides by a power of two and rounds ties away from
zero, sat clips to 16 bits; Sigmoid and Tanh are those of ``sixteen_bit_functions``. The first states are
given, or 0. Codes of uint8 are those of int8 plus 128.

    x int8 [N, T, I]   →   h int8 [N, T, H];   [T, N, …] where time comes first
    first h int8 [N, H], c int16 [N, C]   →   last c int16 [N, C], where it is wanted
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import Ints, multiply_double_rounding, rounding_divide_by_power_of_two
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.sixteen_bit_functions import sigmoid_table, tanh_table
from calib8.program.rounding.squares import reciprocal_root
from calib8.program.rules import I8, I16, I32, Multipliers

ONE: Final = (1 << 15) - 1
GATE_BITS: Final = 3
"""Integer bits of what a gate reads."""

NORM_SHIFT: Final = 12
"""Fraction bits of what a norm writes."""

State = Literal["h", "c"]


@dataclass(frozen=True, eq=False)
class IntegerLstm(Instruction):
    """An LSTM of C units whose h has H codes; G gates in the order i, f, g, o, without i where coupled.

    Attributes:
        time_first: x is [T, N, I], else [N, T, I]; the result likewise.
        coupled: the input gate is 1 − f.
        weight: int8 [G, C, I].
        weight_multipliers: [G], from sums to what a gate reads.
        recurrent: int8 [G, C, H].
        recurrent_multipliers: [G].
        bias: int32 [G, C].
        peephole: int16 [G − 1, C] of the gates but g, or [0, C].
        peephole_multipliers: as many as ``peephole`` has rows.
        norm: int16 [G, C], or [0, C].
        norm_multipliers: [G] or [0], without the 12 bits that a gate has.
        norm_guard: int32 [G] or [0], what stands for a variance below 1; 1 or more.
        cell_bits: integer bits of c, 0 … 6.
        cell_clip: 1 … 32767, 0 for none.
        hidden: multiplier of o·Tanh(c), [1].
        hidden_zero_point: of what that becomes; −128 … 127.
        projection: int8 [H, C], or [0, C]: then H is C.
        projection_bias: int32 [H], or [0].
        projection_multipliers: [1] or [0].
        projection_clip: 1 … 127, 0 for none.
        reverse: from the last step to the first; h of a step stays in its place.
        first: what it reads beside x, in this order: the first h in codes of h, the first c. A second output
            is the last c.
    """

    time_first: bool
    coupled: bool
    weight: I8
    weight_multipliers: Multipliers
    recurrent: I8
    recurrent_multipliers: Multipliers
    bias: I32
    peephole: I16
    peephole_multipliers: Multipliers
    norm: I16
    norm_multipliers: Multipliers
    norm_guard: I32
    cell_bits: int
    cell_clip: int
    hidden: Multipliers
    hidden_zero_point: int
    projection: I8
    projection_bias: I32
    projection_multipliers: Multipliers
    projection_clip: int
    reverse: bool = False
    first: tuple[State, ...] = ()

    @property
    def gates(self) -> int:
        """G."""
        return 3 if self.coupled else 4

    @property
    def units(self) -> int:
        """C."""
        return int(self.recurrent.shape[1])

    @property
    def width(self) -> int:
        """H."""
        return int(self.recurrent.shape[-1])


def run_integer_lstm(
    step: IntegerLstm, x: I8, zero_point: int, h_zero_point: int, h: I8 | None = None, c: I16 | None = None
) -> tuple[I8, I16]:
    """h of all steps and the last c.

    Args:
        step: the layer.
        x: int8 [T, N, I].
        zero_point: of x.
        h_zero_point: of h.
        h: the first h, int8 [N, H]; None for 0.
        c: the first c, int16 [N, C]; None for 0.

    Returns:
        int8 [T, N, H] and int16 [N, C].
    """
    times, samples = x.shape[:2]
    carried: Ints = np.zeros((samples, step.width), np.int64)
    cell: Ints = np.zeros((samples, step.units), np.int64)
    if h is not None:
        carried = h.astype(np.int64) - h_zero_point
    if c is not None:
        cell = c.astype(np.int64)
    result = np.zeros((times, samples, step.width), np.int8)
    bias = np.zeros_like(step.bias) if step.norm.size else step.bias
    for time in reversed(range(times)) if step.reverse else range(times):
        read = x[time].astype(np.int64) - zero_point
        gates = sat(scaled_gates(gate_sums(read, step.weight) + bias[:, None], step.weight_multipliers))
        inner = scaled_gates(gate_sums(carried, step.recurrent), step.recurrent_multipliers)
        cell, output = _cell(step, sat(gates + inner), cell)
        codes = _codes(step, function_at(tanh_table(step.cell_bits), cell) * output, h_zero_point)
        carried = codes - h_zero_point
        result[time] = codes
    return result, cell.astype(np.int16)


def gate_sums(rows: Ints, weight: I8) -> Ints:
    """Products of rows [N, K] and weights [G, C, K], [G, N, C]: exact in float64."""
    products = rows.astype(np.float64) @ weight.transpose(0, 2, 1).astype(np.float64)
    result: Ints = products.astype(np.int64)
    return result


def scaled_gates(sums: Ints, by: Multipliers) -> Ints:
    """Every gate [G, N, C] by its multiplier."""
    return multiply_double_rounding(sums, by.multiplier[:, None, None], by.shift[:, None, None])


def sat(values: Ints) -> Ints:
    """Within 16 bits."""
    result: Ints = np.clip(values, -ONE - 1, ONE)
    return result


def function_at(table: I16, values: Ints) -> Ints:
    """What a table of all 16-bit numbers has for these."""
    return table[values + (1 << 15)].astype(np.int64)


def _cell(step: IntegerLstm, read: Ints, c: Ints) -> tuple[Ints, Ints]:
    """The new c and the output gate, of what gates read [G, N, C] and the old c."""
    first = step.gates - 3
    f = _gate(step, first, _seen(step, first, read[first], c))
    g = _gate(step, first + 1, read[first + 1])
    i = ONE - f if step.coupled else _gate(step, 0, _seen(step, 0, read[0], c))
    added = rounding_divide_by_power_of_two(i * g, 15 + step.cell_bits)
    c = sat(rounding_divide_by_power_of_two(f * c, 15) + added)
    if step.cell_clip:
        c = np.clip(c, -step.cell_clip, step.cell_clip)
    return c, _gate(step, first + 2, _seen(step, first + 1, read[first + 2], c))


def _gate(step: IntegerLstm, place: int, read: Ints) -> Ints:
    if step.norm.size:
        read = normalized(step, place, read)
    tangent = place == step.gates - 2
    return function_at(tanh_table(GATE_BITS) if tangent else sigmoid_table(), read)


def _seen(step: IntegerLstm, row: int, read: Ints, c: Ints) -> Ints:
    if not step.peephole.size:
        return read
    by = step.peephole_multipliers
    product = step.peephole[row] * c
    return sat(read + multiply_double_rounding(product, by.multiplier[row], by.shift[row]))


def normalized(step: IntegerLstm, place: int, read: Ints) -> Ints:
    """N(a) of a gate, [N, C]."""
    units, by = step.units, step.norm_multipliers
    mean = _towards_zero(read.sum(axis=1) * 1024, units)
    variance = _towards_zero((read * read).sum(axis=1) * ((1 << 20) // units) - mean * mean, 1 << 20)
    roots = [reciprocal_root(int(v) if v >= 1 else int(step.norm_guard[place])) for v in variance]
    multiplier, shift = (np.array(column)[:, None] for column in zip(*roots, strict=True))
    scaled = multiply_double_rounding(1024 * read - mean[:, None], multiplier, shift)
    weighted = _wrapped(scaled * step.norm[place] + step.bias[place])
    rounded = _towards_zero(weighted + np.where(weighted > 0, 512, -512), 1024)
    return sat(multiply_double_rounding(rounded, by.multiplier[place], by.shift[place] + NORM_SHIFT))


def _towards_zero(values: Ints, divisor: int) -> Ints:
    result: Ints = np.sign(values) * (np.abs(values) // divisor)
    return result


def _wrapped(values: Ints) -> Ints:
    """The low 32 bits."""
    return values.astype(np.int32).astype(np.int64)


def _codes(step: IntegerLstm, products: Ints, h_zero_point: int) -> npt.NDArray[np.int64]:
    """Codes of h, [N, H], of o·Tanh(c)."""
    by, point = step.hidden, step.hidden_zero_point
    scaled = multiply_double_rounding(products, by.multiplier[0], by.shift[0])
    if not step.projection.size:
        return np.clip(scaled + point, -128, 127)
    inner = np.clip(scaled - point, -128, 127) + point
    sums = inner @ step.projection.T.astype(np.int64) + step.projection_bias
    by = step.projection_multipliers
    codes = multiply_double_rounding(sums, by.multiplier[0], by.shift[0]) + h_zero_point
    codes = np.clip(codes, -128, 127)
    return np.clip(codes, -step.projection_clip, step.projection_clip) if step.projection_clip else codes
