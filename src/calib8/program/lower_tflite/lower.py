"""Lowering: a checked TFLite graph becomes a program, operator by operator, with TFLite's own arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from calib8.errors import ModelError, UnsupportedModelError
from calib8.program.instructions import Instruction
from calib8.program.lower_tflite.arity import misuse, odd_option
from calib8.program.lower_tflite.builder import Builder, NoFormError
from calib8.program.lower_tflite.constraints import broken_constraint
from calib8.program.lower_tflite.cut import up_to
from calib8.program.lower_tflite.operators import LOWER
from calib8.program.lower_tflite.sizes import wrong_shape
from calib8.program.program import Port, Program
from calib8.program.verify import verify
from calib8.tflite.graph import Graph, Operator

TROUBLE: Final = (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError)
"""What an operator's function trips over where sizes, axes or options of the file make no sense."""


def lower_tflite(
    graph: Graph,
    name: str = "model",
    *,
    outputs: Sequence[str] | None = None,
    integer_only: bool = False,
) -> Program:
    """The program of a quantized model; profile ``tflite``.

    Args:
        graph: checked.
        name: of the model, for messages.
        outputs: tensors in place of the model's outputs; what lies behind them is left out.
        integer_only: refuse operators without an integer form instead of running them in ONNX Runtime.

    Raises:
        UsageError: ``outputs`` names something that is not computed.
        UnsupportedModelError: operators without an integer form; all of them are listed.
        ModelError: the model contradicts itself.
    """
    graph = graph if outputs is None else up_to(graph, outputs)
    builder = Builder(graph)
    inputs = _ports(builder, graph.inputs, name)
    problems = [text for operator in graph.operators if (text := _emitted(builder, operator))]
    if problems:
        raise UnsupportedModelError(
            name,
            f"{len(problems)} operators have no integer form: {'; '.join(problems)}",
            "Export the model without them",
        )
    ends = _ports(builder, graph.outputs, name)
    program = Program("tflite", tuple(builder.slots), _live(builder, ends), inputs, ends, name)
    verify(program)
    return program


def _ports(builder: Builder, places: Sequence[int], name: str) -> tuple[Port, ...]:
    try:
        return tuple(Port(builder.tensor(place).name, builder.number(place)) for place in places)
    except NoFormError as reason:
        raise UnsupportedModelError(
            name, f"an input or output has no integer form: {reason}", "Export the model without it"
        ) from None


def _emitted(builder: Builder, operator: Operator) -> str:
    """Empty, or the operator and why it has no form."""
    problem = _problem(builder, operator)
    title = operator.custom_code or operator.op
    if problem is None:
        return ""
    return (
        f"{title}: unknown"
        if operator.op not in LOWER
        else f"'{builder.name(operator)}' ({title}): {problem}"
    )


def _problem(builder: Builder, operator: Operator) -> str | None:
    """Lowers an operator, or says why that cannot be."""
    graph, lower = builder.graph, LOWER.get(operator.op)
    if lower is None:
        return "unknown"
    problem = misuse(graph, operator)
    if problem is not None:
        return problem
    try:
        with np.errstate(all="ignore"):  # of sizes and scales that make no sense: told by what comes out
            lower(builder, operator)
        return broken_constraint(graph, operator) or odd_option(operator) or wrong_shape(graph, operator)
    except NoFormError as reason:
        return str(reason)
    except ModelError as error:
        return error.problem
    except TROUBLE as error:
        return f"its sizes or options contradict each other ({str(error) or type(error).__name__})"


def _live(builder: Builder, outputs: tuple[Port, ...]) -> tuple[Instruction, ...]:
    """The instructions that lead to the outputs."""
    wanted = {port.slot for port in outputs}
    steps: list[Instruction] = []
    for step in reversed(builder.steps):
        if not wanted.isdisjoint(step.outputs):
            wanted.update(step.inputs)
            steps.append(step)
    return tuple(reversed(steps))
