"""Faults of GRUs of integers and of states of LSTMs, and what the verifier has to say of each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from example_programs import EXAMPLES, ints, with_slot, with_step
from planting import Fault, of, slot, step

from calib8.program.program import Program
from calib8.program.rules import Multipliers

NAME = "IntegerGru"
LAYER = EXAMPLES[NAME, "onnx"].instructions[0]
X, H, Y, LAST = range(4)


def with_shift(field: str, problem: str, shift: int) -> Fault:
    by = getattr(LAYER, field)
    return step(NAME, problem, **{field: replace(by, shift=np.full_like(by.shift, shift))})


def deep(program: Program) -> Program:
    """More inputs than a sum may have."""
    weight = np.zeros((3, 4, (1 << 16) + 1), np.int8)
    return with_step(with_slot(program, X, shape=(3, 2, weight.shape[2])), weight=weight)


def without_reset_after(program: Program) -> Program:
    """Inner biases, and a product behind the reset."""
    return with_step(program, reset_after=False)


PARAMETERS = [
    slot(NAME, X, r'has "x", int8 of shape \[3, 10\]. Sequences have 3 axes', shape=(3, 10)),
    slot(NAME, H, r'has the state "h", int16 of shape \[2, 5\]. It is int16 \[2, 4\]', shape=(2, 5)),
    slot(NAME, H, 'has the state "h", int16', scales=np.array([2.0**-14], np.float32)),
    slot(NAME, LAST, 'has the state "last", int16', zero_point=1),
    slot(NAME, Y, r"of shape \[3, 2, 3\], but computes \[3, 2, 4\]", shape=(3, 2, 3)),
    step(NAME, r"has weights of shape \[3, 4, 4\]. Give \[3, 4, 5\]", weight=np.zeros((3, 4, 4), np.int8)),
    step(NAME, r"has recurrent weights of shape \[4, 3\]", recurrent=np.zeros((4, 3), np.int8)),
    step(NAME, r"has biases of shape \[4\]. Give \[3, 4\]", bias=ints(1, 2, 3, 4)),
    step(NAME, r"has inner biases of shape \[1\]. Give \[4\]", inner_bias=ints(1)),
    of(without_reset_after, r"has inner biases of shape \[4\]. Give \[0\]", NAME),
    step(NAME, r"has multipliers of its codes of shape \[0\]", hidden=Multipliers(ints(), ints())),
    step(NAME, "reads 2 slots. It reads x, and h beside x alone", first=()),
    of(deep, "adds 65537 products. The limit is 65536", NAME),
    step(NAME, "has the weight -128", weight=np.full((3, 4, 5), -128, np.int8)),
    step(NAME, "has the recurrent weight -128", recurrent=np.full((3, 4, 4), -128, np.int8)),
    step(NAME, "has the multiplier 5. Multipliers are 0 or", hidden=Multipliers(ints(5), ints(-8))),
    with_shift("weight_multipliers", "has the shift 31. It must be in -31 … 30", 31),
    with_shift("weight_multipliers", "has sums up to .*, shifted left by 20, beyond int32", 20),
    with_shift("recurrent_multipliers", "has recurrent sums up to .*, shifted left by 20", 20),
    with_shift("hidden", "has states up to 32768, shifted left by 20", 20),
]
