"""Name, type and shape of a model's input or output, as model and data agree on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
        shape = "unknown shape" if self.shape is None else "×".join(str(size or "?") for size in self.shape)
        return f"{self.name}: {self.dtype} {shape}"
