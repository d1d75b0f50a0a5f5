"""Proof that a program is one of integers: what its instructions hold and what its slots held when it ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from calib8.program.instructions import Dequantize, Float, Instruction, Quantize
from calib8.program.program import Program
from calib8.program.reference.executor import run_program

BORDER = (Quantize, Dequantize)


def floats_inside(value: object, path: str = "") -> Iterator[str]:
    """Where a field of an instruction, or of a rule in it, holds a floating-point number or array."""
    if isinstance(value, float | np.floating) or (
        isinstance(value, np.ndarray) and not np.issubdtype(value.dtype, np.integer)
    ):
        yield path
    elif isinstance(value, tuple):
        for index, entry in enumerate(value):
            yield from floats_inside(entry, f"{path}[{index}]")
    elif is_dataclass(value):
        for field in fields(value):
            yield from floats_inside(getattr(value, field.name), f"{path}.{field.name}")


def float_findings(program: Program, feeds: Mapping[str, np.ndarray[Any, Any]]) -> list[str]:
    """Runs a program; everything between its borders that was or could become a float, in words."""
    outside = {port.slot for port in (*program.inputs, *program.outputs)}
    held = {port.slot: feeds[port.name].dtype for port in program.inputs}

    def watch(number: int, array: np.ndarray[Any, Any]) -> None:
        held[number] = array.dtype

    run_program(program, feeds, watch)
    found = [
        f"slot '{program.slots[number].name}' held {dtype}"
        for number, dtype in held.items()
        if number not in outside and not np.issubdtype(dtype, np.integer)
    ]
    assert set(held) == set(range(len(program.slots))), "a slot was never written"
    for step in program.instructions:
        found += _findings(step, program, outside)
    return found


def _findings(step: Instruction, program: Program, outside: set[int]) -> list[str]:
    if isinstance(step, Float):
        return [f"'{step.name}' runs {', '.join(step.nodes)} in float"]
    found = [f"'{step.name}' holds a float in {place}" for place in floats_inside(step, type(step).__name__)]
    if isinstance(step, BORDER):
        own = step.inputs if isinstance(step, Quantize) else step.outputs
        if not set(own) <= outside:
            found.append(f"'{step.name}' is a border inside the program")
    return found
