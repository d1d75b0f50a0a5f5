"""Layers whose sums leave the integers: the same layer on real numbers.

    DEQUANTIZE(codes), DEQUANTIZE(weight), bias · s_x·s_w[o]    →    the operator in float32

What a float32 runtime computes of a layer without a quantizer behind it; no scale is needed that the model
does not have.
"""

from __future__ import annotations

import numpy as np

from calib8.exporting.tflite.builder import Builder, Make
from calib8.exporting.tflite.layers import FORMS, sums_weight_scales, weight

CONSTANT_VERSION = 5
"""Of a DEQUANTIZE with one scale per channel."""


def real_codes(builder: Builder, number: int) -> int:
    """DEQUANTIZE of a slot of codes, added once."""
    if number not in builder.real:
        slot = builder.slot(number)
        place = builder.add(f"{slot.name}/real", slot.shape, "float32")
        builder.operator("DEQUANTIZE", [builder.tensor(number)], [place], 2)
        builder.real[number] = place
    return builder.real[number]


def float_layer(builder: Builder, number: int) -> int:
    """The real values of a slot of sums, axes as in the program."""
    sums = builder.sums[number]
    step = sums.step
    own = builder.slot(step.outputs[0])
    scales = sums_weight_scales(own, builder.slot(step.inputs[0]).scale)
    coded = weight(builder, step, scales)
    shape = builder.tensors[coded].shape
    wide = builder.add(f"{step.name}/weight/real", shape, "float32")
    builder.operator("DEQUANTIZE", [coded], [wide], CONSTANT_VERSION if scales.size > 1 else 2)
    real_bias = (step.bias.astype(np.float64) * own.scales.astype(np.float64)).astype(np.float32)
    tensors = real_codes(builder, step.inputs[0]), wide, builder.constant(f"{step.name}/bias", real_bias)
    output = builder.add(f"{own.name}/real", own.shape, "float32")

    def finish(make: Make) -> None:
        make(output, "NONE")

    FORMS[type(step)](builder, step, tensors, own.shape, finish)
    builder.notes.append(f"{step.name}: nothing quantizes its result, so it is computed in float32")
    for move in sums.moves:
        target = builder.add(f"{own.name}/moved", builder.slot(move.outputs[0]).shape, "float32")
        builder.operator("TRANSPOSE", [output, builder.ints("perm", move.axes)], [target])
        output = target
    return output
