"""Between the borders of a program with integer rules nothing is float: no constant, no tensor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from example_programs import EXAMPLES, chain, float_program

from calib8.program.instructions import RealFunction, Recurrent
from calib8.program.program import Program
from calib8.program.rules import FloatRescale
from integers import float_findings, floats_inside


def feeds(program: Program) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)
    found = {}
    for port in program.inputs:
        slot = program.slots[port.slot]
        values = rng.integers(0, 100, slot.shape)
        found[port.name] = values.astype(slot.dtype)
    return found


@pytest.mark.parametrize("profile", ["tflite", "single"])
def test_every_instruction_computes_with_integers(profile: Any) -> None:
    seen = 0
    for (name, other), program in EXAMPLES.items():
        # of float32 by what they are: gates of a cell, functions of float values
        reals = any(isinstance(step, Recurrent | RealFunction) for step in program.instructions)
        if other == profile and not program.float_instructions and not reals:
            assert float_findings(program, feeds(program)) == [], name
            seen += 1
    assert seen > 25


@pytest.mark.parametrize("profile", ["tflite", "single"])
def test_a_chain_from_border_to_border_computes_with_integers(profile: Any) -> None:
    program = chain(profile)
    assert float_findings(program, feeds(program)) == []


def test_a_float_multiplier_is_found() -> None:
    program = chain("onnx")
    found = float_findings(program, feeds(program))
    assert any(".factor" in text for text in found)


def test_a_float_node_is_found() -> None:
    program = float_program("single")
    assert any("in float" in text for text in float_findings(program, feeds(program)))


def test_a_float_slot_is_found() -> None:
    program = chain("single")
    inner = next(step.outputs[0] for step in program.instructions[1:-1])
    slots = list(program.slots)
    slots[inner] = replace(slots[inner], dtype="float32")
    with pytest.raises(Exception, match="float32"):
        float_findings(replace(program, slots=tuple(slots)), feeds(program))


def test_floats_are_found_wherever_they_hide() -> None:
    rule = FloatRescale(np.ones(2, np.float32))
    assert list(floats_inside(rule, "rule")) == ["rule.factor"]
    assert list(floats_inside((1, (2, 0.5)), "pair")) == ["pair[1][1]"]
    assert list(floats_inside((1, "x", True, np.ones(2, np.int8)))) == []
