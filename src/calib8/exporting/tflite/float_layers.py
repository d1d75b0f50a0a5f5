"""Layers whose sums leave the integers: the same layer on whole numbers in float32, then its scales.

    CAST(codes) − z_x,  DEQUANTIZE(weight, scale 1),  bias   →   the operator in float32   →   · s_x·s_w[o]

Products and sums are whole numbers: below 2^24 float32 holds them all, and no kernel can differ from another.
No scale is needed that the model does not have.
"""

from __future__ import annotations

import numpy as np

from calib8.errors import NoFormError
from calib8.exporting.tflite.builder import Builder, Make
from calib8.exporting.tflite.layers import FORMS, weight


def real_codes(builder: Builder, number: int) -> int:
    """DEQUANTIZE of a slot of codes, added once."""
    if number not in builder.real:
        slot = builder.slot(number)
        place = builder.add(f"{slot.name}/real", slot.shape, "float32")
        builder.operator("DEQUANTIZE", [builder.tensor(number)], [place], 3 if slot.is_wide else 2)
        builder.real[number] = place
    return builder.real[number]


def float_layer(builder: Builder, number: int) -> int:
    """The real values of a slot of sums, axes as in the program."""
    sums = builder.sums[number]
    step = sums.step
    if builder.slot(step.inputs[0]).is_wide:
        raise NoFormError("nothing quantizes its sums of 16-bit codes, which float32 cannot hold")
    own = builder.slot(step.outputs[0])
    coded = weight(builder, step, np.ones(1, np.float32))
    wide = builder.add(f"{step.name}/weight/whole", builder.tensors[coded].shape, "float32")
    builder.operator("DEQUANTIZE", [coded], [wide], 2)
    bias = builder.constant(f"{step.name}/bias", step.bias.astype(np.float32))
    whole = builder.add(f"{own.name}/sums", own.shape, "float32")
    output = builder.add(f"{own.name}/real", own.shape, "float32")

    def finish(make: Make) -> None:
        make(whole, "NONE")

    FORMS[type(step)](builder, step, (_whole_codes(builder, step.inputs[0]), wide, bias), own.shape, finish)
    _operator(builder, "MUL", [whole, builder.constant(f"{step.name}/scales", own.scales)], output)
    builder.notes.append(f"{step.name}: nothing quantizes its result, so it is computed in float32")
    for move in sums.moves:
        target = builder.add(f"{own.name}/moved", builder.slot(move.outputs[0]).shape, "float32")
        builder.operator("TRANSPOSE", [output, builder.ints("perm", move.axes)], [target])
        output = target
    return output


def _whole_codes(builder: Builder, number: int) -> int:
    """Codes minus their zero point, as float32 numbers."""
    source, slot = builder.tensor(number), builder.slot(number)
    kind = builder.tensors[source].quantization
    assert kind is not None
    cast = builder.add(f"{slot.name}/codes", slot.shape, "float32")
    builder.operator("CAST", [source], [cast], 1, in_data_type="INT8", out_data_type="FLOAT32")
    if not kind.zero_points.any():
        return cast
    steps = builder.add(f"{slot.name}/steps", slot.shape, "float32")
    zero_point = builder.constant(f"{slot.name}/zero_point", kind.zero_points.astype(np.float32))
    _operator(builder, "SUB", [cast, zero_point], steps)
    return steps


def _operator(builder: Builder, op: str, inputs: list[int], output: int) -> None:
    options = {} if op == "MUL" else {"pot_scale_int16": False}
    builder.operator(op, inputs, [output], 1, fused_activation_function="NONE", **options)
