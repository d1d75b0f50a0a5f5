"""Constants among activations: a table where one index of the last axis says which, else a tensor."""

from __future__ import annotations

from typing import Final

import numpy as np

from calib8.errors import NoFormError
from calib8.program.instructions import TRAITS, Constant, Instruction, Lookup
from calib8.program.lower_tflite.builder import Builder, slot_of
from calib8.program.ops.operand import Operand
from calib8.program.program import Slot
from calib8.program.rules import Codes

MAX_TABLES: Final = 4096
"""Rows of a Lookup: 1 MB of tables, of 16-bit codes 2 MB."""


def coded_constant(builder: Builder, place: int) -> Operand:
    """The codes of a constant and its slot.

    Raises:
        NoFormError: it is computed, of another type or quantized per channel.
    """
    codes, slot = builder.constant(place), slot_of(builder.tensor(place))
    if not slot.is_codes:
        raise NoFormError(f"'{slot.name}' holds {slot.dtype}, no 8-bit codes")
    return Operand(slot, codes)


def written(builder: Builder, place: int) -> int:
    """The slot of a constant, which an instruction writes; of any other tensor its slot.

    Raises:
        NoFormError: no constant of codes.
    """
    if place in builder.numbers or builder.tensor(place).data is None:
        return builder.number(place)
    constant = coded_constant(builder, place)
    number = builder.add(constant.slot)
    builder.steps.append(Constant(constant.slot.name, (), (number,), constant.data))
    builder.numbers[place] = number
    return number


def against_constant(builder: Builder, step: Instruction, x: int, constant: Operand, place: int) -> bool:
    """Whether an elementwise instruction became a table of what it gives code by code.

    Args:
        builder: the program.
        step: the instruction; its inputs are not looked at.
        x: slot of the operand that is no constant.
        constant: the other.
        place: of the constant among the inputs, 0 or 1.
    """
    source, target = builder.slots[x], builder.slots[step.outputs[0]]
    channels = constant.data.size
    along_last = channels == 1 or constant.data.shape[-1] == channels == (source.shape or (1,))[-1]
    if source.shape != target.shape or not along_last or channels > (1 if source.is_wide else MAX_TABLES):
        return False
    limits = np.iinfo(source.dtype)
    every = np.repeat(np.arange(limits.min, limits.max + 1).astype(source.dtype)[:, None], channels, axis=1)
    pair = [_of_shape(source, every), _of_shape(constant.slot, constant.data.reshape(1, channels))]
    if place == 0:
        pair.reverse()
    result = Slot(step.name, every.shape, target.dtype, target.scales, target.zero_point)
    table: Codes = np.ascontiguousarray(TRAITS[type(step)].compute(step, pair, result).T)
    rows = table[0] if channels == 1 else table
    builder.steps.append(Lookup(step.name, (x,), step.outputs, rows, type(step).__name__))
    return True


def _of_shape(slot: Slot, codes: Codes) -> Operand:
    return Operand(Slot(slot.name, codes.shape, slot.dtype, slot.scales, slot.zero_point), codes)
