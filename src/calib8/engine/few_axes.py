"""Reductions over more axes than a step has loops for: the axes that vanish are first brought together.

Mean [2, 3, 2, 3, …] over axes 0, 2, …   →   Transpose [3, 3, …, 2, 2, …], Mean over the last ones
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from calib8.engine.structs import AXES
from calib8.program import instructions as op
from calib8.program.program import Program, Slot

Reduction = op.Mean | op.ReduceL2 | op.ReduceMax | op.ReduceMin


def few_axes(program: Program) -> Program:
    """The program with a Transpose before every reduction whose axes lie in more than six places.

    The kept axes stay in their order, so the output is the same element by element, ones in its shape or not.
    Reductions are of integers: their order is of no account.
    """
    slots: list[Slot] = list(program.slots)
    instructions: list[op.Instruction] = []
    for step in program.instructions:
        if isinstance(step, Reduction) and _places(step, slots[step.inputs[0]].shape) > AXES:
            source = slots[step.inputs[0]]
            rank = len(source.shape)
            gone = gone_axes(step, rank)
            order = (*(axis for axis in range(rank) if axis not in gone), *sorted(gone))
            shape = tuple(source.shape[axis] for axis in order)
            slots.append(replace(source, name=f"{source.name} transposed", shape=shape))
            together = len(slots) - 1
            instructions.append(op.Transpose(f"axes of {step.name}", step.inputs, (together,), order))
            step = replace(step, inputs=(together,), axes=tuple(range(rank - len(gone), rank)))
        instructions.append(step)
    return replace(program, slots=tuple(slots), instructions=tuple(instructions))


def gone_axes(step: Reduction, rank: int) -> set[int]:
    """Axes of the input that the output has no longer."""
    return {axis % rank for axis in step.axes} if rank else set()


def _places(step: Reduction, shape: tuple[int, ...]) -> int:
    """Runs of axes that vanish; the last axis is one of its own, as it may be a part of a longer one."""
    gone, last = gone_axes(step, len(shape)), len(shape) - 1
    runs = groupby((axis in gone, axis == last) for axis, size in enumerate(shape) if size > 1)
    return sum(vanishes for (vanishes, _), _ in runs)
