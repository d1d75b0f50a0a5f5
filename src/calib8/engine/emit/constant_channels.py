"""Channels whose sums all become one code: dead ones, whose bias is large beside all that the input can add.

    code(smallest sum) = code(largest sum) = k    →    weights 0, bias 8·(k − z_y), factor 1/8

Rescaling is monotone, so every sum between gives k too. What is left needs no care with int32, which the
bias of a dead channel, up to 2^30, would ask of all channels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import encode_multiplier
from calib8.program import rules
from calib8.program.instructions import Weighted
from calib8.program.ops.rescale import rescale
from calib8.program.program import Slot

Layer = TypeVar("Layer", bound=Weighted)

FACTOR: Final = 0.125
"""Of a constant channel: exact in every rule."""


def with_constant_channels(step: Layer, source: Slot, output: Slot) -> Layer:
    """The layer with every channel that gives one code alone as a constant; sums stay as they are.

    Args:
        step: weights with the output channels on the last axis.
        source, output: slots of its input and output.
    """
    if not isinstance(step.rescale, rules.FloatRescale | rules.FixedRescale):
        return step
    channels = step.bias.size
    limits = np.iinfo(source.dtype)
    weight = (step.weight.astype(np.int64) - step.weight_zero_point).reshape(-1, channels)
    ends = [weight * (code - source.zero_point) for code in (limits.min, limits.max)]
    bounds = np.stack([np.minimum(*ends).sum(axis=0), np.maximum(*ends).sum(axis=0)])
    sums = (bounds + step.bias).astype(np.int64)
    codes = rescale(sums, step.rescale, output.zero_point, step.low, step.high, output.dtype).astype(np.int64)
    constant = codes[0] == codes[1]
    if not constant.any():
        return step
    zeroed = step.weight.copy()
    zeroed[..., constant] = np.broadcast_to(step.weight_zero_point, (channels,))[constant]
    return replace(
        step,
        weight=zeroed,
        bias=np.where(constant, (codes[0] - output.zero_point) / FACTOR, step.bias).astype(np.int32),
        rescale=_changed(step.rescale, constant),
    )


def _changed(rule: rules.Rescale, constant: npt.NDArray[np.bool_]) -> rules.Rescale:
    if isinstance(rule, rules.FloatRescale):
        return rules.FloatRescale(np.where(constant, np.float32(FACTOR), rule.factor).astype(np.float32))
    multiplier, shift = encode_multiplier(FACTOR)
    return replace(
        rule,
        multiplier=np.where(constant, multiplier, rule.multiplier).astype(np.int32),
        shift=np.where(constant, shift, rule.shift).astype(np.int32),
    )
