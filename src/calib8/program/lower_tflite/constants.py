"""Constants among activations: a table where one index of the last axis says which, else a slot of their own.

A program has no slots that are filled beforehand. What gives a constant is a table that does not look at
its input:

    one code of any slot → Gather → [256] → Lookup, row c full of code c → every code → Gather → the constant
    … of 16 bits:  one code → Lookup: 0 → Gather → [n] → Lookup, row i full of element i → the constant
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from calib8.errors import NoFormError
from calib8.program.instructions import TRAITS, Gather, Instruction, Lookup, Reshape, Slice
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


def written(builder: Builder, place: int, source: int) -> int:
    """The slot of a constant, written by instructions; of any other tensor its slot.

    Args:
        builder: the program.
        place: of the tensor.
        source: a slot of codes that is written already; what it holds does not matter.

    Raises:
        NoFormError: no constant of codes, or one of 16 bits with too many elements.
    """
    if place in builder.numbers or builder.tensor(place).data is None:
        return builder.number(place)
    constant = coded_constant(builder, place)
    if constant.slot.is_wide or builder.slots[source].is_wide:
        return _written_wide(builder, place, source, constant)
    slot, low = constant.slot, np.iinfo(constant.data.dtype).min
    like, rank = builder.slots[source], len(builder.slots[source].shape)
    one, line = builder.between(like, (1,) * rank, "one"), builder.between(like, (1,), "one")
    many, every = builder.between(like, (256,), "many"), builder.between(slot, (256,), "codes")
    flat, number = builder.between(slot, (constant.data.size,), "flat"), builder.add(slot)
    rows = np.repeat(np.arange(low, low + 256).astype(slot.dtype)[:, None], 256, axis=1)
    indices = constant.data.reshape(-1).astype(np.int32) - low
    builder.steps += [
        Slice(slot.name, (source,), (one,), (0,) * rank, (1,) * rank),
        Reshape(slot.name, (one,), (line,)),
        Gather(slot.name, (line,), (many,), 0, np.zeros(256, np.int32)),
        Lookup(slot.name, (many,), (every,), rows, "Constant"),
        Gather(slot.name, (every,), (flat,), 0, indices),
        Reshape(slot.name, (flat,), (number,)),
    ]
    builder.numbers[place] = number
    return number


def _written_wide(builder: Builder, place: int, source: int, constant: Operand) -> int:
    slot, count = constant.slot, constant.data.size
    if count > MAX_TABLES:
        raise NoFormError(
            f"'{slot.name}' has {count} elements; constants beside 16-bit codes at most {MAX_TABLES}"
        )
    like, rank = builder.slots[source], len(builder.slots[source].shape)
    zero = replace(like, name=f"{slot.name}/zero", shape=(1,), dtype="int8", zero_point=0)
    one, line = builder.between(like, (1,) * rank, "one"), builder.between(like, (1,), "one")
    bare, many = builder.add(zero), builder.between(zero, (count,), "many")
    flat, number = builder.between(slot, (count,), "flat"), builder.add(slot)
    every = 1 << (16 if like.is_wide else 8)
    rows = np.repeat(constant.data.reshape(-1, 1), 256, axis=1)
    builder.steps += [
        Slice(slot.name, (source,), (one,), (0,) * rank, (1,) * rank),
        Reshape(slot.name, (one,), (line,)),
        Lookup(slot.name, (line,), (bare,), np.zeros(every, np.int8), "Constant"),
        Gather(slot.name, (bare,), (many,), 0, np.zeros(count, np.int32)),
        Lookup(slot.name, (many,), (flat,), np.ascontiguousarray(rows), "Constant"),
        Reshape(slot.name, (flat,), (number,)),
    ]
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
