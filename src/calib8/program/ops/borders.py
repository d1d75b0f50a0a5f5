"""Borders between float32 and codes.

    Quantize      code = clip(round(fl(x / scale)) + zero_point)     ties to even, or away from zero;
                                                                     NaN → lowest code, ±inf saturate
    Dequantize    x = fl(scale · float32(code − zero_point))         codes
                  x = fl(scale[c] · float32(acc))                    sums; channels on the last axis

A border also changes the layout: NCHW outside, NHWC inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.kinds import ANY_CODES, SUMS, Takes
from calib8.program.ops.operand import Operand
from calib8.program.ops.shapes import transposed_shape
from calib8.program.ops.traits import Traits
from calib8.program.slot import Slot


@dataclass(frozen=True, eq=False)
class Quantize(Instruction):
    """float32 → codes at the border: ``clip(round(x / scale) + zero_point)``; NaN gives the lowest code.

    Attributes:
        axes: output axis i is input axis ``axes[i]`` (NCHW → NHWC on the way in).
        rounding: ties to even (``onnx``, ``single``) or away from zero (``tflite``).
    """

    axes: tuple[int, ...]
    rounding: Literal["even", "away"]


@dataclass(frozen=True, eq=False)
class Dequantize(Instruction):
    """Codes or sums → float32 at the border: ``fl(scale · float32(code − zero_point))``.

    Attributes:
        axes: output axis i is input axis ``axes[i]``.
    """

    axes: tuple[int, ...]


def quantize(step: Quantize, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of float32 values; output axis i is input axis ``axes[i]``."""
    info = np.iinfo(output.dtype)
    with np.errstate(over="ignore"):  # an infinite quotient saturates
        ratio = operands[0].data.astype(np.float32) / np.float32(output.scale)
    lowest, highest = info.min - output.zero_point, info.max - output.zero_point
    # Clamped before anything becomes an integer: float64 holds every code and its half exactly.
    steps = np.clip(np.where(np.isnan(ratio), -np.inf, ratio), lowest, highest).astype(np.float64)
    rounded = np.rint(steps) if step.rounding == "even" else np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    return (rounded + output.zero_point).astype(output.dtype).transpose(step.axes)


def dequantize(step: Dequantize, operands: Sequence[Operand], _output: Slot) -> npt.NDArray[Any]:
    """float32 values of codes or sums; output axis i is input axis ``axes[i]``."""
    slot = operands[0].slot
    steps = operands[0].data.astype(np.int64) - slot.zero_point
    with np.errstate(over="ignore"):
        real = steps.astype(np.float32) * slot.scales
    return real.reshape(steps.shape).transpose(step.axes)


TRAITS: Final[dict[type[Instruction], Traits]] = {
    Quantize: Traits(Takes((("float32",),), ANY_CODES), transposed_shape, quantize),
    Dequantize: Traits(Takes(((*ANY_CODES, *SUMS),), ("float32",)), transposed_shape, dequantize),
}
