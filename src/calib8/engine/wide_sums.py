"""Sums and products of 16-bit codes that are rounded twice, as LiteRT does it: the core's steps round once.

Add, Sub of ScaledSum,  Mul of ``double``   →   a call of ONNX Runtime that computes the same in int64

SRDHM(x, m)   (x·m + 2^30 + 2^62) div 2^31 − 2^31          all dividends ≥ 0, so div rounds down
RDPOT(x, e)   sign(x)·((|x| + 2^(e−1)) div 2^e)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from calib8.fixedpoint import INT32_MAX, INT32_MIN
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.instructions import Instruction
from calib8.program.program import Program, Slot

OPSET: Final = 13
IR_VERSION: Final = 8
TYPES: Final = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int16": TensorProto.INT16}
REASON: Final = "the engine has no step that rounds sums of 16-bit codes twice"


def with_calls(program: Program) -> Program:
    """The program with Float instructions for what no step computes; they give the same codes."""
    if not any(slot.is_wide for slot in program.slots):
        return program
    steps = tuple(
        _call(program, step) if _rounds_twice(program, step) else step for step in program.instructions
    )
    return replace(program, instructions=steps)


def _rounds_twice(program: Program, step: Instruction) -> bool:
    if not any(program.slots[slot].is_wide for slot in step.inputs):
        return False
    if isinstance(step, op.Mul):
        return isinstance(step.rescale, rules.FixedRescale) and step.rescale.rounding == "double"
    return isinstance(step, op.Add | op.Sub) and isinstance(step.rule, rules.ScaledSum)


@dataclass(eq=False)
class _Graph:
    """Nodes over int64 so far."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[int, onnx.TensorProto] = field(default_factory=dict)

    def node(self, kind: str, *inputs: str | int) -> str:
        """What a node makes; numbers become constants."""
        result = f"t{len(self.nodes)}"
        given = [self._constant(value) if isinstance(value, int) else value for value in inputs]
        self.nodes.append(helper.make_node(kind, given, [result]))
        return result

    def cast(self, source: str, result: str, dtype: int) -> str:
        """The numbers of another type."""
        self.nodes.append(helper.make_node("Cast", [source], [result], to=dtype))
        return result

    def double(self, x: str, multiplier: int, shift: int) -> str:
        """``multiply_double_rounding``."""
        if shift > 0:
            x = self.node("Clip", self.node("Mul", x, 1 << shift), INT32_MIN, INT32_MAX)
        raised = self.node("Add", self.node("Mul", x, multiplier), (1 << 30) + (1 << 62))
        high = self.node("Sub", self.node("Div", raised, 1 << 31), 1 << 31)
        if shift >= 0:
            return high
        half = self.node("Add", self.node("Abs", high), 1 << (-shift - 1))
        return self.node("Mul", self.node("Sign", high), self.node("Div", half, 1 << -shift))

    def _constant(self, value: int) -> str:
        name = f"k{value}"
        self.constants[value] = numpy_helper.from_array(np.array(value, np.int64), name)
        return name


def _call(program: Program, step: Instruction) -> op.Float:
    """The instruction as a Float instruction of one sub-model."""
    assert isinstance(step, op.Add | op.Sub | op.Mul)
    slots = [program.slots[slot] for slot in (*step.inputs, *step.outputs)]
    graph, output = _Graph(), slots[2]
    a, b = (
        graph.node("Sub", graph.cast(name, f"{name} as int64", TensorProto.INT64), slot.zero_point)
        for name, slot in zip(("a", "b"), slots, strict=False)
    )
    steps = _product(graph, step, a, b) if isinstance(step, op.Mul) else _sum(graph, step, a, b)
    codes = graph.node("Clip", graph.node("Add", steps, output.zero_point), step.low, step.high)
    graph.cast(codes, "y", TYPES[output.dtype])
    return op.Float(step.name, step.inputs, step.outputs, _bytes(graph, slots), (step.name,), (REASON,))


def _sum(graph: _Graph, step: op.Add | op.Sub, a: str, b: str) -> str:
    rule = step.rule
    assert isinstance(rule, rules.ScaledSum)
    left, right = (
        graph.double(graph.node("Mul", x, 1 << rule.left_shift), *factor)
        for x, factor in ((a, rule.lhs), (b, rule.rhs))
    )
    total = graph.node("Add" if isinstance(step, op.Add) else "Sub", left, right)
    return graph.double(total, *rule.output)


def _product(graph: _Graph, step: op.Mul, a: str, b: str) -> str:
    rule = step.rescale
    assert isinstance(rule, rules.FixedRescale)
    return graph.double(graph.node("Mul", a, b), int(rule.multiplier[0]), int(rule.shift[0]))


def _bytes(graph: _Graph, slots: list[Slot]) -> bytes:
    ports = [
        helper.make_tensor_value_info(name, TYPES[slot.dtype], slot.shape)
        for name, slot in zip(("a", "b", "y"), slots, strict=True)
    ]
    made = helper.make_graph(graph.nodes, "sums", ports[:2], ports[2:], list(graph.constants.values()))
    opsets = [helper.make_operatorsetid("", OPSET)]
    model: onnx.ModelProto = helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION)
    data: bytes = model.SerializeToString(deterministic=True)
    return data
