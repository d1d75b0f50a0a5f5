"""The integers of the layers of a QDQ graph: codes of weights by output channel, bias, the input's code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.tensor_codes import SPECS
from calib8.model.graph import constant
from calib8.model.layer import Layer
from calib8.quantization.qdq import (
    Codes,
    codes_behind,
    codes_of,
    dequantizer,
    float_origin,
    weighted_layers,
)


@dataclass(frozen=True)
class LayerCodes:
    """One Conv, ConvTranspose, Gemm or MatMul whose input and weight are codes.

    Attributes:
        layer: the layer.
        name: of it.
        weight: codes in the layer's own layout, its zero point subtracted.
        rows: the same as [output channels, products].
        weight_scale: float64, one per output channel.
        bias: codes (int64) or real values (float64), [output channels]; None without one.
        scale, zero_point: of the input's codes.
        qmin, qmax: smallest and largest code of the input.
        signed_weights: the weight's codes are int8, and its zero point is 0.
    """

    layer: Layer
    name: str
    weight: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    weight_scale: npt.NDArray[np.float64]
    bias: npt.NDArray[Any] | None
    scale: float
    zero_point: int
    qmin: int
    qmax: int
    signed_weights: bool


def layer_codes(model: ir.Model) -> Iterator[LayerCodes]:
    """The layers of which all of that is constant, in graph order.

    Args:
        model: a QDQ graph as ``readable_copy`` gives it.
    """
    for layer in weighted_layers(model):
        source, before = dequantizer(layer.weight), codes_behind(layer.input)
        if source is None or before is None or before.dtype not in SPECS:
            continue
        weight, codes = _weight_codes(layer, source), codes_of(source)
        if weight is None or not _is_plain(before) or codes.scale is None or codes.zero_point is None:
            continue
        if weight.ndim < 2 or not {codes.scale.size, codes.zero_point.size} <= {1, _outputs(layer, weight)}:
            continue
        yield _layer(layer, weight, codes, before)


def _layer(layer: Layer, weight: npt.NDArray[Any], codes: Codes, before: Codes) -> LayerCodes:
    assert codes.scale is not None and codes.zero_point is not None and before.dtype is not None
    assert before.scale is not None and before.zero_point is not None
    axis = layer.output_axis(weight.ndim)
    shape = [-1 if index == axis else 1 for index in range(weight.ndim)]
    centred = weight.astype(np.int64) - codes.zero_point.reshape(shape if codes.zero_point.size > 1 else ())
    channels = layer.by_channel(centred)
    rows = channels.reshape(channels.shape[0] * channels.shape[1], -1)
    scales = np.broadcast_to(codes.scale.reshape(-1), weight.shape[axis])
    spec = SPECS[before.dtype]
    return LayerCodes(
        layer=layer,
        name=layer.name,
        weight=centred,
        rows=rows,
        weight_scale=np.tile(scales, layer.sharing),
        bias=_bias(layer, len(rows)),
        scale=before.scale.item(),
        zero_point=before.zero_point.item(),
        qmin=spec.qmin,
        qmax=spec.qmax,
        signed_weights=codes.dtype == ir.DataType.INT8 and not np.any(codes.zero_point),
    )


def _outputs(layer: Layer, weight: npt.NDArray[Any]) -> int:
    return int(weight.shape[layer.output_axis(weight.ndim)])


def _is_plain(codes: Codes) -> bool:
    """One scale and zero point for the tensor, both constant."""
    scale, zero_point = codes.scale, codes.zero_point
    return scale is not None and zero_point is not None and scale.size == zero_point.size == 1


def _weight_codes(layer: Layer, source: ir.Node) -> npt.NDArray[Any] | None:
    """The codes as stored, or those that a QuantizeLinear makes of a stored float weight."""
    stored = constant(source.inputs[0])
    if stored is not None:
        return stored if stored.dtype.kind in "iu" else None
    assert layer.weight is not None
    array, codes = constant(float_origin(layer.weight)), codes_of(source)
    if array is None or codes.scale is None or codes.zero_point is None or codes.dtype not in SPECS:
        return None
    shape = [-1 if index == codes.axis % array.ndim else 1 for index in range(array.ndim)]
    scale, point = (
        numbers.reshape(shape if numbers.size > 1 else ()) for numbers in (codes.scale, codes.zero_point)
    )
    spec = SPECS[codes.dtype]
    ratio = np.rint(array.astype(np.float32) / scale.astype(np.float32))
    return np.asarray(np.clip(ratio + point, spec.qmin, spec.qmax).astype(np.int64))


def _bias(layer: Layer, channels: int) -> npt.NDArray[Any] | None:
    value = layer.bias
    if value is None:
        return None
    source = dequantizer(value)
    array = constant(value if source is None else source.inputs[0])
    if array is None or array.size not in (1, channels):
        return None
    wide = array.astype(np.float64) * layer.factors[1] if source is None else array.astype(np.int64)
    return np.asarray(np.broadcast_to(wide.reshape(-1), channels))
