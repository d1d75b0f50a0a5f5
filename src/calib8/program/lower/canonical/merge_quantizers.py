"""The same codes are made once and read once: duplicates merge, what changes nothing vanishes.

Q(x), Q(x) → Q(x)          DQ(q), DQ(q) → DQ(q)          Q(DQ(q)) → q          Squeeze → Unsqueeze → nothing
"""

from __future__ import annotations

import onnx_ir as ir

from calib8.model.graph import constant
from calib8.ops.questions import is_quantizer, quantizes
from calib8.program.lower.canonical.codings import PLAIN_TYPES, coding_of
from calib8.program.lower.canonical.edits import redirect
from calib8.program.lower.canonical.movers import activation_bounds
from calib8.quantization.qdq import codes_of, dequantizer

Key = tuple[object, ...]


def rewrite(model: ir.Model) -> int:
    """Merges quantizers of one value with equal parameters; drops those of codes that have them already.

    A Relu or Clip between a DequantizeLinear and the QuantizeLinear of the same codes that no code is
    changed by goes as well, and a Squeeze whose result is unsqueezed again.

    Returns:
        Nodes whose readers read another value now.
    """
    seen: dict[Key, ir.Value] = {}
    rewritten = 0
    for node in list(model.graph):
        if is_quantizer(node) and node.domain == "":
            rewritten += _drop(node) or _merge(node, seen)
        elif node.op_type == "Unsqueeze":
            rewritten += _cancel(node)
    return rewritten


def _merge(node: ir.Node, seen: dict[Key, ir.Value]) -> bool:
    codes = codes_of(node)
    if codes.scale is None or codes.zero_point is None or codes.dtype not in PLAIN_TYPES:
        return False
    parameters = (codes.scale.shape, codes.scale.tobytes(), codes.zero_point.tobytes(), codes.dtype)
    axis = codes.axis if codes.scale.ndim else None
    first = seen.setdefault((node.op_type, node.inputs[0], axis, *parameters), node.outputs[0])
    return first is not node.outputs[0] and redirect(node.outputs[0], first)


def _drop(node: ir.Node) -> bool:
    """``Q(DQ(q)) → q`` for equal parameters, an activation without effect in between included."""
    coding = coding_of(node) if quantizes(node) else None
    source = node.inputs[0]
    if coding is None or source is None:
        return False
    producer = source.producer()
    bounds = None if producer is None else activation_bounds(producer)
    if producer is not None and bounds is not None:
        low, high = coding.real(coding.lowest), coding.real(coding.highest)
        source = producer.inputs[0] if bounds[0] <= low and high <= bounds[1] else None
    before = dequantizer(source)
    if before is None or coding_of(before) != coding or before.inputs[0] is None:
        return False
    return redirect(node.outputs[0], before.inputs[0])


def _cancel(node: ir.Node) -> bool:
    """``Unsqueeze(DQ(Q(Squeeze(DQ(q))))) → DQ(q)`` over the same axes and with one coding throughout."""
    axes, reader = constant(node.inputs[1]), dequantizer(node.inputs[0])
    coder = None if reader is None or reader.inputs[0] is None else reader.inputs[0].producer()
    if coder is None or not quantizes(coder) or coder.inputs[0] is None or axes is None:
        return False
    squeeze = coder.inputs[0].producer()
    if squeeze is None or squeeze.op_type != "Squeeze" or len(squeeze.inputs) < 2:
        return False
    before, same = dequantizer(squeeze.inputs[0]), constant(squeeze.inputs[1])
    if before is None or same is None or axes.tolist() != same.tolist():
        return False
    if not coding_of(reader) == coding_of(coder) == coding_of(before) != None:  # noqa: E711
        return False
    return redirect(node.outputs[0], before.outputs[0])
