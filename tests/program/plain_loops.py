"""Layers as the plainest loops over Python integers, and programs of one instruction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.program.instructions import Conv, ConvTranspose, DepthwiseConv, Instruction
from calib8.program.program import Port, Program, Slot
from calib8.program.reference.executor import run_program
from calib8.program.rules import CurveRescale, FloatRescale, Rescale

Array = npt.NDArray[Any]


def codes(
    name: str, shape: Sequence[int], dtype: str = "uint8", scale: float = 1.0, zero_point: int = 0
) -> Slot:
    return Slot(name, tuple(shape), dtype, np.float32([scale]), zero_point)


def sums(name: str, shape: Sequence[int], scales: Sequence[float] = (1.0,)) -> Slot:
    return Slot(name, tuple(shape), "int32", np.array(scales, np.float32))


def plain(name: str, shape: Sequence[int], dtype: str = "float32") -> Slot:
    return Slot(name, tuple(shape), dtype)


def program_of(steps: Sequence[Instruction], slots: Sequence[Slot], inputs: int, output: int) -> Program:
    """The first ``inputs`` slots are fed; slot ``output`` comes out."""
    ports = tuple(Port(slot.name, number) for number, slot in enumerate(slots))
    return Program("onnx", tuple(slots), tuple(steps), ports[:inputs], (ports[output],))


def run_one(step: Instruction, slots: Sequence[Slot], *arrays: Array) -> Array:
    """What one instruction makes of the arrays; the last slot is its output."""
    program = program_of([step], slots, len(arrays), len(slots) - 1)
    feeds = {slot.name: array for slot, array in zip(slots, arrays, strict=False)}
    return run_program(program, feeds)[0]


def weight_step(layer: Any, output: int, tap: Any) -> int:
    points = layer.weight_zero_point
    return int(layer.weight[tap]) - int(points[output if len(points) > 1 else 0])


def conv_sums(layer: Conv, x: Array, zero_point: int, shape: Sequence[int]) -> Array:
    outputs, rows, columns, depth = layer.weight.shape
    acc = np.zeros(shape, np.int64)
    for n, i, j, o in np.ndindex(*shape):
        first = o // (outputs // layer.groups) * depth
        acc[n, i, j, o] = layer.bias[o]
        for h, w, c in product(range(rows), range(columns), range(depth)):
            row, column = source(layer, i, j, h, w)
            if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
                step = int(x[n, row, column, first + c]) - zero_point
                acc[n, i, j, o] += step * weight_step(layer, o, (o, h, w, c))
    return acc


def depthwise_sums(layer: DepthwiseConv, x: Array, zero_point: int, shape: Sequence[int]) -> Array:
    rows, columns, outputs = layer.weight.shape
    acc = np.zeros(shape, np.int64)
    for n, i, j, o in np.ndindex(*shape):
        acc[n, i, j, o] = layer.bias[o]
        for h, w in product(range(rows), range(columns)):
            row, column = source(layer, i, j, h, w)
            if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
                step = int(x[n, row, column, o // (outputs // x.shape[3])]) - zero_point
                acc[n, i, j, o] += step * weight_step(layer, o, (h, w, o))
    return acc


def conv_transpose_sums(layer: ConvTranspose, x: Array, zero_point: int, shape: Sequence[int]) -> Array:
    outputs, rows, columns, depth = layer.weight.shape
    acc = np.zeros(shape, np.int64) + layer.bias
    (down, right), (dilation_down, dilation_right) = layer.strides, layer.dilations
    for (n, i, j), o in product(np.ndindex(*x.shape[:3]), range(outputs)):
        first = o // (outputs // layer.groups) * depth
        for h, w, c in product(range(rows), range(columns), range(depth)):
            row = i * down + h * dilation_down - layer.pads[0]
            column = j * right + w * dilation_right - layer.pads[1]
            if 0 <= row < shape[1] and 0 <= column < shape[2]:
                step = int(x[n, i, j, first + c]) - zero_point
                acc[n, row, column, o] += step * weight_step(layer, o, (o, h, w, c))
    return acc


def source(layer: Any, i: int, j: int, h: int, w: int) -> tuple[int, int]:
    return (
        i * layer.strides[0] + h * layer.dilations[0] - layer.pads[0],
        j * layer.strides[1] + w * layer.dilations[1] - layer.pads[1],
    )


def curve_code(rule: CurveRescale, acc: int, channel: int, low: int, high: int, dtype: str) -> int:
    """The code of one sum behind a curve, in Python's integers and fractions."""
    v = min(max(_steps(rule.steps, acc, channel), -32768), 32767)
    width = 2**rule.shift
    u = min(max(v, rule.first * width), (rule.first + 32) * width - 1)
    segment, distance = u // width - rule.first, u % width * (32768 // width)
    value, slope, bend = (int(row[segment]) for row in (rule.value, rule.slope, rule.bend))
    t = _saturated(value + _part((_part(bend * distance) + slope) * distance))
    beyond = _saturated(v - u)
    y = _saturated(t + _part(beyond * (rule.above if beyond > 0 else rule.below)))
    above = 4 * y if dtype == "int16" else y // 64
    return min(max(above + int(np.iinfo(dtype).min), low), high)


def rescaled_code(rule: Rescale, acc: int, channel: int, zero_point: int, low: int, high: int) -> int:
    """The code of one sum in Python's integers and fractions; of floats, float32 operations one by one."""
    return min(max(_steps(rule, acc, channel) + zero_point, low), high)


def _steps(rule: Rescale, acc: int, channel: int) -> int:
    if isinstance(rule, FloatRescale):
        factor = rule.factor[channel if rule.factor.size > 1 else 0]
        return round(float(np.float32(acc) * factor))
    place = channel if rule.multiplier.size > 1 else 0
    multiplier, shift = int(rule.multiplier[place]), int(rule.shift[place])
    if rule.rounding == "single":
        return math.floor(Fraction(acc * multiplier) * Fraction(2) ** (shift - 31) + Fraction(1, 2))
    high = math.floor(Fraction(acc * 2 ** max(shift, 0) * multiplier, 2**31) + Fraction(1, 2))
    away = Fraction(abs(high), 2 ** max(-shift, 0)) + Fraction(1, 2)
    return math.floor(away) if high >= 0 else -math.floor(away)


def _part(product: int) -> int:
    return math.floor(Fraction(product, 32768) + Fraction(1, 2))


def _saturated(number: int) -> int:
    return min(max(number, -32768), 32767)
