"""Functions of one tensor: SOFTMAX with its own arithmetic, all others as tables of 256 codes.

LOGISTIC, TANH, EXP  nearest code of the function in float32, ties away from zero; LOG too; GELU in float64
                     LOGISTIC and TANH of 16-bit codes interpolate (rounding/sixteen_by_eight.py)
RELU, LEAKY_RELU     multiplier and shift of fl(s_x/s_y), below zero of fl(fl(s_x·α)/s_y)
PRELU                (q − z_x)(a − z_a) times fl(fl(s_x·s_a)/s_y) below zero
HARD_SWISH           16 bits (rounding/hard_swish.py)
RSQRT                Newton's method in fixed point (rounding/squares.py)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.fixedpoint import Ints, encode_multiplier, multiply_double_rounding
from calib8.program.expressions import Apply, Source
from calib8.program.instructions import Lookup, Softmax
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.chain import Chain, carried, chain_from, write
from calib8.program.program import Slot
from calib8.program.rounding.hard_swish import hard_swish_steps
from calib8.program.rounding.sixteen_by_eight import OUTPUT_SCALE, logistic_table, tanh_table
from calib8.program.rounding.softmax import softmax_rule
from calib8.program.rounding.squares import reciprocal_root_table
from calib8.program.rounding.tables import table
from calib8.program.rules import I16, Codes, Table
from calib8.qparams import QParams
from calib8.tflite.graph import Operator

FUNCTIONS: Final[Mapping[str, Apply]] = {
    "LOGISTIC": Apply("Sigmoid", (Source(),)),
    "TANH": Apply("Tanh", (Source(),)),
    "HARD_SWISH": Apply("HardSwish", (Source(),)),
    "EXP": Apply("Exp", (Source(),)),
    "LOG": Apply("Log", (Source(),)),
    "RELU": Apply("Relu", (Source(),)),
    "RELU6": Apply("Clip", (Source(),), {"min": 0.0, "max": 6.0}),
    "RELU_N1_TO_1": Apply("Clip", (Source(),), {"min": -1.0, "max": 1.0}),
    "RELU_0_TO_1": Apply("Clip", (Source(),), {"min": 0.0, "max": 1.0}),
}
"""Operator → the real function, as ONNX names it."""

OUTPUTS: Final[Mapping[str, tuple[float, int]]] = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}
"""Operator → the only scale and int8 zero point that its output may have; uint8 has 128 more."""

WIDE_CURVES: Final[Mapping[str, Callable[[float], I16]]] = {"LOGISTIC": logistic_table, "TANH": tanh_table}
"""Operator on 16-bit codes → its table for a scale of the input; that of the output is 1/32768."""

LARGEST_CURVE_SCALE: Final = 1.0
"""Of 16-bit inputs of curves: one step of 5 would overflow LiteRT's int32."""

MAX_TABLES: Final = 1 << 16
"""Tables of a PRELU, 256 bytes each."""


def softmax(builder: Builder, operator: Operator) -> None:
    """Shares of one over the last axis; β scales the input."""
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    beta = float(operator.options["beta"])  # type: ignore[arg-type]
    if not (math.isfinite(beta) and beta > 0) or not x.shape or x.dtype != y.dtype:
        raise NoFormError(f"its beta is {beta}, its input {x.dtype} {list(x.shape)}, its output {y.dtype}")
    _check_output(y, 1 / 256, -128)
    rule = softmax_rule(
        "tflite", beta * x.scale, x.dtype, QParams(y.scale, y.zero_point), y.dtype, x.shape[-1]
    )
    numbers = ((builder.number(operator.inputs[0]),), (builder.number(operator.outputs[0]),))
    builder.steps.append(Softmax(builder.name(operator), *numbers, rule))


def _check_output(slot: Slot, scale: float, zero_point: int) -> None:
    """TFLite's kernels write one scale and zero point only.

    Raises:
        NoFormError: the tensor has others.
    """
    wanted = zero_point + (128 if slot.dtype == "uint8" else 0)
    if (slot.scale, slot.zero_point) != (scale, wanted):
        raise NoFormError(
            f"its output has scale {slot.scale:.6g} and zero point {slot.zero_point}, "
            f"where TFLite writes 1/{1 / scale:.0f} and {wanted}"
        )


def function(builder: Builder, operator: Operator) -> None:
    """One of ``FUNCTIONS``."""
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    if x.is_wide and operator.op in WIDE_CURVES:
        _wide_curve(builder, operator, x, y)
        return
    if operator.op in OUTPUTS:
        _check_output(y, *OUTPUTS[operator.op])
    if operator.op == "HARD_SWISH" and hard_swish_steps(np.zeros(1, np.int64), x.scale, y.scale) is None:
        raise NoFormError(f"scales {x.scale:.6g} → {y.scale:.6g} are too far apart for its 16 bits")
    if operator.op == "LOG" and x.zero_point != np.iinfo(x.dtype).min:
        raise NoFormError(f"its input has zero point {x.zero_point}: numbers below 0 have no logarithm")
    expression = FUNCTIONS[operator.op]
    _lookup(builder, operator, table("tflite", expression, x, y), expression.op)


def _wide_curve(builder: Builder, operator: Operator, x: Slot, y: Slot) -> None:
    """LOGISTIC or TANH of 16-bit codes.

    Raises:
        NoFormError: scales that LiteRT refuses, or cannot compute with.
    """
    if not y.is_wide or y.scale != OUTPUT_SCALE:
        raise NoFormError(
            f"its output is {y.dtype} of scale {y.scale:.6g}, where TFLite writes int16 of 1/32768"
        )
    if x.scale > LARGEST_CURVE_SCALE:
        raise NoFormError(f"its input has the scale {x.scale:.6g}; the largest of 16 bits is 1")
    _lookup(builder, operator, WIDE_CURVES[operator.op](x.scale), FUNCTIONS[operator.op].op)


def gelu(builder: Builder, operator: Operator) -> None:
    """By the error function, or by its approximation with tanh."""
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    how = "tanh" if operator.options["approximate"] else "none"
    expression = Apply("Gelu", (Source(),), {"approximate": how})
    _lookup(builder, operator, table("tflite", expression, x, y), expression.op)


def reciprocal_root(builder: Builder, operator: Operator) -> None:
    """RSQRT, which TFLite has for int8."""
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    if not x.dtype == y.dtype == "int8":
        raise NoFormError(f"it reads {x.dtype} and writes {y.dtype}")
    _lookup(builder, operator, reciprocal_root_table(x, y), "Rsqrt")


def leaky_relu(builder: Builder, operator: Operator) -> None:
    """Another slope below zero."""
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    alpha = float(operator.options["alpha"])  # type: ignore[arg-type]
    if not math.isfinite(alpha):
        raise NoFormError(f"its alpha is {alpha}")
    expression = Apply("LeakyRelu", (Source(),), {"alpha": alpha})
    _lookup(builder, operator, table("tflite", expression, x, y), expression.op)


def _lookup(builder: Builder, operator: Operator, codes: Table, name: str) -> None:
    numbers = ((builder.number(operator.inputs[0]),), (builder.number(operator.outputs[0]),))
    builder.steps.append(Lookup(builder.name(operator), *numbers, codes, name))


def prelu(builder: Builder, operator: Operator) -> None:
    """A constant slope below zero per element of any axes: they are brought to the end, a table for each.

    Raises:
        NoFormError: the slopes are computed, or there are too many of them.
    """
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    alpha = _slopes(builder, operator.inputs[1], len(y.shape))
    varying = [axis for axis, size in enumerate(alpha.shape) if size > 1]
    others = [axis for axis in range(len(y.shape)) if axis not in varying]
    if (
        x.shape != y.shape
        or alpha.size > MAX_TABLES
        or any(alpha.shape[axis] != y.shape[axis] for axis in varying)
    ):
        raise NoFormError(f"its slopes are {list(alpha.shape)}")
    chain, order = chain_from(builder, operator.inputs[0]), [*others, *varying]
    if varying:
        chain = chain.transpose(order)
        ordered = chain.shape
        chain = chain.reshape((*ordered[: len(others)], alpha.size))
    source = carried(builder, operator, builder.number(operator.inputs[0]), chain)
    back = Chain(chain.shape)
    if varying:
        back = back.reshape(ordered).transpose([order.index(axis) for axis in range(len(order))])
    slopes = alpha.transpose(order).reshape(-1)
    tables = _prelu_tables(slopes, _quantization(builder, operator.inputs[1]), x, y)
    target = builder.number(operator.outputs[0])
    result = target if not back.moves else builder.between(y, chain.shape, "ordered")
    step = Lookup(builder.name(operator), (source,), (result,), tables, "PRelu")
    builder.steps.append(step)
    if back.moves:
        write(builder, operator, result, back, target)


def _slopes(builder: Builder, place: int, rank: int) -> npt.NDArray[np.integer]:
    """8-bit codes of the slopes with as many axes as the output."""
    codes = builder.constant(place)
    if codes.dtype not in (np.int8, np.uint8) or codes.ndim > rank:
        raise NoFormError(f"its slopes are {codes.dtype} {list(codes.shape)}")
    return codes.reshape((1,) * (rank - codes.ndim) + codes.shape)


def _quantization(builder: Builder, place: int) -> QParams:
    tensor = builder.tensor(place)
    if tensor.quantization is None or tensor.quantization.scales.size != 1:
        raise NoFormError("its slopes have no scale, or several")
    return QParams(float(tensor.quantization.scales[0]), int(tensor.quantization.zero_points[0]))


def _prelu_tables(slopes: npt.NDArray[np.integer], meaning: QParams, x: Slot, y: Slot) -> Codes:
    """[256], or [slopes, 256]."""
    limits = np.iinfo(x.dtype)
    steps = np.arange(limits.min, limits.max + 1, dtype=np.int64) - x.zero_point
    each = slopes.astype(np.int64)[:, None] - meaning.zero_point
    with np.errstate(over="ignore", under="ignore"):
        above = np.float32(x.scale) / np.float32(y.scale)
        below = np.float32(x.scale) * np.float32(meaning.scale) / np.float32(y.scale)
    codes = np.where(steps >= 0, _scaled(steps, above), _scaled(steps * each, below)) + y.zero_point
    ends = np.iinfo(y.dtype)
    tables: Codes = np.clip(codes, ends.min, ends.max).astype(y.dtype)
    return tables.reshape(-1) if len(tables) == 1 else tables


def _scaled(steps: Ints, factor: np.float32) -> Ints:
    """Multiplied and rounded twice, as all of TFLite's activations.

    Raises:
        NoFormError: the factor is too large.
    """
    try:
        return multiply_double_rounding(steps, *encode_multiplier(float(factor)))
    except ValueError as error:
        raise NoFormError(str(error)) from error
