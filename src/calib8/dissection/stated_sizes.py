"""A graph with the shapes of one run: what it computes of sizes, as exporters write it, becomes constant.

    Reshape(x, Concat(Shape(x)[0], 144, −1))   →   Reshape(x, [1, 144, −1])
    Slice(x, 0, Shape(x)[1] / 2)               →   Slice(x, 0, 64)

Shapes behind such a node are known then, and may say more. Quantizers of constants stay what they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import add_constant, int_attribute
from calib8.model.infer_shapes import infer_shapes, with_input_shapes
from calib8.ops.questions import is_quantizer, is_standard
from calib8.passes.evaluate_constants import evaluate_constants
from calib8.passes.simplify import FOLD_OUTPUT_LIMIT


def with_sizes_of_run(model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> ir.Model:
    """A copy whose inputs have these shapes, all others inferred, and no size computed that is known.

    Args:
        model: a graph whose constants are initializers.
        shapes: of the inputs, by name.
    """
    copy = with_input_shapes(model, shapes)
    while _state_shapes(copy):
        evaluate_constants(copy, FOLD_OUTPUT_LIMIT, lambda node: not is_quantizer(node))
        infer_shapes(copy)
    return copy


def _state_shapes(model: ir.Model) -> int:
    """Constants in place of the Shape of tensors whose sizes are all known; returns how many."""
    done = 0
    for node in list(model.graph):
        sizes = _known_shape(node)
        if sizes is not None and node.outputs[0].uses():
            stated = add_constant(model.graph, f"{node.name}/stated", np.array(sizes, np.int64))
            ir.convenience.replace_all_uses_with(node.outputs[0], stated)
            done += 1
    if done:
        ir_passes.RemoveUnusedNodesPass()(model)
    return done


def _known_shape(node: ir.Node) -> tuple[int, ...] | None:
    """What a Shape yields; None for other nodes, sizes that are not known, and an output of the graph."""
    if node.op_type != "Shape" or not is_standard(node) or node.outputs[0].is_graph_output():
        return None
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    if shape is None:
        return None
    first, last = int_attribute(node, "start", 0), int_attribute(node, "end", len(shape))
    sizes = tuple(size for size in shape.dims[first:last] if isinstance(size, int))
    return sizes if len(sizes) == len(shape.dims[first:last]) else None
