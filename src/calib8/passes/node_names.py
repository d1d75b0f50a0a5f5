"""Which node of a prepared graph a name asks for, whatever the passes made of the model.

    prepared graph         Conv 'conv' → features            (a BatchNormalization is in it)
    'conv'                 its own name there
    'norm'                 the name of a node of the model whose work it does: the BatchNormalization
    'Conv of 'sums''       what messages call a node of the model without a name
    'features'             a tensor that it yields

Of two nodes that a name could mean the one further up in this list is taken. Nodes that compute nothing any
more (constants, shapes, Identity) cannot be asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from calib8.model.graph import label, sole_consumer
from calib8.ops.groups import KEEPING, OF_SHAPES


def tensor_makers(original: ir.Model, prepared: ir.Model) -> dict[str, str]:
    """Tensor of either graph → name of the node of the prepared graph that yields it.

    A tensor of the model that the prepared graph has no more belongs to the node that does its work: the
    one that yields the next tensor behind it that there is still.

    Args:
        original: the model as it was loaded.
        prepared: what the passes made of it; its nodes have names.
    """
    found = {value.name or "": node.name or "" for node in prepared.graph for value in node.outputs}
    for node in reversed(list(_computing(original))):  # so the next node's tensors are there already
        name = _does_its_work(node, found)
        if name is not None:
            found.update({value.name or "": name for value in node.outputs if value.name not in found})
    return found


def node_names(original: ir.Model, prepared: ir.Model) -> dict[str, str]:
    """Every name that asks for a node → its name in the prepared graph; see the top of the file."""
    makers = tensor_makers(original, prepared)
    found = {node.name or "": node.name or "" for node in prepared.graph}
    made = [(node, makers[node.outputs[0].name or ""]) for node in original.graph if _is_made(node, makers)]
    for node, name in made:
        if node.name:
            found.setdefault(node.name, name)
    for node, name in made:
        found.setdefault(label(node), name)
    for tensor, name in makers.items():
        found.setdefault(tensor, name)
    return found


def _is_made(node: ir.Node, makers: dict[str, str]) -> bool:
    return bool(node.outputs) and node.outputs[0].name in makers


def _does_its_work(node: ir.Node, makers: dict[str, str]) -> str | None:
    """Follows what a node yields until the prepared graph has it."""
    first, seen = node, set[ir.Node]()
    while node not in seen:
        seen.add(node)
        for value in node.outputs:
            if value.name in makers:
                return makers[value.name or ""]
        reader = sole_consumer(node.outputs[0])
        if reader is None or first.op_type in KEEPING:
            return None
        node = reader
    return None


def _computing(model: ir.Model) -> Iterator[ir.Node]:
    """The nodes that work on what is fed, and not on shapes alone."""
    changing = {value for value in model.graph.inputs if value.name not in model.graph.initializers}
    for node in model.graph:
        if node.op_type not in OF_SHAPES and any(value in changing for value in node.inputs):
            changing.update(node.outputs)
            yield node
