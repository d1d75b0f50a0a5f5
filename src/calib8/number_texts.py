"""Numbers as people read them, in terminals, notebooks and reports alike; what is not known is a dash.

with its unit                           in a column whose header has the unit
count(1200, "image")   1,200 images
percent(0.974)         97.40 %          percent_cell(0.974)      97.40
decibels(41.234)       41.2 dB          decibels_cell(41.234)    41.23
"""

from __future__ import annotations

import math
from typing import Final

NOTHING: Final = "–"
"""Stands where a figure is not known."""


def count(number: int, noun: str, several: str = "") -> str:
    """``1 image``, ``1,200 images``; ``several`` where the plural is not plain."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {several or f'{noun}s'}"


def percent(share: float | None, digits: int = 2) -> str:
    """``0.974`` → ``97.40 %``."""
    return NOTHING if share is None else f"{percent_cell(share, digits)} %"


def percent_cell(share: float | None, digits: int = 2) -> str:
    """``0.974`` → ``97.40``."""
    return NOTHING if share is None else f"{100.0 * share:.{digits}f}"


def decibels(value: float | None) -> str:
    """``41.234`` → ``41.2 dB``; what has no noise is ``exact``."""
    if value is None or math.isnan(value):
        return NOTHING
    return f"{value:.1f} dB" if math.isfinite(value) else ("exact" if value > 0 else "not finite")


def decibels_cell(value: float | None) -> str:
    """``41.234`` → ``41.23``."""
    if value is None or math.isnan(value):
        return NOTHING
    return f"{value:.2f}" if math.isfinite(value) else ("∞" if value > 0 else "−∞")
