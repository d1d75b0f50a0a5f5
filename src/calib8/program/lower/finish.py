"""From emitted instructions to a program: what nobody needs goes, neighbours merge, slots are numbered anew.

    Quantize → Transpose     Quantize with the axes of both
    Reshape → Reshape        one Reshape

Only then are the sub-models of Float instructions built, of the nodes that are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from calib8.program.instructions import Instruction, Quantize, Reshape, Transpose
from calib8.program.lower.builder import Builder
from calib8.program.lower.floats import FloatDraft, built, narrowed
from calib8.program.program import Port, Program


@dataclass(frozen=True, eq=False)
class Draft:
    """A program before its sub-models are built.

    Attributes:
        builder: slots, and reasons of float nodes.
        steps: the instructions that the outputs need, in order.
        inputs, outputs: ports.
    """

    builder: Builder
    steps: tuple[Instruction, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def floats(self) -> tuple[FloatDraft, ...]:
        """Float instructions."""
        return tuple(step for step in self.steps if isinstance(step, FloatDraft))


def live_draft(builder: Builder, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Draft:
    """The instructions that lead to the outputs."""
    live = {port.slot for port in outputs}
    steps: list[Instruction] = []
    for step in reversed(builder.steps):
        if live.isdisjoint(step.outputs):
            continue
        if isinstance(step, FloatDraft):
            step = narrowed(builder, step, live)
        live.update(step.inputs)
        steps.append(step)
    steps.reverse()
    return Draft(builder, merged(steps, outputs), inputs, outputs)


def merged(steps: Sequence[Instruction], outputs: Iterable[Port]) -> tuple[Instruction, ...]:
    """Moves joined to the instruction before them, where that has no other reader."""
    reads = Counter(slot for step in steps for slot in step.inputs)
    reads.update(port.slot for port in outputs)
    writer: dict[int, int] = {}
    result: list[Instruction | None] = []
    for step in steps:
        source = writer.get(step.inputs[0]) if step.inputs and reads[step.inputs[0]] == 1 else None
        before = None if source is None else result[source]
        joined = None if before is None else _joined(before, step)
        if joined is not None and source is not None:
            result[source] = None
        result.append(joined or step)
        writer.update(dict.fromkeys(step.outputs, len(result) - 1))
    return tuple(step for step in result if step is not None)


def _joined(before: Instruction, step: Instruction) -> Instruction | None:
    if isinstance(step, Reshape) and isinstance(before, Reshape):
        return replace(step, inputs=before.inputs)
    if isinstance(step, Transpose) and isinstance(before, Quantize):
        axes = tuple(before.axes[axis] for axis in step.axes)
        return replace(before, outputs=step.outputs, axes=axes)
    return None


def finished(draft: Draft, model: ir.Model) -> Program:
    """The program with sub-models built and only the slots that it uses."""
    builder = draft.builder
    steps = [built(builder, step, model) if isinstance(step, FloatDraft) else step for step in draft.steps]
    used = {port.slot for port in (*draft.inputs, *draft.outputs)}
    used.update(slot for step in steps for slot in (*step.inputs, *step.outputs))
    number = {slot: place for place, slot in enumerate(sorted(used))}
    numbered = tuple(
        replace(
            step,
            inputs=tuple(number[slot] for slot in step.inputs),
            outputs=tuple(number[slot] for slot in step.outputs),
        )
        for step in steps
    )
    ports = [
        tuple(Port(port.name, number[port.slot]) for port in side) for side in (draft.inputs, draft.outputs)
    ]
    slots = tuple(builder.slots[slot] for slot in sorted(used))
    return Program(builder.profile, slots, numbered, ports[0], ports[1], model.graph.name or "")
