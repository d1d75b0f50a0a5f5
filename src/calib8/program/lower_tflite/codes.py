"""Codes of one tensor as codes of another scale, zero point or type: tables, and what TFLite calls the same.

requantize    clip(double((q − z_x) · s_x/s_y) + z_y)                        QUANTIZE of codes
float32       clip(round(fl(fl(q·f) + fl(−z_x·f))) + z_y),  f = fl(s_x · fl(1/s_y))      CONCATENATION
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calib8.errors import NoFormError
from calib8.program.expressions import Source
from calib8.program.instructions import Lookup
from calib8.program.lower_tflite.builder import Builder
from calib8.program.program import Slot
from calib8.program.rounding.tables import table
from calib8.program.rules import Codes, Table

TOLERANCE: Final = 1e-6
"""Scales that differ by less are the same to TFLite's kernels, which copy the codes."""


def in_codes_of(builder: Builder, place: int, like: Slot) -> int:
    """The slot of a tensor with scale and zero point of another: its own, or a copy that only calls them so.

    Raises:
        NoFormError: they differ by more than TFLite overlooks.
    """
    number, slot = builder.number(place), builder.codes(place)
    if slot.dtype != like.dtype or slot.zero_point != like.zero_point:
        raise NoFormError(f"'{slot.name}' and '{like.name}' differ in type or zero point")
    if slot.scale == like.scale:
        return number
    if abs(slot.scale - like.scale) > TOLERANCE:
        raise NoFormError(f"'{slot.name}' and '{like.name}' differ in scale")
    limits = np.iinfo(slot.dtype)
    same = np.arange(limits.min, limits.max + 1).astype(slot.dtype)
    copy = builder.between(like, slot.shape, slot.name)
    builder.steps.append(Lookup(slot.name, (number,), (copy,), same, "Identity"))
    return copy


def requantized(source: Slot, target: Slot) -> Table:
    """Table [256] of a change of scale, zero point or type."""
    return table("tflite", Source(), source, target)


def float32_requantized(source: Slot, target: Slot) -> Codes:
    """Table [256] of the change of scale that CONCATENATION makes of uint8."""
    limits, codes = np.iinfo(target.dtype), np.arange(256, dtype=np.float32)
    factor = np.float32(source.scale) * (np.float32(1.0) / np.float32(target.scale))
    value = codes * factor + np.float32(-source.zero_point) * factor
    rounded = np.copysign(np.floor(np.abs(value).astype(np.float64) + 0.5), value) + target.zero_point
    result: Codes = np.clip(rounded, limits.min, limits.max).astype(target.dtype)
    return result
