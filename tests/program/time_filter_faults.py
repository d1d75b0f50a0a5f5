"""Faults of filters over time, and what the verifier has to say of each."""

from __future__ import annotations

import numpy as np
from example_programs import EXAMPLES, ints
from planting import slot, step

from calib8.program.rules import Multipliers

NAME = "TimeFilter"
LAYER = EXAMPLES[NAME, "onnx"].instructions[0]


def factor(multiplier: int, shift: int) -> Multipliers:
    return Multipliers(ints(multiplier), ints(shift))


PARAMETERS = [
    slot(NAME, 0, r'has "x", which holds int8 codes', dtype="int8"),
    slot(NAME, 0, r"reads \[2, 13\] and has weights of shape \[4, 3\]. Shapes must be", shape=(2, 13)),
    slot(NAME, 0, r"reads \[2, 4, 3\] and has weights", shape=(2, 4, 3)),
    slot(NAME, 0, "reads codes with the zero point 5. It must be 0", zero_point=5),
    slot(NAME, 1, r"of shape \[2, 4\], but computes \[2, 2\]", shape=(2, 4)),
    step(NAME, r"has weights of shape \[12\]", weight=np.zeros(12, np.int16)),
    step(NAME, r"has a bias of shape \[3\] for 4 filters. Give one number per unit", bias=ints(1, 2, 3)),
    step(NAME, r"has a bias of shape \[0\] for 4 filters", bias=ints()),
    step(NAME, "has 2 multipliers and 1 shifts. Give one of each", factor=Multipliers(ints(1, 2), ints(0))),
    step(NAME, "has the multiplier 5. It must be 0 or at least 1073741824", factor=factor(5, 0)),
    step(NAME, "has the shift 31. It must be in -31 … 30", factor=factor(1 << 30, 31)),
    step(NAME, "has sums up to 2147483648, shifted left by 1, beyond int32", factor=factor(1 << 30, 1)),
    step(NAME, "weight is a int8 array, not int16", weight=np.zeros((4, 3), np.int8)),
]
