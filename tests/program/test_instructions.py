"""Whoever adds an instruction is told here what does not know it yet."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from example_programs import EXAMPLES
from wide_programs import NARROW, WIDE

from calib8.engine.compile import compile_program
from calib8.exporting.tflite.export import EMIT
from calib8.program.instructions import TRAITS, Float, Instruction
from calib8.program.program import Program

PAGE = Path(__file__).parents[2] / "docs" / "numerics.md"
KINDS = sorted(TRAITS, key=lambda kind: kind.__name__)


def kinds(programs: Iterable[Program]) -> set[type[Instruction]]:
    return {type(step) for program in programs for step in program.instructions}


@pytest.mark.parametrize("kind", KINDS)
def test_every_instruction_has_an_example_that_becomes_a_plan(kind: type[Instruction]) -> None:
    found = [program for program in EXAMPLES.values() if kind in kinds([program])]
    assert found, "tests/program/example_programs.py has no program with it"
    for program in found:
        assert compile_program(program).outputs


@pytest.mark.parametrize("kind", KINDS)
def test_every_instruction_takes_16_bits_or_is_known_not_to(kind: type[Instruction]) -> None:
    narrow = [program for (name, _), program in EXAMPLES.items() if name in NARROW]
    assert kind in kinds(narrow) | kinds(WIDE.values()), "tests/program/wide_programs.py does not say"


def test_every_instruction_is_written_as_tflite_or_refused() -> None:
    assert EMIT.keys() == {*TRAITS, Float}


@pytest.mark.parametrize("kind", KINDS)
def test_every_instruction_stands_on_the_page(kind: type[Instruction]) -> None:
    """A row of a table begins with it."""
    assert re.search(rf"^\|[^|]*\b{kind.__name__}\b", PAGE.read_text(), re.MULTILINE)
