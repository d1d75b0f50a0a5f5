"""Multipliers of recurrent layers of integers, in float32 as TFLite makes them of scales.

W x     fl(fl(s_W·s_x)/2^−12)                R h     fl(fl(s_R·s_h)/2^−12)
P c     2^p·s_P/2^−12,   c of scale 2^p      o·Tanh  fl(fl(2^−15/s_h)·2^−15)
h       fl(2^−15/s_h) of a GRU, from Q0.15 to codes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from calib8.fixedpoint import encode_multiplier
from calib8.program.rules import F32, Multipliers

GATE_SCALE: Final = np.float32(2.0**-12)
HALF_WORD: Final = np.float32(2.0**-15)


def encoded(factors: Sequence[float] | F32) -> Multipliers:
    """Multipliers and shifts of float32 factors.

    Raises:
        ValueError: one is too large.
    """
    pairs = [encode_multiplier(float(np.float32(factor))) for factor in factors]
    columns = np.array(pairs, np.int32).reshape(-1, 2)
    return Multipliers(columns[:, 0].copy(), columns[:, 1].copy())


def product_multipliers(scales: F32, scale: float) -> Multipliers:
    """From sums of products to what gates read; one scale of weights per gate, the other of what they meet.

    Raises:
        ValueError: one is too large.
    """
    return encoded(scales * np.float32(scale) / GATE_SCALE)


def peephole_multipliers(scales: F32, power: int) -> Multipliers:
    """From products with c of scale 2^power.

    Raises:
        ValueError: one is too large.
    """
    return encoded([2.0**power * float(scale) / float(GATE_SCALE) for scale in scales])


def output_multiplier(scale: float) -> Multipliers:
    """From o·Tanh(c) to codes of h of this scale.

    Raises:
        ValueError: it is too large.
    """
    return encoded([float(HALF_WORD / np.float32(scale) * HALF_WORD)])


def state_multiplier(scale: float) -> Multipliers:
    """From h in Q0.15 to its codes of this scale.

    Raises:
        ValueError: it is too large.
    """
    return encoded([float(HALF_WORD / np.float32(scale))])
