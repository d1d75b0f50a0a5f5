"""A program of one TFLite operator under another rounding profile: the same scales, other rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from calib8.program import instructions as op
from calib8.program.expressions import Apply, Source
from calib8.program.instructions import Instruction
from calib8.program.lower_tflite.functions import FUNCTIONS
from calib8.program.program import Program, Slot
from calib8.program.rounding.linear import layer_rescale, product_rule, sum_rule, sums_rescale
from calib8.program.rounding.pools import average_rule, mean_rule
from calib8.program.rounding.resize import linear_axis
from calib8.program.rounding.softmax import softmax_rule
from calib8.program.rounding.tables import table
from calib8.program.rules import CodeAverage, Profile
from calib8.program.verify import verify
from calib8.qparams import QParams
from calib8.tflite.graph import Graph


class NoTwinError(Exception):
    """An instruction that has no counterpart in the other profile."""


def under_profile(program: Program, graph: Graph, profile: Profile) -> Program:
    """The program with the rules of another profile.

    Raises:
        NoTwinError: an instruction is defined by TFLite's arithmetic alone.
    """
    if profile == program.profile:
        return program
    steps = tuple(_changed(step, program, graph, profile) for step in program.instructions)
    twin = replace(program, profile=profile, instructions=steps)
    verify(twin)
    return twin


def _changed(step: Instruction, program: Program, graph: Graph, profile: Profile) -> Instruction:
    for kind, change in CHANGES.items():
        if isinstance(step, kind):
            inputs = [program.slots[number] for number in step.inputs]
            return change(step, inputs, program.slots[step.outputs[0]], graph, profile)
    return step


def _layer(step: Any, inputs: list[Slot], output: Slot, graph: Graph, profile: Profile) -> Instruction:
    found = (graph.tensors[place] for place in graph.operators[0].inputs if place >= 0)
    weight = next(t for t in found if t.data is not None and t.dtype in ("int8", "uint8"))
    assert weight.quantization is not None
    scales = weight.quantization.scales
    return replace(step, rescale=layer_rescale(profile, inputs[0].scale, scales, output.scale))


def _sum(step: Any, inputs: list[Slot], output: Slot, _: Graph, profile: Profile) -> Instruction:
    kind = "add" if isinstance(step, op.Add) else "sub"
    return replace(step, rule=sum_rule(profile, kind, *(_params(slot) for slot in (*inputs, output))))


def _product(step: Any, inputs: list[Slot], output: Slot, _: Graph, profile: Profile) -> Instruction:
    return replace(step, rescale=product_rule(profile, inputs[0].scale, inputs[1].scale, output.scale))


def _matrices(step: Any, inputs: list[Slot], output: Slot, _: Graph, profile: Profile) -> Instruction:
    return replace(step, rescale=sums_rescale(profile, inputs[0].scales * inputs[1].scales, output.scale))


def _average(step: Any, inputs: list[Slot], output: Slot, _: Graph, profile: Profile) -> Instruction:
    assert isinstance(step.rule, CodeAverage)
    taps = step.kernel[0] * step.kernel[1]
    return replace(step, rule=average_rule(profile, _params(inputs[0]), _params(output), taps))


def _mean(step: Any, inputs: list[Slot], output: Slot, graph: Graph, profile: Profile) -> Instruction:
    count = int(np.prod([inputs[0].shape[axis] for axis in step.axes]))
    kind = "sum" if graph.operators[0].op == "SUM" else "mean"
    return replace(step, rescale=mean_rule(profile, inputs[0].scale, output.scale, count, kind))


def _softmax(step: Any, inputs: list[Slot], output: Slot, graph: Graph, profile: Profile) -> Instruction:
    beta = float(graph.operators[0].options["beta"])
    source, classes = inputs[0], inputs[0].shape[-1]
    rule = softmax_rule(profile, beta * source.scale, source.dtype, _params(output), output.dtype, classes)
    return replace(step, rule=rule)


def _lookup(step: Any, inputs: list[Slot], output: Slot, graph: Graph, profile: Profile) -> Instruction:
    if step.function == "Requantize":
        return replace(step, table=table(profile, Source(), inputs[0], output))
    operator = graph.operators[0]
    if operator.op in FUNCTIONS:
        expression = FUNCTIONS[operator.op]
    elif operator.op == "LEAKY_RELU":
        expression = Apply("LeakyRelu", (Source(),), {"alpha": float(operator.options["alpha"])})
    elif operator.op == "GELU":
        how = "tanh" if operator.options["approximate"] else "none"
        expression = Apply("Gelu", (Source(),), {"approximate": how})
    elif operator.op == "ABS":
        expression = Apply("Abs", (Source(),))
    elif operator.op == "MAX_POOL_2D":
        return step  # a clamp of codes
    else:
        raise NoTwinError(step.function)
    return replace(step, table=table(profile, expression, inputs[0], output))


def _quantize(step: Any, _: list[Slot], __: Slot, ___: Graph, ____: Profile) -> Instruction:
    return replace(step, rounding="even")


def _resize(step: Any, inputs: list[Slot], output: Slot, graph: Graph, profile: Profile) -> Instruction:
    options = graph.operators[0].options
    half = "half_pixel" if options["half_pixel_centers"] else "asymmetric"
    mode = "align_corners" if options["align_corners"] else half
    rows, columns = (
        linear_axis(profile, have, wanted, float(np.float32(wanted) / np.float32(have)), mode)
        for have, wanted in zip(inputs[0].shape[1:3], output.shape[1:3], strict=True)
    )
    return replace(step, rows=rows, columns=columns)


def _params(slot: Slot) -> QParams:
    return QParams(slot.scale, slot.zero_point)


CHANGES: Final[dict[type[Instruction], Callable[..., Instruction]]] = {
    op.Weighted: _layer,
    op.MatMul: _matrices,
    op.Add: _sum,
    op.Sub: _sum,
    op.Mul: _product,
    op.AveragePool: _average,
    op.Mean: _mean,
    op.Softmax: _softmax,
    op.Lookup: _lookup,
    op.Quantize: _quantize,
    op.ResizeLinear: _resize,
}
"""Type of instruction → its twin; others are the same in every profile."""
