"""Functions inside a recurrent cell, made of float32 operations that every processor rounds alike.

    2^t, t ≤ 0    t' = max(t, −126),   n = rint(t'),   f = t' − n,   p = 1 + f·(e₁ + f·(… + f·e₆)),   p·2^n
    Sigmoid       z = 2^(−|x|·log₂e),   (x < 0 ? z : 1) / (1 + z)
    Tanh          z = 2^(−|x|·2·log₂e),   (1 − z) / (1 + z) with the sign of x
    Relu          x < 0 ? 0 : x
    HardSigmoid   clip(α·x + β, 0, 1)
    Softsign      x / (1 + |x|)
    Affine        α·x + β
    ScaledTanh    α·Tanh(β·x)

Every multiplication, addition and division is rounded to float32 by itself, in the order that is written.
Sigmoid and Tanh lie within 2^−23 of the exact values. What is no number stays none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from calib8.program.ops.step import Step
from calib8.program.rules import F32, CellFunction, CellFunctionName

LOG2_E: Final = np.float32(1.44269504)
TWICE_LOG2_E: Final = np.float32(2.88539008)
LEAST_POWER: Final = np.float32(-126.0)
POWERS: Final[tuple[np.float32, ...]] = tuple(
    np.float32(float.fromhex(text))
    for text in (
        "0x1.62e43p-1",
        "0x1.ebfbep-3",
        "0x1.c6af6cp-5",
        "0x1.3b2a1cp-7",
        "0x1.5f0896p-10",
        "0x1.444004p-13",
    )
)
"""e₁ … e₆: near ln 2, (ln 2)²/2 …; the error of 2^f over −½ … ½ is below 2^−23."""


def power_of_two(exponents: F32) -> F32:
    """2^t of numbers that are not above 0."""
    t = np.maximum(exponents, LEAST_POWER)
    whole = np.rint(t)
    rest = t - whole
    power = np.full_like(rest, POWERS[-1])
    for factor in POWERS[-2::-1]:
        power = power * rest + factor
    power = power * rest + np.float32(1.0)
    scaled: F32 = np.ldexp(power, np.where(np.isnan(whole), 0, whole).astype(np.int32))
    return scaled


def sigmoid(x: F32) -> F32:
    """1 / (1 + e^−x)."""
    z = power_of_two(-(np.abs(x) * LOG2_E))
    result: F32 = np.where(x < 0, z, np.float32(1.0)) / (np.float32(1.0) + z)
    return result


def tanh(x: F32) -> F32:
    """(e^x − e^−x) / (e^x + e^−x)."""
    z = power_of_two(-(np.abs(x) * TWICE_LOG2_E))
    result: F32 = np.copysign((np.float32(1.0) - z) / (np.float32(1.0) + z), x)
    return result


def at_most(x: F32, most: np.float32) -> F32:
    """The smaller of a number and a limit; what is no number stays none."""
    return np.where(x > most, most, x)


def at_least(x: F32, least: np.float32) -> F32:
    """The larger of a number and a limit; what is no number stays none."""
    return np.where(x < least, least, x)


def _line(x: F32, function: CellFunction) -> F32:
    result: F32 = x * np.float32(function.alpha) + np.float32(function.beta)
    return result


def _hard_sigmoid(x: F32, function: CellFunction) -> F32:
    return at_most(at_least(_line(x, function), np.float32(0.0)), np.float32(1.0))


def _softsign(x: F32, function: CellFunction) -> F32:
    size: F32 = np.abs(x)
    result: F32 = x / (size + np.float32(1.0))
    return result


def _scaled_tanh(x: F32, function: CellFunction) -> F32:
    return tanh(x * np.float32(function.beta)) * np.float32(function.alpha)


FUNCTIONS: Final[Mapping[CellFunctionName, Callable[[F32, CellFunction], F32]]] = {
    "Sigmoid": lambda x, function: sigmoid(x),
    "Tanh": lambda x, function: tanh(x),
    "Relu": lambda x, function: at_least(x, np.float32(0.0)),
    "HardSigmoid": _hard_sigmoid,
    "Softsign": _softsign,
    "Affine": _line,
    "ScaledTanh": _scaled_tanh,
}
"""Name → what computes it."""


def applied(function: CellFunction, x: F32) -> F32:
    """Values of a function of a cell."""
    return FUNCTIONS[function.name](x, function)


def check_float32(step: Step, what: str, *numbers: float) -> None:
    """Refuses parameters of functions that are no float32 values.

    Args:
        step: whose they are.
        what: they are, as the error names them.
        numbers: the parameters.

    Raises:
        ModelError: one is none.
    """
    for number in numbers:
        with np.errstate(over="ignore"):
            rounded = float(np.float32(number))
        if rounded != number:
            raise step.error(f"has the number {number!r}", f"{what} are float32 values")
