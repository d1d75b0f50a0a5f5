"""The LSTM of integers as an instruction: what fits what, what it costs; ``integer_cells`` computes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.fixedpoint import INT32_MAX, MAX_SHIFT, MIN_SHIFT
from calib8.program.ops.instruction import Instruction
from calib8.program.ops.integer_cells import IntegerLstm, run_integer_lstm
from calib8.program.ops.integer_states import check_states, sequence_sizes, signed, signed_point, unsigned
from calib8.program.ops.kinds import ANY_CODES, CODES, WIDE_CODES, Takes
from calib8.program.ops.operand import Operand
from calib8.program.ops.reach import RECALIBRATE, code_steps
from calib8.program.ops.shapes import Shape
from calib8.program.ops.sixteen_bit_functions import MOST_INTEGER_BITS
from calib8.program.ops.step import Step
from calib8.program.ops.traits import Traits
from calib8.program.rules import I8, I32, Multipliers
from calib8.program.slot import Slot

MOST_PRODUCTS: Final = 1 << 16
"""Products of one sum: codes less their zero points and weights are at most 255 · 127."""

MULTIPLIER_MIN: Final = 1 << 30
LARGEST_WIDE: Final = 1 << 15
LARGEST_PRODUCT: Final = 1 << 30
"""Of two 16-bit numbers."""


def integer_lstm(step: IntegerLstm, operands: Sequence[Operand], output: Slot) -> npt.NDArray[Any]:
    """Codes of h of all steps."""
    return every_result(step, operands, output)[0]


def every_result(step: IntegerLstm, operands: Sequence[Operand], output: Slot) -> list[npt.NDArray[Any]]:
    """Codes of h of all steps, and the last c."""
    x, given = operands[0], dict(zip(step.first, (one.data for one in operands[1:]), strict=True))
    rows = signed(x.data) if step.time_first else signed(x.data).transpose(1, 0, 2)
    h = signed(given["h"]) if "h" in given else None
    points = signed_point(x.slot), signed_point(output)
    codes, cell = run_integer_lstm(step, rows, *points, h, given.get("c"))
    codes = codes if step.time_first else np.ascontiguousarray(codes.transpose(1, 0, 2))
    return [unsigned(codes) if output.dtype == "uint8" else codes, cell]


def _shape(step: Step, layer: IntegerLstm) -> tuple[Shape, ...]:
    first, second, inputs = sequence_sizes(step)
    _check_arrays(step, layer, inputs)
    samples = second if layer.time_first else first
    hidden, cell = (samples, layer.width), (samples, layer.units)
    check_states(step, layer.first, hidden, cell, 2.0 ** (layer.cell_bits - 15))
    return ((first, second, layer.width),)


def _check_arrays(step: Step, layer: IntegerLstm, inputs: int) -> None:
    """Refuses arrays that do not fit each other."""
    if layer.recurrent.ndim != 3 or not layer.recurrent.size:
        raise step.error(f"has recurrent weights of shape {list(layer.recurrent.shape)}", "Give [G, C, H]")
    gates, units, width = layer.gates, layer.units, layer.width
    rows = len(layer.peephole_multipliers.multiplier)
    normed, projected = bool(layer.norm.size), bool(layer.projection.size)
    for what, array, wanted in (
        ("weights", layer.weight, (gates, units, inputs)),
        ("recurrent weights", layer.recurrent, (gates, units, width)),
        ("biases", layer.bias, (gates, units)),
        ("peepholes", layer.peephole, (gates - 1 if rows else 0, units)),
        ("coefficients of norms", layer.norm, (gates if normed else 0, units)),
        ("guards of norms", layer.norm_guard, (gates if normed else 0,)),
        ("a projection", layer.projection, (width if projected else 0, units)),
        ("biases of the projection", layer.projection_bias, (width if projected else 0,)),
        ("multipliers of weights", layer.weight_multipliers.multiplier, (gates,)),
        ("multipliers of recurrent weights", layer.recurrent_multipliers.multiplier, (gates,)),
        ("multipliers of peepholes", layer.peephole_multipliers.multiplier, (layer.peephole.shape[:1])),
        ("multipliers of norms", layer.norm_multipliers.multiplier, (gates if normed else 0,)),
        ("multipliers of its hidden codes", layer.hidden.multiplier, (1,)),
        ("multipliers of the projection", layer.projection_multipliers.multiplier, (int(projected),)),
    ):
        if array.shape != wanted:
            raise step.error(f"has {what} of shape {list(array.shape)}", f"Give {list(wanted)}")
    if not projected and width != units:
        raise step.error(f"has {units} units and an h of {width} codes", "Give it a projection")


def _check(step: Step, layer: IntegerLstm) -> None:
    """Refuses numbers out of range, and products beyond 32 bits."""
    for what, number, low, high in (
        ("integer bits of c", layer.cell_bits, 0, MOST_INTEGER_BITS),
        ("bound of c", layer.cell_clip, 0, LARGEST_WIDE - 1),
        ("bound of the projection", layer.projection_clip, 0, 127),
        ("zero point of its hidden codes", layer.hidden_zero_point, -128, 127),
    ):
        if not low <= number <= high:
            raise step.error(f"has the {what} {number}", f"It must be in {low} … {high}")
    if layer.norm_guard.min(initial=1) < 1:
        raise step.error(f"has the guard {layer.norm_guard.min()} of a norm", "Guards are 1 or more")
    weights = {"weight": layer.weight, "recurrent weight": layer.recurrent}
    check_weights(step, weights | {"weight of the projection": layer.projection})
    check_depth(step, max(layer.weight.shape[2], layer.units, layer.width))
    check_multipliers(step, _all_multipliers(layer))
    _check_reach(step, layer)


def check_weights(step: Step, weights: Mapping[str, I8]) -> None:
    """Refuses codes beyond ±127.

    Raises:
        ModelError: names the weight.
    """
    for what, weight in weights.items():
        if weight.min(initial=0) < -127:
            raise step.error(f"has the {what} -128", "Codes are -127 … 127")


def check_depth(step: Step, deepest: int) -> None:
    """Refuses sums of too many products.

    Raises:
        ModelError: names the limit.
    """
    if deepest > MOST_PRODUCTS:
        raise step.error(f"adds {deepest} products", f"The limit is {MOST_PRODUCTS}")


def check_multipliers(step: Step, multipliers: Iterable[Multipliers]) -> None:
    """Refuses multipliers and shifts out of range.

    Raises:
        ModelError: names the number.
    """
    for by in multipliers:
        if by.shift.shape != by.multiplier.shape:
            raise step.error(f"has {by.shift.size} shifts", f"Give one per multiplier: {by.multiplier.size}")
        bad = by.multiplier[(by.multiplier != 0) & (by.multiplier < MULTIPLIER_MIN)]
        if bad.size:
            raise step.error(
                f"has the multiplier {bad[0]}", f"Multipliers are 0 or at least {MULTIPLIER_MIN}"
            )
        wrong = by.shift[(by.shift < MIN_SHIFT) | (by.shift > MAX_SHIFT)]
        if wrong.size:
            raise step.error(f"has the shift {wrong[0]}", f"It must be in {MIN_SHIFT} … {MAX_SHIFT}")


def _all_multipliers(layer: IntegerLstm) -> tuple[Multipliers, ...]:
    return (
        layer.weight_multipliers,
        layer.recurrent_multipliers,
        layer.peephole_multipliers,
        layer.norm_multipliers,
        layer.hidden,
        layer.projection_multipliers,
    )


def _check_reach(step: Step, layer: IntegerLstm) -> None:
    """Sums, and what a multiplier shifts left, stay within int32."""
    bias = np.zeros_like(layer.bias) if layer.norm.size else layer.bias
    x, h = code_steps(step.inputs[0]), code_steps(step.output)
    hidden = -128 + layer.hidden_zero_point, 127 + layer.hidden_zero_point
    peephole = np.abs(layer.peephole.astype(np.int64)).max(axis=1, initial=0) * LARGEST_WIDE
    projected = reach(layer.projection[None], layer.projection_bias[None], hidden)
    for what, reached, by in (
        ("sums", reach(layer.weight, bias, x), layer.weight_multipliers),
        ("recurrent sums", reach(layer.recurrent, np.zeros_like(bias), h), layer.recurrent_multipliers),
        ("products with c", peephole, layer.peephole_multipliers),
        ("products of gates", np.array([LARGEST_PRODUCT]), layer.hidden),
        ("sums of the projection", projected, layer.projection_multipliers),
    ):
        check_left_shifts(step, what, reached, by)
    norms = layer.norm_multipliers.shift
    if norms.size and norms.max() > 0:
        raise step.error(f"has the shift {norms.max()} of a norm", "Its coefficients are below 2")


def check_left_shifts(step: Step, what: str, reached: npt.NDArray[np.int64], by: Multipliers) -> None:
    """Refuses what a multiplier would shift beyond int32.

    Raises:
        ModelError: names the sums.
    """
    for largest, shift in zip(reached.tolist(), by.shift.tolist(), strict=False):
        if largest << max(shift, 0) > INT32_MAX:
            problem = f"has {what} up to {largest}, shifted left by {max(shift, 0)}, beyond int32"
            raise step.error(problem, RECALIBRATE)


def reach(weight: I8, bias: I32, steps: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Largest magnitude of the sums of each gate; of weights [G, C, K]."""
    if not weight.size:
        return np.zeros(len(weight), np.int64)
    above = np.maximum(weight, 0).sum(axis=2, dtype=np.int64)
    below = np.minimum(weight, 0).sum(axis=2, dtype=np.int64)
    most = above * steps[1] + below * steps[0] + bias
    least = above * steps[0] + below * steps[1] + bias
    result: npt.NDArray[np.int64] = np.maximum(most, -least).max(axis=1)
    return result


def _macs(layer: IntegerLstm, source: Slot, result: Slot) -> int:
    """Of all products in every step."""
    steps = source.shape[0] * source.shape[1]
    return steps * (layer.weight.size + layer.recurrent.size + layer.projection.size)


TRAITS: Final[dict[type[Instruction], Traits]] = {
    IntegerLstm: Traits(
        Takes((CODES, ANY_CODES), CODES, variadic=True, more=(WIDE_CODES,)),
        _shape,
        integer_lstm,
        macs=_macs,
        check=_check,
        every=every_result,
    ),
}
