"""The arithmetic between real numbers and codes: ``real = scale · (code − zero_point)``.

    quantize     code = clip(rint(x / scale) + zero_point, qmin, qmax)      ties to even, then add
    dequantize   x    = scale · (code − zero_point)
    symmetric    scale = max(|min|, |max|) / (2^(bits−1) − 1),  zero_point = 0
    asymmetric   scale = (max − min) / (qmax − qmin),           zero_point = qmin − min / scale, rounded

All scales are float32 values; every division is done in float64 and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FLOAT32_TINY: Final = float(np.finfo(np.float32).tiny)
"""Smallest normal float32; a range whose scale would be smaller counts as all zero."""

FLOAT32_MAX: Final = float(np.finfo(np.float32).max)
"""Largest float32."""


@dataclass(frozen=True)
class QuantSpec:
    """How one kind of tensor is coded.

    Attributes:
        bits: width of the code, 2 … 16.
        signed: codes in [−2^(bits−1), 2^(bits−1) − 1] instead of [0, 2^bits − 1].
        symmetric: the zero point is 0 and the range is [−T, T]; needs ``signed``.
    """

    bits: int = 8
    signed: bool = False
    symmetric: bool = False

    def __post_init__(self) -> None:
        """Refuses what is no code."""
        if not 2 <= self.bits <= 16:
            raise ValueError(f"bits must be in 2 … 16, not {self.bits}")
        if self.symmetric and not self.signed:
            raise ValueError("a symmetric spec must be signed")

    @property
    def qmin(self) -> int:
        """Smallest code."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def qmax(self) -> int:
        """Largest code."""
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """NumPy type that stores the code."""
        width = 8 if self.bits <= 8 else 16
        return np.dtype(f"{'int' if self.signed else 'uint'}{width}")

    @property
    def magnitude_levels(self) -> int:
        """Codes on one side of zero of a symmetric tensor, zero included: 2^(bits−1)."""
        return 1 << (self.bits - 1)


UINT8: Final = QuantSpec(bits=8, signed=False, symmetric=False)
INT8: Final = QuantSpec(bits=8, signed=True, symmetric=False)
INT8_SYMMETRIC: Final = QuantSpec(bits=8, signed=True, symmetric=True)
INT16: Final = QuantSpec(bits=16, signed=True, symmetric=False)
INT16_SYMMETRIC: Final = QuantSpec(bits=16, signed=True, symmetric=True)


@dataclass(frozen=True)
class QParams:
    """Scale (a float32 value, > 0) and zero point (within [qmin, qmax] of the spec) of one tensor."""

    scale: float
    zero_point: int


def activation_qparams(minimum: float, maximum: float, spec: QuantSpec) -> QParams:
    """Scale and zero point of the range [minimum, maximum], widened to contain 0.

    A range too small for a normal float32 scale counts as all zero and gets scale 1 and the zero point
    of [0, …]: 0 if symmetric, else the lowest code, so that the quantizer still clips like a Relu.

    Raises:
        ValueError: a bound is no finite float32 or minimum > maximum.
    """
    scales, zero_points = activation_qparams_of_many(np.array([minimum]), np.array([maximum]), spec)
    return QParams(float(scales[0]), int(zero_points[0]))


def activation_qparams_of_many(
    minima: npt.NDArray[np.float64], maxima: npt.NDArray[np.float64], spec: QuantSpec
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Scales (float32 values in float64) and zero points of many ranges [n], as of ``activation_qparams``.

    Raises:
        ValueError: a bound is no finite float32 or a minimum is above its maximum.
    """
    valid = (minima >= -FLOAT32_MAX) & (minima <= maxima) & (maxima <= FLOAT32_MAX)
    if not valid.all():
        wrong = int(np.argmin(valid))
        raise ValueError(f"[{minima[wrong]}, {maxima[wrong]}] is not a range")
    low, high = np.minimum(minima, 0.0, dtype=np.float64), np.maximum(maxima, 0.0, dtype=np.float64)
    if spec.symmetric:
        exact = np.maximum(-low, high) / (spec.magnitude_levels - 1)
    else:
        exact = (high - low) / (spec.qmax - spec.qmin)
    scales = exact.astype(np.float32).astype(np.float64)
    is_zero = scales < FLOAT32_TINY
    scales[is_zero] = 1.0
    if spec.symmetric:
        return scales, np.zeros(scales.shape, np.int64)
    from_low = spec.qmin - low / scales
    zero_points = np.clip(round_half_away(from_low), spec.qmin, spec.qmax).astype(np.int64)
    zero_points[is_zero] = spec.qmin
    return scales, zero_points


def within_upper_limit(qparams: QParams, spec: QuantSpec, limit: float) -> QParams:
    """The largest scale ≤ the given one whose top code does not exceed ``limit`` (> 0) in float32.

    A runtime drops a ``Clip(0, 6)`` before a quantizer only if the quantizer itself cannot exceed 6;
    6/255 rounded to float32 may miss that by one unit in the last place.
    """
    steps = np.float32(spec.qmax - qparams.zero_point)
    if steps <= 0:
        return qparams
    scale = min(np.float32(qparams.scale), np.float32(limit) / steps)
    while scale * steps > np.float32(limit) and scale > FLOAT32_TINY:
        scale = np.nextafter(scale, np.float32(0.0))
    return QParams(float(scale), qparams.zero_point)


def representable_range(qparams: QParams, spec: QuantSpec) -> tuple[float, float]:
    """Real values of the smallest and the largest code."""
    return (
        qparams.scale * (spec.qmin - qparams.zero_point),
        qparams.scale * (spec.qmax - qparams.zero_point),
    )


def round_half_away(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Nearest integers, ties away from zero."""
    return np.copysign(np.floor(np.abs(values) + 0.5), values)


def quantize(
    values: npt.NDArray[np.floating],
    scale: npt.NDArray[np.float32] | float,
    zero_point: npt.NDArray[np.int64] | int,
    spec: QuantSpec,
) -> npt.NDArray[np.generic]:
    """Codes of float values as ONNX QuantizeLinear computes them; ±inf saturate, NaN gives qmin.

    ``scale`` and ``zero_point`` are scalars or broadcast against ``values``.
    """
    with np.errstate(over="ignore"):  # beyond float32 is beyond every code
        ratio = np.asarray(values, np.float32) / np.asarray(scale, np.float32)
    codes = np.rint(np.where(np.isnan(ratio), -np.inf, ratio)).astype(np.float64) + np.asarray(zero_point)
    result: npt.NDArray[np.generic] = np.clip(codes, spec.qmin, spec.qmax).astype(spec.dtype)
    return result


def dequantize(
    codes: npt.NDArray[np.integer],
    scale: npt.NDArray[np.float32] | float,
    zero_point: npt.NDArray[np.int64] | int,
) -> npt.NDArray[np.float32]:
    """float32 values of codes; ``scale`` and ``zero_point`` are scalars or broadcast against ``codes``."""
    steps = np.asarray(codes, np.int64) - np.asarray(zero_point, np.int64)
    with np.errstate(over="ignore"):
        return steps.astype(np.float32) * np.asarray(scale, np.float32)
