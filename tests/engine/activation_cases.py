"""Layers of other cases with a random function behind them: two-sided factors and curves, likely ones too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from example_programs import with_step
from generated import pick

from calib8.fixedpoint import encode_multipliers
from calib8.program import rules
from calib8.program.instructions import Weighted
from calib8.program.ops.weighted import layer_sums
from calib8.program.program import Program

Rng = np.random.Generator


def activated(rng: Rng, program: Program, kind: str = "") -> Program:
    """The program, one layer, with another rule; ``kind`` is ``two-sided``, ``curve`` or either."""
    (step,) = program.instructions
    assert isinstance(step, Weighted)
    if step.rescale is None:
        return program
    assert isinstance(step.rescale, rules.FloatRescale | rules.FixedRescale)
    if (kind or pick(rng, "two-sided", "curve", "curve")) == "two-sided":
        return with_step(program, rescale=two_sided(rng, step.rescale))
    reached = layer_sums(step, program.slots[0])
    largest = np.maximum(-reached.low, reached.high).astype(np.float64)
    return with_step(program, rescale=curve(rng, step.rescale, largest))


def two_sided(rng: Rng, rule: rules.Rescale) -> rules.TwoSidedRescale:
    """Slopes of 0, of either sign, beyond 1, and those of networks; one for all or one per channel."""
    count = factors(rule).size
    slopes = pick(
        rng,
        np.full(count, 0.1),
        np.full(count, 0.01),
        rng.uniform(-0.5, 1.5, count),
        rng.choice([0.0, -0.25, 0.25, 1.0, 2.0], count),
    )
    return rules.TwoSidedRescale(rule, scaled(rule, slopes))


def curve(rng: Rng, rule: rules.Rescale, largest: npt.NDArray[np.float64]) -> rules.CurveRescale:
    """Segments as steep as may be, or gentle ones that stay within the codes; any width and place of them."""
    fine = factors(rule) * pick(rng, 3.0, 40.0, 150.0, 700.0)
    steps = scaled(rule, np.minimum(fine, (rules.CURVE_SUMS_MAX - 1) / largest.max()) / factors(rule))
    shift = int(rng.integers(0, rules.CURVE_SHIFT_MAX + 1))
    if rng.random() < 0.6:
        shift = pick(rng, 11, 11, 10, 9)
    half = 1 << (15 - shift)
    first = int(rng.integers(-half, half - rules.CURVE_SEGMENTS + 1))
    if rng.random() < 0.6:
        first = min(max(-16, -half), half - rules.CURVE_SEGMENTS)
    reach = pick(rng, 400, 4000, 32767)
    slope = rng.integers(-reach, reach + 1, rules.CURVE_SEGMENTS)
    bend = rng.integers(-(32767 - np.abs(slope)), 32768 - np.abs(slope)) // pick(rng, 1, 50)
    value = rng.integers(-32768, 32768, rules.CURVE_SEGMENTS)
    if rng.random() < 0.6:
        value = rng.integers(-1000, 17000, rules.CURVE_SEGMENTS)
    below, above = (int(rng.integers(-limit, limit + 1)) for limit in (pick(rng, 0, 500, 32767),) * 2)
    rows = (row.astype(np.int16) for row in (value, slope, bend))
    return rules.CurveRescale(steps, shift, first, *rows, below, above, 0)


def factors(rule: rules.Rescale) -> npt.NDArray[np.float64]:
    """What a rule multiplies with."""
    if isinstance(rule, rules.FloatRescale):
        return rule.factor.astype(np.float64)
    return np.ldexp(rule.multiplier.astype(np.float64), rule.shift - 31)


def scaled(rule: rules.Rescale, by: npt.NDArray[np.float64]) -> Any:
    """The rule with its factors multiplied; signs stay with them."""
    wanted = factors(rule) * by
    if isinstance(rule, rules.FloatRescale):
        return rules.FloatRescale(wanted.astype(np.float32))
    multiplier, shift = encode_multipliers(np.abs(wanted))
    sign = np.where(wanted < 0, -1, 1).astype(np.int32)
    return replace(rule, multiplier=multiplier * sign, shift=shift)
