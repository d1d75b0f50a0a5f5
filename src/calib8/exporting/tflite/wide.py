"""16-bit codes: TFLite's operators on them take int16 on all sides and have zero points 0.

    x of int8 ─► QUANTIZE ─► int16 of scale s_x ┐
    x of int16 ─────────────────────────────────┴► operator ─► y of int16
                                                   operator ─► int16 of scale s_y/128 ─► QUANTIZE ─► y of int8

The first QUANTIZE is exact: it subtracts the zero point. The codes before the last one reach 255 steps of y
on either side of 0, so nothing but y clips them; they are rounded twice, first to the 128th part of a step.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calib8.exporting.tflite.builder import BOUNDS, Builder, Make, codes_of, slot_codes
from calib8.program.expressions import Source
from calib8.program.program import WIDE_TYPE, Slot
from calib8.program.rounding.linear import clamp
from calib8.program.rounding.tables import table

CODES_VERSION: Final = 2
"""Of a QUANTIZE between two types of codes."""

FINER: Final = 128
"""Steps of int16 codes in one step of the int8 codes that they become."""


def any_wide(*slots: Slot) -> bool:
    """Whether one of them has 16-bit codes."""
    return any(slot.is_wide for slot in slots)


def operand(builder: Builder, number: int, wide: bool) -> int:
    """The tensor of a slot, int16 where the operator is of that kind (``wide``)."""
    slot = builder.slot(number)
    if not wide or slot.is_wide:
        return builder.tensor(number)
    if number not in builder.wide:
        source = builder.tensor(number)
        place = builder.add(f"{slot.name}/wide", slot.shape, WIDE_TYPE, codes_of(slot.scale, 0))
        builder.operator("QUANTIZE", [source], [place], CODES_VERSION)
        builder.wide[number] = place
    return builder.wide[number]


def fine_scale(y: Slot) -> float:
    """The scale of the int16 codes that an operator writes for a slot."""
    return y.scale if y.is_wide else y.scale / FINER


def limited(builder: Builder, output: int, y: Slot, limits: tuple[int, int], make: Make, wide: bool) -> None:
    """An operator whose codes are limited, see ``Builder.clamped``; ``wide``: it writes int16."""
    if not wide or y.is_wide:
        builder.clamped(output, y, *limits, make)
        return
    fine = Slot(f"{y.name}/fine", y.shape, WIDE_TYPE, np.array([fine_scale(y)], np.float32))
    place = builder.add(fine.name, builder.tensors[output].shape, WIDE_TYPE, slot_codes(fine))
    builder.requantizations += 1

    def narrow(target: int, _activation: str) -> None:
        builder.operator("QUANTIZE", [place], [target], CODES_VERSION)

    activation = _fused(fine, y, limits)
    if activation is not None:
        make(place, activation)
        narrow(output, "NONE")
        return
    make(place, "NONE")
    builder.clamped(output, y, *limits, narrow, fused=False)


def _fused(fine: Slot, y: Slot, limits: tuple[int, int]) -> str | None:
    """The activation of the int16 codes whose ends become the limits of the int8 ones."""
    codes = table("tflite", Source(), fine, y)
    lowest = np.iinfo(WIDE_TYPE).min
    for activation, bounds in BOUNDS.items():
        ends = clamp("tflite", fine, *bounds)
        if tuple(int(codes[end - lowest]) for end in ends) == limits:
            return activation
    return None
