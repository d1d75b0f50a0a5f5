"""A fault planted into an example program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from example_programs import with_slot, with_step

from calib8.program.program import Program
from calib8.program.rules import Profile


@dataclass(frozen=True)
class Fault:
    """A fault planted into an example.

    Attributes:
        name: of the example.
        plant: makes the broken program.
        problem: words of the message.
        profile: of the example.
    """

    name: str
    plant: Callable[[Program], Program]
    problem: str
    profile: Profile = "onnx"


def step(name: str, problem: str, profile: Profile = "onnx", /, **changes: Any) -> Fault:
    """The example with other fields of its instruction."""
    return Fault(name, lambda program: with_step(program, **changes), problem, profile)


def slot(name: str, number: int, problem: str, profile: Profile = "onnx", /, **changes: Any) -> Fault:
    """The example with other fields of one slot."""
    return Fault(name, lambda program: with_slot(program, number, **changes), problem, profile)


def rule(name: str, problem: str, profile: Profile, /, **changes: Any) -> Fault:
    """The example with other fields of its rule."""

    def plant(program: Program) -> Program:
        field = "rule" if hasattr(program.instructions[0], "rule") else "rescale"
        changed = replace(getattr(program.instructions[0], field), **changes)
        return with_step(program, **{field: changed})

    return Fault(name, plant, problem, profile)


def axis(problem: str, profile: Profile = "onnx", /, **changes: Any) -> Fault:
    """ResizeLinear with other rows."""

    def plant(program: Program) -> Program:
        return with_step(program, rows=replace(program.instructions[0].rows, **changes))  # type: ignore[attr-defined]

    return Fault("ResizeLinear", plant, problem, profile)


def with_classes(count: int) -> Callable[[Program], Program]:
    return lambda program: with_slot(with_slot(program, 0, shape=(1, count)), 1, shape=(1, count))


def of(plant: Callable[[Program], Program], problem: str, name: str = "chain") -> Fault:
    return Fault(name, plant, problem)
