"""Every tensor gets one shape: given shapes on the inputs, shape arithmetic folded, nothing left open.

x [N, 3, H, W] with {"x": (1, 3, 224, 224)}   →   x [1, 3, 224, 224]
Reshape(x, Concat(Shape(x), …))                →   Reshape(x, constant)
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes
from onnxscript import optimizer

from calib8.errors import UnsupportedModelError
from calib8.model.fix_sizes import Given as Given
from calib8.model.fix_sizes import fix_sizes, listed
from calib8.model.graph import size_name
from calib8.model.infer_shapes import infer_shapes
from calib8.ops.questions import is_quantizer, is_standard
from calib8.passes.simplify import FOLD_INPUT_LIMIT, FOLD_OUTPUT_LIMIT
from calib8.quantization.qdq import label


def fix_inputs(model: ir.Model, shapes: Given | None) -> None:
    """Concrete shapes on all inputs; shapes of everything else are forgotten, to be inferred anew.

    Raises:
        UsageError, UnsupportedModelError: see ``fix_sizes``.
    """
    _forget(model, fix_sizes(model, shapes))


def _forget(model: ir.Model, bound: Mapping[str, int]) -> None:
    """Stated shapes may be those of another input size; only ops that nobody can infer keep theirs."""
    for node in model.graph:
        for value in node.outputs:
            if is_standard(node) or value.shape is None:
                value.shape = None
                continue
            sizes = [bound.get(size_name(size), size) for size in value.shape]
            value.shape = ir.Shape([None if _is_negative(size) else size for size in sizes])


def _is_negative(size: int | ir.SymbolicDim) -> bool:
    """−1, as some exporters state a free axis."""
    return isinstance(size, int) and size < 0


def infer_anew(model: ir.Model) -> None:
    """Shapes behind the inputs, inferred from nothing else: what was known may have changed."""
    _forget(model, {})
    infer_shapes(model)


def rewrite(model: ir.Model) -> int:
    """``op(constants) → constant``, ``Shape(x) → constant``; quantizers of constants stay what they are.

    ConstantOfShape is folded too: old exporters make the amounts of a Pad with it. The shapes are inferred
    already: ``canonical_qdq`` does so behind every step that changed something.

    Returns:
        Nodes removed.
    """
    before = model.graph.num_nodes()
    optimizer.fold_constants(
        model,
        onnx_shape_inference=True,
        input_size_limit=FOLD_INPUT_LIMIT,
        output_size_limit=FOLD_OUTPUT_LIMIT,
        should_fold=_may_fold,
    )
    ir_passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    ir_passes.RemoveUnusedNodesPass()(model)
    return before - model.graph.num_nodes()


def _may_fold(node: ir.Node) -> bool | None:
    """True and False decide, None leaves it to the pass (which leaves quantizers of codes alone as well)."""
    if is_quantizer(node):
        return False
    return True if node.op_type == "ConstantOfShape" else None


def refuse_open_shapes(model: ir.Model) -> None:
    """What shape inference left open where it began depends on the data.

    Of an op that nobody but its runtime knows nothing is said.

    Raises:
        UnsupportedModelError: with the names of the tensors.
    """
    found = [
        f"'{value.name}' of {node.op_type} '{label(node)}'"
        for node in model.graph
        for value in node.outputs
        if (value.uses() or value.is_graph_output()) and not _is_concrete(value)
        if node.domain == "" and all(source is None or _is_concrete(source) for source in node.inputs)
    ]
    if found:
        raise UnsupportedModelError(
            model.graph.name or "model",
            f"the sizes of these tensors are not known before it runs: {listed(found)}",
            "Cut the model before the first of them",
        )


def _is_concrete(value: ir.Value) -> bool:
    return value.shape is not None and all(isinstance(size, int) for size in value.shape)
