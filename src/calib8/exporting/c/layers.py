"""Layers with weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.exporting.c.scratch import conv_scratch, depthwise_scratch
from calib8.exporting.c.text import Value
from calib8.exporting.c.unit import Unit, whole
from calib8.fixedpoint import INT32_MAX
from calib8.program.instructions import Conv, DepthwiseConv, FullyConnected, Weighted
from calib8.program.ops.weighted import layer_sums
from calib8.program.program import Slot
from calib8.program.rules import FixedRescale, Rescale

ROUNDINGS: Final = {"double": "TWICE", "single": "ONCE_UP", "away": "ONCE_AWAY"}


def scaling(
    unit: Unit, rule: object, result: Slot, limits: tuple[int, int], name: str, channels: int = 1
) -> dict[str, Value]:
    """The structure ``scaling`` of a rule, whose multipliers it stores.

    Args:
        unit: gets them.
        rule: of the instruction.
        result: what the instruction writes.
        limits: clamp of its codes.
        name: of the instruction.
        channels: of more than one every channel gets its own multiplier, though all are equal.

    Raises:
        NoFormError: another rule than one of whole numbers.
    """
    if not isinstance(rule, FixedRescale):
        raise NoFormError(_reason(rule))
    count = max(channels, rule.multiplier.size)
    multiplier, shift = (np.broadcast_to(whole(part), (count,)) for part in (rule.multiplier, rule.shift))
    return {
        "multiplier": unit.keep("multiplier", multiplier, name),
        "shift": unit.keep("shift", shift, name),
        "per_channel": int(count > 1),
        "rounding": ROUNDINGS[rule.rounding],
        "zero": result.zero_point,
        "low": limits[0],
        "high": limits[1],
    }


def _reason(rule: object) -> str:
    """Why a rule has no C code."""
    kind = type(rule).__name__
    if kind.startswith(("Float", "Dequantized", "Real")) or isinstance(rule, Rescale):
        return "it rounds in float32, and C code has whole numbers only"
    return f"its rounding is that of a function behind it ({kind})"


def plain_weight(step: Weighted) -> npt.NDArray[np.int8]:
    """Weights minus their zero points.

    Raises:
        NoFormError: one of them does not fit int8.
    """
    shape = [1] * step.weight.ndim
    shape[step.channel_axis] = -1
    distance = step.weight.astype(np.int16) - step.weight_zero_point.astype(np.int16).reshape(shape)
    if distance.min() < -128 or distance.max() > 127:
        raise NoFormError("weights lie too far from their zero point for int8")
    return np.ascontiguousarray(distance.astype(np.int8))


def runs_in_cmsis_nn(step: Weighted, source: Slot) -> bool:
    """Its arithmetic is that of the layer: rounded twice, and no shift to the left leaves int32."""
    rule = step.rescale
    if not isinstance(rule, FixedRescale) or rule.rounding != "double" or int(rule.shift.min()) < -30:
        return False
    largest = layer_sums(step, source).largest * (1 << np.maximum(rule.shift, 0).astype(np.int64))
    return bool(int(largest.max()) <= INT32_MAX)


def _image(step: Conv | DepthwiseConv, source: Slot, result: Slot) -> dict[str, Value]:
    return {
        "images": source.shape[0],
        "in_rows": source.shape[1],
        "in_columns": source.shape[2],
        "in_channels": source.shape[3],
        "out_rows": result.shape[1],
        "out_columns": result.shape[2],
        "out_channels": result.shape[3],
        "stride_rows": step.strides[0],
        "stride_columns": step.strides[1],
        "dilation_rows": step.dilations[0],
        "dilation_columns": step.dilations[1],
        "top": step.pads[0],
        "left": step.pads[1],
    }


def _weights(unit: Unit, step: Weighted, channels: int) -> Mapping[str, Value]:
    """Fields that all layers have.

    Args:
        unit: gets the arrays.
        step: the layer.
        channels: see ``scaling``.
    """
    fields: dict[str, Value] = {
        "in_zero": unit.source(step).zero_point,
        "weight": unit.keep("weight", plain_weight(step), step.name),
        "bias": unit.keep("bias", whole(step.bias), step.name),
    }
    if step.rescale is not None:
        limits = (step.low, step.high)
        fields["scaling"] = scaling(unit, step.rescale, unit.result(step), limits, step.name, channels)
    return fields


def conv(unit: Unit, step: Conv) -> None:
    """A convolution."""
    source, result = unit.source(step), unit.result(step)
    cmsis_nn = step.groups == 1 and runs_in_cmsis_nn(step, source)
    rows, columns = step.weight.shape[1:3]
    window: dict[str, Value] = {"rows": rows, "columns": columns, "groups": step.groups}
    weights = _weights(unit, step, result.shape[3] if cmsis_nn else 1)
    layer = unit.describe("conv", {**_image(step, source, result), **window, **weights}, step.name)
    arguments = (layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))
    if not cmsis_nn:
        unit.call("conv", *arguments)
        return
    padded = any(step.pads)
    unit.call_cmsis_nn(
        "conv", *arguments, scratch=conv_scratch((rows, columns), source.shape[3], padded=padded)
    )


def depthwise(unit: Unit, step: DepthwiseConv) -> None:
    """A depthwise convolution."""
    source, result = unit.source(step), unit.result(step)
    cmsis_nn = runs_in_cmsis_nn(step, source)
    rows, columns = step.weight.shape[:2]
    window: dict[str, Value] = {"rows": rows, "columns": columns}
    weights = _weights(unit, step, result.shape[3] if cmsis_nn else 1)
    layer = unit.describe("depthwise", {**_image(step, source, result), **window, **weights}, step.name)
    arguments = (layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))
    if not cmsis_nn:
        unit.call("depthwise", *arguments)
        return
    scratch = depthwise_scratch(
        (rows, columns), source.shape[3], result.shape[3],
        images=source.shape[0], dilated=step.dilations != (1, 1), margin=max(step.pads[:2]),
    )  # fmt: skip
    unit.call_cmsis_nn("depthwise", *arguments, scratch=scratch)


def dense(unit: Unit, step: FullyConnected) -> None:
    """A fully connected layer; CMSIS-NN rounds twice where it rounds once."""
    source = unit.source(step)
    outputs, inputs = step.weight.shape
    sizes: dict[str, Value] = {
        "rows": int(np.prod(source.shape[:-1])), "in_size": inputs, "out_size": outputs,
    }  # fmt: skip
    layer = unit.describe("dense", {**sizes, **_weights(unit, step, 1)}, step.name)
    unit.call("dense", layer, unit.at(step.inputs[0]), unit.at(step.outputs[0]))
