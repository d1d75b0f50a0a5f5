"""Functions of one tensor as one table, however many instructions they are made of.

    y = x · sigmoid(x):   Lookup, Mul   →   Lookup            256 codes in, so 256 results say all

An elementwise instruction whose operands are all functions of the codes of one tensor is such a function too.
Its table is what the reference executor makes of every code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program import instructions as op
from calib8.program.instructions import TRAITS, Instruction, Lookup
from calib8.program.ops.operand import Operand
from calib8.program.program import CODE_TYPES, Program, Slot

POINTWISE: Final = (op.Lookup, op.Add, op.Sub, op.Mul, op.Div, op.RealPair, op.Maximum, op.Minimum)
"""Instructions that make each code of the output from the codes at the same place."""


@dataclass(frozen=True, eq=False)
class Function:
    """A slot as a function of another one.

    Attributes:
        source: the other slot.
        table: [256] codes, by code − lowest code of the source.
        steps: how many instructions it stands for.
    """

    source: int
    table: npt.NDArray[Any]
    steps: int


def compose(program: Program) -> Program:
    """The program with every function of one tensor as one Lookup, and without what nobody reads any more."""
    functions: dict[int, Function] = {}
    instructions: list[Instruction] = []
    for step in program.instructions:
        function = _function(step, program, functions)
        if function is not None:
            functions[step.outputs[0]] = function
            if function.steps > 1:
                lookup = Lookup(step.name, (function.source,), step.outputs, function.table, "Composed")
                instructions.append(lookup)
                continue
        instructions.append(step)
    return _without_unread(replace(program, instructions=tuple(instructions)))


def _function(step: Instruction, program: Program, functions: dict[int, Function]) -> Function | None:
    """What a pointwise instruction computes from the one tensor behind all its operands, if there is one."""
    if not isinstance(step, POINTWISE) or (isinstance(step, Lookup) and step.table.ndim != 1):
        return None
    output = program.slots[step.outputs[0]]
    slots = [program.slots[number] for number in step.inputs]
    if any(slot.dtype not in CODE_TYPES or slot.shape != output.shape for slot in slots) or output.is_wide:
        return None
    known = [functions.get(number) for number in step.inputs]
    sources = {number if f is None else f.source for number, f in zip(step.inputs, known, strict=True)}
    if len(sources) != 1:
        return None
    (source,) = sources
    operands = [
        Operand(replace(slot, shape=(256,)), _codes(slot) if f is None else f.table)
        for slot, f in zip(slots, known, strict=True)
    ]
    table = TRAITS[type(step)].compute(step, operands, replace(output, shape=(256,)))
    return Function(source, table, 1 + sum(f.steps for f in known if f is not None))


def _codes(slot: Slot) -> npt.NDArray[Any]:
    """All codes of a slot, lowest first."""
    info = np.iinfo(slot.dtype)
    return np.arange(info.min, info.max + 1).astype(slot.dtype)


def _without_unread(program: Program) -> Program:
    """Without pointwise instructions whose output nobody reads; slots keep their numbers."""
    read = {port.slot for port in program.outputs}
    kept: list[Instruction] = []
    for step in reversed(program.instructions):
        if not isinstance(step, POINTWISE) or step.outputs[0] in read:
            kept.append(step)
            read.update(step.inputs)
    return replace(program, instructions=tuple(reversed(kept)))
