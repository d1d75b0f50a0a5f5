"""16-bit codes without a sign get one: programs have int16 alone.

Q(x, s, z: uint16) → DQ(q, s, z)   →   Q(x, s, z − 2^15: int16) → DQ(q', s, z − 2^15),   q' = q − 2^15
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, constant, input_at
from calib8.ops.questions import is_quantizer, quantizes
from calib8.program.lower.canonical.edits import set_input, set_type
from calib8.quantization.qdq import codes_of

HALF: Final = 1 << 15


def rewrite(model: ir.Model) -> int:
    """Moves the zero points of uint16 quantizers and the constant codes behind them; exact.

    Left alone: codes that anything but a DequantizeLinear reads, and scales or zero points that are computed.

    Returns:
        Quantizers whose codes got a sign.
    """
    names = Names(model.graph)
    found: dict[ir.Value, list[ir.Node]] = {}
    for node in model.graph:
        if is_quantizer(node) and not node.domain:
            codes = node.outputs[0] if quantizes(node) else node.inputs[0]
            if codes is not None:
                found.setdefault(codes, []).append(node)
    return sum(_with_sign(names, codes, nodes) for codes, nodes in found.items())


def _with_sign(names: Names, codes: ir.Value, quantizers: list[ir.Node]) -> int:
    """The quantizers that write and read one tensor of codes."""
    read = {use.node for use in codes.uses()} | {codes.producer()} - {None}
    array = constant(codes)
    known = all(
        found.dtype == ir.DataType.UINT16 and found.scale is not None and found.zero_point is not None
        for found in map(codes_of, quantizers)
    )
    stored = array is not None or (codes.producer() is not None and codes.producer() in quantizers)
    if not known or not stored or codes.is_graph_output() or not read <= set(quantizers):
        return 0
    for node in quantizers:
        point = codes_of(node).zero_point
        assert point is not None
        scale = input_at(node, 1)
        shape = point.shape if scale is None or scale.shape is None else tuple(scale.shape.numpy())
        moved = np.broadcast_to(point - HALF, shape).astype(np.int16)
        set_input(node, 2, names.constant(f"{node.name}/zero_point", moved))
        node.attributes.pop("output_dtype", None)
    if array is not None:
        signed = names.constant(f"{codes.name}/signed", (array.astype(np.int64) - HALF).astype(np.int16))
        codes.replace_all_uses_with(signed)
    else:
        set_type(codes, ir.DataType.INT16)
    return len(quantizers)
