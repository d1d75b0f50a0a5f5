"""When ONNX Runtime's CPU provider runs an op on codes: all inputs from DQ, the result to exactly one Q.

    DQ, DQ, DQ → Conv → [Relu that Q does anyway] → Q       becomes QLinearConv
    DQ → MaxPool → Q with the same scale and zero point     becomes MaxPool on codes

Other ops run in float between DQ and Q, which costs time but breaks nothing. Source: ONNX Runtime's
qdq_transformer (selectors and ClipQuantFusion).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.analysis.pair_saturation import layer_pairs
from calib8.analysis.rules import Finding
from calib8.ops.groups import AVERAGE_POOLS, FLOAT_ONLY, JOINING, MATRIX_PRODUCTS, MOVES
from calib8.ops.questions import is_matrix_product, joins, quantizes, yields_probabilities
from calib8.parameters import parameter
from calib8.passes.functions import chains, clip_limits, feeding_weights
from calib8.passes.resolve_ranges import overshoots
from calib8.quantization.qdq import (
    Codes,
    codes_behind,
    codes_of,
    dequantizer,
    float_inputs,
    label,
    nodes,
    result_quantizers,
    weight_is_coded,
)
from calib8.scheme import WEIGHTED_OPS

COMPUTING_OPS: Final = MATRIX_PRODUCTS | AVERAGE_POOLS | {
    "Add", "Concat", "Conv", "LeakyRelu", "Mul", "Sigmoid", "Softmax",
}  # fmt: skip
"""Ops that are computed from codes; Gemm and MatMul are also fused when their result stays float."""

NOT_MOVED: Final = (
    JOINING | FLOAT_ONLY | {"DepthToSpace", "GatherElements", "GatherND", "Pad", "SpaceToDepth"}
)
"""Moves that stay between DQ and Q, in float."""

MOVING_OPS: Final = MOVES - NOT_MOVED

CLIP_TOLERANCE: Final = float(np.finfo(np.float32).eps)
"""By so much a quantizer may exceed a Clip that is dropped before it."""


def inputs_are_all_coded(model: ir.Model) -> Iterator[Finding]:
    """An op whose result is quantized reads codes on all its inputs or on none."""
    for node in _computing(model):
        if node.op_type in WEIGHTED_OPS or not result_quantizers(node)[0]:
            continue
        values = float_inputs(node)
        uncoded = [value for value in values if codes_behind(value) is None]
        if uncoded and len(uncoded) < len(values):
            yield (
                label(node),
                f"its input '{uncoded[0].name}' is float, the others are codes",
                "Quantize that input too",
            )


def result_goes_to_one_quantizer(model: ir.Model) -> Iterator[Finding]:
    """The result of an op on codes goes to exactly one QuantizeLinear and nowhere else.

    Gemm and MatMul may also give floats, and class probabilities at the end are float on purpose, as is a
    Concat behind the last layer, where each part has finer codes than all together.
    """
    feeds_weights = feeding_weights(model)
    for node in _computing(model):
        if not reads_codes(node):
            continue
        quantizers, activation = result_quantizers(node)
        value = node.outputs[0] if activation is None else activation.outputs[0]
        others = len(list(value.uses())) + value.is_graph_output() - len(quantizers)
        if not quantizers and (is_matrix_product(node) or yields_probabilities(node)):
            continue
        if not quantizers and joins(node) and node not in feeds_weights:
            continue
        if not quantizers:
            yield (
                label(node),
                f"its result '{value.name}' is not quantized: it runs in float",
                "Quantize its result",
            )
        elif len(quantizers) > 1 or others:
            yield (
                label(node),
                f"its result '{value.name}' goes to {len(quantizers)} QuantizeLinear, {others} others",
                "Let all of them read the codes of one QuantizeLinear",
            )


def activation_is_implied(model: ir.Model) -> Iterator[Finding]:
    """A Relu or Clip between an op and its QuantizeLinear clips nothing that the codes could hold.

    Relu: the zero point is the lowest code. Clip: real values of the lowest and highest code lie inside.
    """
    for node in _computing(model):
        quantizers, activation = result_quantizers(node)
        if activation is None or len(quantizers) != 1 or not reads_codes(node):
            continue
        codes = codes_of(quantizers[0])
        limits = clip_limits(activation)
        span = _span(codes)
        if span is not None and (
            span[0] < limits[0] - CLIP_TOLERANCE or span[1] > limits[1] + CLIP_TOLERANCE
        ):
            yield (
                label(activation),
                f"clips to {limits[0]:g} … {limits[1]:g}, its codes reach {span[0]:.6g} … {span[1]:.6g}: "
                f"'{label(node)}' cannot be fused",
                "Choose scale and zero point so that the codes end at the limits",
            )


def types_combine(model: ir.Model) -> Iterator[Finding]:
    """Activations before and behind an op have one type; int8 activations take int8 weights only."""
    return mixed_types(model)


def mixed_types(model: ir.Model, apart: Collection[ir.DataType] = ()) -> Iterator[Finding]:
    """What ``types_combine`` finds; types ``apart`` may stand beside any other."""
    for node in _computing(model):
        if not reads_codes(node):
            continue
        types = [codes.dtype for codes in _operand_codes(node) if codes.dtype is not None]
        types += [
            kind for kind in (codes_of(q).dtype for q in result_quantizers(node)[0]) if kind is not None
        ]
        several = set(types).difference(apart)
        if len(several) > 1:
            names = " and ".join(sorted(str(kind) for kind in several))
            yield label(node), f"mixes {names} activations", "Code all its activations in one type"
        weight = codes_behind(node.inputs[1]) if node.op_type in WEIGHTED_OPS else None
        if weight is not None and weight.dtype == ir.DataType.UINT8 and ir.DataType.INT8 in types:
            yield label(node), "has uint8 weights for int8 activations", "Code its weight as int8"


def moves_keep_codes(model: ir.Model) -> Iterator[Finding]:
    """An op that only moves values has one scale and zero point before and behind it."""
    for node in nodes(model):
        source = dequantizer(node.inputs[0]) if node.op_type in MOVING_OPS and node.inputs else None
        if source is None or overshoots(node):
            continue
        before = codes_of(source)
        for value in node.outputs:
            for use in value.uses():
                if quantizes(use.node) and not before.same_parameters(codes_of(use.node)):
                    yield (
                        label(node),
                        f"reads {before} and writes {codes_of(use.node)}",
                        "Give both sides one scale and zero point",
                    )


def pairs_cannot_saturate(model: ir.Model) -> Iterator[Finding]:
    """No two weights that a kernel without VNNI multiplies together can leave int16 (see quantization/pairs).

    Of a layer's channels the worst is told.
    """
    for layer in layer_pairs(model):
        if layer.unsafe:
            worst = max(layer.unsafe, key=lambda channel: max(channel.high, -channel.low))
            yield (
                layer.layer,
                f"{len(layer.unsafe)} of its {layer.channels} channels can saturate, channel {worst.channel} "
                f"with weights {worst.weights[0]} and {worst.weights[1]} side by side",
                f"Quantize with {parameter('target', 'onnxruntime-avx2')}",
            )


def _computing(model: ir.Model) -> Iterator[ir.Node]:
    """Nodes with an integer form; what is a part of a larger function of one tensor is computed in float."""
    in_float = {node for chain in chains(model) for node in chain}
    return (node for node in nodes(model) if node.op_type in COMPUTING_OPS and node not in in_float)


def reads_codes(node: ir.Node) -> bool:
    """All inputs that matter for fusing are codes (a float bias is quantized by the runtime)."""
    if node.op_type in WEIGHTED_OPS:
        return codes_behind(node.inputs[0]) is not None and weight_is_coded(node)
    values = float_inputs(node)
    return bool(values) and all(codes_behind(value) is not None for value in values)


def _operand_codes(node: ir.Node) -> list[Codes]:
    """Codes of the activations, for Add, Mul and Concat of all operands."""
    values = [node.inputs[0]] if node.op_type in WEIGHTED_OPS else float_inputs(node)
    return [codes for codes in map(codes_behind, values) if codes is not None]


def _span(codes: Codes) -> tuple[float, float] | None:
    """Real values of the lowest and highest code in float32, None where they are not known."""
    if codes.scale is None or codes.zero_point is None or codes.dtype is None or not codes.per_tensor:
        return None
    limits = np.iinfo(codes.dtype.numpy())
    scale, point = np.float32(codes.scale.item()), codes.zero_point.item()
    return float(scale * np.float32(limits.min - point)), float(scale * np.float32(limits.max - point))
