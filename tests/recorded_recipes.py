"""Pictures made up by a formula, and what is recorded of the values that another library makes of them.

``benchmarks/recipes.py --record`` writes ``tests/data/foreign_recipes.json`` with these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

SIZES = [(301, 411), (500, 357), (333, 500)]
"""Rows and columns: upright and lying, with margins that do not halve."""

STEP = 1499
"""A prime: one of so many values is recorded, in all rows and columns by turns."""


def made_up_pictures() -> list[Image.Image]:
    """Edges, ramps and fine texture, in RGB; the same ones with every library."""
    return [Image.fromarray(_pixels(*size)) for size in SIZES]


def _pixels(rows: int, columns: int) -> npt.NDArray[np.uint8]:
    r, c, channel = np.ogrid[:rows, :columns, :3]
    ramp, texture = (r + 2 * c) // 3, (r * r * 7 + c * c * 5 + 11 * r * c) % 61
    edges = 90 * (((r // 40) + (c // 25) + channel) % 2)
    return ((ramp * (channel + 1) // 2 + texture + edges) % 256).astype(np.uint8)


def values_of(array: npt.NDArray[Any]) -> dict[str, Any]:
    """Shape, mean of every channel, and some of the values of C×H×W."""
    values = np.asarray(array, np.float64)
    return {
        "shape": list(values.shape),
        "means": [round(float(mean), 7) for mean in values.mean((1, 2))],
        "some": [round(float(value), 6) for value in values.reshape(-1)[::STEP]],
    }
