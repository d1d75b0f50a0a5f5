"""Sigmoid and Tanh of what a layer gives in float32: at the end of a graph, or before codes.

    sums ─► Dequantize ─► RealFunction ─► output
                                       └► moves, QuantizeLinear

Where float nodes go on with the result ONNX Runtime computes it with them.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from calib8.model.states import MOVES
from calib8.program.lower.builder import Builder
from calib8.program.lower.floats import FloatDraft, real_slot
from calib8.program.lower.forms import Real, Sums

REAL_FUNCTIONS: Final = ("Sigmoid", "Tanh")
"""Those without parameters that end networks."""


def real_source(builder: Builder, node: ir.Node) -> int | None:
    """Slot of the float32 values that a node is a RealFunction of; None where it is none."""
    value = node.inputs[0]
    if node.op_type not in REAL_FUNCTIONS or value is None or value.dtype != ir.DataType.FLOAT:
        return None
    if builder.profile == "tflite":  # whose own kernel an exported file has
        return None
    if not _ends(builder, node.outputs[0]) or not _is_own(builder, value):
        return None
    return real_slot(builder, value)


def _ends(builder: Builder, value: ir.Value) -> bool:
    """Whether nothing but moves and quantizers reads a value."""
    return all(
        reader.op_type == "QuantizeLinear" or (reader.op_type in MOVES and _ends(builder, reader.outputs[0]))
        for reader in builder.readers.get(value, ())
    )


def _is_own(builder: Builder, value: ir.Value) -> bool:
    """Whether the program's own instructions give a value in float32: of sums, or moved since."""
    form = builder.forms.get(value)
    if isinstance(form, Real):
        return form.own or any(
            form.slot in step.outputs for step in builder.steps if not isinstance(step, FloatDraft)
        )
    return isinstance(form, Sums) and form.unbounded
