"""Curves are as near to their functions as they say, and say so of functions that they cannot follow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from example_programs import codes
from plain_loops import curve_code

from calib8.program.ops.rescale import curve_values, layer_codes
from calib8.program.rounding.segments import LayerSums, curve_rescale
from calib8.program.rounding.two_sided import two_sided_rescale
from calib8.program.rules import PROFILES, CurveRescale, FixedRescale, FloatRescale, Profile

Function = Callable[[float], float]


def silu(x: float) -> float:
    return x / (1 + math.exp(-x)) if x > -700 else 0.0


def gelu(x: float) -> float:
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def softplus(x: float) -> float:
    return max(x, 0) + math.log1p(math.exp(-abs(x)))


FUNCTIONS: dict[str, Function] = {
    "silu": silu,
    "gelu": gelu,
    "mish": lambda x: x * math.tanh(softplus(x)),
    "hard swish": lambda x: x * min(max(x / 6 + 0.5, 0), 1),
    "hard sigmoid": lambda x: min(max(0.2 * x + 0.5, 0), 1),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
    "tanh": math.tanh,
    "softplus": softplus,
    "elu": lambda x: x if x >= 0 else math.expm1(x),
    "leaky": lambda x: x if x >= 0 else 0.1 * x,
    "turned": lambda x: -x if x >= 0 else -0.2 * x,
    "a line": lambda x: 0.5 * x + 1,
}
NEAR = [
    *(("silu", -0.28, high) for high in (1, 2, 6, 20, 60, 170)),
    *(("gelu", -0.17, high) for high in (1, 3, 12, 40)),
    *(("hard swish", -0.375, high) for high in (1, 6, 40)),
    *(("mish", -0.31, high) for high in (3, 20)),
    *(("elu", -1.0, high) for high in (1, 8)),
    ("hard sigmoid", 0.0, 1), ("sigmoid", 0.0, 1), ("tanh", -1.0, 1), ("softplus", 0.0, 5),
    ("leaky", -1.0, 6), ("turned", -5.0, 3), ("a line", -3.0, 4),
]  # fmt: skip
"""Functions and the ranges of their codes."""

SUMS = LayerSums(0.02, np.array([0.004, 0.0007], np.float32), 900.0)


def found(
    function: Function, low: float, high: float, profile: Profile = "onnx"
) -> tuple[CurveRescale | None, Function]:
    """The curve for codes of a range, and its function in codes above the lowest one."""
    scale = float(np.float32((high - low) / 255))
    zero = round(-low / scale)
    target = codes("y", 1, scale=scale, zero_point=zero - 128, dtype="int8")
    values = np.vectorize(function, otypes=[np.float64])
    rule = curve_rescale(profile, values, SUMS, target, -128, 127)
    return rule, lambda x: function(x) / scale + zero


def step_of(rule: CurveRescale) -> float:
    """What one of the 16-bit steps is worth."""
    assert isinstance(rule.steps, FloatRescale)
    return float(SUMS.input_scale * SUMS.weight_scales[0] / rule.steps.factor[0])


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "low", "high"), NEAR)
def test_curves_of_networks_are_near_their_functions(name: str, low: float, high: float) -> None:
    """At places between the 16-bit steps too, within a tenth of a code before it is rounded."""
    rule, wanted = found(FUNCTIONS[name], low, high)
    assert rule is not None and rule.error <= 100
    step, rng = step_of(rule), np.random.default_rng(0)
    places = np.concatenate(
        [rng.uniform(-32768, 32768, 1500), rng.uniform(-3000, 3000, 1500), np.arange(-9.0, 9.0)]
    )
    for place in places:
        v = np.array([round(place)])
        value = (float(curve_values(v, rule)[0]) - 32) / 64
        near, exact = (min(max(number, -0.5), 255.5) for number in (value, wanted(place * step)))
        assert abs(near - exact) <= rule.error / 1000 + 1e-3, (place, near, exact)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("silu", -0.2785, 0.0), ("hard swish", -0.375, 0.0), ("silu", -0.2785, 0.02)]
)
def test_curves_of_a_range_without_positive_values_round_to_the_codes_of_their_functions(
    name: str, low: float, high: float
) -> None:
    """The function leaves the range more steeply than the line beside the segments can: only codes count."""
    rule, wanted = found(FUNCTIONS[name], low, high)
    assert rule is not None and rule.error <= 250
    step = step_of(rule)
    for place in range(-32768, 32768, 7):
        value = (float(curve_values(np.array([place]), rule)[0]) - 32) / 64
        near, exact = (min(max(number, 0.5), 254.5) for number in (value, wanted(place * step)))
        assert abs(near - exact) <= rule.error / 1000 + 1e-3, (place, near, exact)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "low", "high"), NEAR[::4])
def test_curves_to_16_bits_are_near_their_functions(name: str, low: float, high: float) -> None:
    """Within 32 of 65536 codes everywhere, and within 6 on average."""
    scale = float(np.float32((high - low) / 65535))
    zero = round(-low / scale) - 32768
    target = codes("y", 1, scale=scale, zero_point=zero, dtype="int16")
    values = np.vectorize(FUNCTIONS[name], otypes=[np.float64])
    sums = replace(SUMS, input_scale=SUMS.input_scale / 256, wide_sums=1 << 38)
    rule = curve_rescale("onnx", values, sums, target, -32768, 32767)
    assert rule is not None and rule.error <= 32000
    unit = sums.input_scale * float(sums.weight_scales[0])
    acc = np.unique(np.round(np.linspace(low - 1, high + 1, 4001) / unit))
    got = layer_codes(acc.astype(np.int64)[:, None], rule, zero, -32768, 32767, "int16")[:, 0]
    exact = np.clip(values(acc * unit) / scale + zero, -32768, 32767)
    assert len(np.unique(got)) > 1000
    assert np.abs(got - exact).max() <= rule.error / 1000 + 1
    assert np.sqrt(((got - exact) ** 2).mean()) <= 6


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "low", "high"), NEAR)
def test_sixteen_bits_reach_as_far_as_codes_change(name: str, low: float, high: float) -> None:
    rule, wanted = found(FUNCTIONS[name], low, high)
    assert rule is not None
    step = step_of(rule)
    for end in (-32768, 32767):
        value = (float(curve_values(np.array([end]), rule)[0]) - 32) / 64
        for further in (1.0, 1.5, 4.0):
            exact = min(max(wanted(end * step * further), -0.5), 255.5)
            if abs(end * step * further) <= SUMS.reach:
                assert abs(min(max(value, -0.5), 255.5) - exact) <= rule.error / 1000 + 0.03


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "function", [math.sin, round, lambda x: float(x > 0.3), lambda x: math.sqrt(max(x, 0))]
)
def test_functions_that_a_curve_cannot_follow_have_none(function: Function) -> None:
    rule, _ = found(function, -1.0, 1.0)
    assert rule is None


def test_a_function_that_is_no_number_somewhere_has_no_curve_there() -> None:
    """The logarithm below 0 counts as the lowest code, and its edge is too steep."""
    rule, _ = found(lambda x: math.log(x) if x > 0 else math.nan, -3.0, 3.0)
    assert rule is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
def test_the_formula_in_plain_loops(profile: Profile, dtype: str) -> None:
    """Every number as a Python int, for likely curves and for segments at random."""
    rng = np.random.default_rng(5)
    likely, _ = found(silu, -0.28, 6, profile)
    assert likely is not None
    acc = np.concatenate([rng.integers(-(1 << 21), 1 << 21, 150), [0, 1, -1, (1 << 24) - 1]])
    for seed in range(6):
        rows = np.random.default_rng(seed).integers(-16383, 16384, (3, 32)).astype(np.int16)
        wild = CurveRescale(likely.steps, 11 - seed, -16 + seed, *rows, below=31000, above=-32767, error=0)
        for rule in (likely, wild):
            low, high = {"uint8": (7, 120), "int8": (-100, 120), "int16": (-30000, 32700)}[dtype]
            got = layer_codes(np.stack([acc, acc], axis=1), rule, 0, low, high, dtype)
            for channel in (0, 1):
                wanted = [curve_code(rule, int(x), channel, low, high, dtype) for x in acc]
                assert got[:, channel].tolist() == wanted


@pytest.mark.parametrize("profile", PROFILES)
def test_two_sides_round_once(profile: Profile) -> None:
    """No code is farther from the real number than half a step, and a little of fixed point."""
    slopes = np.array([0.1, -0.4, 0.0, 1.7], np.float32)
    scales = np.array([0.004, 0.001, 0.002, 0.0005], np.float32)
    rule = two_sided_rescale(profile, 0.02, scales, slopes, 0.05)
    assert rule is not None
    acc = np.random.default_rng(1).integers(-50000, 50000, (400, 4))
    real = acc * (0.02 * scales.astype(np.float64)) * np.where(acc < 0, slopes.astype(np.float64), 1.0)
    wanted = np.clip(real / np.float32(0.05) + 100, 0, 255)
    got = layer_codes(acc, rule, 100, 0, 255, "uint8")
    assert np.abs(got - wanted).max() <= (0.51 if profile != "tflite" else 0.76)
    assert len(np.unique(got)) > 90


@pytest.mark.parametrize("profile", ["tflite", "single"])
def test_negative_slopes_turn_the_multiplier(profile: Profile) -> None:
    rule = two_sided_rescale(profile, 1.0, np.ones(1, np.float32), np.array([-0.5], np.float32), 1.0)
    assert rule is not None and isinstance(rule.negative, FixedRescale)
    assert rule.negative.multiplier.tolist() == [-(1 << 30)]
    assert layer_codes(np.array([[-8]]), rule, 0, 0, 255, "uint8").tolist() == [[4]]


@pytest.mark.parametrize("profile", PROFILES)
def test_factors_beyond_all_multipliers_have_no_rule(profile: Profile) -> None:
    huge = np.array([3e38], np.float32)
    assert two_sided_rescale(profile, 3e38, huge, np.ones(1, np.float32), 1e-30) is None
    assert two_sided_rescale(profile, 1.0, np.array([1e20], np.float32), huge, 1.0) is None
