"""What the nodes of an int8 graph are called where its float model is quantized again.

    int8 graph      prepared float graph
    'c' → t         'conv1' → t             the node 'c' is called 'conv1'

Nodes are matched by the tensors that they yield: the int8 graph may be that of another tool, its nodes may
have other names or none at all. A Mul that takes factors from channels again (``passes/function_factors``) is
called as the function behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from calib8.analysis.counterparts import output_places, reference_tensor
from calib8.analysis.float_reference import FloatReference
from calib8.model.graph import label, sole_consumer
from calib8.ops.questions import multiplies
from calib8.passes.function_factors import multiplied_by
from calib8.passes.node_names import tensor_makers
from calib8.quantization.qdq import ACTIVATIONS, QUANTIZERS


@dataclass(frozen=True)
class NodeNames:
    """Nodes of an int8 graph and of its float model.

    Attributes:
        names: label of a node of the int8 graph → name that ``keep_float`` takes. Nodes that the prepared
            float graph does not have are not among them.
        makers: tensor of the float model → label of the node of the int8 graph that yields it.
        values: tensor of the float model → name of it in the int8 graph, where that is another one.
    """

    names: Mapping[str, str]
    makers: Mapping[str, str]
    values: Mapping[str, str]

    def shown(self, node: str | None) -> str | None:
        """The name of a node, its label where it has no name."""
        return None if node is None else self.names.get(node, node)

    def asked(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Names of nodes to ask for, each once; none where one of the nodes cannot be asked for."""
        found = [self.names.get(node) for node in nodes]
        return tuple(dict.fromkeys(name for name in found if name)) if None not in found else ()


def find_node_names(int8: ir.Model, outputs: tuple[str, ...], reference: FloatReference) -> NodeNames:
    """The names of the nodes of a QDQ graph.

    Args:
        int8: the graph, constants as initializers.
        outputs: names of the float model's outputs, as many as ``int8`` has.
        reference: the float model.
    """
    places = output_places(int8, outputs, reference.tensors)
    prepared = {node.name: node for node in reference.forms[-1].graph if node.name}
    tensors = tensor_makers(reference.forms[0], reference.forms[-1])
    names, makers, values = dict[str, str](), dict[str, str](), dict[str, str]()
    for node in int8.graph:
        if node.op_type in QUANTIZERS:
            continue
        known = {value: reference_tensor(value, places, reference.tensors) for value in node.outputs}
        for value, tensor in known.items():
            if tensor is not None:
                makers.setdefault(tensor, label(node))
                values.setdefault(tensor, value.name or "")
        name = next((tensors[tensor] for tensor in known.values() if tensor in tensors), None)
        name = name or _without_activation(node, places, reference, tensors, prepared)
        if name in prepared:
            names.setdefault(label(node), name)
    for node in int8.graph:
        if label(node) not in names and _restores(node, places, reference):
            readers = (label(use.node) for use in node.outputs[0].uses())
            found = next((names[reader] for reader in readers if reader in names), None)
            if found is not None:
                names[label(node)] = found
    return NodeNames(names, makers, values)


def _restores(node: ir.Node, places: Mapping[ir.Value, str], reference: FloatReference) -> bool:
    """Whether a node takes factors from channels again; it is part of what reads it."""
    source = node.inputs[0] if multiplies(node) else None
    tensor = None if source is None else reference_tensor(source, places, reference.tensors)
    return tensor in reference.changes.factors and multiplied_by(node) is not None


def _without_activation(
    node: ir.Node,
    places: Mapping[ir.Value, str],
    reference: FloatReference,
    tensors: Mapping[str, str],
    prepared: Mapping[str, ir.Node],
) -> str | None:
    """Name of a node that yields a tensor of its own: before an activation, or whatever bears its name."""
    reader = sole_consumer(node.outputs[0])
    if reader is not None and reader.op_type in ACTIVATIONS:
        tensor = reference_tensor(reader.outputs[0], places, reference.tensors)
        activation = prepared.get(tensors.get(tensor or "", ""))
        source = None if activation is None or not activation.inputs else activation.inputs[0]
        before = None if source is None else source.producer()
        if before is not None and before.op_type == node.op_type:
            return before.name
    same = prepared.get(node.name or "")
    return node.name if same is not None and same.op_type == node.op_type else None
