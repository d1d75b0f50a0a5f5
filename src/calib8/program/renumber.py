"""What of a program that was lowered leads to its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calib8.program.instructions import Instruction
from calib8.program.program import Port, Program


def live(steps: Sequence[Instruction], outputs: tuple[Port, ...]) -> tuple[Instruction, ...]:
    """The instructions that lead to the outputs."""
    wanted = {port.slot for port in outputs}
    kept: list[Instruction] = []
    for step in reversed(steps):
        if not wanted.isdisjoint(step.outputs):
            wanted.update(step.inputs)
            kept.append(step)
    return tuple(reversed(kept))


def numbered(program: Program) -> Program:
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
