"""Layers as the plainest loops over Python integers, and programs of one instruction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.program.instructions import Conv, ConvTranspose, DepthwiseConv, Instruction
from calib8.program.program import Port, Program, Slot
from calib8.program.reference.executor import run_program

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
