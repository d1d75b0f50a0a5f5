"""What mean and scale make of pixels, against what the recipes that are in use make of them.

    low = (0 − mean)·scale      high = (255 − mean)·scale      span = |high − low| = 255·|scale|

    pixels as they are    0 … 255      Caffe, less the mean   about −124 … 152      span 255
    0 … 1, −1 … 1, −0.5 … 0.5          torchvision            about −2.1 … 2.7      span 1 … 5

All of them have 0 within low … high. A std taken for a scale, or numbers for 0 … 1 beside pixels of
0 … 255, end up far from that: 58.395 gives a span of 14,891, 0.229 of 58, 1/0.229 of 1,114.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.data.preprocess import Preprocess, value_range
from calib8.parameters import Text, either, parameter

Vector = npt.NDArray[np.float64]

SMALL: Final = (0.45, 16.0)
"""Spans of recipes that divide by a deviation, with some room: 1 … 5 are in use."""

LARGE: Final = (100.0, 300.0)
"""Spans of recipes that leave pixels as large as they are."""

RECIPES: Final = "recipes give 0 … 1, -1 … 1, about -2.1 … 2.7, -124 … 152 or 0 … 255"

_OF_UNIT_PIXELS: Final = f"a recipe for pixels 0 … 1 with {parameter('std')} and {parameter('units', '0-1')}"


def odd_recipe(p: Preprocess) -> str:
    """What is wrong with mean and scale, as one sentence with the cure; empty where they may be right."""
    if p.dtype != "float32":
        return ""
    mean, scale = np.asarray(p.mean, np.float64), np.asarray(p.scale, np.float64)
    spans = 255.0 * np.abs(scale)
    if all(SMALL[0] <= span <= SMALL[1] or LARGE[0] <= span <= LARGE[1] for span in spans):
        if np.any(mean) and np.all((mean >= 0.0) & (mean <= 1.0)):
            return Text(
                f"a mean of {_listed(mean)} is next to nothing for pixels 0 … 255: give "
                f"{parameter('mean', _rounded(255.0 * mean))}, or {_OF_UNIT_PIXELS}"
            )
        if np.any((mean < -1.0) | (mean > 256.0)):
            return f"a mean of {_listed(mean)} is not a pixel value: mean counts in pixels 0 … 255"
        return ""
    low, high = np.asarray(value_range(p)).T
    shown = f"mean and scale turn pixels into {low.min():.4g} … {high.max():.4g}, and {RECIPES}"
    return Text(f"{shown}: {_cure(mean, scale)}")


def _cure(mean: Vector, scale: Vector) -> str:
    """The options that were probably meant."""
    fraction = bool(np.all((mean >= 0.0) & (mean <= 1.0)))
    factor, spread = np.abs(scale), 1.0 / np.abs(scale)
    if fraction and np.all((spread > 0.05) & (spread <= 1.0)):  # a scale of 1/0.229
        return f"for numbers of pixels 0 … 1 give {of_deviation(mean, spread, '0-1')}"
    named = "scale is a factor; if it is meant as a standard deviation, give"
    if np.all((factor > 0.05) & (factor < 1.0)):  # a scale of 0.229
        unit = mean if fraction else mean / 255.0
        return f"{named} {of_deviation(unit, factor, '0-1')}"
    if np.all(factor > 1.0) and not fraction:  # a scale of 58.395
        return f"{named} {of_deviation(mean, factor)}"
    return (
        f"scale is a factor for pixels 0 … 255; give a standard deviation with {parameter('std')}, and "
        f"{parameter('units', '0-1')} if it is one of pixels 0 … 1"
    )


def of_deviation(mean: Vector, std: Vector, units: str = "") -> str:
    """Settings that divide by a deviation; ``units`` where the numbers alone do not tell them."""
    settings = [parameter("mean", _rounded(mean)), parameter("std", _rounded(std))]
    settings += [parameter("units", units)] if units else []
    return either(", ", " ").join(settings)


def _rounded(values: Vector) -> tuple[float, ...]:
    return tuple(float(f"{value:.6g}") for value in values)


def _listed(values: Vector) -> str:
    return ",".join(f"{value:.6g}" for value in values)
