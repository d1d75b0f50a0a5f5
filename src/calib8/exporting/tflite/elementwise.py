"""Two tensors of codes: ADD, SUB, MUL, MAXIMUM, MINIMUM; and sums of layers that nothing quantizes."""

from __future__ import annotations

from functools import partial

import numpy as np

from calib8.errors import NoFormError
from calib8.exporting.tflite.builder import HIGHEST, LOWEST, Builder, LayerSums, codes_of, slot_codes
from calib8.exporting.tflite.layers import coded_layer, sums_weight_scales
from calib8.exporting.tflite.wide import any_wide, fine_scale, limited, operand
from calib8.program.instructions import (
    Add,
    AddSums,
    Div,
    Maximum,
    Minimum,
    Mul,
    RealFunction,
    RealPair,
    RealRescale,
    Requantize,
    Sub,
)
from calib8.program.program import Slot
from calib8.program.rounding.squares import LEFT_SHIFT
from calib8.program.rules import ScaledSum
from calib8.tflite.graph import Option

OPERATORS: dict[type, str] = {
    Add: "ADD",
    Sub: "SUB",
    Mul: "MUL",
    Maximum: "MAXIMUM",
    Minimum: "MINIMUM",
}


def binary(builder: Builder, step: Add | Sub | Mul) -> None:
    """Sum, difference or product, broadcast; differences that may be squared wait for whoever reads them."""
    if isinstance(step, Sub) and isinstance(step.rule, ScaledSum) and step.rule.left_shift == LEFT_SHIFT:
        builder.differences[step.outputs[0]] = step
        builder.waiting[step.outputs[0]] = partial(_written, builder, step)
    else:
        _written(builder, step)


def _written(builder: Builder, step: Add | Sub | Mul) -> int:
    """The operator, and the tensor of its result."""
    a, b, y = (builder.slot(number) for number in (*step.inputs, *step.outputs))
    wide = any_wide(a, b, y)
    if wide and isinstance(step, Mul) and a.scale * b.scale >= fine_scale(y):
        raise NoFormError(
            "a step of its product is no smaller than one of its 16-bit result: int32 overflows"
        )
    inputs = [operand(builder, number, wide) for number in step.inputs]
    _limited(builder, step, inputs, OPERATORS[type(step)], wide)
    return builder.tensor(step.outputs[0])


def quotient(builder: Builder, step: Div) -> None:
    """A quotient of two tensors.

    Raises:
        NoFormError: TensorFlow Lite divides no int8 codes.
    """
    raise NoFormError("there is no operator for it")


def real(builder: Builder, step: RealRescale | RealPair | RealFunction) -> None:
    """Refused: TFLite multiplies codes by integers, and programs for it leave such functions to its own.

    Raises:
        NoFormError: always.
    """
    raise NoFormError("its rounding is that of another profile than tflite")


def _limited(
    builder: Builder, step: Add | Sub | Mul | AddSums, inputs: list[int], op: str, wide: bool = False
) -> None:
    options: dict[str, Option] = {} if op == "MUL" else {"pot_scale_int16": False}

    def make(target: int, activation: str) -> None:
        builder.operator(op, inputs, [target], fused_activation_function=activation, **options)

    y = builder.slot(step.outputs[0])
    limited(builder, builder.tensor(step.outputs[0]), y, (step.low, step.high), make, wide)


def selection(builder: Builder, step: Maximum | Minimum) -> None:
    """The larger or smaller code."""
    inputs = [builder.tensor(number) for number in step.inputs]
    builder.operator(OPERATORS[type(step)], inputs, [builder.tensor(step.outputs[0])])


def requantize(builder: Builder, step: Requantize) -> None:
    """The codes of a layer's sums: the layer once more for every scale that is read."""
    sums = _sums(builder, step.inputs[0])
    y = builder.slot(step.outputs[0])
    first = builder.slot(sums.step.outputs[0])
    if first.name in builder.repeated:
        builder.notes.append(f"{sums.step.name}: computed once more, in the scale of '{y.name}'")
    builder.repeated.add(first.name)
    _coded(builder, sums, builder.tensor(step.outputs[0]), y, (step.low, step.high))


def _sums(builder: Builder, number: int) -> LayerSums:
    if number not in builder.sums:
        raise NoFormError("it reads sums that are not those of a layer")
    return builder.sums[number]


def _coded(builder: Builder, sums: LayerSums, output: int, y: Slot, limits: tuple[int, int]) -> None:
    """The layer in codes, then the moves behind it."""
    step = sums.step
    scales = sums_weight_scales(builder.slot(step.outputs[0]), builder.slot(step.inputs[0]).scale)
    shapes = [builder.slot(number).shape for number in (step.outputs[0], *(m.outputs[0] for m in sums.moves))]
    places = [builder.like(output, "sums", shape) for shape in shapes[:-1]] + [output]
    coded_layer(builder, step, places[0], y, scales, limits)
    for move, source, target in zip(sums.moves, places[:-1], places[1:], strict=True):
        builder.operator("TRANSPOSE", [source, builder.ints("perm", move.axes)], [target])


def add_sums(builder: Builder, step: AddSums) -> None:
    """ADD of codes, where layers get codes that no result of the sum needs more of.

    A sum y = a + b is clipped to [low_y, high_y], so of a nothing counts beyond low_y − high_b and
    high_y − low_b.
    """
    y = builder.slot(step.outputs[0])
    low, high = ((code - y.zero_point) * y.scale for code in (step.low, step.high))
    inputs = []
    for number, other in zip(step.inputs, reversed(step.inputs), strict=True):
        if number not in builder.sums:
            inputs.append(builder.tensor(number))
            continue
        below, above = _reach(builder, other)
        inputs.append(_in_reach(builder, number, (low - above, high - below)))
    _limited(builder, step, inputs, "ADD")


def _reach(builder: Builder, number: int) -> tuple[float, float]:
    """Smallest and largest real value of codes; of a layer's sums the largest that it can reach."""
    slot = builder.slot(number)
    if number not in builder.sums:
        return (LOWEST - slot.zero_point) * slot.scale, (HIGHEST - slot.zero_point) * slot.scale
    step = _sums(builder, number).step
    x = builder.slot(step.inputs[0])
    ends = np.iinfo(x.dtype)
    widest = max(ends.max - x.zero_point, x.zero_point - ends.min)
    axes = tuple(axis for axis in range(step.weight.ndim) if step.weight.shape[axis] != step.bias.size)
    taps = np.abs(step.weight.astype(np.float64)).sum(axis=axes or None).max()
    limit = float((widest * taps + np.abs(step.bias.astype(np.float64)).max()) * slot.scales.max())
    return -limit, limit


def _in_reach(builder: Builder, number: int, reach: tuple[float, float]) -> int:
    """A layer's sums in int8 codes of a real range."""
    slot, sums = builder.slot(number), _sums(builder, number)
    low, high = min(reach[0], 0.0), max(reach[1], 0.0)
    scale = float(np.float32((high - low) / (HIGHEST - LOWEST)))
    zero_point = int(np.clip(np.rint(LOWEST - low / scale), LOWEST, HIGHEST))
    y = Slot(slot.name, slot.shape, "int8", np.array([scale], np.float32), zero_point)
    output = builder.add(slot.name, slot.shape, "int8", codes_of(scale, zero_point))
    assert slot_codes(y) is not None
    _coded(builder, sums, output, y, (LOWEST, HIGHEST))
    builder.notes.append(f"{sums.step.name}: its sums have no quantizer; coded with scale {scale:.6g}")
    return output
