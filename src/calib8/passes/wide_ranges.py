"""Ranges of tensors whose codes have 16 bits: nothing clipped, and room for what no sample had."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Final

from calib8.qparams import FLOAT32_MAX
from calib8.table import GIVEN, CalibrationTable, Range

HEADROOM: Final = 2.0
"""A bit of sixteen. In a YOLOv8n of 320 pixels, calibrated with 80 images, 100 spots of 118 tensors lift the
class scores of other images from 10.7 to 15.0 dB without it and to 26.3 with it, what the weights leave."""

REACH: Final = 16.0
"""A step of 16 bits is then still the sixteenth part of one of 8 bits."""


def with_wide_ranges(table: CalibrationTable, spots: Set[str]) -> CalibrationTable:
    """The table with ranges for spots: ``HEADROOM`` times what was seen, ``REACH`` times the old at most.

    Sixteen bits need not clip what eight could not do without clipping, nor what other data than those of the
    calibration hold; ranges that the user gave stay. A range from 0 still begins there, so that its quantizer
    does the work of a Relu.
    """
    entries = dict(table.entries)
    for name in spots & entries.keys():
        entry = entries[name]
        if entry.method != GIVEN:
            low = max(HEADROOM * entry.observed.min, REACH * min(entry.range.min, 0.0), -FLOAT32_MAX)
            high = min(HEADROOM * entry.observed.max, REACH * max(entry.range.max, 0.0), FLOAT32_MAX)
            wide = entry.range.hull(Range(min(low, 0.0), max(high, 0.0)))
            entries[name] = replace(entry, range=wide)
    return replace(table, entries=entries)
