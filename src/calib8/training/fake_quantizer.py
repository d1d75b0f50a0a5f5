"""The quantizer of one activation tensor, simulated: it watches values, and rounds them to their codes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calib8.qparams import QuantSpec
from calib8.table import Range
from calib8.training.functional import fake_quantize, fake_quantize_lsq, fake_quantize_range
from calib8.training.scales import activation_qparams


class FakeQuantizer(nn.Module):
    """Rounds an activation to its codes.

    Attributes:
        spec: type of the codes.
        minimum, maximum: float32 []: moving averages of the smallest and largest value of a batch, from the
            first batch or a table on.
        scale, zero_point: float32 and int32 []: in force; fitted to the ranges by ``calib8.passes``.
        active: whether values are rounded; before any range is known they pass as they are.
        fixed: whether learned bounds have become scale and zero point for good.
        observing: whether extremes are noted in training mode.
        seen: smallest and largest value of the last batch, None where nothing was noted.
        step: the learned scale (LSQ), None where ranges are not learned so.
        low, high: learned bounds, None where ranges are not learned so.
    """

    minimum: Tensor
    maximum: Tensor
    scale: Tensor
    zero_point: Tensor

    def __init__(self, spec: QuantSpec) -> None:
        """A quantizer that has seen nothing."""
        super().__init__()
        self.spec = spec
        self.active = False
        self.fixed = False
        self.observing = True
        self.seen: tuple[Tensor, Tensor] | None = None
        self.step: nn.Parameter | None = None
        self.low: nn.Parameter | None = None
        self.high: nn.Parameter | None = None
        for name in ("minimum", "maximum"):
            self.register_buffer(name, torch.zeros([]))
        self.register_buffer("scale", torch.ones([]))
        self.register_buffer("zero_point", torch.zeros([], dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        """The values that the codes stand for, in the same shape; notes the extremes of a training batch."""
        if self.observing and self.training:
            self.seen = torch.aminmax(_dense(x.detach()))
        return self.coded(x)

    def coded(self, x: Tensor) -> Tensor:
        """The values that the codes stand for; nothing is noted."""
        spec = self.spec
        if not self.active:
            return x
        if self.step is not None and not self.fixed:
            return fake_quantize_lsq(x, self.step.abs(), self.zero_point, spec.qmin, spec.qmax)
        if self.low is not None and self.high is not None and not self.fixed:
            return fake_quantize_range(x, self.low, self.high, spec.qmin, spec.qmax, symmetric=spec.symmetric)
        return fake_quantize(x, self.scale, self.zero_point, spec.qmin, spec.qmax)

    def learn(self, found: Range, how: str) -> None:
        """Makes the range a parameter: ``lsq``, the scale that is in force; ``trained``, both bounds."""
        if how == "lsq":
            self.step = nn.Parameter(self.scale.clone())
        else:
            self.low = nn.Parameter(torch.full_like(self.scale, found.min))
            self.high = nn.Parameter(torch.full_like(self.scale, found.max))

    def bounds(self) -> tuple[float, float]:
        """The range as it is now: what was seen, or what was learned."""
        if self.low is not None and self.high is not None:
            return float(self.low.detach()), float(self.high.detach())
        if self.step is None:
            return float(self.minimum), float(self.maximum)
        step, point = abs(float(self.step.detach())), int(self.zero_point)
        return (self.spec.qmin - point) * step, (self.spec.qmax - point) * step

    def extra_repr(self) -> str:
        """Type of the codes and what is in force, for ``print``."""
        kind = f"{'int' if self.spec.signed else 'uint'}{self.spec.bits}"
        if not self.active:
            return f"{kind}, no range yet"
        return f"{kind}, scale={float(self.scale):.6g}, zero_point={int(self.zero_point)}"


def coded_with(x: Tensor, quantizer: FakeQuantizer) -> Tensor:
    """The values that the codes of another tensor's quantizer stand for."""
    return quantizer.coded(x)


def coded_constant(constant: Tensor, quantizer: FakeQuantizer) -> Tensor:
    """A constant operand, rounded to codes of its own range in the type of the activations.

    Args:
        constant: any shape; numbers of another type than float, such as places in a table, stay as they are.
        quantizer: of the same network; until it is active the constant passes as it is.
    """
    spec = quantizer.spec
    if not quantizer.active or not constant.is_floating_point():
        return constant
    low, high = torch.aminmax(constant.detach())
    scale, zero_point = activation_qparams(low, high, spec.qmin, spec.qmax, spec.symmetric)
    return fake_quantize(constant, scale, zero_point, spec.qmin, spec.qmax)


def _dense(x: Tensor) -> Tensor:
    """The same values, as a view that reductions read in one go: channels last as they lie."""
    if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
        return x.permute(0, 2, 3, 1)
    return x
