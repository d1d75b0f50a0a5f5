"""Faults of LSTMs of integers, and what the verifier has to say of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from example_programs import EXAMPLES, ints, with_slot, with_step
from planting import Fault, of, slot, step

from calib8.program.program import Program
from calib8.program.rules import Multipliers

NAME = "IntegerLstm"
LAYER = EXAMPLES[NAME, "onnx"].instructions[0]


def words(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int16)


def with_shift(field: str, problem: str, shift: int) -> Fault:
    by = getattr(LAYER, field)
    return step(NAME, problem, **{field: replace(by, shift=np.full_like(by.shift, shift))})


def deep(program: Program) -> Program:
    """More inputs than a sum may have."""
    weight = np.zeros((4, 4, (1 << 16) + 1), np.int8)
    return with_step(with_slot(program, 0, shape=(3, 2, weight.shape[2])), weight=weight)


def without_projection(program: Program) -> Program:
    """h has three codes, the cell four."""
    none = Multipliers(ints(), ints())
    return with_step(
        program,
        projection=np.zeros((0, 4), np.int8),
        projection_bias=ints(),
        projection_multipliers=none,
    )


PARAMETERS = [
    slot(NAME, 0, r'has "x", int8 of shape \[3, 10\]. Sequences have 3 axes', shape=(3, 10)),
    slot(NAME, 0, 'has "x", which holds int16 codes', dtype="int16"),
    slot(NAME, 1, 'has "y", which holds int16 codes', dtype="int16"),
    step(NAME, "reads 1 slots. It reads x, h", first=("h",)),
    step(NAME, "reads c, h. Each once, in the order h, c", first=("c", "h")),
    slot(NAME, 1, r"of shape \[3, 2, 4\], but computes \[3, 2, 3\]", shape=(3, 2, 4)),
    step(NAME, r"has weights of shape \[4, 4, 4\]. Give \[4, 4, 5\]", weight=np.zeros((4, 4, 4), np.int8)),
    step(NAME, r"has recurrent weights of shape \[4, 3\]", recurrent=np.zeros((4, 3), np.int8)),
    step(NAME, r"has weights of shape \[4, 4, 5\]. Give \[3, 4, 5\]", coupled=True),
    step(NAME, r"has biases of shape \[4\]. Give \[4, 4\]", bias=ints(1, 2, 3, 4)),
    step(NAME, r"has peepholes of shape \[2, 4\]. Give \[3, 4\]", peephole=words(2, 4)),
    step(NAME, r"has coefficients of norms of shape \[3, 4\]. Give \[4, 4\]", norm=words(3, 4)),
    step(NAME, r"has guards of norms of shape \[1\]. Give \[4\]", norm_guard=ints(1)),
    step(NAME, r"has a projection of shape \[4, 4\]. Give \[3, 4\]", projection=np.zeros((4, 4), np.int8)),
    step(NAME, r"has biases of the projection of shape \[0\]. Give \[3\]", projection_bias=ints()),
    step(NAME, r"has multipliers of its hidden codes of shape \[0\]", hidden=Multipliers(ints(), ints())),
    of(without_projection, "has 4 units and an h of 3 codes. Give it a projection", NAME),
    of(deep, "adds 65537 products. The limit is 65536", NAME),
    step(NAME, "has the integer bits of c 7. It must be in 0 … 6", cell_bits=7),
    step(NAME, "has the bound of c 32768", cell_clip=32768),
    step(NAME, "has the bound of the projection -1", projection_clip=-1),
    step(NAME, "has the zero point of its hidden codes 128", hidden_zero_point=128),
    step(NAME, "has the guard 0 of a norm", norm_guard=ints(1, 0, 1, 1)),
    step(NAME, "has the weight -128", weight=np.full((4, 4, 5), -128, np.int8)),
    step(NAME, "has the recurrent weight -128", recurrent=np.full((4, 4, 3), -128, np.int8)),
    step(NAME, "has the weight of the projection -128", projection=np.full((3, 4), -128, np.int8)),
    step(NAME, "has the multiplier 5. Multipliers are 0 or", hidden=Multipliers(ints(5), ints(-22))),
    step(NAME, "has 2 shifts. Give one per multiplier: 1", hidden=Multipliers(ints(0), ints(1, 1))),
    with_shift("weight_multipliers", "has the shift 31. It must be in -31 … 30", 31),
    with_shift("weight_multipliers", "has sums up to .*, shifted left by 20, beyond int32", 20),
    with_shift("recurrent_multipliers", "has recurrent sums up to .*, shifted left by 20", 20),
    with_shift("peephole_multipliers", "has products with c up to .*, shifted left by 2", 2),
    with_shift("norm_multipliers", "has the shift 1 of a norm", 1),
    with_shift("hidden", "has products of gates up to 1073741824, shifted left by 1", 1),
    with_shift("projection_multipliers", "has sums of the projection up to .*, shifted left by 30", 30),
]
