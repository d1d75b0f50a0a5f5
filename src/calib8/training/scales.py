"""Scales and zero points of tensors where they lie: the bits of ``qparams`` and ``quantization.weights``.

    activations   s = (max − min) / (qmax − qmin),  z = qmin − min / s rounded half away from zero
    weights       s_c = max|W_c| / limit
    learned       s = 2 · mean|x| / √limit           where LSQ starts

Divided in float64, rounded once to float32. Nothing here has a gradient or waits for an accelerator.
"""

from __future__ import annotations

import torch
from torch import Tensor

from calib8.qparams import FLOAT32_TINY


def activation_qparams(
    minimum: Tensor, maximum: Tensor, qmin: int, qmax: int, symmetric: bool
) -> tuple[Tensor, Tensor]:
    """Scales and zero points of ranges, each widened to hold 0, as ``calib8.qparams`` computes them.

    Args:
        minimum: float32 or float64, [] or [n], finite; not checked, for that would wait for the device.
        maximum: ≥ minimum, of its shape.
        qmin: smallest code.
        qmax: largest code; for symmetric codes 2^(bits−1) − 1.
        symmetric: zero point 0, the scale that of the larger magnitude.

    Returns:
        float32 scales and int64 zero points of the shape of the ranges; a NaN in a range gives NaN and
        the zero point of a range of zeros.
    """
    low = minimum.detach().double().clamp_max(0.0)
    high = maximum.detach().double().clamp_min(0.0)
    exact = torch.maximum(-low, high) / qmax if symmetric else (high - low) / (qmax - qmin)
    scale = exact.float()
    is_zero = scale < FLOAT32_TINY
    scale = scale.masked_fill(is_zero, 1.0)
    if symmetric:
        return scale, torch.zeros_like(scale, dtype=torch.int64)
    from_low = qmin - low / scale.double()
    zero_point = torch.copysign(torch.floor(from_low.abs() + 0.5), from_low).clamp(qmin, qmax)
    return scale, zero_point.long().masked_fill(is_zero | scale.isnan(), qmin)


def weight_scale(w: Tensor, axis: int, limit: int, per_tensor: bool = False) -> Tensor:
    """Symmetric scales of a weight, as ``calib8.quantization.weights.weight_scales`` computes them.

    A channel of zeros gets 1 % of the largest scale, a weight of zeros 1.

    Args:
        w: floats of any shape.
        axis: the output-channel axis.
        limit: largest code, 2^(bits−1) − 1.
        per_tensor: one scale for all, the largest.

    Returns:
        float32 [C], or [] with ``per_tensor``.
    """
    magnitudes, others = w.detach().float().abs(), _other_axes(w, axis)
    if others:  # an empty axis has no maximum
        magnitudes = magnitudes.amax(others) if w.numel() else magnitudes.sum(others)
    scale = _alive((magnitudes.double() / limit).float())
    return scale.amax() if per_tensor and scale.numel() else scale


def lsq_scale(x: Tensor, limit: int, axis: int | None = None) -> Tensor:
    """Where learned scales start: 2 · mean|x| / √limit; zeros as for ``weight_scale``.

    Args:
        x: floats of any shape.
        limit: steps on the longer side of the zero point.
        axis: one scale per index of this axis; None for one in all.

    Returns:
        float32 [C], or [] without ``axis``.
    """
    magnitudes = x.detach().abs()
    if axis is None:
        total = magnitudes.sum(dtype=torch.float64)
    else:
        others = _other_axes(x, axis)
        total = magnitudes.sum(others, dtype=torch.float64) if others else magnitudes.double()
    count = max(1, x.numel() // max(1, total.numel()))
    return _alive((2.0 * total / (count * limit**0.5)).float())


def _other_axes(x: Tensor, axis: int) -> list[int]:
    return [index for index in range(x.ndim) if index != axis % x.ndim]


def _alive(scale: Tensor) -> Tensor:
    """Scales [C] or [] in which 1 % of the largest stands for those of zeros; 1 where all are."""
    if scale.numel() == 0:
        return scale
    dead = scale < FLOAT32_TINY
    largest = scale.amax()
    hundredth = (largest * 0.01).clamp_min(FLOAT32_TINY)
    return torch.where(dead, torch.where(largest < FLOAT32_TINY, 1.0, hundredth), scale)
