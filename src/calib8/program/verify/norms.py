"""Rounding parameters of LayerNorm and GroupNorm in the documented range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.ops.limits import LARGEST_GROUP, LONGEST_ROW, LONGEST_ROW_AROUND_0
from calib8.program import rules
from calib8.program.instructions import GroupNorm, LayerNorm
from calib8.program.ops.step import Step
from calib8.program.verify.ranges import MULTIPLIER_MAX, check_range

EPSILON_MAX: Final = 1 << 62
"""With the largest spread, below 2^62, it stays below 2^63."""

ROW_SHIFT_MAX: Final = 62
GROUP_SHIFT_MAX: Final = 126


def _check_float_rows(step: Step, rule: rules.FloatNorm) -> None:
    _check_row(step)
    _check_floats(step, rule)


def _check_fixed_rows(step: Step, rule: rules.FixedNorm) -> None:
    _check_row(step)
    arrays = ((rule.multiplier, "multipliers"), (rule.offset, "offsets"), (rule.shift, "shifts"))
    _check_arrays(step, *arrays)
    check_range(step, "shift", rule.shift, 1, ROW_SHIFT_MAX)
    _check_fixed(step, rule)


def _check_float_groups(step: Step, rule: rules.FloatGroupNorm) -> None:
    _check_group(step)
    _check_floats(step, rule)
    bad = rule.factor[np.abs(rule.factor) > rules.GROUP_FACTOR_MAX]
    if bad.size:
        raise step.error(f"has the factor {bad[0]:.6g}", "It must be at most 2^64")


def _check_fixed_groups(step: Step, rule: rules.FixedGroupNorm) -> None:
    _check_group(step)
    shifts = ((rule.multiplier_shift, "multipliers"), (rule.offset_shift, "offsets"))
    _check_arrays(step, (rule.multiplier, "multipliers"), (rule.offset, "offsets"))
    for array, what in shifts:
        _check_arrays(step, (array, f"shifts of {what}"))
        check_range(step, "shift", array, 1, GROUP_SHIFT_MAX)
    _check_fixed(step, rule)


def _check_row(step: Step) -> None:
    """No more codes than a LayerNorm takes."""
    instruction = step.instruction
    if not isinstance(instruction, LayerNorm):
        raise step.error("has a rule of LayerNorm", "Give it one of its own")
    longest = LONGEST_ROW if instruction.centred else LONGEST_ROW_AROUND_0
    check_range(step, "number of channels", step.output.shape[-1], 1, longest)


def _check_group(step: Step) -> None:
    """No more codes than a GroupNorm takes."""
    instruction = step.instruction
    if not isinstance(instruction, GroupNorm):
        raise step.error("has a rule of GroupNorm", "Give it one of its own")
    _, rows, columns, channels = step.output.shape
    size = rows * columns * (channels // instruction.groups)
    check_range(step, "number of codes of a group", size, 1, LARGEST_GROUP)


def _check_floats(step: Step, rule: rules.FloatNorm | rules.FloatGroupNorm) -> None:
    _check_arrays(step, (rule.factor, "factors"), (rule.offset, "offsets"))
    for array, what in ((rule.factor, "factor"), (rule.offset, "offset")):
        bad = array[~np.isfinite(array)]
        if bad.size:
            raise step.error(f"has the {what} {bad[0]}", "It must be finite")
    if rule.epsilon < 0:
        raise step.error(f"has the epsilon {rule.epsilon:.6g}", "It must not be below 0")


def _check_fixed(step: Step, rule: rules.FixedNorm | rules.FixedGroupNorm) -> None:
    check_range(step, "multiplier", rule.multiplier, -MULTIPLIER_MAX, MULTIPLIER_MAX)
    check_range(step, "offset", rule.offset, -MULTIPLIER_MAX, MULTIPLIER_MAX)
    check_range(step, "epsilon", rule.epsilon, 0, EPSILON_MAX)


def _check_arrays(step: Step, *arrays: tuple[npt.NDArray[Any], str]) -> None:
    """One parameter of each kind per channel."""
    channels = step.output.shape[-1]
    for array, what in arrays:
        if array.shape != (channels,):
            raise step.error(f"has {what} of shape {list(array.shape)}", f"Give [{channels}]")


CHECKS: Final[dict[type, Callable[[Step, Any], None]]] = {
    rules.FloatNorm: _check_float_rows,
    rules.FixedNorm: _check_fixed_rows,
    rules.FloatGroupNorm: _check_float_groups,
    rules.FixedGroupNorm: _check_fixed_groups,
}
"""Rule → the check of its values."""
