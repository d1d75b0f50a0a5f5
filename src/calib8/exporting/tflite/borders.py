"""Inputs and outputs of the model, and the borders between float and codes inside it.

    float32     QUANTIZE behind an input, DEQUANTIZE before an output
    int8        the codes themselves
    uint8       code + 128: a QUANTIZE that only moves the zero point

What the user feeds and gets lies as the program has it: NHWC for images.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from calib8.exporting.tflite.builder import Builder, Fed, NoFormError, codes_of, slot_codes
from calib8.exporting.tflite.float_layers import float_layer, real_codes
from calib8.exporting.tflite.moves import reshaped, transposed
from calib8.exporting.tflite.signed import OFFSET
from calib8.program.instructions import Dequantize, Instruction, Quantize, Transpose
from calib8.program.program import Port, Slot
from calib8.tflite.graph import Quantization

BORDER_TYPES: Final = ("float32", "int8", "uint8")
UINT8_VERSION: Final = 2
"""Of a QUANTIZE between two types of codes."""


def feed(builder: Builder, port: Port, readers: Sequence[Instruction], wanted: str) -> int:
    """The input tensor of a port.

    Args:
        builder: gets it, and what makes codes of it.
        port: of the program.
        readers: the instructions that read it.
        wanted: its type, where it becomes codes.

    Raises:
        NoFormError: codes are wanted, and something reads it as numbers.
    """
    slot = builder.slot(port.slot)
    orders = {step.axes for step in readers if isinstance(step, Quantize | Transpose)}
    kind = Transpose if slot.is_codes else Quantize
    only = len(orders) == 1 and all(isinstance(step, kind) for step in readers)
    axes = next(iter(orders)) if only else tuple(range(len(slot.shape)))
    shape = tuple(slot.shape[axis] for axis in axes)
    codes = slot if slot.is_codes else _first_codes(builder, readers)
    if not slot.is_codes and (wanted == "float32" or slot.dtype != "float32"):
        place = builder.port(port.name, shape, slot.dtype)
        builder.fed[port.slot] = Fed(place, axes)
        builder.places[port.slot] = place
        return place
    if codes is None or not (slot.is_codes or only):
        raise NoFormError(f"the input '{port.name}' is read as float numbers, so it cannot be {wanted}")
    place = builder.port(port.name, shape, wanted, port_codes(codes, wanted))
    inner = place
    if wanted != "int8":
        inner = builder.add(f"{port.name}/codes", shape, "int8", slot_codes(codes))
        builder.operator("QUANTIZE", [place], [inner], UINT8_VERSION if wanted == "uint8" else 1)
    builder.fed[port.slot] = Fed(place, axes, inner)
    if not only and slot.is_codes:
        builder.places[port.slot] = inner
    return place


def _first_codes(builder: Builder, readers: Sequence[Instruction]) -> Slot | None:
    return next((builder.slot(step.outputs[0]) for step in readers if isinstance(step, Quantize)), None)


def port_codes(codes: Slot, dtype: str) -> Quantization | None:
    """What the codes of an input or output of a type mean."""
    if dtype == "uint8":
        return codes_of(codes.scale, codes.zero_point + OFFSET)
    return slot_codes(codes) if dtype == "int8" else None


def quantize(builder: Builder, step: Quantize) -> None:
    """Codes of what is fed, or of what float operators have computed."""
    fed, number = builder.fed.get(step.inputs[0]), step.outputs[0]
    if fed is not None and fed.codes is not None:
        y, first = slot_codes(builder.slot(number)), builder.tensors[fed.codes].quantization
        assert y is not None and first is not None
        if (y.scales[0], y.zero_points[0]) == (first.scales[0], first.zero_points[0]):
            builder.places[number] = fed.codes
            return
        builder.operator("QUANTIZE", [fed.codes], [builder.tensor(number)], UINT8_VERSION)
        builder.requantizations += 1
        builder.notes.append(f"'{builder.slot(number).name}': made of the codes that are fed")
        return
    source = builder.tensor(step.inputs[0])
    have = fed.axes if fed is not None else tuple(range(len(step.axes)))
    axes = tuple(have.index(axis) for axis in step.axes)
    builder.operator("QUANTIZE", [_in_order(builder, source, axes)], [builder.tensor(number)], 1)


def _in_order(builder: Builder, source: int, axes: Sequence[int]) -> int:
    """The same numbers with their axes in another order."""
    if tuple(axes) == tuple(range(len(axes))):
        return source
    old = builder.tensors[source]
    target = builder.like(source, "moved", [old.shape[axis] for axis in axes])
    transposed(builder, source, target, axes)
    return target


def dequantize(builder: Builder, step: Dequantize) -> None:
    """Real values, made where somebody reads them."""
    builder.dequantized[step.outputs[0]] = step
    builder.waiting[step.outputs[0]] = partial(_real, builder, step)


def _real(builder: Builder, step: Dequantize) -> int:
    """In the model's order of axes."""
    return _in_order(builder, _as_it_lies(builder, step.inputs[0]), step.axes)


def _as_it_lies(builder: Builder, number: int) -> int:
    """The real values of codes or of a layer's sums, axes as in the program."""
    return float_layer(builder, number) if number in builder.sums else real_codes(builder, number)


def deliver(builder: Builder, port: Port, wanted: str) -> int:
    """The output tensor of a port.

    Args:
        builder: gets what makes it.
        port: of the program.
        wanted: its type, where it is made of codes.

    Raises:
        NoFormError: codes are wanted, and nothing quantizes it.
    """
    step, slot = builder.dequantized.get(port.slot), builder.slot(port.slot)
    source = port.slot if slot.is_codes else step.inputs[0] if step is not None else None
    coded = source is not None and builder.slot(source).is_codes
    if coded and source is not None and wanted != "float32":
        return _delivered_codes(builder, port, source, wanted)
    if wanted != "float32" and slot.dtype == "float32":
        raise NoFormError(
            f"nothing quantizes the output '{port.name}', so it has no scale to be {wanted} with; "
            "quantize the float model with --target tflite, or let this output be float32"
        )
    if coded and source is not None and port.slot == source:
        return _named(builder, real_codes(builder, source), port.name)
    place = _as_it_lies(builder, step.inputs[0]) if step is not None else builder.tensor(port.slot)
    return _named(builder, place, port.name)


def _delivered_codes(builder: Builder, port: Port, source: int, wanted: str) -> int:
    inner = builder.tensor(source)
    if wanted == "int8":
        return _named(builder, inner, port.name)
    codes = port_codes(builder.slot(source), wanted)
    place = builder.port(port.name, builder.tensors[inner].shape, wanted, codes)
    builder.operator("QUANTIZE", [inner], [place], UINT8_VERSION)
    return place


def _named(builder: Builder, place: int, name: str) -> int:
    """The tensor by the name of an output; one that has such a name already is copied."""
    if place in builder.named or any(fed.place == place for fed in builder.fed.values()):
        copy = builder.like(place, "copy")
        reshaped(builder, place, copy)
        place = copy
    builder.named.add(place)
    builder.rename(place, name)
    return place
