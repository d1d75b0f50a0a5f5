"""Weights and biases as integers.

    s_c = max|W_c| / (2^(bits−1) − 1),   q = clip(rint(W / s_c), −127, 127)      per output channel c
    s_b[c] = s_x · s_c,                  q_b = rint(b_c / s_b[c])                int32

A bias too large for its scale enlarges s_c (TensorFlow Lite's rule), so that the int32 sum keeps room; what
an Add behind adds to the sums counts with it. So does a pair of weights with which a kernel without VNNI
could saturate, where the target has a ``pair_limit``. Where it takes one scale per weight, all s_c are the
largest of them. ``plain_scales`` is all of this; who chooses other scales and codes starts from it, stays
above ``scales_for_bias`` and keeps the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.coded_array import CodedArray
from calib8.model.layer import Layer
from calib8.qparams import FLOAT32_MAX, FLOAT32_TINY, QuantSpec
from calib8.quantization.corrections import LayerCorrection
from calib8.quantization.pairs import largest_pair, pair_reach, pairs_beyond, weight_pairs
from calib8.scheme import QuantScheme

INT32_MAX: Final = 2**31 - 1
MAX_ACTIVATION_STEP: Final = 255
"""Largest |code − zero_point| of an 8-bit activation."""

AS_IT_IS: Final = LayerCorrection()


@dataclass(frozen=True)
class QuantizedLayer:
    """Integer constants of one Conv, ConvTranspose, Gemm or MatMul.

    Attributes:
        weight: int8 codes in the layer's own layout, with float32 scales along its output-channel axis.
        bias: int32 codes [output channels] in steps of input scale × weight scale, None without bias.
        dropped: entries of the output-channel axis of which not all codes of a correction could stay.
    """

    weight: CodedArray
    bias: CodedArray | None
    dropped: int = 0


def quantize_layer(
    layer: Layer,
    weight: npt.NDArray[np.float32],
    bias: npt.NDArray[np.float32] | None,
    input_scale: float,
    scheme: QuantScheme,
    correction: LayerCorrection = AS_IT_IS,
    added: npt.NDArray[np.float32] | None = None,
) -> QuantizedLayer:
    """Codes and scales of a layer whose input has the given scale.

    Args:
        layer: whose constants they are.
        weight: float32, in the layer's own layout.
        bias: float32 [output channels], None without one.
        input_scale: scale of the codes of the layer's input.
        scheme: what the target takes.
        correction: what replaces the plain rounding; its bias has been taken by the caller. Pairs that break
            the limit are rounded plainly; so is a channel whose scale is not large enough, or where there is
            one scale for all another one. ``QuantizedLayer.dropped`` tells how many channels that concerns.
        added: float32 [output channels] or [1], what an Add behind the layer adds to its sums; None: nothing.

    Raises:
        OverflowError: the int32 sum can overflow whatever the scale (more than about 66,000 products),
            or the bias is out of all proportion to the input's scale.
    """
    axis, groups = layer.output_axis(weight.ndim), layer.sharing
    given = correction.weight_scale
    wanted = weight_scales(weight, axis, scheme.weights) if given is None else given
    least = scales_for_bias(layer, bias, input_scale, added)
    scale = _enlarged(layer, weight, wanted, scheme, least, correction.weight)
    codes, dropped = quantize_weight(weight, scale, axis, scheme.weights), 0
    if correction.weight is not None:
        kept = _kept(layer, correction.weight, scale == wanted, scheme.pair_limit)
        codes = np.where(kept, correction.weight, codes)
        dropped = int(np.sum(~np.all(kept, axis=_other_axes(codes, axis))))
    bias_scale = np.float32(input_scale) * np.tile(scale, groups)
    bias_codes = None if bias is None else quantize_bias(bias, bias_scale)
    _check_sums(codes, axis, groups, bias_codes)
    one = scheme.weight_granularity == "per-tensor"
    coded_bias = None if bias_codes is None else _coded(bias_codes, bias_scale, 0, one)
    return QuantizedLayer(_coded(codes, scale, axis, one), coded_bias, dropped)


def _coded(
    codes: npt.NDArray[np.signedinteger], scale: npt.NDArray[np.float32], axis: int, one: bool
) -> CodedArray:
    """Codes with these scales, or with the first of them for all."""
    return CodedArray(codes, np.asarray(scale[0])) if one else CodedArray(codes, scale, axis=axis)


def plain_scales(
    layer: Layer,
    weight: npt.NDArray[np.float32],
    scheme: QuantScheme,
    least: npt.NDArray[np.float32] | float = FLOAT32_TINY,
) -> npt.NDArray[np.float32]:
    """The scales with which ``quantize_layer`` rounds plainly: float32, one per entry of the channel axis.

    Args:
        layer, weight, scheme: as there.
        least: what the bias needs, see ``scales_for_bias``.
    """
    wanted = weight_scales(weight, layer.output_axis(weight.ndim), scheme.weights)
    return _enlarged(layer, weight, wanted, scheme, least)


def scales_for_bias(
    layer: Layer,
    bias: npt.NDArray[np.float32] | None,
    input_scale: float,
    added: npt.NDArray[np.float32] | None = None,
) -> npt.NDArray[np.float32]:
    """The smallest scales that a bias allows, see ``room_for_bias``; without one any normal float32.

    Args:
        layer: whose constants they are.
        bias: float32 [output channels] or None.
        input_scale: scale of the layer's input.
        added: as ``quantize_layer`` takes it.

    Returns:
        float32, one per entry of the channel axis (where groups share it, the largest), or of shape [1].

    Raises:
        OverflowError: no float32 scale is large enough.
    """
    least = np.full(1, FLOAT32_TINY, np.float32)
    if bias is None and added is None:
        return least
    own, behind = (np.zeros(1, np.float32) if part is None else np.abs(part) for part in (bias, added))
    total = own + behind
    return room_for_bias(least, total.reshape(layer.sharing if total.size > 1 else 1, -1), input_scale)


def _enlarged(
    layer: Layer,
    weight: npt.NDArray[np.float32],
    wanted: npt.NDArray[np.float32],
    scheme: QuantScheme,
    least: npt.NDArray[np.float32] | float,
    codes: npt.NDArray[np.int8] | None = None,
) -> npt.NDArray[np.float32]:
    """The smallest scales from ``wanted`` on that pairs, bias and target allow.

    ``codes`` are what the weights are rounded to with ``wanted``; None: plain rounding.
    """
    scale = _shared(wanted, scheme)
    if scheme.pair_limit is not None:
        scale = room_for_pairs(layer, weight, scale, scheme.weights, scheme.pair_limit, codes)
    return _shared(np.maximum(scale, np.float32(least)), scheme)


def _shared(scale: npt.NDArray[np.float32], scheme: QuantScheme) -> npt.NDArray[np.float32]:
    """The largest in the place of all, where the target takes no more than one."""
    return np.full_like(scale, np.max(scale)) if scheme.weight_granularity == "per-tensor" else scale


def _kept(
    layer: Layer, codes: npt.NDArray[np.int8], channels: npt.NDArray[np.bool_], limit: int | None
) -> npt.NDArray[np.bool_]:
    """Which of the given codes can stay, in the layer's own layout."""
    shape = [1] * codes.ndim
    shape[layer.output_axis(codes.ndim)] = -1
    kept = np.broadcast_to(channels.reshape(shape), codes.shape)
    return kept if limit is None else kept & ~pairs_beyond(layer, codes, limit)


def _other_axes(weight: npt.NDArray[np.generic], axis: int) -> tuple[int, ...]:
    return tuple(index for index in range(weight.ndim) if index != axis)


def weight_scales(weight: npt.NDArray[np.float32], axis: int, spec: QuantSpec) -> npt.NDArray[np.float32]:
    """Symmetric scale per entry of ``axis``.

    A channel of zeros gets 1 % of the layer's largest scale, so that its bias still has fine codes
    (scale 1 where the whole layer is zero).
    """
    largest = np.max(np.abs(weight), axis=_other_axes(weight, axis), initial=0.0).astype(np.float64)
    scale = (largest / (spec.magnitude_levels - 1)).astype(np.float32)
    dead = scale < FLOAT32_TINY
    substitute = np.float32(0.01) * np.max(scale, initial=0.0) if not np.all(dead) else np.float32(1.0)
    result: npt.NDArray[np.float32] = np.where(dead, np.maximum(substitute, FLOAT32_TINY), scale)
    return result.astype(np.float32)


def quantize_weight(
    weight: npt.NDArray[np.float32], scale: npt.NDArray[np.float32], axis: int, spec: QuantSpec
) -> npt.NDArray[np.int8]:
    """Codes in [−(2^(bits−1) − 1), 2^(bits−1) − 1]: the lowest code is never used."""
    shape = [1] * weight.ndim
    shape[axis] = -1
    limit = spec.magnitude_levels - 1
    ratio = weight / scale.reshape(shape)  # float32, as ONNX QuantizeLinear divides
    np.rint(ratio, out=ratio)
    return np.clip(ratio, -limit, limit, out=ratio).astype(np.int8)


def room_for_pairs(
    layer: Layer,
    weight: npt.NDArray[np.float32],
    scale: npt.NDArray[np.float32],
    spec: QuantSpec,
    limit: int,
    codes: npt.NDArray[np.int8] | None = None,
) -> npt.NDArray[np.float32]:
    """Enlarges the scales of channels in which a pair of one sign has ``|q₀| + |q₁| > limit``.

    ``s_c = max|W_c| / L`` with the largest whole L for which every pair of the channel fits: at least half of
    ``limit``, which is 7 bits for 128, and as much more as its pairs allow.

    Args:
        layer, weight: as for ``quantize_layer``.
        scale: float32, one per output channel.
        spec: type of the codes.
        limit: see ``QuantScheme``.
        codes: what the weights are rounded to with ``scale``; None: plain rounding.
    """
    axis = layer.output_axis(weight.ndim)
    coded = quantize_weight(weight, scale, axis, spec) if codes is None else codes
    pairs, sums = weight_pairs(layer, weight), largest_pair(layer, coded)
    if pairs is None or sums is None or not np.any(sums > limit):
        return scale
    wrong = np.flatnonzero(sums > limit)
    result = scale.copy()
    result[wrong] = _scales_for_pairs(pairs[wrong], scale[wrong], spec, limit)
    return result


def _scales_for_pairs(
    pairs: npt.NDArray[np.float32], scale: npt.NDArray[np.float32], spec: QuantSpec, limit: int
) -> npt.NDArray[np.float32]:
    """The same for pairs [channels, pairs, 2] of which every channel has one too large."""
    largest = np.max(np.abs(pairs), axis=(1, 2))
    sums = np.max(np.abs(pair_reach(pairs)), axis=(1, 2))
    # Rounding takes at most 1 from a sum: no larger L fits. L = limit / 2 always does.
    steps = np.minimum(np.floor((limit + 1) * largest / sums), spec.magnitude_levels - 1)
    while True:
        result: npt.NDArray[np.float32] = np.maximum((largest / steps).astype(np.float32), scale)
        codes = quantize_weight(pairs, result, 0, spec)
        wrong = np.max(np.abs(pair_reach(codes)), axis=(1, 2)) > limit
        if not np.any(wrong):
            return result
        steps[wrong] -= 1


def room_for_bias(
    scale: npt.NDArray[np.float32], bias: npt.NDArray[np.float32], input_scale: float
) -> npt.NDArray[np.float32]:
    """Enlarges the scales of channels whose bias would take more than half of int32.

    ``|b| ≥ ½ · s_x · s_c · (2^31 − 1)``   →   ``s_c = 2 |b| / ((2^31 − 1) · s_x)``

    The bias scale ``s_x · s_c`` stays a normal float32 as well.

    Args:
        scale: weight scales, one per channel.
        bias: [groups, channels].
        input_scale: scale of the layer's input.

    Raises:
        OverflowError: no float32 scale is large enough.
    """
    largest = np.max(np.abs(bias.astype(np.float64)), axis=0)
    needed = np.maximum(2.0 * largest / INT32_MAX, FLOAT32_TINY) / float(input_scale)
    if not np.all(needed <= FLOAT32_MAX):
        raise OverflowError("its bias is too large for the scale of its input")
    result: npt.NDArray[np.float32] = np.maximum(scale, needed.astype(np.float32))
    return result


def quantize_bias(bias: npt.NDArray[np.float32], scale: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """``rint(b / s)``, saturated to int32 explicitly."""
    codes = np.rint(bias.astype(np.float64).reshape(-1) / scale.astype(np.float64))
    return np.clip(codes, -INT32_MAX, INT32_MAX).astype(np.int32)


def _check_sums(
    codes: npt.NDArray[np.int8], axis: int, groups: int, bias: npt.NDArray[np.int32] | None
) -> None:
    """Proves ``|q_b| + Σ|q_w| · 255 < 2^31`` for every output channel from the actual weights."""
    products = np.sum(np.abs(codes), axis=_other_axes(codes, axis), dtype=np.int64) * MAX_ACTIVATION_STEP
    start = np.zeros(1, np.int64) if bias is None else np.abs(bias.astype(np.int64))
    if int(np.max(np.tile(products, groups) + start, initial=0)) > INT32_MAX:
        raise OverflowError("its int32 sums can overflow")
