"""Fixed-point factors of layers, form by form: sums on both sides of ties, and where results saturate.

Every channel adds a code 0 … 255 to its bias, which lies near a sum that is half way between two results.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pytest
from activation_cases import curve
from example_programs import codes, single
from generated import pick

from bits import assert_same_bits
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Program
from calib8.program.rules import Profile
from calib8.program.verify import verify

Rng = np.random.Generator
Function = Literal["none", "two-sided", "curve"]
Rounding = Literal["double", "single", "away"]
SIDE: Final = 16
REACH: Final = 256
"""More than a code adds to a bias."""

SHIFTS: Final = ((-8, -2), (-15, -9), (-8, 8), (-31, -16), (0, 20), (-31, 20))
"""The least and the largest shift of a layer: what float32 takes for codes or steps, and what it does not."""

PROFILES: Final[dict[Rounding, Profile]] = {"single": "single", "double": "tflite", "away": "tflite"}

CASES: Final = [
    (rounding, function, shifts)
    for rounding in PROFILES
    for function in ("none", "two-sided", "curve")
    for shifts in SHIFTS
]


def multipliers(rng: Rng, count: int) -> npt.NDArray[np.int64]:
    """Those with many ties, those with few, and the ends of their range."""
    kinds = np.stack(
        [
            rng.integers(1 << 30, 1 << 31, count),
            rng.integers(1 << 10, 1 << 11, count) << 20,
            rng.integers(1 << 23, 1 << 24, count) * 128 + rng.choice([0, 63, 64, 65, 127], count),
            rng.choice([1 << 30, (1 << 30) + 1, (1 << 31) - 1, (1 << 31) - 64, 3 << 29, 0], count),
        ]
    )
    return kinds[rng.integers(0, len(kinds), count), np.arange(count)]


def farthest(rounding: Rounding, function: Function, multiplier: int, shift: int) -> int:
    """The largest sum that a layer may have with this factor."""
    ends = [(1 << 31) - 1 - REACH]
    if rounding == "double":
        ends.append(((1 << 31) - 1 >> max(shift, 0)) - REACH)
    if function == "curve":
        ends.append(((1 << 30) - 1 << 31 - shift) // max(multiplier, 1) - REACH)
    return max(min(ends), 0)


def near_tie(rng: Rng, function: Function, multiplier: int, shift: int, far: int) -> int:
    """A sum, not below 0, whose result is nearly k + 1/2; at times as large as may be."""
    most = pick(rng, 2, 300, 300, 33000 if function == "curve" else 600)
    twice = 2 * int(rng.integers(0, most + 1)) + 1
    tie = (twice << 30 - shift) // max(abs(multiplier), 1)
    if rng.random() < 0.15:
        tie = pick(rng, far, (1 << 24) - 100, (1 << 30) - 100, (1 << 30) + 5, (1 << 23) - 3)
    return min(tie, far)


def layer_rule(
    rng: Rng, rounding: Rounding, function: Function, shifts: tuple[int, int], count: int
) -> tuple[rules.LayerRescale, npt.NDArray[np.int32]]:
    """A rule and biases for it."""
    sides = []
    for _ in range(2):
        shift = rng.integers(shifts[0], shifts[1] + 1, count)
        sides.append((multipliers(rng, count), shift))
    (above, up), (below, down) = sides
    below = below * rng.choice([-1, 1, 1], count)
    bias = []
    for c in range(count):
        far = farthest(rounding, function, int(above[c]), int(up[c]))
        negative = rng.random() < 0.5
        m, s = (below[c], down[c]) if negative and function == "two-sided" else (above[c], up[c])
        if function == "two-sided":
            far = min(far, farthest(rounding, function, abs(int(below[c])), int(down[c])))
        sum_ = near_tie(rng, function, int(m), int(s), far)
        bias.append(-sum_ if negative else sum_)
    rule = rules.FixedRescale(above.astype(np.int32), up.astype(np.int32), rounding)
    if function == "none":
        return rule, np.array(bias, np.int32)
    other = rules.FixedRescale(below.astype(np.int32), down.astype(np.int32), rounding)
    if function == "two-sided":
        return rules.TwoSidedRescale(rule, other), np.array(bias, np.int32)
    random = curve(rng, rules.FixedRescale(rule.multiplier[:1] | 1 << 30, up[:1].astype(np.int32), rounding),
                   np.ones(1))  # fmt: skip
    fields = (random.shift, random.first, random.value, random.slope, random.bend, random.below, random.above)
    return rules.CurveRescale(rule, *fields, 0), np.array(bias, np.int32)


def layer_of(
    rng: Rng, rounding: Rounding, function: Function, shifts: tuple[int, int], count: int, kernel: int
) -> Program:
    """A layer with a kernel whose only weights are −1, 0 or 1 in its middle; ``kernel`` 0: a dense one."""
    rule, bias = layer_rule(rng, rounding, function, shifts, count)
    middle = rng.choice([-1, 1, 1, 0], count)
    low = pick(rng, 0, 0, 9)
    zero_point = pick(rng, low, 0, 100, 255)
    sides = (max(kernel, 1),) * 2
    if kernel == 0:
        weight = middle.reshape(count, 1, 1, 1).astype(np.int8)
    else:
        weight = np.zeros((*sides, count), np.int8)
        weight[kernel // 2, kernel // 2] = middle
    fields: dict[str, Any] = {
        "weight": weight,
        "weight_zero_point": np.zeros(1, np.int32),
        "bias": bias,
        "rescale": rule,
        "low": low,
        "high": pick(rng, 255, 255, 250),
        "strides": (1, 1),
        "pads": (kernel // 2,) * 4,
        "dilations": (1, 1),
    }
    x = codes("x", 1, SIDE, SIDE, count if kernel > 0 else 1, zero_point=0, dtype="uint8")
    y = codes("y", 1, SIDE, SIDE, count, zero_point=zero_point, dtype="uint8")
    if kernel == 0:
        return single(op.Conv, [x], y, PROFILES[rounding], groups=1, **fields)
    return single(op.DepthwiseConv, [x], y, PROFILES[rounding], **fields)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kernel", [0, 1, 3, 5, 7])
@pytest.mark.parametrize(("rounding", "function", "shifts"), CASES)
def test_results(rounding: Rounding, function: Function, shifts: tuple[int, int], kernel: int) -> None:
    """Whole blocks and strips, parts of them, and a few channels."""
    for seed, count in enumerate((16, 64, 81, 200) if kernel == 0 else (5, 40, 81, 130)):
        rng = np.random.default_rng(
            (kernel, seed, shifts[0] + 40, shifts[1] + 40, len(function), len(rounding))
        )
        program = layer_of(rng, rounding, function, shifts, count, kernel)
        verify(program)
        assert_same_bits(program, seed=seed)
