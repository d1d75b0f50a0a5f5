"""Sums of float32 values without any rounding, as whole numbers of the smallest float32 there is.

unit       2^−149, of which every finite float32 is a multiple
sum        Σ x / 2^−149, a Python integer: associative, commutative, exact
mean       sum / n, rounded once, to float64
in files   48 bytes, two's complement, least significant first: good for 2^105 of the largest values
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

UNIT_EXPONENT: Final = -149
SUM_BYTES: Final = 48


def units(values: Iterable[float]) -> int:
    """The exact sum of finite float32 values, in units of 2^−149."""
    return sum(int(math.ldexp(value, -UNIT_EXPONENT)) for value in values)


def from_parts(parts: Sequence[int]) -> int:
    """The sum whose part e is in units of 2^(e − 149), as the native kernel keeps it."""
    return sum(part << exponent for exponent, part in enumerate(parts) if part)


def mean(total: int, n: int) -> float:
    """The mean of n > 0 values with this sum, rounded once."""
    return total / (n << -UNIT_EXPONENT)


def to_bytes(total: int) -> npt.NDArray[np.uint8]:
    """The sum as it stands in files, uint8 [48]."""
    return np.frombuffer(total.to_bytes(SUM_BYTES, "little", signed=True), np.uint8)


def from_bytes(stored: npt.NDArray[np.uint8]) -> int:
    """The inverse of ``to_bytes``."""
    return int.from_bytes(stored.tobytes(), "little", signed=True)
