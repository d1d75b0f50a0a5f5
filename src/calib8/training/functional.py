"""Rounding to codes inside a float network, and the gradients that pass through it.

    y = (clip(round(x / s) + z, qmin, qmax) − z) · s      ties to even: the bits of quantize, then dequantize
    m' = (qmin − z) · s,   M' = (qmax − z) · s            what the codes reach; 0 lies between

    straight through    dx = g where m' ≤ x ≤ M', else 0
    learned step        ds = Σ g · (round(x/s) − x/s inside, qmin − z below, qmax − z above) / √(N · steps)
    trained range       dm = Σ g · [x < m'],   dM = Σ g · [x > M']

All functions take any memory format and keep it, take half types (computed in float32, the result is
float32, the gradient has the type of the input), let NaN through, and never wait for an accelerator.
float64 is computed in float64. Gradients where x is NaN are not defined.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from calib8.qparams import FLOAT32_TINY
from calib8.training.scales import activation_qparams, lsq_scale, weight_scale

__all__ = [
    "activation_qparams",
    "fake_quantize",
    "fake_quantize_lsq",
    "fake_quantize_range",
    "fake_quantize_weight",
    "lsq_scale",
    "weight_scale",
]

Codes: TypeAlias = "int | Tensor"
"""A zero point: a whole number, or an integer tensor [] or [C]."""


def fake_quantize(
    x: Tensor, scale: Tensor | float, zero_point: Codes, qmin: int, qmax: int, axis: int | None = None
) -> Tensor:
    """What is left of x after ``calib8.qparams.quantize`` and ``dequantize``, straight through in backward.

    Args:
        x: floats of any shape.
        scale: > 0, float32; [] for all of x, or [C] with one entry per index of ``axis``. Gets no gradient.
        zero_point: within [qmin, qmax]; a number, or of the shape of ``scale``.
        qmin: smallest code.
        qmax: largest code; at most 2^16 codes.
        axis: the axis of the scales [C]; None for one scale.

    Returns:
        float32 of the shape of x (float64 for float64).

    Raises:
        RuntimeError: scale or zero point do not fit x.
    """
    return _applied(_FakeQuantize, x, scale, zero_point, qmin, qmax, axis)


def fake_quantize_weight(w: Tensor, scale: Tensor, axis: int, limit: int) -> Tensor:
    """A weight rounded to symmetric codes −limit … limit as ``quantize_weight`` does, straight through.

    The gradient passes wherever the weight alone would not need a larger scale, which is |w| ≤ limit · s and
    at most two float32 values above, where s was rounded down: with the scales of ``weight_scale`` all of w.

    Args:
        w: floats of any shape.
        scale: > 0, float32; [C] with one entry per index of ``axis``, or [] for all of w. Gets no gradient.
        axis: the output-channel axis.
        limit: largest code, 2^(bits−1) − 1.

    Returns:
        float32 of the shape of w (float64 for float64).

    Raises:
        RuntimeError: the scale does not fit w.
    """
    return _applied(_FakeQuantizeWeight, w, scale, axis, limit)


def fake_quantize_lsq(
    x: Tensor, scale: Tensor, zero_point: Codes, qmin: int, qmax: int, axis: int | None = None
) -> Tensor:
    """``fake_quantize`` whose scale is learned (LSQ); start it at ``lsq_scale``.

    The scale's gradient is divided by √(N · steps), N the elements of x per scale and steps the larger of
    zero_point − qmin and qmax − zero_point, so that scales learn about as fast as weights. Scales below the
    smallest normal float32, negative ones too, act as that one and keep their gradient; keep yours above it.

    Args, returns and raises as ``fake_quantize``.
    """
    return _applied(_FakeQuantizeLsq, x, scale, zero_point, qmin, qmax, axis)


def fake_quantize_range(
    x: Tensor, minimum: Tensor, maximum: Tensor, qmin: int, qmax: int, symmetric: bool = False
) -> Tensor:
    """``fake_quantize`` with the scale and zero point of a range [minimum, maximum] that is trained.

    Each bound gets the gradient of the values beyond its side of the codes (FakeQuantWithMinMaxVars of
    TensorFlow): of the plain clip, not of the nudged bounds; of a symmetric range too.

    Args:
        x: floats of any shape.
        minimum: [], float32.
        maximum: [], float32, ≥ minimum. The range is widened to hold 0.
        qmin: smallest code.
        qmax: largest code.
        symmetric: zero point 0, the range is that of the larger magnitude.

    Returns:
        float32 of the shape of x (float64 for float64); NaN where a bound is NaN.
    """
    return _applied(_FakeQuantizeRange, x, minimum, maximum, qmin, qmax, symmetric)


def _applied(function: type[torch.autograd.Function], *arguments: object) -> Tensor:
    """The output of an autograd function."""
    y: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return y


class _Grid(NamedTuple):
    """Codes on the real line: scale and zero point in a form that broadcasts against a tensor."""

    scale: Tensor
    zero_point: Codes
    qmin: int
    qmax: int

    def bounds(self) -> tuple[Tensor, Tensor]:
        """Real values of the smallest and the largest code, shaped like the scale."""
        return self.scale * (self.qmin - self.zero_point), self.scale * (self.qmax - self.zero_point)

    def round(self, x: Tensor) -> Tensor:
        """The nearest values of codes, in a new tensor laid out as x."""
        exact = _computed(x)
        steps = torch.div(exact, self.scale, out=None if exact is x else exact).round_()
        if isinstance(self.zero_point, int):
            steps.clamp_(self.qmin - self.zero_point, self.qmax - self.zero_point)
        else:
            steps.add_(self.zero_point).clamp_(self.qmin, self.qmax).sub_(self.zero_point)
        # Adding 0 turns −0 into the 0 that a code gives.
        if _is_number(self.scale):
            return torch.add(steps.new_zeros(()), steps, alpha=self.scale.item(), out=steps)
        return steps.mul_(self.scale).add_(0.0)


def _grid(
    x: Tensor, scale: Tensor | float, zero_point: Codes, qmin: int, qmax: int, axis: int | None
) -> _Grid:
    """Codes in the type and on the device of the computation with x."""
    dtype = _computing_type(x)
    shape = [1] * x.ndim
    if axis is not None:
        shape[axis] = -1
    if not isinstance(scale, Tensor):  # as a tensor: accelerators multiply by the reciprocal of a number
        scale = torch.full((), scale, dtype=dtype, device=x.device)
    scale = scale.detach().to(x.device, dtype, non_blocking=True)
    scale = scale.reshape([] if axis is None or scale.ndim == 0 else shape)
    if not isinstance(zero_point, Tensor):
        return _Grid(scale, int(zero_point), qmin, qmax)
    if _is_number(zero_point):
        return _Grid(scale, int(zero_point.item()), qmin, qmax)
    zero_point = zero_point.to(x.device, dtype, non_blocking=True)
    zero_point = zero_point.reshape([] if axis is None or zero_point.ndim == 0 else shape)
    return _Grid(scale, zero_point, qmin, qmax)


def _computing_type(x: Tensor) -> torch.dtype:
    """float32; float64 for float64."""
    return torch.promote_types(x.dtype, torch.float32)


def _computed(x: Tensor) -> Tensor:
    """x in the type of the computation."""
    return x.to(_computing_type(x))


def _is_number(tensor: Tensor) -> bool:
    """Whether the one value of a tensor can be read without waiting for a device."""
    return tensor.ndim == 0 and tensor.device.type == "cpu"


def _where_inside(values: Tensor, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """``values`` where low ≤ x ≤ high, else 0.

    Args:
        values: of the shape of x.
        x: floats in the type of the computation.
        low, high: [] or broadcasting against x. A distance below the smallest normal float32 counts as none.
    """
    inside = torch.ops.aten.hardtanh_backward.default  # values where x > a and x < b: far quicker than masks
    if _is_number(low):
        result: Tensor = inside(values, x, _beyond(low, -np.inf), _beyond(high, np.inf))
        return result
    excess = torch.maximum(x, low)
    excess = torch.minimum(excess, high, out=excess).sub_(x)
    result = inside(values, excess, -FLOAT32_TINY, FLOAT32_TINY)
    return result


def _beyond(bound: Tensor, end: float) -> float:
    """The next value of the bound's type towards an end; none that a processor may take for zero."""
    value = bound.numpy()[()]
    with np.errstate(over="ignore"):
        following = float(np.nextafter(value, value.dtype.type(end)))
    return following if abs(following) >= FLOAT32_TINY else float(np.copysign(FLOAT32_TINY, end))


class _FakeQuantize(torch.autograd.Function):
    """See ``fake_quantize``."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor | float, zero_point: Codes, qmin: int, qmax: int, axis: int | None
    ) -> Tensor:
        grid = _grid(x, scale, zero_point, qmin, qmax, axis)
        ctx.save_for_backward(x, *grid.bounds())
        return grid.round(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, low, high = ctx.saved_tensors
        return _where_inside(grad, _computed(x), low, high).to(x.dtype), None, None, None, None, None


class _FakeQuantizeWeight(torch.autograd.Function):
    """See ``fake_quantize_weight``."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, scale: Tensor, axis: int | None, limit: int) -> Tensor:
        grid = _grid(w, scale, 0, -limit, limit, axis)
        ctx.save_for_backward(w, grid.scale)
        ctx.limit = limit
        return grid.round(w)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        w, scale = ctx.saved_tensors
        bound = _largest_weight(scale, ctx.limit)
        return _where_inside(grad, _computed(w), -bound, bound).to(w.dtype), None, None, None


def _largest_weight(scale: Tensor, limit: int) -> Tensor:
    """The largest magnitude that needs no larger a scale: limit · s, or up to two float32 values more."""
    bound = scale * limit
    for _ in range(2):
        following = torch.nextafter(bound, torch.full_like(bound, torch.inf))
        bound = torch.where((following.double() / limit).to(scale.dtype) <= scale, following, bound)
    return bound


class _FakeQuantizeLsq(torch.autograd.Function):
    """See ``fake_quantize_lsq``."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, zero_point: Codes, qmin: int, qmax: int, axis: int | None
    ) -> Tensor:
        grid = _grid(x, scale.detach().clamp_min(FLOAT32_TINY), zero_point, qmin, qmax, axis)
        y = grid.round(x)
        ctx.save_for_backward(x, y, scale, grid.scale, *grid.bounds())
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y, given, scale, low, high = ctx.saved_tensors
        exact, dx, ds = _computed(x), None, None
        if ctx.needs_input_grad[0]:
            dx = _where_inside(grad, exact, low, high).to(x.dtype)
        if ctx.needs_input_grad[1]:
            # In steps: round(v) − v inside, the outermost step beyond.
            slope = _where_inside(exact, exact, low, high)
            slope = torch.sub(y, slope, out=slope).div_(scale).mul_(grad).sum_to_size(scale.shape)
            steps = torch.maximum(-low, high) / scale
            per_scale = max(1, x.numel() // max(1, scale.numel()))
            ds = (slope / torch.sqrt(steps * per_scale)).to(given.dtype).reshape(given.shape)
        return dx, ds, None, None, None, None


class _FakeQuantizeRange(torch.autograd.Function):
    """See ``fake_quantize_range``."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, minimum: Tensor, maximum: Tensor, qmin: int, qmax: int, symmetric: bool
    ) -> Tensor:
        scale, zero_point = activation_qparams(minimum, maximum, qmin, qmax, symmetric)
        grid = _grid(x, scale, zero_point, qmin, qmax, None)
        ctx.save_for_backward(x, *grid.bounds())
        ctx.types = minimum.dtype, maximum.dtype
        return grid.round(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, low, high = ctx.saved_tensors
        exact = _computed(x)
        dx = _where_inside(grad, exact, low, high)
        below = above = None
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            outside = torch.sub(grad, dx)
            over = torch.ops.aten.threshold_backward.default(outside, exact, 0.0)  # where x > 0
            above = over.sum().to(ctx.types[1])
            below = outside.sub_(over).sum().to(ctx.types[0])
        return dx.to(x.dtype), below, above, None, None, None
