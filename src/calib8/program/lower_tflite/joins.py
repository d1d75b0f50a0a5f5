"""Tensors joined along an axis, and the borders of the codes: CONCATENATION, QUANTIZE, DEQUANTIZE."""

from __future__ import annotations

from calib8.errors import NoFormError
from calib8.program.instructions import Concat, Dequantize, Lookup, Quantize
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.codes import float32_requantized, in_codes_of, requantized
from calib8.program.lower_tflite.constants import written
from calib8.program.program import Slot
from calib8.tflite.graph import Operator


def concatenation(builder: Builder, operator: Operator) -> None:
    """One after the other along an axis; uint8 inputs of other scales are brought to that of the output."""
    if operator.options.get("fused_activation_function", "NONE") != "NONE":
        raise NoFormError("an activation is fused into it")
    y = builder.codes(operator.outputs[0])
    source = next((place for place in operator.inputs if not builder.is_constant(place)), None)
    if source is None:
        raise NoFormError("all of its inputs are constant")
    builder.codes(source)
    for place in operator.inputs:
        written(builder, place)
    parts = tuple(_in_codes_of(builder, place, y) for place in operator.inputs)
    axis, rank = int(operator.options["axis"]), len(y.shape)  # type: ignore[arg-type]
    if not -rank <= axis < rank:
        raise NoFormError(f"its axis is {axis}")
    output = (builder.number(operator.outputs[0]),)
    builder.steps.append(Concat(builder.name(operator), parts, output, axis % rank))


def _in_codes_of(builder: Builder, place: int, like: Slot) -> int:
    slot = builder.codes(place)
    same = (slot.scale, slot.zero_point) == (like.scale, like.zero_point)
    if same or not slot.dtype == like.dtype == "uint8":
        return in_codes_of(builder, place, like)
    result = builder.between(like, slot.shape, slot.name)
    table = float32_requantized(slot, like)
    builder.steps.append(Lookup(slot.name, (builder.number(place),), (result,), table, "Requantize"))
    return result


def quantize(builder: Builder, operator: Operator) -> None:
    """float32 to codes, ties away from zero; codes to codes of another scale, zero point or type."""
    (source, *_), (target, *_) = operator.inputs, operator.outputs
    name, x, y = builder.name(operator), builder.number(source), builder.number(target)
    slot, result = builder.slots[x], builder.codes(target)
    if slot.dtype == "float32":
        builder.steps.append(Quantize(name, (x,), (y,), tuple(range(len(slot.shape))), "away"))
    else:
        table = requantized(builder.codes(source), result)
        builder.steps.append(Lookup(name, (x,), (y,), table, "Requantize"))


def dequantize(builder: Builder, operator: Operator) -> None:
    """Codes to float32."""
    x, y = builder.codes(operator.inputs[0]), builder.number(operator.outputs[0])
    if builder.slots[y].dtype != "float32":
        raise NoFormError(f"it writes {builder.slots[y].dtype}")
    number, axes = builder.number(operator.inputs[0]), tuple(range(len(x.shape)))
    builder.steps.append(Dequantize(builder.name(operator), (number,), (y,), axes))
