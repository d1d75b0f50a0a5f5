"""Codes with one scale per channel that depthwise convolutions read get one scale for all channels.

x → Q(s_c, z) → DQ(s_c, z) → depthwise Conv(W in steps of w_o)
x → Mul(s/s_c) → Q(s, z) → DQ(s, z) → depthwise Conv(W in steps of w_o·s_c/s)        s = max s_c

clip(rint(x / s_c) + z) = clip(rint(x·(s/s_c) / s) + z): the same codes. What scales with its input (Relu,
LeakyRelu, PRelu, MaxPool) changes places with the Mul, which then stands behind the layer that takes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.coded_array import CodedArray
from calib8.model.graph import Names, int_attribute, rank
from calib8.ops.questions import dequantizes, quantizes
from calib8.program.lower.canonical.channel_limits import (
    CODES,
    Chain,
    Ints,
    Limits,
    chain_before,
    common_limits,
)
from calib8.program.lower.canonical.codings import BYTE_TYPES, Coding, are_scales, constant_codes
from calib8.program.lower.canonical.edits import dequantized_constant, insert_behind, new_node, replace
from calib8.qparams import dequantize
from calib8.quantization.qdq import codes_of

Scales = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ChannelCodes:
    """Codes of an activation [N, C, …] with one scale per channel, and all that reads them.

    Attributes:
        quantizer: the QuantizeLinear.
        dequantizers: the DequantizeLinear nodes that read the codes.
        layers: the depthwise convolutions behind those.
        scale, zero_point: [C].
        dtype: UINT8 or INT8.
    """

    quantizer: ir.Node
    dequantizers: tuple[ir.Node, ...]
    layers: tuple[ir.Node, ...]
    scale: Scales
    zero_point: Ints
    dtype: ir.DataType

    @property
    def lowest(self) -> int:
        """Smallest code of the type."""
        return 0 if self.dtype == ir.DataType.UINT8 else -128

    def constant_shape(self) -> tuple[int, ...]:
        """[C, 1, …]: of a constant that varies along the channels."""
        axes = rank(self.quantizer.inputs[0])
        assert axes is not None  # a Conv reads it
        return (self.scale.size, *[1] * (axes - 2))


def rewrite(model: ir.Model) -> int:
    """Gives per-channel codes that nothing but depthwise convolutions with coded weights read one scale.

    Relu and Clip before the quantizer count among the limits of the codes. Limits that all channels share
    stay a Relu or Clip, or nothing where they are those of the type; others become Max and Min behind the
    quantizer. Channels with different zero points get a common one if their limits leave room for it: those
    behind a Relu usually do. Exact up to the rounding of s/s_c and of the weight's scales to float32.

    Left alone: codes that others read too, limits that span more than 256 codes, scales so far apart that
    their ratio, or a scale of the weight times it, is no normal float32.

    Returns:
        Quantizers rewritten.
    """
    names = Names(model.graph)
    found = [_channel_codes(node) for node in model.graph if quantizes(node)]
    return sum(_with_one_scale(names, codes) for codes in found if codes is not None)


def _channel_codes(quantizer: ir.Node) -> ChannelCodes | None:
    found, codes = codes_of(quantizer), quantizer.outputs[0]
    if found.scale is None or found.zero_point is None or found.dtype is None:
        return None
    if found.dtype not in BYTE_TYPES or found.scale.ndim != 1 or found.axis != 1 or codes.is_graph_output():
        return None
    dequantizers = tuple(use.node for use in codes.uses())
    for node in dequantizers:
        alike = dequantizes(node) and found.same_parameters(codes_of(node))
        if not alike or node.outputs[0].is_graph_output():
            return None
    uses = [use for node in dequantizers for use in node.outputs[0].uses()]
    if not uses or not all(use.idx == 0 and _is_depthwise(use.node, found.scale.size) for use in uses):
        return None
    layers = tuple(use.node for use in uses)
    scale = found.scale.astype(np.float32)
    return ChannelCodes(quantizer, dequantizers, layers, scale, found.zero_point, found.dtype)


def _is_depthwise(node: ir.Node, channels: int) -> bool:
    """A Conv with 8-bit weights that mixes no channels."""
    weight = constant_codes(node.inputs[1]) if node.op_type == "Conv" and not node.domain else None
    if weight is None or weight.axis not in (None, 0) or weight.values.dtype not in (np.uint8, np.int8):
        return False
    return int_attribute(node, "group", 1) == channels and weight.values.shape[1] == 1


def _with_one_scale(names: Names, codes: ChannelCodes) -> bool:
    chain, common = chain_before(codes.quantizer), codes.scale.max()
    if chain is None:
        return False
    limits = common_limits(codes.scale, codes.zero_point, codes.lowest, chain.low, chain.high)
    with np.errstate(over="ignore"):
        factor = common / codes.scale
    weights = [_weight_scales(layer, codes.scale, float(common)) for layer in codes.layers]
    normal = all(are_scales(scales) for scales in (factor, *weights))
    if limits is None or not normal:
        return False
    coding = _coding(names, codes, float(common), limits.zero_point)
    _scale_values(names, codes, chain, factor)
    _replace_activations(names, chain, coding, limits)
    for node in (codes.quantizer, *codes.dequantizers):
        _state(node, coding)
    if not limits.are_common:
        _limit(names, codes, coding, limits)
    for layer, scales in zip(codes.layers, weights, strict=True):
        _set_weight(names, layer, scales)
    return True


def _weight_scales(layer: ir.Node, scale: Scales, common: float) -> npt.NDArray[np.float64]:
    """[output channels]: of a depthwise layer's weight for an input in steps of ``common``."""
    weight = constant_codes(layer.inputs[1])
    assert weight is not None  # _is_depthwise
    ratio = scale.astype(np.float64) / common
    return np.repeat(ratio, weight.values.shape[0] // scale.size) * weight.scale


def _set_weight(names: Names, layer: ir.Node, scales: npt.NDArray[np.float64]) -> None:
    weight = constant_codes(layer.inputs[1])
    assert weight is not None
    points = np.broadcast_to(weight.zero_point, scales.shape)
    coded = CodedArray(weight.values, scales, points, 0)
    node = dequantized_constant(names, coded, f"{layer.name}/weight")
    names.graph.insert_before(layer, node)
    layer.replace_input_with(1, node.outputs[0])


def _coding(names: Names, codes: ChannelCodes, scale: float, zero_point: int) -> Coding:
    stem = codes.quantizer.name
    parameters = (
        names.constant(f"{stem}/scale", np.array(scale, np.float32)),
        names.constant(f"{stem}/zero_point", np.array(zero_point, codes.dtype.numpy())),
    )
    return Coding(scale, zero_point, codes.dtype, parameters)


def _state(quantizer: ir.Node, coding: Coding) -> None:
    for place, parameter in enumerate(coding.parameters, 1):
        quantizer.replace_input_with(place, parameter)
    quantizer.attributes.pop("axis", None)


def _scale_values(names: Names, codes: ChannelCodes, chain: Chain, factor: Scales) -> None:
    """Puts a Mul at the top of the chain; other readers of that value read on as before."""
    if np.all(factor == 1.0):
        return
    quantized, top = codes.quantizer.inputs[0], chain.top
    assert quantized is not None
    stem = f"{quantized.name}/scaled"
    operand = names.constant(f"{stem}/by", factor.reshape(codes.constant_shape()))
    product = new_node(names, "Mul", [top, operand], name=stem, result=stem, like=top)
    chain.reader.replace_input_with(0, product.outputs[0])
    insert_behind(names.graph, top, [product])


def _replace_activations(names: Names, chain: Chain, coding: Coding, limits: Limits) -> None:
    """One Relu or Clip in place of the uppermost where all channels have the same limits, else none."""
    for node in chain.activations:
        source, new = node.inputs[0], None
        assert source is not None
        if node is chain.activations[-1] and limits.are_common:
            new = _activation(names, node, coding, int(limits.low[0]), int(limits.high[0]))
        if new is None:
            node.outputs[0].replace_all_uses_with(source)
            names.graph.remove(node, safe=True)
        else:
            names.graph.insert_before(node, new)
            replace(names.graph, node.outputs[0], new.outputs[0])


def _activation(names: Names, node: ir.Node, coding: Coding, low: int, high: int) -> ir.Node | None:
    """What keeps the codes of a quantizer between two of them; None where its type does."""
    value, op_type = node.outputs[0], "Relu"
    inputs: list[ir.Value | None] = [node.inputs[0]]
    open_above = high == coding.lowest + CODES - 1
    if low == coding.lowest and open_above:
        return None
    if low != coding.zero_point or not open_above:
        op_type = "Clip"
        bounds = np.array([coding.real(low), coding.real(high)], np.float32)
        inputs += [names.constant(f"{node.name}/bound", bound) for bound in bounds]
    stem = f"{value.name}/scaled"
    return new_node(names, op_type, inputs, name=stem, result=stem, like=value)


def _limit(names: Names, codes: ChannelCodes, coding: Coding, limits: Limits) -> None:
    """``DQ → Max(low_c) → Min(high_c) → Q`` behind the quantizer."""
    coded, like = codes.quantizer.outputs[0], codes.dequantizers[0].outputs[0]
    readers, nodes = list(coded.uses()), []

    def add(op_type: str, *inputs: ir.Value) -> ir.Value:
        stem = f"{coded.name}/{op_type}"
        nodes.append(new_node(names, op_type, inputs, name=stem, result=stem, like=like))
        return nodes[-1].outputs[0]

    value = add("DequantizeLinear", coded, *coding.parameters)
    ends = (("Max", limits.low, coding.lowest), ("Min", limits.high, coding.lowest + CODES - 1))
    for op_type, bounds, end in ends:
        if np.any(bounds != end):
            real = dequantize(bounds, coding.scale, coding.zero_point)
            operand = names.constant(f"{coded.name}/{op_type}/bound", real.reshape(codes.constant_shape()))
            value = add(op_type, value, operand)
    limited = add("QuantizeLinear", value, *coding.parameters)
    limited.dtype = coding.dtype
    for use in readers:
        use.node.replace_input_with(use.idx, limited)
    names.graph.insert_after(codes.quantizer, nodes)
