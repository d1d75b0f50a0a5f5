"""Means and shares by way of real numbers: a part of ``rules``, which has them all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class RealAverage:
    """``clip(round(fl(fl(fl(s_x·float32(Σ(q − z_x))) / n) / s_y)) + z_y)``, float32, ties away from zero,
    with the scales of the slots: profile ``tengine``."""


@dataclass(frozen=True, eq=False)
class RealSoftmax:
    """``clip(round(fl(fl(e / S) / s_y)) + z_y)``, ties away from zero, S = fl(fl(e₁ + e₂) + …), all float32:
    profile ``tengine``.

    Attributes:
        table: float32 [256, 256]: the exponential of a code (column) where this code is the largest (row),
            the lowest codes first; columns behind the largest code are never read.
    """

    table: npt.NDArray[np.float32]
