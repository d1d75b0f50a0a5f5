"""GRU in integers throughout: 8-bit codes of x and h, 16-bit gates, and an h that is carried in 16 bits.

    q = clip(M(h, s) + z_h, −128, 127)                        codes of h, Q0.15
    u_k = sat(M(Σ (x − z_x)·W_k + bias_k, m_k))               of gate k = z, r, n: Q3.12
    z, r = Sigmoid(sat(u + M(Σ (q − z_h)·R, n_k)))
    v = sat(M(Σ (q − z_h)·R_n + inner bias, n_n)),   n = Tanh(sat(u_n + D(r·v, 15)))         late reset
    p = clip(M(D(r·h, 15), s) + z_h, −128, 127),     v = sat(M(Σ (p − z_h)·R_n, n_n))        early reset
                                                     n = Tanh(sat(u_n + v))
    h = h + D((32767 − z)·(n − h), 15)

M multiplies and rounds twice (``fixedpoint``: double), D divides by a power of two and rounds ties away from
zero, sat clips to 16 bits; Sigmoid and Tanh are those of ``sixteen_bit_functions``. The new h lies between n
and the old one. The first h is given, or 0. Codes of uint8 are those of int8 plus 128.

    x int8 [N, T, I]   →   codes of h int8 [N, T, C];   [T, N, …] where time comes first
    first h int16 [N, C]   →   last h int16 [N, C], where it is wanted
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import Ints, multiply_double_rounding, rounding_divide_by_power_of_two
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.integer_cells import GATE_BITS, ONE, function_at, gate_sums, sat, scaled_gates
from calib8.program.ops.sixteen_bit_functions import sigmoid_table, tanh_table
from calib8.program.rules import I8, I16, I32, Multipliers

STATE_SCALE: Final = 2.0**-15
"""Of h."""


@dataclass(frozen=True, eq=False)
class IntegerGru(Instruction):
    """A GRU of C units; gates in the order z, r, n.

    Attributes:
        time_first: x is [T, N, I], else [N, T, I]; the result likewise.
        reverse: from the last step to the first; h of a step stays in its place.
        reset_after: r multiplies what comes of h behind the product (ONNX's linear_before_reset).
        weight: int8 [3, C, I].
        weight_multipliers: [3], from sums to what a gate reads.
        recurrent: int8 [3, C, C].
        recurrent_multipliers: [3].
        bias: int32 [3, C], of the sums of x.
        inner_bias: int32 [C] with ``reset_after``, of the sums of h of the gate n; else [0].
        hidden: multiplier from h to its codes, [1].
        first: ("h",) where it reads a first h beside x. A second output is the last h.
    """

    time_first: bool
    reverse: bool
    reset_after: bool
    weight: I8
    weight_multipliers: Multipliers
    recurrent: I8
    recurrent_multipliers: Multipliers
    bias: I32
    inner_bias: I32
    hidden: Multipliers
    first: tuple[Literal["h"], ...]

    @property
    def units(self) -> int:
        """C."""
        return int(self.recurrent.shape[-1])


def run_integer_gru(
    step: IntegerGru, x: I8, zero_point: int, h_zero_point: int, first: I16 | None = None
) -> tuple[I8, I16]:
    """Codes of h of all steps and the last h.

    Args:
        step: the layer.
        x: int8 [T, N, I].
        zero_point: of x.
        h_zero_point: of the codes of h.
        first: the first h, int16 [N, C]; None for 0.

    Returns:
        int8 [T, N, C] and int16 [N, C].
    """
    times, samples = x.shape[:2]
    h: Ints = np.zeros((samples, step.units), np.int64) if first is None else first.astype(np.int64)
    result = np.zeros((times, samples, step.units), np.int8)
    for time in reversed(range(times)) if step.reverse else range(times):
        read = x[time].astype(np.int64) - zero_point
        u = sat(scaled_gates(gate_sums(read, step.weight) + step.bias[:, None], step.weight_multipliers))
        z, n = _gates(step, u, h, h_zero_point)
        h = h + rounding_divide_by_power_of_two((ONE - z) * (n - h), 15)
        result[time] = _coded(step, h, h_zero_point)
    return result, h.astype(np.int16)


def _gates(step: IntegerGru, u: Ints, h: Ints, zero_point: int) -> tuple[Ints, Ints]:
    """z and n, [N, C], of the sums of x [3, N, C] and the old h."""
    read = _coded(step, h, zero_point) - zero_point
    inner = scaled_gates(gate_sums(read, step.recurrent[:2]), _part(step, slice(0, 2)))
    z, r = (function_at(sigmoid_table(), gate) for gate in sat(u[:2] + inner))
    if step.reset_after:
        sums = gate_sums(read, step.recurrent[2:]) + step.inner_bias
        found = rounding_divide_by_power_of_two(r * _candidate(step, sums), 15)
    else:
        kept = rounding_divide_by_power_of_two(r * h, 15)
        sums = gate_sums(_coded(step, kept, zero_point) - zero_point, step.recurrent[2:])
        found = _candidate(step, sums)
    return z, function_at(tanh_table(GATE_BITS), sat(u[2] + found))


def _candidate(step: IntegerGru, sums: Ints) -> Ints:
    [found] = sat(scaled_gates(sums, _part(step, slice(2, 3))))
    result: Ints = found
    return result


def _part(step: IntegerGru, gates: slice) -> Multipliers:
    by = step.recurrent_multipliers
    return Multipliers(by.multiplier[gates], by.shift[gates])


def _coded(step: IntegerGru, h: Ints, zero_point: int) -> npt.NDArray[np.int64]:
    """Codes of numbers in Q0.15."""
    scaled = multiply_double_rounding(h, step.hidden.multiplier[0], step.hidden.shift[0])
    return np.clip(scaled + zero_point, -128, 127)
