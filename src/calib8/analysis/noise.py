"""How far a tensor of the int8 model is from the float one, in sums that batches add to.

sqnr_db     10 log10( Σ r² / Σ (r − y)² )        r: FP32 value, y: what the INT8 model has in its place
cosine      Σ r·y / √( Σ r² · Σ y² )
saturated   r < s·(qmin − z) − s/2  or  r > s·(qmax − z) + s/2: clipped, not merely rounded
vanished    0 < |r| < s/2: rounded away to 0

All sums are float64 over pieces of a tensor, so that no second copy of it is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.analysis.tensor_codes import TensorCode

PIECE: Final = 1 << 14
"""Elements at a time: four float64 arrays of them fit into a second-level cache."""

F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Distance:
    """How far one tensor is from its reference.

    Attributes:
        sqnr_db: signal to noise in dB; inf where there is no noise, −inf where there is noise but no signal,
            or where the tensor holds NaN or infinities.
        cosine: of the angle between the two, −1 … 1; None where one of them is all zero or not finite.
    """

    sqnr_db: float
    cosine: float | None


@dataclass
class DistanceSums:
    """Running sums of r², (r − y)², r·y and y²."""

    signal: float = 0.0
    noise: float = 0.0
    product: float = 0.0
    power: float = 0.0

    def add(self, reference: F32, output: npt.NDArray[Any], code: TensorCode | None = None) -> None:
        """Adds the elements of two arrays of one shape; ``code`` tells what ``output`` is in codes of."""
        if code is not None and len(code.scale) > 1:  # channels lie across the pieces
            output, code = code.real(output), None
        left, right = reference.reshape(-1), output.reshape(-1)
        for start in range(0, left.size, PIECE):
            piece = right[start : start + PIECE]
            self._add_piece(left[start : start + PIECE], piece if code is None else code.real(piece))

    def _add_piece(self, reference: F32, output: F32) -> None:
        left, right = reference.astype(np.float64), output.astype(np.float64)
        with np.errstate(invalid="ignore"):  # inf − inf is NaN, and told as such
            difference = left - right
        self.signal += _dot(left, left)
        self.noise += _dot(difference, difference)
        self.product += _dot(left, right)
        self.power += _dot(right, right)

    def distance(self) -> Distance:
        """The figures for all that was added."""
        angle = math.sqrt(self.signal) * math.sqrt(self.power) if self.power >= 0.0 else math.nan
        known = 0.0 < angle < math.inf and math.isfinite(self.product)
        # Rounding may carry the quotient beyond 1.
        cosine = min(max(self.product / angle, -1.0), 1.0) if known else None
        return Distance(_decibels(self.signal, self.noise), cosine)


def _dot(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> float:
    """Σ left · right. BLAS would start threads for it, and sum in another order on another machine."""
    return float(np.einsum("i,i->", left, right))


def _decibels(signal: float, noise: float) -> float:
    if noise == 0.0:
        return math.inf
    if signal == 0.0 or not math.isfinite(noise):
        return -math.inf
    return 10.0 * (math.log10(signal) - math.log10(noise))


@dataclass
class Spread:
    """What the float tensor holds, against what its codes can hold.

    Attributes:
        values: elements seen.
        minimum, maximum: of them; inf and −inf while nothing was seen, NaN if one of them is.
        saturated: elements that the codes clip.
        vanished: elements that are not 0 and become 0.
    """

    values: int = 0
    minimum: float = math.inf
    maximum: float = -math.inf
    saturated: int = 0
    vanished: int = 0

    def add(self, reference: F32, code: TensorCode | None) -> None:
        """Adds an array; without codes nothing saturates."""
        if reference.size == 0:
            return
        self.values += reference.size
        self.minimum = float(np.minimum(self.minimum, np.min(reference)))
        self.maximum = float(np.maximum(self.maximum, np.max(reference)))
        if code is not None:
            self.saturated += code.clipped(reference)
            self.vanished += code.vanished(reference)
