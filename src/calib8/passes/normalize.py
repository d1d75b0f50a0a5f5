"""One form for all exporters: functions inlined, constants as initializers, operator set ≥ 17, names."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.errors import UnsupportedModelError
from calib8.model.graph import first_free, opset_version
from calib8.ops.questions import resizes
from calib8.passes.plain import means_the_same

WORKING_OPSET: Final = 17
"""Older models are brought here: Clip, Pad, Squeeze, Softmax … then have one form each."""

RESIZE_WITH_COORDINATES: Final = 11
"""First operator set whose Resize says where an output pixel lies in the input."""

MINIMUM_IR_VERSION: Final = 8


def normalize(model: ir.Model) -> int:
    """Inlines functions, drops initializers from the inputs, lifts Constant nodes, updates the operator set.

    Every node gets a unique name; value names stay as they are.

    Returns:
        Versions of the operator set that were crossed.

    Raises:
        UnsupportedModelError: the operator set cannot be converted.
    """
    _run(ir_passes.InlinePass(), model)
    _run(ir_passes.RemoveInitializersFromInputsPass(), model)
    before = opset_version(model)
    if before < WORKING_OPSET:
        _convert(model, before)
    if before < RESIZE_WITH_COORDINATES:
        _state_old_coordinates(model)
    _run(ir_passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0), model)
    model.ir_version = max(model.ir_version, MINIMUM_IR_VERSION)
    _name_nodes(model)
    return max(WORKING_OPSET - before, 0)


def _convert(model: ir.Model, before: int) -> None:
    if means_the_same(model.graph, before):
        model.graph.opset_imports[""] = WORKING_OPSET
        _run(ir_passes.RemoveUnusedNodesPass(), model)
        _run(ir_passes.RemoveUnusedOpsetsPass(), model)
        return
    from onnxscript.version_converter import ConvertVersionPass

    try:
        with quiet("onnxscript"):
            _run(ConvertVersionPass(WORKING_OPSET, fallback=True), model)
    except Exception as error:
        raise UnsupportedModelError(
            model.graph.name or "model",
            f"operator set {before} cannot be converted to {WORKING_OPSET} ({error})",
            f"Export it with opset_version={WORKING_OPSET}",
        ) from error
    if opset_version(model) < WORKING_OPSET:
        raise UnsupportedModelError(
            model.graph.name or "model",
            f"operator set {before} cannot be converted to {WORKING_OPSET}",
            f"Export it with opset_version={WORKING_OPSET}",
        )


def _state_old_coordinates(model: ir.Model) -> None:
    """A Resize that was an Upsample or a Resize of operator set 10 keeps the positions these had.

    Back then output pixel i lay at i / scale; the converter leaves the attributes away, whose default today
    is (i + 0.5) / scale − 0.5. Nearest took the floor.
    """
    for node in model.graph:
        if resizes(node) and "coordinate_transformation_mode" not in node.attributes:
            node.attributes["coordinate_transformation_mode"] = ir.AttrString(
                "coordinate_transformation_mode", "asymmetric"
            )
            node.attributes["nearest_mode"] = ir.AttrString("nearest_mode", "floor")


def _name_nodes(model: ir.Model) -> None:
    """Nodes without a name are called after their first output."""
    taken: set[str] = set()
    for node in model.graph:
        base = node.name or (node.outputs[0].name if node.outputs else "") or node.op_type
        node.name = first_free(base, taken)
        taken.add(node.name)


def _run(step: ir.passes.PassBase, model: ir.Model) -> None:
    step(model)


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """What a library warns of that is the way taken on purpose stays out of the user's sight."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
