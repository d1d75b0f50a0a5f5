"""Puts back a Relu or Clip that a quantizer dropped because its codes cut off the same values.

    layer → Q → DQ        becomes        layer → Relu → Q → DQ

The int8 model computes what it computed; without Q and DQ it is the float model again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from calib8.analysis.counterparts import Tap
from calib8.model.graph import Names, constant
from calib8.quantization.qdq import ACTIVATIONS, label


def with_dropped_activations(
    int8: ir.Model, taps: Sequence[Tap], references: Mapping[str, ir.Value]
) -> ir.Model:
    """A copy with the activations of the float model in front of the codes that stand for them.

    Args:
        int8: the QDQ graph.
        taps: where it is compared with the float model; all names in them stay true.
        references: tensors of the float model by name.
    """
    copy = int8.clone()
    values = {value.name: value for node in copy.graph for value in node.outputs}
    names = Names(copy.graph)
    for tap in taps:
        value, made = values.get(tap.value), references[tap.reference].producer()
        if tap.code is None or value is None or made is None or made.op_type not in ACTIVATIONS:
            continue
        producer = value.producer()
        if producer is None or producer.op_type in (*ACTIVATIONS, "DequantizeLinear"):
            continue
        if not value.is_graph_output():
            values[tap.value] = _put_back(names, value, producer, made)
    return copy


def _put_back(names: Names, value: ir.Value, producer: ir.Node, made: ir.Node) -> ir.Value:
    """A copy of an activation behind a value, whose name it takes over."""
    arrays = (constant(limit) for limit in made.inputs[1:])
    limits = [None if array is None else names.constant(f"{label(made)}/limit", array) for array in arrays]
    node = ir.Node(
        "", made.op_type, [value, *limits], list(made.attributes.values()), name=names.node(label(made))
    )
    result = node.outputs[0]
    result.name, value.name = value.name, names.value(f"{value.name}/dropped")
    result.type, result.shape = value.type, value.shape
    for use in list(value.uses()):
        if use.node is not node:
            use.node.replace_input_with(use.idx, result)
    names.graph.insert_after(producer, node)
    return result
