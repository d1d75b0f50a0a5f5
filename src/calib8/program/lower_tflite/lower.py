"""Lowering: a checked TFLite graph becomes a program, operator by operator, with TFLite's own arithmetic.

Float operators gather in Float instructions; if there are several, the operators are visited once more in the
order that needs the fewest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from calib8.errors import ModelError, NoFormError, UnsupportedModelError
from calib8.model.from_tflite.float_only import described, is_hybrid
from calib8.model.from_tflite.translate import Problem
from calib8.program.instructions import Float, Instruction
from calib8.program.lower_tflite.arity import misuse, odd_option
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.constraints import broken_constraint
from calib8.program.lower_tflite.cut import OUTPUTS, up_to
from calib8.program.lower_tflite.detections import with_real_boxes
from calib8.program.lower_tflite.floats import Waiting, by_float_level, flush
from calib8.program.lower_tflite.operators import LOWER
from calib8.program.lower_tflite.tables import with_tables
from calib8.program.lower_tflite.wide import wide_problem
from calib8.program.ops.step import Step
from calib8.program.program import Port, Program, State
from calib8.program.verify import check_step, verify
from calib8.tflite.graph import Graph, Operator
from calib8.tflite.live import makes_constant, needed, value_inputs
from calib8.tflite.ports import port_names
from calib8.tflite.sizes import wrong_shape
from calib8.tflite.state_ports import state_ports, with_state_ports

NO_FORM: Final = "the operator has no integer form"
BEHIND_FLOAT: Final = "it reads what float operators compute"

STATE_TYPES: Final = ("float32", "uint8", "int8", "int16", "int32")

TROUBLE: Final = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
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
        UnsupportedModelError: a dynamic-range model; operators that nothing carries out, or ``integer_only``
            and float operators: all of them are listed.
        ModelError: the model contradicts itself.
    """
    graph = with_state_ports(graph if outputs is None else up_to(graph, outputs))
    _refuse_hybrid(graph, name)
    states = _states(graph, name)
    graph = with_real_boxes(replace(graph, operators=with_tables(graph)))
    graph = replace(graph, operators=needed(graph, graph.outputs))
    draft = emit(graph, name)
    if len(draft.floats) > 1 and not draft.problems:
        operators = by_float_level(graph, list(draft.waiting.reasons))
        again = emit(replace(graph, operators=operators), name)
        draft = min(draft, again, key=lambda each: len(each.floats))
    _refuse_problems(draft, name)
    if integer_only:
        _refuse_float(draft, name)
    builder = draft.builder
    inputs, ends = _ports(builder, graph.inputs, name), _ports(builder, graph.outputs, name)
    steps = _live(builder, ends)
    program = _numbered(Program("tflite", tuple(builder.slots), steps, inputs, ends, name, states))
    verify(program)
    return program


def _states(graph: Graph, name: str) -> tuple[State, ...]:
    """Those of a graph that has them among its inputs and outputs."""
    pairs = state_ports(graph)
    for state in graph.states:
        dtype = state.initial.dtype
        if dtype.name not in STATE_TYPES:
            problem = f"the variable '{state.name}' holds {dtype}; those of a program hold "
            raise UnsupportedModelError(
                name, f"{problem}{', '.join(STATE_TYPES)}", "Export the model with such a variable"
            )
    begun = (np.ascontiguousarray(state.initial) for state in graph.states)
    return tuple(State(*pair, initial) for pair, initial in zip(pairs.items(), begun, strict=True))


@dataclass(frozen=True, eq=False)
class Draft:
    """A graph once all its operators were visited.

    Attributes:
        builder: slots and instructions.
        waiting: the float operators.
        problems: operators that nothing carries out, and why.
    """

    builder: Builder
    waiting: Waiting
    problems: tuple[Problem, ...]

    @property
    def floats(self) -> list[Float]:
        """Float instructions."""
        return [step for step in self.builder.steps if isinstance(step, Float)]


def emit(graph: Graph, name: str) -> Draft:
    """Visits the operators in their order."""
    builder, waiting = Builder(graph), Waiting(graph)
    _ports(builder, graph.inputs, name)
    problems: list[Problem] = []
    for operator in graph.operators:
        if not makes_constant(graph, operator):
            problems += _visited(builder, waiting, operator)
    problems += flush(builder, waiting)
    return Draft(builder, waiting, tuple(problems))


def _visited(builder: Builder, waiting: Waiting, operator: Operator) -> list[Problem]:
    """Adds the instructions of an operator, or puts it among those that wait; what nothing carries out."""
    graph, problems = builder.graph, list[Problem]()
    problem = misuse(graph, operator)
    if problem is not None:
        return [Problem(operator, f"{_title(builder, operator)}: {problem}")]
    fits = waiting.takes(operator)
    reason = BEHIND_FLOAT if waiting.makes(value_inputs(operator)) else None
    if reason is None or not fits:
        if reason is not None:
            problems += flush(builder, waiting)
        mark = len(builder.steps)
        reason = _reason(builder, operator)
        if reason is not None:
            del builder.steps[mark:]
    problem = reason if not fits else None
    problem = problem or broken_constraint(graph, operator) or odd_option(operator)
    problem = problem or wrong_shape(graph, operator)
    if problem is not None:
        problems.append(Problem(operator, f"{_title(builder, operator)}: {problem}"))
    elif reason is not None:
        waiting.add(operator, reason)
    return problems


def _ports(builder: Builder, places: Sequence[int], name: str) -> tuple[Port, ...]:
    names = port_names(builder.graph, places)
    fixed = [name for name, place in zip(names, places, strict=True) if builder.is_constant(place)]
    if fixed:
        problem, cure = f"its output '{fixed[0]}' is a constant", f"Take what is computed ({OUTPUTS})"
        raise UnsupportedModelError(name, problem, cure)
    try:
        numbers = map(builder.number, places)
        return tuple(Port(title, number) for title, number in zip(names, numbers, strict=True))
    except NoFormError as reason:
        raise UnsupportedModelError(
            name, f"an input or output has no integer form: {reason}", "Export the model without it"
        ) from None


def _reason(builder: Builder, operator: Operator) -> str | None:
    """Lowers an operator, or says why it has no integer form."""
    lower, mark = LOWER.get(operator.op), len(builder.steps)
    if lower is None:
        return NO_FORM
    problem = wide_problem(builder.graph, operator)
    if problem is not None:
        return problem
    try:
        with np.errstate(all="ignore"):  # of sizes and scales that make no sense: told by what comes out
            lower(builder, operator)
            _check_steps(builder, mark)
    except NoFormError as reason:
        return str(reason)
    except ModelError as error:
        return error.problem
    except MemoryError:
        return "it takes more memory than there is"
    except TROUBLE as error:
        return f"its sizes or options contradict each other ({str(error) or type(error).__name__})"
    return None


def _check_steps(builder: Builder, mark: int) -> None:
    """Raises ModelError of an instruction from ``mark`` on that does not fit its slots."""
    for number, instruction in enumerate(builder.steps[mark:]):
        inputs, outputs = (
            tuple(builder.slots[slot] for slot in numbers)
            for numbers in (instruction.inputs, instruction.outputs)
        )
        check_step(Step("program", number, instruction, inputs, outputs, "tflite"))


def _title(builder: Builder, operator: Operator) -> str:
    return f"'{builder.name(operator)}' ({operator.title})"


def _refuse_hybrid(graph: Graph, name: str) -> None:
    """Refuses layers of float activations and 8-bit weights, which quantize their inputs as they run."""
    hybrid = [operator for operator in graph.operators if is_hybrid(graph, operator)]
    if hybrid:
        raise UnsupportedModelError(
            name,
            f"is a dynamic-range model: {described(graph, hybrid)} float activations and 8-bit weights",
            "Quantize the float model that it was made from, with calib8",
        )


def _refuse_problems(draft: Draft, name: str) -> None:
    """Refuses operators that nothing carries out, and says what can be computed before them."""
    if not draft.problems:
        return
    graph, failed = draft.builder.graph, {problem.operator for problem in draft.problems}
    lost: set[int] = set()
    before: dict[str, None] = {}
    for operator in graph.operators:
        read = value_inputs(operator)
        known = lost.union(graph.inputs)
        computed = [place for place in read if graph.tensors[place].data is None and place not in known]
        if operator in failed:
            before.update(dict.fromkeys(graph.tensors[place].name for place in computed))
        if operator in failed or not lost.isdisjoint(read):
            lost.update(operator.outputs)
    cure = f"Take what lies before them as outputs ({OUTPUTS}): {', '.join(before)}"
    listed = "; ".join(problem.text for problem in draft.problems)
    raise UnsupportedModelError(
        name,
        f"{len(draft.problems)} operators cannot be run: {listed}",
        cure if before else "Export the model without them",
    )


def _refuse_float(draft: Draft, name: str) -> None:
    ops = {draft.builder.name(operator): operator.op for operator in draft.builder.graph.operators}
    listed = [
        f"'{node}' ({ops.get(node, 'float')}): {reason}"
        for step in draft.floats
        for node, reason in zip(step.nodes, step.reasons or len(step.nodes) * (NO_FORM,), strict=True)
    ]
    if listed:
        raise UnsupportedModelError(
            name,
            f"{len(listed)} operators have no integer form: {'; '.join(listed)}",
            "Quantize their inputs and results, or allow float operators",
        )


def _live(builder: Builder, outputs: tuple[Port, ...]) -> tuple[Instruction, ...]:
    """The instructions that lead to the outputs."""
    wanted = {port.slot for port in outputs}
    steps: list[Instruction] = []
    for step in reversed(builder.steps):
        if not wanted.isdisjoint(step.outputs):
            wanted.update(step.inputs)
            steps.append(step)
    return tuple(reversed(steps))


def _numbered(program: Program) -> Program:
    """The program with only the slots that it uses."""
    used = {port.slot for port in (*program.inputs, *program.outputs)}
    used.update(slot for step in program.instructions for slot in (*step.inputs, *step.outputs))
    kept = sorted(used)
    number = {slot: place for place, slot in enumerate(kept)}
    steps = tuple(
        replace(
            step,
            inputs=tuple(number[slot] for slot in step.inputs),
            outputs=tuple(number[slot] for slot in step.outputs),
        )
        for step in program.instructions
    )
    inputs, outputs = (
        tuple(Port(port.name, number[port.slot]) for port in ports)
        for ports in (program.inputs, program.outputs)
    )
    slots = tuple(program.slots[slot] for slot in kept)
    return replace(program, slots=slots, instructions=steps, inputs=inputs, outputs=outputs)
