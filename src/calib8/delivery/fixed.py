"""Quantized models some of whose inputs are fixed before they are compiled or exported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from calib8.errors import UsageError
from calib8.model.fix_inputs import with_fixed
from calib8.model.infer_shapes import infer_shapes
from calib8.model.load import load_model
from calib8.parameters import parameter
from calib8.passes.branches import holds_branches
from calib8.passes.simplify import restore_outputs
from calib8.program.lower.canonical import shapes
from calib8.program.magic import is_program_file
from calib8.tflite.magic import claims_to_be_tflite

if TYPE_CHECKING:
    import onnx


def fixed_source(model: Path, fix: Mapping[str, Any] | None) -> Path | onnx.ModelProto:
    """The model, with inputs that are fixed as constants; its path where none is.

    Args:
        model: an ONNX file; anything else where nothing is fixed.
        fix: input name → the value that it always has.

    Raises:
        UsageError: no ONNX model, no such input, or a value that does not fit.
        ModelError: the model cannot be read.
    """
    if not fix:
        return model
    if is_program_file(model) or claims_to_be_tflite(model):
        what = "a TFLite model" if claims_to_be_tflite(model) else "a saved program"
        problem = f"{model} is {what}, and inputs of ONNX models are fixed"
        raise UsageError(parameter("fix"), problem, "Leave it out, or fix them where the model is made")
    found = with_fixed(model, fix)
    assert isinstance(found, ir.Model)
    return ir.to_proto(found)


def fixed_graph(model: Path, fix: Mapping[str, Any] | None) -> ir.Model:
    """The graph of an ONNX model with inputs that are fixed as constants, and branches that they choose.

    Args:
        model, fix: as for ``fixed_source``.

    Raises:
        UsageError, ModelError: as for ``fixed_source``.
    """
    loaded = load_model(with_fixed(model, fix))
    if not fix or not holds_branches(loaded):
        return loaded
    taken = loaded.clone()
    taken.meta.update(loaded.meta)
    names = [value.name for value in taken.graph.outputs]
    infer_shapes(taken)
    shapes.rewrite(taken)
    restore_outputs(taken.graph, names)
    return taken
