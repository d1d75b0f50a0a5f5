"""LSTM, GRU and RNN over all steps of a sequence: 8-bit products, float32 gates and states.

    x_t and h of a sample are coded where they are multiplied, with one scale for each:

        m = max |v|                 codes q = clip(rint(v · fl(127 / m)), ±127),   s = fl(m / 127)
        m < 2^−100                  all codes 0, s = 0
        NaN or an infinity in v     the sample is lost

    u = fl(fl(Σ q_x·W) · fl(s_x · s_W)) + bias          of x_t and a row of W
    v = fl(Σ q_h·R) · fl(s_h · s_R)                     of h and a row of R

    LSTM    i = f(clip(u + v + P_i·c)),   f = f(clip(u + v + P_f·c)) or 1 − i,   g = g(clip(u + v))
            c = f·c + i·g,   o = f(clip(u + v + P_o·c)),   h = o·h(c)
    GRU     z = f(clip(u + v)),   r = f(clip(u + v))
            n = g(clip(u + v)) with v of r·h, or g(clip(u + r·(v + inner bias)))
            h = (1 − z)·n + z·h
    RNN     h = f(clip(u + v))

Sums add from left to right, every operation is rounded to float32. A sample is lost from the step on in which
a value of its x_t, its h or its c is NaN or infinite: its states are NaN then. Lengths are 0 … T, others are
refused before. Steps beyond its length are 0; of a length of 0 its last states are 0 too.

A code has the magnitude 127 at most, so that sums of 2^16 products stay within int32.

    x float32 [T, N, I]   →   float32 [T + 1, D, N, H], of an LSTM [T + 2, D, N, H]
                              row t: h of step t;   row T: the last h;   row T + 1: the last c
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np

from calib8.program.ops.cell_functions import applied, at_least, at_most
from calib8.program.ops.instruction import Instruction
from calib8.program.rules import F32, I8, I32, CellFunction

Cell = Literal["LSTM", "GRU", "RNN"]
Extra = Literal["h", "c", "lengths"]

GATES: Final = {"LSTM": 4, "GRU": 3, "RNN": 1}
LEAST_CODED: Final = np.float32(2.0**-100)
LARGEST: Final = np.float32(127.0)
NOT_A_NUMBER: Final = np.float32(np.nan)


@dataclass(frozen=True, eq=False)
class Recurrent(Instruction):
    """A recurrent layer; D directions, G gates (LSTM i o f g, GRU z r n), H units.

    Attributes:
        cell: which equations.
        directions: of the D parts, one or two.
        weight: int8 [D, G·H, I], codes −127 … 127.
        weight_scale: float32 [D, G·H], above 0.
        recurrent: int8 [D, G·H, H], codes −127 … 127.
        recurrent_scale: float32 [D, G·H], above 0.
        bias: float32 [D, G·H], added to what comes of x.
        inner_bias: float32 [D, H] of a GRU with ``reset_after``, of others [0].
        peephole: float32 [D, 3·H] in the order i, o, f, or [0].
        functions: those of the first direction, then those of the second.
        clip: bounds of what functions read, 0 for none.
        coupled: an LSTM forgets 1 − i.
        reset_after: a GRU multiplies by r after the product with R (ONNX's linear_before_reset).
        extras: what it reads beside x, in this order: first h [D, N, H], first c [D, N, H], lengths [N].
    """

    cell: Cell
    directions: tuple[Literal["forward", "reverse"], ...]
    weight: I8
    weight_scale: F32
    recurrent: I8
    recurrent_scale: F32
    bias: F32
    inner_bias: F32
    peephole: F32
    functions: tuple[CellFunction, ...]
    clip: float
    coupled: bool
    reset_after: bool
    extras: tuple[Extra, ...]

    @property
    def units(self) -> int:
        """H."""
        return int(self.recurrent.shape[-1])

    @property
    def gates(self) -> int:
        """G."""
        return GATES[self.cell]


class Products(Protocol):
    """The two matrices of a direction."""

    def of_inputs(self, rows: F32) -> F32:
        """x·Wᵀ of float32 [N, I]: [N, G·H]; rows that are lost are NaN."""
        ...

    def of_states(self, rows: F32, first: int = 0) -> F32:
        """h·Rᵀ of float32 [N, H] and the rows of R from ``first`` on; rows that are lost are NaN."""
        ...


@dataclass(frozen=True, eq=False)
class Weights:
    """Products of codes.

    Attributes:
        weight, recurrent: int8 [G·H, I] and [G·H, H].
        weight_scale, recurrent_scale: float32 [G·H].
    """

    weight: I8
    weight_scale: F32
    recurrent: I8
    recurrent_scale: F32

    def of_inputs(self, rows: F32) -> F32:
        """x·Wᵀ."""
        return _product(rows, self.weight, self.weight_scale)

    def of_states(self, rows: F32, first: int = 0) -> F32:
        """h·Rᵀ."""
        return _product(rows, self.recurrent[first:], self.recurrent_scale[first:])


@dataclass(frozen=True, eq=False)
class Arrays:
    """What a direction reads.

    Attributes:
        x: float32 [T, N, I].
        lengths: int32 [N], 0 … T.
        h, c: first states, float32 [N, H]; None: zeros.
        reverse: from the last step of every sample to its first.
    """

    x: F32
    lengths: I32
    h: F32 | None
    c: F32 | None
    reverse: bool


def coded_rows(rows: F32) -> tuple[F32, F32]:
    """Codes of float32 [N, K], whole float32 numbers, and their scales [N, 1]: NaN where a row is lost."""
    largest = np.max(np.abs(rows), axis=1, keepdims=True, initial=0.0)
    whole = np.isfinite(largest)
    used = whole & (largest >= LEAST_CODED)
    safe = np.where(used, largest, np.float32(1.0))
    codes = np.rint(np.where(used, rows, np.float32(0.0)) * (LARGEST / safe))
    scales = np.where(used, safe / LARGEST, np.where(whole, np.float32(0.0), NOT_A_NUMBER))
    return np.clip(codes, -LARGEST, LARGEST), scales.astype(np.float32)


def _product(rows: F32, weight: I8, weight_scale: F32) -> F32:
    codes, scales = coded_rows(rows)
    sums = codes.astype(np.float64) @ weight.T.astype(np.float64)  # whole numbers below 2^31: exact
    result: F32 = sums.astype(np.float32) * (scales * weight_scale)
    return result


def run_cell(step: Recurrent, d: int, arrays: Arrays, weights: Products, result: F32) -> None:
    """Writes all rows of a direction, [T + 1 or T + 2, N, H]."""
    steps, samples = arrays.x.shape[:2]
    cell = _Cell(step, d, weights)
    h = np.zeros((samples, step.units), np.float32) if arrays.h is None else arrays.h.copy()
    c = np.zeros_like(h) if arrays.c is None else arrays.c.copy()
    lengths = arrays.lengths
    for number in range(steps):
        places = lengths - 1 - number if arrays.reverse else np.full(samples, number)
        alive = np.flatnonzero(number < lengths)
        if not alive.size:
            break
        with np.errstate(all="ignore"):
            h[alive], c[alive] = cell.after(arrays.x[places[alive], alive], h[alive], c[alive])
        result[places[alive], alive] = h[alive]
    result[steps], empty = h, lengths == 0
    result[steps + 1 :] = c
    result[steps:, empty] = 0


class _Cell:
    """The equations of a direction."""

    def __init__(self, step: Recurrent, d: int, weights: Products) -> None:
        self._step, self._weights = step, weights
        count = len(step.functions) // len(step.directions)
        self._functions = step.functions[d * count : (d + 1) * count]
        self._bias = step.bias[d]
        self._inner = step.inner_bias[d] if step.reset_after else None
        self._peephole = step.peephole[d].reshape(3, -1) if step.peephole.size else None

    def after(self, x: F32, h: F32, c: F32) -> tuple[F32, F32]:
        """The states after one step of some samples."""
        u = self._weights.of_inputs(x) + self._bias
        lost = ~np.all(np.isfinite(x), axis=1)
        lost |= ~(np.all(np.isfinite(h), axis=1) & np.all(np.isfinite(c), axis=1))
        parts = np.split(u, GATES[self._step.cell], axis=1)
        new, carried = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self._step.cell](parts, h, c)
        lost |= ~(np.all(np.isfinite(new), axis=1) & np.all(np.isfinite(carried), axis=1))
        new[lost], carried[lost] = NOT_A_NUMBER, NOT_A_NUMBER
        return new, carried

    def _lstm(self, u: list[F32], h: F32, c: F32) -> tuple[F32, F32]:
        v = np.split(self._weights.of_states(h), 4, axis=1)
        i = self._gate(0, self._seen(u[0] + v[0], c, 0))
        f = np.float32(1.0) - i if self._step.coupled else self._gate(0, self._seen(u[2] + v[2], c, 2))
        c = f * c + i * self._gate(1, u[3] + v[3])
        o = self._gate(0, self._seen(u[1] + v[1], c, 1))
        return o * applied(self._functions[2], c), c

    def _gru(self, u: list[F32], h: F32, c: F32) -> tuple[F32, F32]:
        units = self._step.units
        v = self._weights.of_states(h)
        z, r = self._gate(0, u[0] + v[:, :units]), self._gate(0, u[1] + v[:, units : 2 * units])
        if self._inner is not None:
            n = self._gate(1, u[2] + r * (v[:, 2 * units :] + self._inner))
        else:
            n = self._gate(1, u[2] + self._weights.of_states(r * h, 2 * units))
        return (np.float32(1.0) - z) * n + z * h, c

    def _rnn(self, u: list[F32], h: F32, c: F32) -> tuple[F32, F32]:
        return self._gate(0, u[0] + self._weights.of_states(h)), c

    def _seen(self, value: F32, c: F32, place: int) -> F32:
        return value if self._peephole is None else value + self._peephole[place] * c

    def _gate(self, place: int, value: F32) -> F32:
        if self._step.clip > 0:
            most = np.float32(self._step.clip)
            value = at_most(at_least(value, -most), most)
        return applied(self._functions[place], value)
