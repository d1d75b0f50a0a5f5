"""One tensor of a program.

real = scale · (code − zero_point)          of every slot of codes (uint8, int8; int16 for a spot)
real = scale[c] · acc                       of a slot of sums (int32)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from calib8.program.rules import F32

CODE_TYPES: Final = ("uint8", "int8")
WIDE_TYPE: Final = "int16"
"""Of 16-bit codes, the spots of a network; without a scale it holds plain numbers."""


@dataclass(frozen=True, eq=False)
class Slot:
    """One tensor of a program.

    Attributes:
        name: the tensor of the model that it holds.
        shape: sizes of its axes as they lie in memory (NHWC for images).
        dtype: NumPy name: ``uint8`` and ``int8`` (codes), ``int16`` (16-bit codes), ``int32`` (sums),
            ``float32`` and others at the border.
        scales: float32, > 0: [1] for codes, [1] or [channels of the last axis] for sums, else empty.
        zero_point: of codes, within their type; 0 otherwise.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    zero_point: int = 0

    @property
    def scale(self) -> float:
        """The one scale of codes, a float32 value."""
        return float(self.scales[0])

    @property
    def is_codes(self) -> bool:
        """Holds codes, of 8 or of 16 bits."""
        return self.dtype in CODE_TYPES or self.is_wide

    @property
    def is_wide(self) -> bool:
        """Holds 16-bit codes."""
        return self.dtype == WIDE_TYPE and self.scales.size > 0
