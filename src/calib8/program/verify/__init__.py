"""Is a program sound? Asked after lowering and after loading, so that engines need not ask again.

One file per question, in the order in which they are asked (each relies on those before):

    fields       every field holds what its annotation says
    slots        shapes, types, scales; each slot written once, before it is read
    kinds        instructions read and write codes, sums or plain numbers as they should
    shapes       what is written has the shape that is computed
    constants    clamps, zero points and tables fit the types
    rules        rounding parameters are of the program's profile, and in range
    floats       models for ONNX Runtime fit their slots
    bounds       no accumulator leaves int32, proven from the weights
"""

from __future__ import annotations

from calib8.errors import ModelError
from calib8.program.instructions import Float
from calib8.program.ops.step import Step
from calib8.program.program import Program
from calib8.program.verify.bounds import check_bounds
from calib8.program.verify.constants import check_constants
from calib8.program.verify.fields import misfit
from calib8.program.verify.floats import check_float
from calib8.program.verify.kinds import check_kinds
from calib8.program.verify.rules import check_rules
from calib8.program.verify.shapes import check_shape
from calib8.program.verify.slots import check_order, check_slots
from calib8.program.verify.step import program_label, steps


def verify(program: Program) -> None:
    """Refuses a program that could read or write out of bounds, overflow, or round by two profiles.

    Raises:
        ModelError: names the instruction or slot, what is wrong with it, and the cure.
    """
    problem = misfit(program, Program)
    if problem is not None:
        raise ModelError(program_label(program), problem, "Give the field what its annotation says")
    check_slots(program)
    check_order(program)
    for step in steps(program):
        check_step(step)
    check_bounds(program)


def check_step(step: Step) -> None:
    """Refuses an instruction that does not fit its slots or its program.

    Raises:
        ModelError: names the instruction, what is wrong with it, and the cure.
    """
    check_kinds(step)
    if isinstance(step.instruction, Float):
        check_float(step, step.instruction)
        return
    check_shape(step)
    check_constants(step)
    check_rules(step)
