"""Lengths of vectors of codes: the root of the sum of their squares over axes.

    S = Σ (q − z_x)²
    FloatRescale   y = rint(fl(fl32(sqrt(S)) · factor)) + z_y               the root in float64, rounded once
    FixedRescale   2^60 ≤ S·4^k < 2^62,   R = ⌊sqrt(S·4^k)⌋,   h = 31 − shift + k
                   y = ((R·multiplier + 2^(h − 1)) >> h) + z_y,   z_y where h > 62

then the clamp. S = 0 gives z_y. With n < 2^45 codes of 8 bits, or n ≤ 2^28 of 16, S < 2^61, so k is 0 … 30;
R < 2^31, R·multiplier < 2^62.
Lengths are never below 0, so ``single`` and ``away`` round alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import ANY_CODES, Takes
from calib8.program.ops.layer_norm import bit_length, floor_of_root
from calib8.program.ops.operand import Ints, Operand
from calib8.program.ops.rescale import clipped
from calib8.program.ops.shapes import Shape, reduced_shapes
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import FixedRescale, Rescale
from calib8.program.slot import Slot

MOST_RIGHT: Final = 62
"""What is shifted further is 0."""

MOST_WIDE: Final = 1 << 28
"""Codes of 16 bits of one vector."""


@dataclass(frozen=True, eq=False)
class ReduceL2(Instruction):
    """Root of the sum of squares over axes, rescaled.

    Attributes:
        axes: axes of the input that vanish or become 1 (the output slot's shape says which).
        rescale: by ``s_x / s_y``.
    """

    axes: tuple[int, ...]
    rescale: Rescale
    low: int
    high: int


def reduce_l2(step: ReduceL2, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of the lengths."""
    (x,) = operands
    centred = x.data.astype(np.int64) - x.slot.zero_point
    squares = (centred * centred).sum(axis=step.axes, keepdims=True)
    if isinstance(step.rescale, FixedRescale):
        steps: npt.NDArray[Any] = _fixed(step.rescale, squares)
    else:
        with np.errstate(over="ignore"):
            root = np.sqrt(squares.astype(np.float64)).astype(np.float32)
            steps = np.rint(root * step.rescale.factor).astype(np.float64)
    codes = clipped(steps + output.zero_point, step.low, step.high, output.dtype)
    return codes.reshape(output.shape)


def _fixed(rule: FixedRescale, squares: Ints) -> Ints:
    """Steps of the output."""
    known = np.where(squares == 0, 1, squares)
    k = (62 - bit_length(known)) >> 1
    root = np.where(squares == 0, 0, floor_of_root(known << (2 * k)))
    right = 31 - int(rule.shift[0]) + k
    shift = np.minimum(right, MOST_RIGHT)
    steps = (root * int(rule.multiplier[0]) + (np.int64(1) << (shift - 1))) >> shift
    result: Ints = np.where(right > MOST_RIGHT, 0, steps)
    return result


def _check_count(step: Step, instruction: ReduceL2) -> None:
    """Squares of differences of 16-bit codes have 32 bits."""
    source = step.inputs[0]
    count = math.prod(source.shape[axis] for axis in instruction.axes)
    if source.is_wide and count > MOST_WIDE:
        raise step.error(f"adds {count} squares of 16-bit codes", f"The limit is {MOST_WIDE}")


def _length_shape(step: Step, instruction: ReduceL2) -> tuple[Shape, ...]:
    return reduced_shapes(step, instruction.axes)


TRAITS: Final[dict[type[Instruction], Traits]] = {
    ReduceL2: Traits(Takes((ANY_CODES,), ANY_CODES), _length_shape, reduce_l2, check=_check_count),
}
