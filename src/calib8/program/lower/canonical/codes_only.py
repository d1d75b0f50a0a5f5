"""Ops that run on codes directly get quantizers around them, with the scale that the codes have.

Q(s, z) → MaxPool → DQ(s, z)   →   Q(s, z) → DQ(s, z) → MaxPool → Q(s, z) → DQ(s, z)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, constant, input_at
from calib8.ops.groups import BOUNDS, DATA_ON_CODES, KEEPING
from calib8.ops.questions import dequantizes, pads, rectifies
from calib8.program.lower.canonical.codings import CODE_TYPES, Coding, coding_of
from calib8.program.lower.canonical.edits import insert_behind, new_node, set_input
from calib8.quantization.qdq import stored_type

OPERANDS: Final[Mapping[str, tuple[int, ...] | None]] = {
    op: places for op, places in DATA_ON_CODES.items() if op not in KEEPING
}
"""Op → places of the inputs that hold codes, None for all of them."""


def rewrite(model: ir.Model) -> int:
    """Every op of ``OPERANDS`` on codes whose scale is known works on dequantized values instead.

    The scale is that of the quantizers before it, else that of a DequantizeLinear behind it. Bounds stated
    in codes become real numbers. A value of codes keeps its name. Exact for all of them, but a Resize that
    interpolates: ONNX Runtime truncates codes, a quantizer rounds.

    Returns:
        Nodes rewritten; ops on bytes that no quantizer has anything to do with stay.
    """
    names = Names(model.graph)
    rewritten = 0
    for node in list(model.graph):
        places = _operands(node)
        coding = None if not places else _coding(node, places)
        if coding is None:
            continue
        _on_real_values(names, node, places, coding)
        rewritten += 1
    return rewritten


def _operands(node: ir.Node) -> tuple[int, ...]:
    """Places of the inputs that hold codes; empty for a node that is not meant."""
    if node.op_type not in OPERANDS or node.domain:
        return ()
    places = OPERANDS[node.op_type] or tuple(range(len(node.inputs)))
    operands = [node.inputs[place] for place in places]
    kinds = {None if value is None else stored_type(value) for value in operands}
    bounds = [input_at(node, place) for place in BOUNDS.get(node.op_type, ())]
    stated = all(value is None or constant(value) is not None for value in bounds)
    return places if stated and len(kinds) == 1 and kinds <= set(CODE_TYPES) else ()


def _coding(node: ir.Node, places: tuple[int, ...]) -> Coding | None:
    """Scale of the codes that a node reads, or of those that it writes."""
    for place in places:
        source = node.inputs[place]
        coding = None if source is None else coding_of(source.producer())
        if coding is not None:
            return coding
    return _coding_behind(node.outputs[0])


def _coding_behind(codes: ir.Value) -> Coding | None:
    """Scale of the first DequantizeLinear that reads codes, also through ops of ``OPERANDS``."""
    waiting = [codes]
    while waiting:
        value = waiting.pop()
        for use in value.uses():
            coding = coding_of(use.node) if dequantizes(use.node) else None
            if coding is not None:
                return coding
            if use.idx in _operands(use.node):
                waiting += use.node.outputs
    return None


def _on_real_values(names: Names, node: ir.Node, places: tuple[int, ...], coding: Coding) -> None:
    for place in places:
        source = node.inputs[place]
        assert source is not None
        stem = f"{node.name}/{place}"
        dequantize = new_node(
            names,
            "DequantizeLinear",
            [source, *coding.parameters],
            name=f"{stem}/DequantizeLinear",
            result=f"{source.name}/dequantized",
        )
        dequantize.outputs[0].dtype, dequantize.outputs[0].shape = ir.DataType.FLOAT, source.shape
        names.graph.insert_before(node, dequantize)
        node.replace_input_with(place, dequantize.outputs[0])
    _state_bounds(names, node, coding)
    for value in node.outputs:
        if value.dtype == coding.dtype:
            _code_output(names, value, coding)


def _state_bounds(names: Names, node: ir.Node, coding: Coding) -> None:
    """Limits of a Clip, the value of a Pad (code 0 if omitted) and the 0 of a Relu as real numbers."""
    for place in BOUNDS.get(node.op_type, ()):
        bound = input_at(node, place)
        array = constant(bound)
        if array is not None:
            real = coding.real(int(array.reshape(-1)[0]))
            set_input(node, place, names.constant(f"{node.name}/bound", np.array(real, np.float32)))
        elif pads(node) and bound is None:
            set_input(node, place, names.constant(f"{node.name}/bound", np.array(coding.real(0), np.float32)))
    if rectifies(node) and coding.zero_point != 0:
        node.op_type = "Clip"
        set_input(node, 1, names.constant(f"{node.name}/bound", np.array(coding.real(0), np.float32)))


def _code_output(names: Names, value: ir.Value, coding: Coding) -> None:
    """``value`` becomes float; a QuantizeLinear behind it yields the codes under the old name."""
    name = value.name or ""
    stem = name.removesuffix("_quantized")
    coder = new_node(
        names,
        "QuantizeLinear",
        [None, *coding.parameters],
        name=f"{name}/QuantizeLinear",
        result=stem if stem != name else f"{name}/float",
        like=value,
    )
    codes = coder.outputs[0]
    value.replace_all_uses_with(codes, replace_graph_outputs=True)
    coder.replace_input_with(0, value)
    value.dtype = ir.DataType.FLOAT
    value.name, codes.name = codes.name, name
    insert_behind(names.graph, value, [coder])
