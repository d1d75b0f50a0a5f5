"""Lowering: a checked int8 model of Tengine becomes a program, node by node, with Tengine's arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from calib8.errors import ModelError, NoFormError, UnsupportedModelError
from calib8.number_texts import count
from calib8.program.instructions import Instruction, Reshape
from calib8.program.lower_tmfile.builder import Builder
from calib8.program.lower_tmfile.operators import LOWER, NO_KERNEL
from calib8.program.lower_tmfile.tensors import refuse_tensors
from calib8.program.ops.step import Step
from calib8.program.program import Port, Program, Slot
from calib8.program.renumber import live, numbered
from calib8.program.verify import check_step, verify
from calib8.tmfile.graph import CONST, INPUT, Graph, Node
from calib8.tmfile.nchw import as_nchw
from calib8.tmfile.ports import port_names

CURE: Final = "Keep these operators out of the int8 model, or run them in float behind it"

TROUBLE: Final = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
"""What a node's function trips over where sizes or options of the file make no sense."""


def lower_tmfile(graph: Graph, name: str = "model") -> Program:
    """The program of an int8 model; profile ``tengine``.

    It computes what Tengine's kernels for x86 do in int8 mode. Inputs and outputs are codes, in the shapes of
    the file.

    Args:
        graph: checked.
        name: of the model, for messages.

    Raises:
        UnsupportedModelError: no int8 model, or operators that have no int8 form: all of them are listed.
        ModelError: scales or zero points that no int8 model has, or a model that contradicts itself.
    """
    refuse_tensors(graph, name)
    try:
        builder = Builder(as_nchw(graph))
    except NoFormError as reason:
        raise UnsupportedModelError(name, f"it has no integer form: {reason}", CURE) from reason
    inputs = _inputs(builder)
    problems = [problem for node in builder.graph.nodes if (problem := _problem(builder, node))]
    if problems:
        listed = "; ".join(problems)
        raise UnsupportedModelError(
            name, f"{count(len(problems), 'operator')} without an int8 form: {listed}", CURE
        )
    outputs = _outputs(builder, {port.slot for port in inputs}, name)
    steps = live(builder.steps, outputs)
    program = numbered(Program("tengine", tuple(builder.slots), steps, inputs, outputs, name))
    try:
        verify(program)
    except ModelError as error:  # what the steps together do not hold, such as sums beyond int32
        where = str(error.subject).removeprefix(f'program "{name}", ')
        raise ModelError(name, f"{where}: {error.problem}", error.cure) from error
    return program


def _inputs(builder: Builder) -> tuple[Port, ...]:
    """Ports in the order of the file, each with a slot in the order of the program behind it."""
    ports: list[Port] = []
    places = builder.graph.input_tensors()
    for place, title in zip(places, port_names(builder.graph, places), strict=True):
        fed = builder.add(builder.slot_of(place, builder.tensor(place).shape))
        builder.full.add(fed)
        builder.numbers[place] = builder.unflat(title, fed)
        ports.append(Port(title, fed))
    return tuple(ports)


def _outputs(builder: Builder, inputs: set[int], name: str) -> tuple[Port, ...]:
    ports: list[Port] = []
    places = builder.graph.output_tensors()
    for place, title in zip(places, port_names(builder.graph, places), strict=True):
        if place not in builder.numbers:
            raise UnsupportedModelError(name, f"its output '{title}' is a constant", "Take what is computed")
        slot = builder.flat(title, builder.numbers[place])
        if slot in inputs or slot in {port.slot for port in ports}:
            copy = builder.between(builder.slots[slot], builder.slots[slot].shape, "output")
            builder.steps.append(Reshape(title, (slot,), (copy,)))
            slot = copy
        ports.append(Port(title, slot))
    return tuple(ports)


def _problem(builder: Builder, node: Node) -> str:
    """Adds the instructions of a node; empty, or which it is and why it has none."""
    if node.op in (CONST, INPUT):
        return ""
    if any(place not in builder.numbers and builder.tensor(place).role != "const" for place in node.inputs):
        return ""  # what it reads has no form, and is told
    reason = _reason(builder, node)
    return f"'{builder.name(node)}' ({node.op}): {reason}" if reason else ""


def _reason(builder: Builder, node: Node) -> str | None:
    lower, mark = LOWER.get(node.op), len(builder.steps)
    if lower is None:
        return NO_KERNEL
    try:
        with np.errstate(all="ignore"):  # of sizes and scales that make no sense: told by what comes out
            lower(builder, node)
            _check_steps(builder, builder.steps[mark:])
    except NoFormError as reason:
        return str(reason)
    except ModelError as error:
        return error.problem
    except MemoryError:
        return "it takes more memory than there is"
    except TROUBLE as error:
        return f"its sizes or options contradict each other ({str(error) or type(error).__name__})"
    return None


def _check_steps(builder: Builder, steps: Sequence[Instruction]) -> None:
    """Raises ModelError of an instruction that does not fit its slots."""
    for number, step in enumerate(steps):
        read, written = (_slots(builder, numbers) for numbers in (step.inputs, step.outputs))
        check_step(Step("program", number, step, read, written, "tengine"))


def _slots(builder: Builder, numbers: Sequence[int]) -> tuple[Slot, ...]:
    return tuple(builder.slots[number] for number in numbers)
