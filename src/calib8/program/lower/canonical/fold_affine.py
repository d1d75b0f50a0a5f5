"""What scales and shifts the channels behind a layer goes into its codes, their scales and its bias.

BatchNormalization(Conv(x, DQ(q, s), b)) → Conv(x, DQ(±q, |k|·s), k·b + d)     y = k_c·x + d_c
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.coded_array import CodedArray
from calib8.model.graph import Names, input_at, int_attribute, rank, sole_consumer
from calib8.ops.groups import NEUTRAL, WEIGHTED_OPS
from calib8.ops.questions import is_matrix_product, is_transposed_convolution, normalizes, takes_bias
from calib8.passes.fold_affine import Affine, node_affine, output_channels
from calib8.program.lower.canonical.codings import are_scales, constant_codes, real_constant
from calib8.program.lower.canonical.edits import dequantized_constant, set_input
from calib8.qparams import FLOAT32_MAX
from calib8.quantization.qdq import output_axis

ARITHMETIC: Final = NEUTRAL.keys() | {"BatchNormalization"}


def rewrite(model: ir.Model) -> int:
    """A layer with coded weights whose only reader is per-channel arithmetic takes that into itself.

    Scales become ``|k|·s``, rounded to float32 once. Where k < 0 codes are mirrored about their zero point;
    where a mirrored code has no place in its type (−128), codes and zero point are both complemented, which
    is always possible and mirrors exactly: ``(−1 − q) − (−1 − z) = −(q − z)``. Where k = 0 codes become the
    zero point. A MatMul of matrices that gets a bias becomes a Gemm.

    Left alone: layers read by others, arithmetic that is not per output channel, a shift behind a MatMul of
    more axes, factors of a grouped ConvTranspose (whose groups share scales).

    Returns:
        Nodes folded.
    """
    names = Names(model.graph)
    return sum(_fold(names, node) for node in list(model.graph))


def _fold(names: Names, node: ir.Node) -> bool:
    layer = _layer_before(node)
    weight = None if layer is None else constant_codes(layer.inputs[1])
    if layer is None or weight is None or weight.values.ndim < 2 or node.outputs[0].shape is None:
        return False
    _state_operands(names, node)
    affine = node_affine(node, layer.outputs[0])
    channels = output_channels(layer, weight.values)
    if affine is None or not _fits(layer, node, affine, channels):
        return False
    bias = _bias(layer, channels)
    scaled = None if np.all(affine.k == 1.0) else _scaled(layer, weight, affine.k)
    if bias is None or (scaled is None and not np.all(affine.k == 1.0)):
        return False
    total = affine.k * bias + affine.d
    if not np.all(np.abs(total) <= FLOAT32_MAX):
        return False
    if scaled is not None:
        _set_weight(names, layer, scaled)
    if np.any(total != 0.0) or input_at(layer, 2) is not None:
        layer.op_type = "Gemm" if layer.op_type == "MatMul" else layer.op_type
        values = np.broadcast_to(total, channels).astype(np.float32)
        set_input(layer, 2, names.constant(f"{layer.name}/bias", values))
    _take_over(names.graph, layer, node)
    return True


def _layer_before(node: ir.Node) -> ir.Node | None:
    """The weighted node whose only reader is ``node``."""
    if node.op_type not in ARITHMETIC or node.domain:
        return None
    for value in node.inputs:
        layer = None if value is None else value.producer()
        if value is not None and layer is not None and layer.op_type in WEIGHTED_OPS:
            return layer if sole_consumer(value) is node else None
    return None


def _state_operands(names: Names, node: ir.Node) -> None:
    """Dequantized constants are read as float from here on, which changes nothing."""
    for index, value in enumerate(node.inputs):
        codes = constant_codes(value)
        if codes is not None:
            node.replace_input_with(index, names.constant(f"{node.name}/{index}/real", codes.floats))


def _fits(layer: ir.Node, node: ir.Node, affine: Affine, channels: int) -> bool:
    """k and d are per output channel, do not broadcast the result, and the layer can take them."""
    axes = rank(layer.outputs[0])
    if affine.k.size not in (1, channels) or affine.d.size not in (1, channels):
        return False
    if not np.all(np.isfinite(affine.k)) or layer.outputs[0].shape != node.outputs[0].shape:
        return False
    matrix = is_matrix_product(layer)
    if matrix and normalizes(node) and axes != 2:
        return False
    return takes_bias(layer) or axes == 2 or not np.any(affine.d)


def _bias(layer: ir.Node, channels: int) -> npt.NDArray[np.float64] | None:
    """The bias per channel, zeros without one; None where it is computed or a matrix."""
    value = input_at(layer, 2) if takes_bias(layer) else None
    if value is None:
        return np.zeros(channels)
    array = real_constant(value)
    if array is None or array.size not in (1, channels) or (array.size > 1 and array.shape[-1] != channels):
        return None
    return np.broadcast_to(array.astype(np.float64).reshape(-1), channels)


def _scaled(layer: ir.Node, weight: CodedArray, k: npt.NDArray[np.float64]) -> CodedArray | None:
    """The weight times k; None where its scales are no float32 or lie along another axis."""
    axis = output_axis(layer, weight.values.ndim)
    if int_attribute(layer, "group", 1) > 1 and is_transposed_convolution(layer) and k.size > 1:
        return None
    if weight.axis not in (None, axis):
        return None
    if k.size == 1 and k[0] > 0.0:
        scale = weight.scale.astype(np.float64) * k[0]
        return replace(weight, scale=scale.astype(np.float32)) if are_scales(scale) else None
    k = np.broadcast_to(k, weight.values.shape[axis])
    dead = k == 0.0
    scale = np.where(dead, 1.0, np.abs(k)) * weight.scale
    if not are_scales(scale):
        return None
    point = np.broadcast_to(weight.zero_point, k.shape)
    codes, point = _mirrored(np.moveaxis(weight.values, axis, 0), point, k < 0.0)
    codes[dead] = point[dead].reshape(-1, *[1] * (codes.ndim - 1))
    return CodedArray(np.moveaxis(codes, 0, axis), scale.astype(np.float32), point, axis)


def _mirrored(
    codes: npt.NDArray[Any], point: npt.NDArray[np.int64], negative: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Codes [C, …] of the negative values in the chosen channels, and their zero points."""
    limits = np.iinfo(codes.dtype)
    result, points = codes.copy(), point.copy()
    for channel in np.flatnonzero(negative):
        mirrored = 2 * points[channel] - codes[channel].astype(np.int64)
        if mirrored.min() >= limits.min and mirrored.max() <= limits.max:
            result[channel] = mirrored
        else:
            total = limits.min + limits.max
            result[channel] = total - codes[channel].astype(np.int64)
            points[channel] = total - points[channel]
    return result, points


def _set_weight(names: Names, layer: ir.Node, scaled: CodedArray) -> None:
    node = dequantized_constant(names, scaled, f"{layer.name}/weight")
    names.graph.insert_before(layer, node)
    layer.replace_input_with(1, node.outputs[0])


def _take_over(graph: ir.Graph, layer: ir.Node, node: ir.Node) -> None:
    """``layer`` yields the value that ``node`` yielded, under its name."""
    kept, gone = layer.outputs[0], node.outputs[0]
    name = gone.name
    gone.replace_all_uses_with(kept, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    kept.name = name
