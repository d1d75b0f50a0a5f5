"""A layer as the int8 model will have it: weights rounded to their codes, BatchNorm folded into them.

    corrected   z = product(x, FQ(W·k)/k),  y = BatchNorm(z)        k = γ/√(σ²+ε) of the moving statistics
    folded      y = product(x, FQ(W·k)) + FQ(b·k + β − μ·k)

Both round the weights in the place where the int8 model rounds them; the first normalizes with the statistics
of the batch, as float training does (scheme B of Krishnamoorthi, arXiv 1806.08342), the second is what is
deployed. One scale per output channel commutes with k: FQ(W·k)/k = FQ(W).

Evaluated with frozen ranges, the folded form multiplies whole numbers, as integers do. float32 adds those
exactly up to 2^24, in whatever order:

    in steps    y = (product(x/s_x, FQ(W·k)/s_W) + FQ(…)/(s_x·s_W)) · s_x·s_W
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calib8.qparams import FLOAT32_TINY
from calib8.quantization.weights import INT32_MAX
from calib8.scheme import QuantScheme
from calib8.training.fake_quantizer import FakeQuantizer
from calib8.training.functional import fake_quantize_lsq, fake_quantize_weight
from calib8.training.norms import Norm, affine
from calib8.training.products import Product
from calib8.training.scales import lsq_scale, weight_scale


class SimulatedLayer(nn.Module):
    """Calls a product, and the BatchNorm behind it, with rounded weights.

    Attributes:
        folded: whether the BatchNorm is folded with its moving statistics in training mode too.
        rounded: False where the int8 model has this layer in float after all.
        whole: see ``LayerPlan``.
        kept_factors: k of the moving statistics as they were, while new ones are taken; else None.
        least: float32 [channels] or []: smallest scales of the weights, 0 where any will do; what the int8
            graph enlarged for the sake of biases or pairs of weights.
        step: learned scales of the folded weights, None where they follow the weights.
    """

    least: Tensor

    def __init__(self, product: Product | None, scheme: QuantScheme, *, whole: bool, channels: int) -> None:
        """Args.

        product: the product; None: the BatchNorm alone is the layer.
        scheme: granularity and type of the weights, whether biases have codes.
        whole: see ``LayerPlan``; other layers keep their biases in float.
        channels: entries of the output-channel axis of the weight.
        """
        super().__init__()
        self.product = product
        self.limit = scheme.weights.magnitude_levels - 1
        self.per_tensor = scheme.weight_granularity == "per-tensor"
        self.whole = whole
        self.coded_bias = scheme.quantize_bias and whole
        self.folded = False
        self.rounded = True
        self.kept_factors: Tensor | None = None
        self.step: nn.Parameter | None = None
        self.register_buffer("least", torch.zeros([] if self.per_tensor else [channels]))

    @property
    def axis(self) -> int:
        """Output-channel axis of the weight."""
        return 0 if self.product is None else self.product.axis

    @property
    def groups(self) -> int:
        """Output channels behind an entry of that axis."""
        return 1 if self.product is None else self.product.groups

    def forward(
        self,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        norm: Norm | None,
        source: FakeQuantizer,
    ) -> Tensor:
        """The layer's result.

        Args:
            x: coded input, [N, C, …].
            weight: float32 in the product's own layout; None where there is no product.
            bias: float32 [output channels] or None.
            norm: the BatchNorm behind the product, or None.
            source: what coded the input.
        """
        if norm is not None and norm.training and not self.folded:
            return self._corrected(x, weight, bias, norm)
        weight, bias = self.constants(weight, bias, norm)
        if not self.rounded:
            return self._multiply(x, weight, bias)
        scale = self.scale_of(weight)
        coded = self._coded(weight, scale)
        if bias is not None and self.coded_bias and source.active:
            bias = _coded_bias(bias, self._scale_of_sums(source, scale))
        if self.whole and source.active and source.fixed and not self.training and not _halves(x):
            return self._in_steps(x, coded, bias, source, scale)
        return self._multiply(x, coded, bias)

    def constants(
        self, weight: Tensor | None, bias: Tensor | None, norm: Norm | None
    ) -> tuple[Tensor, Tensor | None]:
        """float32 weight and bias with the BatchNorm folded in, the bits of ``passes.fold_affine``."""
        if norm is None:
            assert weight is not None
            return weight, bias
        k, d = affine(norm)
        if weight is None:
            return k.float(), d.float()
        start = torch.zeros_like(k) if bias is None else bias.double()
        return (weight.double() * self._along(k, weight)).float(), (k * start + d).float()

    def scale_of(self, weight: Tensor) -> Tensor:
        """Scales of folded weights: float32 [channels] or []."""
        if self.step is not None:
            wanted = self.step.abs().clamp_min(FLOAT32_TINY)
        else:
            wanted = weight_scale(weight, self.axis, self.limit, per_tensor=self.per_tensor)
        return torch.maximum(wanted, self.least)

    def learn(self, weight: Tensor) -> None:
        """Makes the scales of a folded weight parameters, started at the smaller of two usual choices."""
        axis = None if self.per_tensor else self.axis
        plain = weight_scale(weight, self.axis, self.limit, per_tensor=self.per_tensor)
        self.step = nn.Parameter(torch.minimum(plain, lsq_scale(weight, self.limit, axis)).detach())

    def codes(self, weight: Tensor) -> Tensor:
        """int8 codes of a folded weight, in its layout."""
        ratio = weight / self._beside(weight, self.scale_of(weight))
        return torch.round(ratio).clamp(-self.limit, self.limit).to(torch.int8)

    def _coded(self, weight: Tensor, scale: Tensor) -> Tensor:
        if self.step is not None:
            axis = None if self.per_tensor else self.axis
            return fake_quantize_lsq(weight, scale, 0, -self.limit, self.limit, axis)
        return fake_quantize_weight(weight, scale, self.axis, self.limit)

    def _corrected(self, x: Tensor, weight: Tensor | None, bias: Tensor | None, norm: Norm) -> Tensor:
        """With the statistics of the batch, the weights rounded as with the moving ones."""
        if self.step is None and not self.per_tensor and self.groups == 1:
            coded = x if weight is None else self._coded(weight, self.scale_of(weight))
            result: Tensor = norm(x if weight is None else self._multiply(x, coded, bias))
            return result
        k = (affine(norm)[0] if self.kept_factors is None else self.kept_factors).float()
        folded = k if weight is None else weight * self._along(k, weight)
        coded = self._coded(folded, self.scale_of(folded))
        k = k if weight is None else self._along(k, weight)
        # Where k is 0 any weight gives the same; its own one lets γ learn.
        plain = torch.ones_like(k) if weight is None else weight
        coded = torch.where(k == 0, plain, coded / torch.where(k == 0, torch.ones_like(k), k))
        corrected: Tensor = norm(self._multiply(x, coded, None if weight is None else bias))
        return corrected

    def _scale_of_sums(self, source: FakeQuantizer, scale: Tensor) -> Tensor:
        """s_x·s_W: float32 [output channels] or []."""
        return source.scale * scale.repeat(self.groups if scale.dim() else 1)

    def _in_steps(
        self, x: Tensor, coded: Tensor, bias: Tensor | None, source: FakeQuantizer, scale: Tensor
    ) -> Tensor:
        """The product of whole numbers, in units of one step of its sums."""
        steps = _whole(coded / self._beside(coded, scale))
        sums = self._scale_of_sums(source, scale)
        if bias is not None:
            bias = _whole(bias / sums) if self.coded_bias else bias / sums
        result = self._multiply(_whole(x / source.scale), steps, bias)
        return result * (sums.view(self._channels_of(result)) if sums.dim() else sums)

    def _beside(self, weight: Tensor, scale: Tensor) -> Tensor:
        """Scales in the shape in which they meet the weight."""
        shape = [-1 if axis == self.axis else 1 for axis in range(weight.dim())]
        return scale.view(shape) if scale.dim() else scale

    def _channels_of(self, result: Tensor) -> tuple[int, ...]:
        """The shape in which values per output channel meet a result."""
        last = self.product is not None and self.product.channels_last
        return (-1,) if last else (1, -1, *[1] * (result.dim() - 2))

    def _multiply(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.product is not None:
            return self.product(x, weight, bias)
        shape = self._channels_of(x)
        product = x * weight.view(shape)
        return product if bias is None else product + bias.view(shape)

    def _along(self, k: Tensor, weight: Tensor) -> Tensor:
        """A factor per output channel in the shape in which it multiplies the weight."""
        if self.axis == 0:
            return k.view(-1, *[1] * (weight.dim() - 1))
        inputs, others = weight.shape[0] // self.groups, weight.dim() - 2
        return k.view(self.groups, -1).repeat_interleave(inputs, 0).view(weight.shape[0], -1, *[1] * others)


def _coded_bias(bias: Tensor, scale: Tensor) -> Tensor:
    """``rint(b/s)·s`` with int32 codes; its gradient passes as it is."""
    wide = scale.detach().double()
    codes = torch.round(bias.detach().double() / wide).clamp(-INT32_MAX, INT32_MAX)
    return (codes * wide).float() + (bias - bias.detach())


def _whole(ratio: Tensor) -> Tensor:
    """Ratios that are whole numbers up to float32's rounding, without it; straight through in backward."""
    if not ratio.requires_grad:
        return torch.round(ratio)
    return ratio + (torch.round(ratio) - ratio).detach()


def _halves(x: Tensor) -> bool:
    """Whether products would run in half precision, which does not hold the sums of whole numbers."""
    return torch.is_autocast_enabled(x.device.type)
