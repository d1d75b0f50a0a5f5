"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR: where the output pixels lie in the input.

    nearest    floor((i + offset)·s), with aligned corners round(i·s),     s = fl(in / out), float32
    bilinear   int8: steps of 1/1024 pixel; uint8: float32 positions (rounding/resize.py)

s is fl((in − 1) / (out − 1)) with aligned corners, offset 1/2 with half_pixel_centers and else 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calib8.errors import NoFormError
from calib8.program.instructions import ResizeLinear, ResizeNearest
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.chain import same_meaning
from calib8.program.program import Slot
from calib8.program.rounding.resize import float_axis, linear_axis
from calib8.program.rules import F32, I32, LinearAxis
from calib8.tflite.graph import Operator

HALF: Final = np.float32(0.5)


def resize_bilinear(builder: Builder, operator: Operator) -> None:
    """Four neighbours of every output pixel, weighted."""
    x, y = _images(builder, operator)
    rows, columns = (_linear(operator, x, y, axis) for axis in (1, 2))
    numbers = ((builder.number(operator.inputs[0]),), (builder.number(operator.outputs[0]),))
    builder.steps.append(ResizeLinear(builder.name(operator), *numbers, rows, columns))


def resize_nearest_neighbor(builder: Builder, operator: Operator) -> None:
    """One input pixel for every output pixel."""
    x, y = _images(builder, operator)
    rows, columns = (_nearest(operator, x.shape[axis], y.shape[axis]) for axis in (1, 2))
    numbers = ((builder.number(operator.inputs[0]),), (builder.number(operator.outputs[0]),))
    builder.steps.append(ResizeNearest(builder.name(operator), *numbers, rows, columns))


def _images(builder: Builder, operator: Operator) -> tuple[Slot, Slot]:
    """Input and output.

    Raises:
        NoFormError: no images, other scales, or options that exclude each other.
    """
    x, y = builder.codes(operator.inputs[0]), builder.codes(operator.outputs[0])
    if len(x.shape) != 4 or len(y.shape) != 4:
        raise NoFormError(f"it reads {list(x.shape)}, where images are of rank 4")
    if not same_meaning(x, y):
        raise NoFormError("its input and output have different types, scales or zero points")
    both = operator.options["align_corners"] and operator.options["half_pixel_centers"]
    if both and operator.op == "RESIZE_BILINEAR":
        raise NoFormError("it has both align_corners and half_pixel_centers")
    for size in y.shape[1:3]:
        builder.list_indices(size)
    return x, y


def _linear(operator: Operator, x: Slot, y: Slot, axis: int) -> LinearAxis:
    if x.dtype == "uint8":
        scale, half_pixel = (
            _scale(operator, x.shape[axis], y.shape[axis]),
            operator.options["half_pixel_centers"],
        )
        return float_axis(x.shape[axis], y.shape[axis], scale, half_pixel=bool(half_pixel))
    mode = "asymmetric"
    if operator.options["align_corners"]:
        mode = "align_corners"
    elif operator.options["half_pixel_centers"]:
        mode = "half_pixel"
    inputs, outputs = x.shape[axis], y.shape[axis]
    return linear_axis("tflite", inputs, outputs, float(np.float32(outputs) / np.float32(inputs)), mode)


def _scale(operator: Operator, inputs: int, outputs: int) -> np.float32:
    """Input pixels per output pixel."""
    if operator.options["align_corners"] and outputs > 1:
        return np.float32(inputs - 1) / np.float32(outputs - 1)
    return np.float32(inputs) / np.float32(outputs)


def _nearest(operator: Operator, inputs: int, outputs: int) -> I32:
    offset = HALF if operator.options["half_pixel_centers"] else np.float32(0)
    places: F32 = (np.arange(outputs, dtype=np.float32) + offset) * _scale(operator, inputs, outputs)
    whole = np.floor(places + HALF) if operator.options["align_corners"] else np.floor(places)
    return np.clip(whole, 0, inputs - 1).astype(np.int32)
