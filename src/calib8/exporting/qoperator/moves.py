"""What moves values, chooses among them or clamps them works on the codes as they are.

Q(s, z)(MaxPool(DQ(s, z)(x)))  →  MaxPool(x)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.exporting.qoperator.coded import (
    Operand,
    Result,
    copy_attributes,
    emit,
    operand,
    result_of,
)
from calib8.model.graph import Names, input_at, scalar_constant
from calib8.ops.questions import pads, splits
from calib8.program.lower.canonical.codings import Coding
from calib8.program.lower.canonical.edits import replace, set_input, set_type
from calib8.program.lower.canonical.movers import activation_bounds, data_inputs, stays_on_grid
from calib8.qparams import QuantSpec, quantize

NO_MOVE: Final = "it computes new values"
OFF_GRID: Final = "it brings in a value between the codes"
OTHER_CODES: Final = "its result has another scale than its input"
PAD_VALUE: Final = 2
"""Place of the constant of a Pad."""


def fuse(names: Names, node: ir.Node) -> ir.Node:
    """``Q(move(DQ(x)))`` → ``move(x)``; a constant that a Pad brings in becomes a code."""
    places = data_inputs(node)
    if not places:
        raise NoFormError(NO_MOVE)
    operands = [operand(node.inputs[place]) for place in places]
    results = [_result(value) for value in node.outputs]
    codings = [source.coding for source in operands] + [result.coding for result in results if result]
    if any(coding != codings[0] for coding in codings):
        raise NoFormError(OTHER_CODES)
    if not stays_on_grid(node, operands[0].coding):
        raise NoFormError(OFF_GRID)
    if splits(node):
        return _split(names, node, operands[0], results)
    inputs = list(node.inputs)
    for place, source in zip(places, operands, strict=True):
        inputs[place] = source.codes
    result = results[0]
    assert result is not None
    moved = emit(names, node, node.op_type, inputs, result, domain="")
    copy_attributes(node, moved)
    if pads(moved):
        _code_value(names, moved, operands[0].coding)
    return moved


def _result(value: ir.Value) -> Result | None:
    """Where the codes of an output go, None where nothing reads it."""
    return result_of(value) if value.uses() or value.is_graph_output() else None


def fuse_activation(names: Names, node: ir.Node) -> ir.Node:
    """``Q(Clip(DQ(x), low, high))`` → ``Clip(x, Q(low), Q(high))`` where the codes stay what they are."""
    source = operand(node.inputs[0])
    bounds = activation_bounds(node)
    if bounds is None:
        raise NoFormError("its limits are computed")
    result = result_of(node.outputs[0], bounds)
    if source.coding != result.coding:
        raise NoFormError(OTHER_CODES)
    kind = result.coding.dtype.numpy()
    limits = [
        names.constant(f"{node.name}/limit", np.array(code, kind)) for code in (result.low, result.high)
    ]
    return emit(names, node, "Clip", [source.codes, *limits], result.unlimited(), domain="")


def _split(names: Names, node: ir.Node, source: Operand, results: Sequence[Result | None]) -> ir.Node:
    """All parts at once; None stands for a part that nothing reads."""
    if any(result is not None and not result.saturates for result in results):
        raise NoFormError("its parts are clamped")
    inputs, graph = [source.codes, *node.inputs[1:]], names.graph
    split = ir.node("Split", inputs, num_outputs=len(results), name=names.node("Split"))
    graph.insert_before(node, split)
    copy_attributes(node, split)
    for value, part, result in zip(node.outputs, split.outputs, results, strict=True):
        set_type(part, source.coding.dtype)
        part.name, part.shape = names.value(f"{value.name}/codes"), value.shape
        if result is not None:
            replace(graph, result.quantizer.outputs[0], part)
            for gone in reversed(result.tail.activations):
                graph.remove(gone, safe=True)
    graph.remove(node, safe=True)
    split.name = node.name
    return split


def _code_value(names: Names, pad: ir.Node, coding: Coding) -> None:
    """The constant of a Pad as a code."""
    mode = pad.attributes.get("mode")
    if mode is None or mode.as_string() == "constant":
        real = scalar_constant(input_at(pad, PAD_VALUE)) or 0.0
        code = quantize(
            np.array(real),
            coding.scale,
            coding.zero_point,
            QuantSpec(signed=coding.dtype == ir.DataType.INT8),
        )
        set_input(pad, PAD_VALUE, names.constant(f"{pad.name}/value", code))
