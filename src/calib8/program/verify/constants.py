"""Constants of an instruction that depend on the types of its slots: clamps, zero points, tables, codes."""

from __future__ import annotations

import numpy as np

from calib8.program import instructions as op
from calib8.program.verify.step import Step


def check_constants(step: Step) -> None:
    """Refuses constants outside the type that they are compared with or written to.

    Raises:
        ModelError: names the instruction and the value.
    """
    instruction = step.instruction
    if isinstance(instruction, op.Weighted):
        _check_weight_zero_point(step, instruction)
    if isinstance(instruction, CLAMPED) and step.output.is_codes:
        _check_clamp(step, instruction.low, instruction.high)
    if isinstance(instruction, op.Lookup) and instruction.table.dtype != np.dtype(step.output.dtype):
        raise step.error(
            f'has a table of {instruction.table.dtype} for "{step.output.name}" of {step.output.dtype}',
            "Both must have the same type",
        )
    if isinstance(instruction, op.Pad):
        limits = np.iinfo(step.output.dtype)
        if not limits.min <= instruction.value <= limits.max:
            raise step.error(
                f"pads with {instruction.value}", f"{step.output.dtype} needs {limits.min} … {limits.max}"
            )


CLAMPED = (
    op.Weighted,
    op.MatMul,
    op.Requantize,
    op.Add,
    op.Sub,
    op.AddSums,
    op.Mul,
    op.AveragePool,
    op.Mean,
)
"""Instructions with ``low`` and ``high``."""


def _check_clamp(step: Step, low: int, high: int) -> None:
    limits = np.iinfo(step.output.dtype)
    if not limits.min <= low <= high <= limits.max:
        raise step.error(
            f"clamps to {low} … {high}",
            f"{step.output.dtype} needs {limits.min} ≤ low ≤ high ≤ {limits.max}",
        )


def _check_weight_zero_point(step: Step, layer: op.Weighted) -> None:
    limits, points = np.iinfo(layer.weight.dtype), layer.weight_zero_point
    outside = points[(points < limits.min) | (points > limits.max)]
    if outside.size:
        raise step.error(
            f"has the weight zero point {outside[0]}",
            f"{layer.weight.dtype} needs {limits.min} … {limits.max}",
        )
