"""Which graphs hold nothing that onnxscript's rewrites could change, so that onnxscript need not be loaded.

    plain:  Conv → Relu → MaxPool → Add → … → Gemm, every node fed by at least one computed tensor

Loading onnxscript takes a fifth of a second and 25 MB. Convolutional networks that were exported for
inference mostly hold layers alone. A graph is called plain only where every rule of ``simplify`` looks for
something that is not there; whether it does so rightly is held by tests that prepare networks both ways.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from calib8.ops.groups import CLAMPS
from calib8.ops.questions import joins

SAME_SINCE: Final = {
    "Add": 7, "AveragePool": 10, "BatchNormalization": 9, "Clip": 11, "Concat": 4, "Constant": 11, "Conv": 11,
    "Flatten": 11, "Gemm": 11, "GlobalAveragePool": 1, "GlobalMaxPool": 1, "MatMul": 9, "MaxPool": 11,
    "Relu": 6, "Reshape": 5, "Softmax": 13, "Sum": 8,
}  # fmt: skip
"""Op → operator set since which, up to 17, a float32 node of it keeps its meaning as it stands.

What came later are types, and attributes whose default is what was before. Outputs of BatchNormalization
beside the first, which training uses, did change: they are none of a plain graph.
"""

LAYERS: Final = SAME_SINCE.keys() - {"Constant"}
"""Ops that a plain graph consists of."""


def holds_layers_alone(graph: ir.Graph) -> bool:
    """Whether a graph may be plain; once its shapes are inferred, ``is_plain`` tells."""
    return all(not node.domain and node.op_type in LAYERS for node in graph)


def is_plain(graph: ir.Graph) -> bool:
    """Whether constant folding and the rules of ``simplify`` have nothing to do.

    Args:
        graph: its constants are initializers and its shapes are inferred.
    """
    return all(_is_plain(node) for node in graph)


def _is_plain(node: ir.Node) -> bool:
    """Each line rules out what one kind of rule looks for."""
    inputs = [value for value in node.inputs if value is not None]
    computed = [value for value in inputs if value.const_value is None]
    if node.domain or node.op_type not in LAYERS or not computed:
        return False
    if node.op_type in ("Add", "Sum"):  # x + 0, hard-swish's x + 3
        return len(computed) == len(inputs)
    if node.op_type in CLAMPS:  # two of them in a row become one
        maker = computed[0].producer()
        return maker is None or maker.op_type not in CLAMPS
    if joins(node):  # one operand, or one that holds nothing
        return len(inputs) == len(computed) > 1 and not any(_may_be_empty(value) for value in inputs)
    if node.op_type == "Reshape":  # to the shape that is there
        return _changes_rank(node)
    automatic = node.attributes.get("auto_pad")
    return automatic is None or automatic.as_string() == "NOTSET"


def _may_be_empty(value: ir.Value) -> bool:
    return value.shape is None or 0 in value.shape.dims


def _changes_rank(node: ir.Node) -> bool:
    value, wanted = node.inputs[0], node.inputs[1]
    if value is None or value.shape is None or wanted is None or wanted.const_value is None:
        return False
    return len(value.shape) != wanted.const_value.size


def means_the_same(graph: ir.Graph, before: int) -> bool:
    """Whether every node means in operator set 17 what it meant in ``before``: only the number changes.

    Args:
        graph: functions are inlined.
        before: operator set of the graph, 17 at most.
    """
    return all(
        not node.domain and len(node.outputs) == 1 and SAME_SINCE.get(node.op_type, before + 1) <= before
        for node in graph
    )
