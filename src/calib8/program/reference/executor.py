"""Runs a program in NumPy, instruction by instruction: the definition of what it computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from calib8.errors import DataError, ModelError
from calib8.program.instructions import TRAITS, Float, Instruction
from calib8.program.ops.operand import Operand
from calib8.program.program import Program, Slot
from calib8.program.reference.floats import run_float

Array: TypeAlias = npt.NDArray[Any]


def run_program(
    program: Program,
    feeds: Mapping[str, Array],
    watch: Callable[[int, Array], None] | None = None,
) -> list[Array]:
    """Outputs of a program, in the order of its ports.

    Args:
        program: a verified program.
        feeds: an array per input port, of its slot's shape and dtype.
        watch: called with slot number and array after an instruction has written it; it must not change
            the array.

    Raises:
        DataError: an input is missing, unknown, or of another shape or dtype.
        ModelError: an instruction wrote something else than its slot says.
    """
    values = _fed(program, feeds)
    for step, finished in zip(program.instructions, _finished_slots(program), strict=True):
        operands = [Operand(program.slots[number], values[number]) for number in step.inputs]
        for number, array in zip(step.outputs, _results(program, step, operands), strict=True):
            _check_written(program.slots[number], array, step)
            values[number] = array
            if watch is not None:
                watch(number, array)
        for number in finished:
            del values[number]
    return [values[port.slot].copy() for port in program.outputs]


def _results(program: Program, step: Instruction, operands: Sequence[Operand]) -> list[Array]:
    if isinstance(step, Float):
        return run_float(step, operands)
    traits, first = TRAITS[type(step)], program.slots[step.outputs[0]]
    if traits.every is None:
        return [traits.compute(step, operands, first)]
    return traits.every(step, operands, first)[: len(step.outputs)]


def _fed(program: Program, feeds: Mapping[str, Array]) -> dict[int, Array]:
    """Arrays by slot number."""
    expected = ", ".join(_port_text(port.name, program.slots[port.slot]) for port in program.inputs)
    names = {port.name for port in program.inputs}
    for name in feeds.keys() - names:
        raise DataError(f"input {name!r}", "the program has no such input", f"It takes {expected}")
    for name in names - feeds.keys():
        raise DataError(f"input {name!r}", "nothing is fed to it", f"The program takes {expected}")
    values = {}
    for port in program.inputs:
        slot, array = program.slots[port.slot], np.asarray(feeds[port.name])
        if array.shape != slot.shape or array.dtype.name != slot.dtype:
            got = f"got {array.dtype} {_shape_text(array.shape)}"
            raise DataError(f"input {port.name!r}", got, f"It takes {slot.dtype} {_shape_text(slot.shape)}")
        values[port.slot] = array
    return values


def _finished_slots(program: Program) -> list[list[int]]:
    """Per instruction, the slots that nothing reads after it."""
    last: dict[int, int] = {}
    for place, step in enumerate(program.instructions):
        last.update(dict.fromkeys((*step.outputs, *step.inputs), place))
    kept = {port.slot for port in program.outputs}
    finished: list[list[int]] = [[] for _ in program.instructions]
    for number, place in last.items():
        if number not in kept:
            finished[place].append(number)
    return finished


def _check_written(slot: Slot, array: Array, step: Instruction) -> None:
    if array.shape != slot.shape or array.dtype.name != slot.dtype:
        raise ModelError(
            f"{type(step).__name__} {step.name!r}",
            f"wrote {array.dtype} {_shape_text(array.shape)} into slot {slot.name!r}, "
            f"which is {slot.dtype} {_shape_text(slot.shape)}",
            "The program contradicts itself; lower the model again",
        )


def _port_text(name: str, slot: Slot) -> str:
    return f"{name}: {slot.dtype} {_shape_text(slot.shape)}"


def _shape_text(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"
