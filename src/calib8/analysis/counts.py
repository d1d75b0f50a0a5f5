"""What a layer stores, and of which sizes it is counted; ``calib8.model.work`` has what it computes."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from calib8.model.graph import constant, graph_inputs, input_at
from calib8.model.infer_shapes import with_input_shapes
from calib8.model.work import elements
from calib8.ops.groups import CODED_BIAS_INPUT, CODED_CELLS, SETTING_OPS, WEIGHT_INPUT
from calib8.ops.questions import has_slopes, is_weighted, normalizes
from calib8.passes.recurrent_nodes import is_recurrent
from calib8.quantization.qdq import dequantizer, float_origin, joined, nodes

STORED_SETTINGS: Final = SETTING_OPS | {"Range", "Upsample"}
"""Ops whose float constants are settings, nothing that was trained."""

CELL_WEIGHTS: Final = (1, 2, 3, 7)
"""Places of the weights, biases and peepholes of a recurrent layer."""

UNCOUNTED_OPS: Final = frozenset({"Einsum"})
"""Ops that multiply and accumulate but are not counted."""


def with_batch_of_one(model: ir.Model) -> ir.Model:
    """A copy with the free first axis of every input set to 1 and all shapes inferred again."""
    shapes = {
        value.name or "": (1, *value.shape[1:])
        for value in model.graph.inputs
        if value.shape is not None and value.shape.rank() > 0 and not _known(value.shape[0])
    }
    return with_input_shapes(model, shapes)


def samples_per_run(model: ir.Model) -> int:
    """The batch that a model is fixed to: the first size where first input and output agree on it, else 1."""
    inputs = [spec.shape for spec in graph_inputs(model)]
    outputs = [value.shape for value in model.graph.outputs]
    if not inputs or not outputs or not inputs[0] or outputs[0] is None or outputs[0].rank() == 0:
        return 1
    first, last = inputs[0][0], outputs[0][0]
    return first if isinstance(first, int) and len(inputs[0]) > 1 and first == last else 1


def stored_values(node: ir.Node) -> list[ir.Value]:
    """The constants that a node was trained to, as they are stored: float, or codes behind DequantizeLinear.

    Settings (limits, sizes, paddings), scales and zero points are not among them, nor the single number of
    an elementwise op.
    """
    if node.op_type in STORED_SETTINGS:
        return []
    if node.op_type in CODED_CELLS:
        found = [input_at(node, place) for place in CELL_WEIGHTS]
        return [value for value in found if value is not None and constant(value) is not None]
    if node.op_type in CODED_BIAS_INPUT or node.op_type.startswith("QLinear"):
        indices = (WEIGHT_INPUT.get(node.op_type), CODED_BIAS_INPUT.get(node.op_type))
        found = [input_at(node, index) for index in indices if index is not None]
        return [value for value in found if value is not None and constant(value) is not None]
    inputs = [part for value in node.inputs for part in (joined(value) if is_recurrent(node) else (value,))]
    result = [stored for stored in map(_stored, inputs) if stored is not None]
    trained = is_weighted(node) or normalizes(node) or has_slopes(node)
    return [value for value in result if trained or (elements(value) or 0) > 1]


def parameters(model: ir.Model) -> int:
    """Elements of all trained constants of a graph, shared ones counted once."""
    stored = {id(value): elements(value) or 0 for node in nodes(model) for value in stored_values(node)}
    return sum(stored.values())


def _stored(value: ir.Value | None) -> ir.Value | None:
    """The stored constant behind an input, None where it is computed or belongs to shape arithmetic."""
    if value is None:
        return None
    node = dequantizer(value)
    if node is not None:
        origin = float_origin(value) if constant(node.inputs[0]) is None else node.inputs[0]
        return origin if constant(origin) is not None else None
    array = constant(value)
    return value if array is not None and array.dtype.kind == "f" else None


def _known(size: int | ir.SymbolicDim) -> bool:
    return isinstance(size, int) and size > 0
