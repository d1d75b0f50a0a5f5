"""The GRU of integers as an instruction: what fits what, what it costs; ``integer_gru_cells`` computes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.program.ops.instruction import Instruction
from calib8.program.ops.integer_gru_cells import STATE_SCALE, IntegerGru, run_integer_gru
from calib8.program.ops.integer_lstm import check_depth, check_left_shifts, check_multipliers, check_weights
from calib8.program.ops.integer_lstm import reach as sums_reach
from calib8.program.ops.integer_states import (
    check_wide_state,
    sequence_sizes,
    signed,
    signed_point,
    unsigned,
)
from calib8.program.ops.kinds import ANY_CODES, CODES, WIDE_CODES, Takes
from calib8.program.ops.operand import Operand
from calib8.program.ops.reach import code_steps
from calib8.program.ops.shapes import Shape
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.slot import Slot

GATES: Final = 3
LARGEST_STATE: Final = 1 << 15


def integer_gru(step: IntegerGru, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of h of all steps."""
    return every_result(step, operands, output)[0]


def every_result(step: IntegerGru, operands: Sequence[Operand], output: Slot) -> list[npt.NDArray[Any]]:
    """Codes of h of all steps, and the last h."""
    x, first = operands[0], operands[1].data if step.first else None
    rows = signed(x.data) if step.time_first else signed(x.data).transpose(1, 0, 2)
    codes, last = run_integer_gru(step, rows, signed_point(x.slot), signed_point(output), first)
    codes = codes if step.time_first else np.ascontiguousarray(codes.transpose(1, 0, 2))
    return [unsigned(codes) if output.dtype == "uint8" else codes, last]


def _shape(step: Step, layer: IntegerGru) -> tuple[Shape, ...]:
    first, second, inputs = sequence_sizes(step)
    _check_arrays(step, layer, inputs)
    if len(step.inputs) != 1 + len(layer.first) or layer.first not in ((), ("h",)):
        wanted = ", ".join(("x", *layer.first))
        raise step.error(f"reads {len(step.inputs)} slots", f"It reads {wanted}, and h beside x alone")
    for slot in (*step.inputs[1:], *step.outputs[1:]):
        check_wide_state(step, slot, (second if layer.time_first else first, layer.units), STATE_SCALE)
    return ((first, second, layer.units),)


def _check_arrays(step: Step, layer: IntegerGru, inputs: int) -> None:
    """Refuses arrays that do not fit each other."""
    if layer.recurrent.ndim != 3 or not layer.recurrent.size:
        raise step.error(f"has recurrent weights of shape {list(layer.recurrent.shape)}", "Give [3, C, C]")
    units = layer.units
    for what, array, wanted in (
        ("weights", layer.weight, (GATES, units, inputs)),
        ("recurrent weights", layer.recurrent, (GATES, units, units)),
        ("biases", layer.bias, (GATES, units)),
        ("inner biases", layer.inner_bias, (units if layer.reset_after else 0,)),
        ("multipliers of weights", layer.weight_multipliers.multiplier, (GATES,)),
        ("multipliers of recurrent weights", layer.recurrent_multipliers.multiplier, (GATES,)),
        ("multipliers of its codes", layer.hidden.multiplier, (1,)),
    ):
        if array.shape != wanted:
            raise step.error(f"has {what} of shape {list(array.shape)}", f"Give {list(wanted)}")


def _check(step: Step, layer: IntegerGru) -> None:
    """Refuses numbers out of range, and products beyond 32 bits."""
    check_weights(step, {"weight": layer.weight, "recurrent weight": layer.recurrent})
    check_depth(step, max(layer.weight.shape[2], layer.units))
    check_multipliers(step, (layer.weight_multipliers, layer.recurrent_multipliers, layer.hidden))
    x, h = code_steps(step.inputs[0]), code_steps(step.output)
    inner = np.zeros_like(layer.bias)
    if layer.reset_after:
        inner[2] = layer.inner_bias
    sums = sums_reach(layer.weight, layer.bias, x)
    check_left_shifts(step, "sums", sums, layer.weight_multipliers)
    recurrent = sums_reach(layer.recurrent, inner, h)
    check_left_shifts(step, "recurrent sums", recurrent, layer.recurrent_multipliers)
    check_left_shifts(step, "states", np.array([LARGEST_STATE]), layer.hidden)


def _macs(layer: IntegerGru, source: Slot, result: Slot) -> int:
    """Of all products in every step."""
    return source.shape[0] * source.shape[1] * (layer.weight.size + layer.recurrent.size)


TRAITS: Final[dict[type[Instruction], Traits]] = {
    IntegerGru: Traits(
        Takes((CODES, ANY_CODES), CODES, variadic=True, more=(WIDE_CODES,)),
        _shape,
        integer_gru,
        macs=_macs,
        check=_check,
        every=every_result,
    ),
}
