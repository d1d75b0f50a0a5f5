"""Functions of codes as tables: one entry per code, or one row of entries per channel.

    onnx      clip(rint(fl(f(fl(s_x·(q − z_x))) / s_y)) + z_y)        float32, as DQ → f → Q computes it
    tflite    clip(round(f(s_x·(q − z_x)) / s_y) + z_y)               float64, ties away from zero
    single    clip(floor(f(s_x·(q − z_x)) / s_y + 0.5) + z_y)         float64

``tflite`` and ``single`` compute what is linear on either side of zero (a change of scale, Relu, Clip,
LeakyRelu, PRelu) with multiplier and shift. ``tflite`` has a recipe of its own for HardSwish, and computes
``FLOAT32_FUNCTIONS`` in float32, times the inverse of the output's scale. Recipes of TFLite are for 8-bit
codes on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import (
    Ints,
    encode_multipliers,
    multiply_double_rounding,
    multiply_single_rounding,
)
from calib8.program.expressions import Apply, Constant, Expression, Source, channels, evaluate, number
from calib8.program.program import Slot
from calib8.program.rounding.hard_swish import hard_swish_steps
from calib8.program.rounding.linear import clamp
from calib8.program.rules import F32, Profile, Table

Wide = npt.NDArray[np.float64]

FLOAT32_FUNCTIONS: Final[Mapping[str, Callable[[F32], F32]]] = {
    "Sigmoid": lambda x: np.float32(1) / (np.float32(1) + _rounded(np.exp, -x)),
    "Tanh": lambda x: _rounded(np.tanh, x),
    "Exp": lambda x: _rounded(np.exp, x),
    "Log": lambda x: _rounded(np.log, x),
}
"""What LiteRT's kernels of 8-bit codes compute in float32; its functions are as good as rounded once."""

SATURATING: Final = 4.0
"""How many times the range of the output one step of the input may be worth."""


def table(profile: Profile, expression: Expression, source: Slot, target: Slot) -> Table:
    """Codes of ``target`` for every code of ``source``, lowest first.

    Args:
        profile: the rounding profile.
        expression: the real function; ``Source()`` alone is a change of scale, zero point or type.
        source, target: slots of codes.

    Returns:
        [256], or [channels, 256] if a constant of the expression is a vector; of a 16-bit source [65536].

    Raises:
        KeyError: an operator that ``expressions`` does not have.
        ValueError: vectors of different lengths.
    """
    count = channels(expression)
    limits = np.iinfo(source.dtype)
    steps = np.arange(limits.min, limits.max + 1, dtype=np.int64)[:, None] - source.zero_point
    codes: Ints | Wide = (
        _float_codes(expression, steps, source, target)
        if profile == "onnx"
        else _integer_codes(profile, expression, steps, source, target)
    )
    low, high = _limits(profile, expression, target)
    columns = np.broadcast_to(codes, (len(steps), count or 1))
    rows: Table = np.ascontiguousarray(np.clip(columns.T, low, high).astype(target.dtype))
    return rows[0] if count is None else rows


def _float_codes(expression: Expression, steps: Ints, source: Slot, target: Slot) -> Wide:
    """float32 throughout; not-a-number becomes the lowest code, as QuantizeLinear has it."""
    with np.errstate(all="ignore"):
        values = evaluate(expression, steps.astype(np.float32) * np.float32(source.scale))
        return _finite(np.rint(values / np.float32(target.scale)).astype(np.float64)) + target.zero_point


def _integer_codes(
    profile: Profile, expression: Expression, steps: Ints, source: Slot, target: Slot
) -> Ints | Wide:
    slope = _slopes(profile, expression, source, target)
    if slope is not None:
        most = SATURATING * (1 << 16 if target.is_wide else 1 << 8)
        above, below = (_multiply(profile, steps, np.clip(side, -most, most)) for side in slope)
        return np.where(steps >= 0, above, below) + target.zero_point
    narrow = not (source.is_wide or target.is_wide)
    if profile == "tflite" and narrow and isinstance(expression, Apply) and expression.op == "HardSwish":
        fixed = hard_swish_steps(steps, source.scale, target.scale) if _of_source(expression) else None
        if fixed is not None:
            return fixed + target.zero_point
    in_float32 = _in_float32(expression) if profile == "tflite" and narrow else None
    with np.errstate(all="ignore"):
        if in_float32 is not None:
            values = in_float32(steps.astype(np.float32) * np.float32(source.scale))
            exact = (values * (np.float32(1) / np.float32(target.scale))).astype(np.float64)
        else:
            exact = evaluate(expression, steps * float(source.scale)).astype(np.float64) / target.scale
        ratio = _finite(exact)
    half_away = np.copysign(np.floor(np.abs(ratio) + 0.5), ratio)
    return (half_away if profile == "tflite" else np.floor(ratio + 0.5)) + target.zero_point


def _in_float32(expression: Expression) -> Callable[[F32], F32] | None:
    if not (isinstance(expression, Apply) and _of_source(expression)):
        return None
    return FLOAT32_FUNCTIONS.get(expression.op)


def _rounded(function: Callable[[Wide], Any], values: F32) -> F32:
    """A function of float32 numbers, rounded once."""
    result: F32 = function(values.astype(np.float64)).astype(np.float32)
    return result


def _slopes(profile: Profile, expression: Expression, source: Slot, target: Slot) -> tuple[Wide, Wide] | None:
    """Factors above and below zero of a function that is linear on both sides, each [1] or [channels]."""
    exact: Wide = np.array([source.scale / target.scale], np.float64)
    if isinstance(expression, Source):
        return exact, exact
    if not (isinstance(expression, Apply) and _of_source(expression)):
        return None
    alpha = np.ones(1, np.float32) if expression.op in ("Relu", "Clip") else _alpha(expression)
    if alpha is None:
        return None
    if profile == "tflite":
        return _float32_ratio(np.ones(1, np.float32), source, target), _float32_ratio(alpha, source, target)
    return exact, exact * alpha.astype(np.float64)


def _alpha(expression: Apply) -> F32 | None:
    """Slope below zero of LeakyRelu and PRelu, finite, [1] or [channels]."""
    if expression.op == "LeakyRelu":
        alpha = np.array([number(expression.attributes, "alpha", 0.01, np.zeros(0, np.float32))], np.float32)
    elif expression.op == "PRelu" and isinstance(expression.args[1], Constant):
        alpha = expression.args[1].array.astype(np.float32).reshape(-1)
    else:
        return None
    return alpha if np.isfinite(alpha).all() else None


def _float32_ratio(alpha: F32, source: Slot, target: Slot) -> Wide:
    """``fl(fl(s_x · α) / s_y)``: TFLite divides the scales of its activations in float32."""
    with np.errstate(over="ignore", under="ignore"):
        return (np.float32(source.scale) * alpha / np.float32(target.scale)).astype(np.float64)


def _multiply(profile: Profile, steps: Ints, factor: Wide) -> Ints:
    """``steps · factor`` in fixed point; a negative factor turns the steps, so that its ties turn with it."""
    multiplier, shift = encode_multipliers(np.abs(factor))
    if profile == "tflite":
        return np.where(factor < 0, -1, 1) * multiply_double_rounding(steps, multiplier, shift)
    return multiply_single_rounding(np.where(factor < 0, -steps, steps), multiplier, shift)


def _limits(profile: Profile, expression: Expression, target: Slot) -> tuple[int, int]:
    """Codes that a stand-alone Relu or Clip of the tensor cannot leave; the type's range for all others."""
    bounds: tuple[float | None, float | None] = (None, None)
    if profile != "onnx" and isinstance(expression, Apply) and _of_source(expression):
        if expression.op == "Relu":
            bounds = (0.0, None)
        elif expression.op == "Clip":
            ends = evaluate(expression, np.array([-math.inf, math.inf], np.float32))
            bounds = (float(ends[0]), float(ends[1]))
    low, high = (None if bound is None or math.isinf(bound) else bound for bound in bounds)
    return clamp(profile, target, low, high)


def _of_source(expression: Apply) -> bool:
    """Reads the tensor itself and, besides, constants of one number only (PRelu: of any length)."""
    first, *others = expression.args
    single = expression.op == "PRelu" or channels(expression) is None
    return isinstance(first, Source) and all(isinstance(arg, Constant) for arg in others) and single


def _finite(values: Wide) -> Wide:
    """Saturated far beyond every code; not-a-number counts as the smallest."""
    return np.nan_to_num(np.clip(values, -1e9, 1e9), nan=-1e9)
