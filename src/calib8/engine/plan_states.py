"""What lives between runs of a program, as a plan has it."""

from __future__ import annotations

from calib8.engine.plan import PlanState
from calib8.program.program import Program


def plan_states(program: Program) -> tuple[PlanState, ...]:
    """The states of a program; without initial values they begin as real 0."""
    zero = {port.name: program.slots[port.slot].zero_point for port in program.inputs}
    return tuple(
        PlanState(one.input, one.output, 0 if one.initial.size else zero[one.input], one.initial.tobytes())
        for one in program.states
    )
