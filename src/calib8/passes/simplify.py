"""Constants folded, identities and dropout removed, padding and hard-swish written as one node each.

The rewrites are those of onnx-ir and onnxscript; only their choice is made here. onnxscript is loaded where
one of its rewrites may find something (``plain``).
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.passes.evaluate_constants import draws_numbers, evaluate_constants
from calib8.passes.neutral_constants import neutral_to_identity
from calib8.passes.normalize import quiet
from calib8.passes.plain import holds_layers_alone, is_plain

FOLD_INPUT_LIMIT = 1 << 22
FOLD_OUTPUT_LIMIT = 1 << 24
"""Elements; larger constants are left to the runtime (an Expand must not blow a file up)."""


def fold_constants(model: ir.Model) -> int:
    """``op(constants) → constant``, shape arithmetic included; unused nodes vanish.

    Returns:
        Nodes removed.
    """
    before = model.graph.num_nodes()
    if holds_layers_alone(model.graph):
        ir_passes.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    if not is_plain(model.graph):
        _fold(model)
        while evaluate_constants(model, FOLD_OUTPUT_LIMIT):  # sizes may follow from what is known now
            _fold(model)
    ir_passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    ir_passes.RemoveUnusedNodesPass()(model)
    return before - model.graph.num_nodes()


def _fold(model: ir.Model) -> None:
    from onnxscript import optimizer

    with quiet("onnxscript"):
        optimizer.fold_constants(
            model,
            onnx_shape_inference=True,
            input_size_limit=FOLD_INPUT_LIMIT,
            output_size_limit=FOLD_OUTPUT_LIMIT,
            should_fold=lambda node: False if draws_numbers(node) else None,
        )
    ir_passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    ir_passes.RemoveUnusedNodesPass()(model)


def remove_identities(model: ir.Model) -> int:
    """``Identity(x) → x``, ``Dropout(x) → x``, ``Cast`` to the own type, ``x·1``, ``x+0``.

    Returns:
        Nodes removed.
    """
    if is_plain(model.graph):
        return 0
    from onnxscript.rewriter.rules import common as rules

    before = model.graph.num_nodes()
    chosen = (
        rules.dropout_zero_rule,
        rules.dropout_inference_rule,
        rules.cast_cast_rule,
        rules.no_op_cast_rule,
        rules.successive_relu_rule,
        rules.successive_clip_relu_rule,
        rules.successive_relu_clip_rule,
        rules.successive_clip_rule,
        rules.transpose_transpose_rule,
    )
    names = [value.name for value in model.graph.outputs]
    neutral_to_identity(model)
    _rewrite(model, chosen)
    ir_passes.IdentityEliminationPass()(model)
    restore_outputs(model.graph, names)
    ir_passes.RemoveUnusedNodesPass()(model)
    return before - model.graph.num_nodes()


def restore_outputs(graph: ir.Graph, names: list[str | None]) -> None:
    """Two outputs that became one value get their own names back, one of them through an Identity."""
    for index, (value, name) in enumerate(zip(list(graph.outputs), names, strict=True)):
        if value.name != name:
            copy = ir.node("Identity", [value], name=f"{name}/Identity")
            copy.outputs[0].name, copy.outputs[0].type = name, value.type
            copy.outputs[0].shape = value.shape
            graph.append(copy)
            graph.outputs[index] = copy.outputs[0]


def fold_pads(model: ir.Model) -> int:
    """``Conv(Pad(x)) → Conv(x, pads)`` for zero padding.

    Automatic padding becomes explicit where sizes are known.

    Returns:
        Pad nodes removed.
    """
    if is_plain(model.graph):
        return 0
    from onnxscript.rewriter.rules import common as rules

    before = model.graph.num_nodes()
    _rewrite(model, (rules.normalize_pad_format_conv_rule, rules.fuse_pad_into_conv_rule))
    ir_passes.RemoveUnusedNodesPass()(model)
    return before - model.graph.num_nodes()


def fuse_hard_swish(model: ir.Model) -> int:
    """``x · Clip(x + 3, 0, 6) / 6 → HardSwish(x)`` and the like for HardSigmoid.

    Returns:
        Nodes removed.
    """
    if is_plain(model.graph):
        return 0
    from onnxscript.rewriter.rules import common as rules

    before = model.graph.num_nodes()
    _rewrite(model, rules.fuse_hardswish_rules())
    ir_passes.RemoveUnusedNodesPass()(model)
    return before - model.graph.num_nodes()


def _rewrite(model: ir.Model, rules: Any) -> None:
    """Runs rules of onnxscript; a node that they make goes by the name of the one that yielded its tensor."""
    from onnxscript import rewriter

    makers = {value.name: node.name for node in model.graph for value in node.outputs}
    before = set(makers.values())
    rewriter.RewritePass(rules)(model)
    taken = {node.name for node in model.graph}
    for node in model.graph:
        name = makers.get(node.outputs[0].name)
        if node.name not in before and name not in taken:
            node.name = name
            taken.add(name)
