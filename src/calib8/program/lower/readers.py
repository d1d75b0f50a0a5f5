"""What becomes of a result: the Relu and Clip behind it, and the quantizers that read it.

    layer → Relu → Q(s, z) → …         one instruction writes the codes of Q, clamped

Only readers inside the graph count: a graph output wants the float value as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from calib8.model.graph import constant, input_at, sole_consumer
from calib8.ops.groups import CLAMPS
from calib8.ops.questions import is_quantizer, is_standard, rectifies
from calib8.program.lower.constants import fixed
from calib8.program.lower.forms import CodeType
from calib8.quantization.qdq import codes_of

CODE_TYPES = {ir.DataType.UINT8: "uint8", ir.DataType.INT8: "int8", ir.DataType.INT16: "int16"}


@dataclass(frozen=True)
class Tail:
    """What stands behind a result.

    Attributes:
        value: the result after its activations.
        activations: Relu and Clip nodes in order.
        low, high: the bounds that they mean, None without one.
        kinds: the different codes that quantizers make of ``value``.
        only_codes: nothing but those quantizers reads it.
    """

    value: ir.Value
    activations: tuple[ir.Node, ...]
    low: float | None
    high: float | None
    kinds: tuple[CodeType, ...]
    only_codes: bool


def tail_of(value: ir.Value) -> Tail:
    """Follows the only reader of a result through Relu and Clip to its quantizers."""
    nodes: list[ir.Node] = []
    low, high = -math.inf, math.inf
    while (reader := sole_consumer(value)) is not None and reader.inputs[0] is value:
        bounds = activation_bounds(reader)
        if bounds is None:
            break
        low, high = clipped(low, *bounds), clipped(high, *bounds)
        nodes.append(reader)
        value = reader.outputs[0]
    readers = [use.node for use in value.uses()]
    kinds = [code_kind(reader) for reader in readers]
    known = tuple(dict.fromkeys(kind for kind in kinds if kind is not None))
    only = bool(known) and None not in kinds and not value.is_graph_output()
    return Tail(value, tuple(nodes), finite(low), finite(high), known, only)


def activation_bounds(node: ir.Node) -> tuple[float, float] | None:
    """Limits of a Relu or of a Clip with constant limits, ±inf where there is none; None for other nodes."""
    if node.op_type not in CLAMPS or not is_standard(node):
        return None
    if rectifies(node):
        return 0.0, math.inf
    limits = []
    for index, default in ((1, -math.inf), (2, math.inf)):
        value = input_at(node, index)
        array = fixed(value)
        if value is not None and (array is None or array.size != 1):
            return None
        limits.append(default if array is None else float(array.reshape(-1)[0]))
    return limits[0], limits[1]


def clipped(value: float, low: float, high: float) -> float:
    """ONNX's Clip: the upper limit wins where they cross."""
    return min(max(value, low), high)


def finite(bound: float) -> float | None:
    """None for an infinite bound."""
    return bound if math.isfinite(bound) else None


def code_kind(node: ir.Node) -> CodeType | None:
    """The per-tensor codes of a QuantizeLinear or DequantizeLinear; None for anything else."""
    if not is_quantizer(node) or not is_standard(node):
        return None
    codes = codes_of(node)
    if codes.scale is None or codes.zero_point is None or codes.scale.size != 1:
        return None
    dtype = CODE_TYPES.get(codes.dtype) if codes.dtype is not None else None
    stored = constant(node.inputs[1])
    if dtype is None or stored is None or stored.dtype != np.float32:
        return None
    scale = float(np.float32(codes.scale.reshape(-1)[0]))
    return CodeType(dtype, scale, int(codes.zero_point.reshape(-1)[0]))
