"""Name, type and shape of a model's input or output, as model and data agree on them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

MOST_ELEMENTS: Final = 2**31 - 1
"""Of one input; more is a mistake."""


def is_too_large(sizes: Iterable[int | str | None]) -> bool:
    """The sizes that are known make more than ``MOST_ELEMENTS``; exact for numbers of any length."""
    return math.prod(size for size in sizes if isinstance(size, int)) > MOST_ELEMENTS


def shape_text(shape: Iterable[int | str | None]) -> str:
    """``(1, 3, None)`` → ``1×3×?``."""
    return "×".join("?" if size in (None, "") else str(size) for size in shape)


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a model.

    Attributes:
        name: its name in the graph.
        dtype: NumPy type of its elements.
        shape: one entry per axis: a size, a symbolic name, or None where nothing is known.
            None instead of a tuple where not even the rank is known.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        """``name: dtype N×3×224×224``, as messages show it."""
        shape = "unknown shape" if self.shape is None else shape_text(self.shape)
        return f"{self.name}: {self.dtype} {shape}"
