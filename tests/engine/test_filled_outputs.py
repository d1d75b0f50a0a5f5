"""Outputs that no step fills: they would hold what was in the memory before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from example_programs import EXAMPLES

from calib8 import _core
from calib8.engine.compile import compile_program
from calib8.engine.plan import Plan
from calib8.engine.run import Engine

PLANS = {
    name: plan
    for (name, profile), program in EXAMPLES.items()
    if profile == "single" and not (plan := compile_program(program)).floats
}


def grown(plan: Plan) -> Plan:
    """The first output has one row more than its steps write."""
    first, *others = plan.outputs
    rows, *sizes = first.shape or (1,)
    return replace(plan, outputs=(first._replace(shape=(rows + 1, *sizes)), *others))


@pytest.mark.parametrize("name", PLANS)
def test_steps_fill_every_output(name: str) -> None:
    plan = PLANS[name]
    engine = Engine(plan)
    engine.check_outputs()
    assert engine._native.filled == [False] * len(plan.inputs) + [True] * len(plan.outputs)


@pytest.mark.parametrize("name", PLANS)
def test_an_output_that_is_larger_is_refused_by_name(name: str) -> None:
    plan = PLANS[name]
    with pytest.raises(ValueError, match=f"no step fills the output {plan.outputs[0].name}"):
        Engine(grown(plan)).check_outputs()


def test_outputs_that_no_machine_can_hold_are_refused() -> None:
    plan = PLANS["Conv"]
    sizes = [*plan.port_bytes[:-1], 1 << 60]
    with pytest.raises(ValueError, match=rf"the plan needs {sum(sizes)} bytes of memory, this machine has"):
        _core.engine.Engine(list(plan.rows), plan.constants, plan.arena_bytes, sizes, len(plan.inputs))


def test_float_calls_fill_outputs_too() -> None:
    plan = next(plan for program in EXAMPLES.values() if (plan := compile_program(program)).floats)
    Engine(plan).check_outputs()
    assert not Engine(plan)._native.filled[-1]
    other = replace(plan, outputs=(*plan.outputs, plan.outputs[0]._replace(name="nobody's")))
    with pytest.raises(ValueError, match="no step fills the output nobody's"):
        Engine(other).check_outputs()
