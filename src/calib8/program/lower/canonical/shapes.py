"""Every tensor gets one shape: given shapes on the inputs, shape arithmetic folded, nothing left open.

x [N, 3, H, W] with {"x": (1, 3, 224, 224)}   →   x [1, 3, 224, 224]
Reshape(x, Concat(Shape(x), …))                →   Reshape(x, constant)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes
from onnxscript import optimizer

from calib8.errors import UnsupportedModelError, UsageError
from calib8.model.graph import size_name
from calib8.model.infer_shapes import infer_shapes
from calib8.passes.simplify import FOLD_INPUT_LIMIT, FOLD_OUTPUT_LIMIT
from calib8.quantization.qdq import QUANTIZERS, label

Given = Mapping[str, Sequence[int]]
SHOWN = 8
"""Entries of a list that a message shows."""


def fix_inputs(model: ir.Model, shapes: Given | None) -> None:
    """Concrete shapes on all inputs; shapes of everything else are forgotten, to be inferred anew.

    A symbol that a given shape binds has that size everywhere. A free first axis is the batch and becomes 1.

    Raises:
        UsageError: a shape for no input, of wrong rank, not positive, or against what the model states.
        UnsupportedModelError: another free axis has no given shape.
    """
    given = shapes or {}
    inputs = {value.name or "": value for value in model.graph.inputs}
    for name in given:
        if name not in inputs:
            raise UsageError(f"shape of '{name}'", "is no input", f"Inputs are {', '.join(inputs)}")
    bound: dict[str, int] = {}
    for name, sizes in given.items():
        _bind(inputs[name], tuple(sizes), bound)
    open_axes = [text for value in inputs.values() for text in _close(value, bound)]
    if open_axes:
        raise UnsupportedModelError(
            model.graph.name or "model",
            f"has axes of unknown size: {_listed(open_axes)}",
            "Give a shape for the input, with a size for every axis",
        )
    _forget(model, bound)


def _bind(value: ir.Value, sizes: tuple[int, ...], bound: dict[str, int]) -> None:
    """A given shape goes onto an input, its symbols into ``bound``."""
    subject, text = f"shape {'×'.join(map(str, sizes))} of '{value.name}'", str(value.shape)
    if any(size < 1 for size in sizes):
        raise UsageError(subject, "has sizes below 1", "Give a positive size for every axis")
    stated = list(value.shape) if value.shape is not None else [ir.SymbolicDim(None)] * len(sizes)
    if len(stated) != len(sizes):
        cure = f"Give {len(stated)} sizes"
        raise UsageError(subject, f"has {len(sizes)} axes, the model has {text}", cure)
    for have, size in zip(stated, sizes, strict=True):
        if isinstance(have, int) and have > 0 and have != size:
            raise UsageError(subject, f"contradicts the model's {text}", "Change only free axes")
        symbol = size_name(have)
        if symbol and bound.setdefault(symbol, size) != size:
            cure = "Give axes of the same name the same size"
            raise UsageError(subject, f"makes '{symbol}' {size}, elsewhere it is {bound[symbol]}", cure)
    value.shape = ir.Shape(sizes)


def _close(value: ir.Value, bound: dict[str, int]) -> list[str]:
    """Fills the free axes of an input; the ones that stay open, in words."""
    if value.shape is None:
        return [f"'{value.name}', all of it"]
    sizes: list[int] = []
    missing = []
    for axis, size in enumerate(value.shape):
        symbol = size_name(size)
        known = size if isinstance(size, int) and size > 0 else bound.get(symbol)
        if known is None and axis == 0:
            known = bound.setdefault(symbol, 1) if symbol else 1
        if known is None:
            missing.append(f"'{value.name}' axis {axis}" + (f" ({symbol})" if symbol else ""))
        sizes.append(known or 0)
    if not missing:
        value.shape = ir.Shape(sizes)
    return missing


def _forget(model: ir.Model, bound: Mapping[str, int]) -> None:
    """Stated shapes may be those of another input size; only ops that nobody can infer keep theirs."""
    for node in model.graph:
        for value in node.outputs:
            if node.domain in ("", "ai.onnx") or value.shape is None:
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

    ConstantOfShape is folded too: old exporters make the amounts of a Pad with it.

    Returns:
        Nodes removed.
    """
    before = model.graph.num_nodes()
    infer_shapes(model)
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
    if node.op_type in QUANTIZERS:
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
            f"the sizes of these tensors are not known before it runs: {_listed(found)}",
            "Cut the model before the first of them",
        )


def _is_concrete(value: ir.Value) -> bool:
    return value.shape is not None and all(isinstance(size, int) for size in value.shape)


def _listed(entries: Sequence[str]) -> str:
    more = f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return ", ".join(entries[:SHOWN]) + more
