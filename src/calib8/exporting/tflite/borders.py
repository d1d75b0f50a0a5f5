"""Inputs and outputs of the model, and the borders between float and codes inside it.

    float32     QUANTIZE behind an input, DEQUANTIZE before an output
    int8        the codes themselves
    uint8       code + 128: a QUANTIZE that only moves the zero point
    int16       the codes themselves, where they have 16 bits; nothing but float32 else

Images are fed and come out as NHWC, where the program has them so; all else as the model has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from calib8.errors import NoFormError
from calib8.exporting.tflite.builder import Builder, Fed, codes_of, slot_codes
from calib8.exporting.tflite.float_images import reads_image
from calib8.exporting.tflite.float_layers import float_layer, real_codes
from calib8.exporting.tflite.moves import reshaped, transposed
from calib8.exporting.tflite.signed import OFFSET
from calib8.parameters import parameter
from calib8.program.instructions import Dequantize, Float, Instruction, Quantize, Transpose
from calib8.program.program import Port, Slot
from calib8.tflite.graph import Quantization

BORDER_TYPES: Final = ("float32", "int8", "uint8")
TO_NHWC: Final = (0, 2, 3, 1)
FROM_NHWC: Final = (0, 3, 1, 2)
CODES_VERSION: Final = 2
"""Of a QUANTIZE between two types of codes."""


def feed(builder: Builder, port: Port, readers: Sequence[Instruction], wanted: str) -> int:
    """The input tensor of a port.

    Args:
        builder: gets it, and what makes codes of it.
        port: of the program.
        readers: the instructions that read it.
        wanted: its type, where it becomes codes.

    Raises:
        NoFormError: codes are wanted, and something reads it as numbers, or its codes have 16 bits.
    """
    slot = builder.slot(port.slot)
    if _is_float_image(builder, port, readers):
        return _feed_image(builder, port, slot, wanted)
    orders = {step.axes for step in readers if isinstance(step, Quantize | Transpose)}
    kind = Transpose if slot.is_codes else Quantize
    only = len(orders) == 1 and all(isinstance(step, kind) for step in readers)
    axes = TO_NHWC if only and TO_NHWC in orders else tuple(range(len(slot.shape)))
    shape = tuple(slot.shape[axis] for axis in axes)
    codes = slot if slot.is_codes else _first_codes(builder, readers)
    if not slot.is_codes and (wanted == "float32" or slot.dtype != "float32"):
        place = builder.port(port.name, shape, slot.dtype)
        builder.fed[port.slot] = Fed(place, axes)
        builder.places[port.slot] = place
        return place
    if codes is None or not (slot.is_codes or only):
        raise NoFormError(f"the input '{port.name}' is read as float numbers, so it cannot be {wanted}")
    _refuse_narrow(f"input '{port.name}'", codes, wanted)
    place = builder.port(port.name, shape, wanted, port_codes(codes, wanted))
    inner = place
    if wanted != codes.dtype:
        inner = builder.add(f"{port.name}/codes", shape, codes.dtype, slot_codes(codes))
        version = CODES_VERSION if wanted == "uint8" or codes.is_wide else 1
        builder.operator("QUANTIZE", [place], [inner], version)
    builder.fed[port.slot] = Fed(place, axes, inner)
    if slot.is_codes and axes != TO_NHWC:
        builder.places[port.slot] = inner
    return place


def _is_float_image(builder: Builder, port: Port, readers: Sequence[Instruction]) -> bool:
    """An image of real numbers that layers in float read, perhaps beside a quantizer."""
    slot = builder.slot(port.slot)
    parts = [step for step in readers if isinstance(step, Float)]
    others = [step for step in readers if not isinstance(step, Float)]
    return (
        slot.dtype == "float32" and len(slot.shape) == len(TO_NHWC) and bool(parts)
        and all(reads_image(step.model, slot.name) for step in parts)
        and all(isinstance(step, Quantize) and step.axes == TO_NHWC for step in others)
    )  # fmt: skip


def _feed_image(builder: Builder, port: Port, slot: Slot, wanted: str) -> int:
    """N×H×W×C; those who read N×C×H×W get it turned."""
    if wanted != "float32":
        raise NoFormError(f"the input '{port.name}' is read as float numbers, so it cannot be {wanted}")
    place = builder.port(port.name, [slot.shape[axis] for axis in TO_NHWC], slot.dtype)
    builder.fed[port.slot] = Fed(place, TO_NHWC)
    builder.waiting[port.slot] = partial(_in_order, builder, place, FROM_NHWC)
    return place


def _first_codes(builder: Builder, readers: Sequence[Instruction]) -> Slot | None:
    return next((builder.slot(step.outputs[0]) for step in readers if isinstance(step, Quantize)), None)


def port_codes(codes: Slot, dtype: str) -> Quantization | None:
    """What the codes of an input or output of a type mean."""
    if dtype == "uint8":
        return codes_of(codes.scale, codes.zero_point + OFFSET)
    return slot_codes(codes) if dtype == codes.dtype else None


def _refuse_narrow(what: str, codes: Slot, wanted: str) -> None:
    """Refuses 8-bit codes at the border where those inside have 16."""
    if codes.is_wide and wanted in ("int8", "uint8"):
        raise NoFormError(f"the {what} has 16-bit codes, so it can be float32, not {wanted}")


def quantize(builder: Builder, step: Quantize) -> None:
    """Codes of what is fed, or of what float operators have computed."""
    fed, number = builder.fed.get(step.inputs[0]), step.outputs[0]
    have = fed.axes if fed is not None else tuple(range(len(step.axes)))
    axes = tuple(have.index(axis) for axis in step.axes)
    if fed is None or fed.codes is None:
        source = _in_order(builder, builder.tensor(step.inputs[0]), axes)
        version = CODES_VERSION if builder.slot(number).is_wide else 1
        builder.operator("QUANTIZE", [source], [builder.tensor(number)], version)
        return
    source = _in_order(builder, fed.codes, axes)
    y, first = slot_codes(builder.slot(number)), builder.tensors[source].quantization
    assert y is not None and first is not None
    same = builder.slot(number).dtype == builder.tensors[source].dtype
    if same and (y.scales[0], y.zero_points[0]) == (first.scales[0], first.zero_points[0]):
        builder.places[number] = source
        return
    builder.operator("QUANTIZE", [source], [builder.tensor(number)], CODES_VERSION)
    builder.requantizations += 1
    builder.notes.append(f"'{builder.slot(number).name}': made of the codes that are fed")


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
    source = port.slot if step is None else step.inputs[0]
    if builder.slot(source).is_codes:
        axes = step.axes if step is not None and step.axes != FROM_NHWC else ()
        return _delivered_codes(builder, port, source, axes, wanted)
    if wanted != "float32" and slot.dtype == "float32":
        raise NoFormError(
            f"nothing quantizes the output '{port.name}', so it has no scale to be {wanted} with; "
            f"quantize the float model with {parameter('target', 'tflite')}, or let this output be float32"
        )
    lies = step is not None and step.axes == FROM_NHWC
    place = _as_it_lies(builder, source) if lies else builder.tensor(port.slot)
    return _named(builder, place, port.name)


def _delivered_codes(builder: Builder, port: Port, source: int, axes: Sequence[int], wanted: str) -> int:
    inner, slot = builder.tensor(source), builder.slot(source)
    _refuse_narrow(f"output '{port.name}'", slot, wanted)
    if tuple(axes) != tuple(range(len(axes))):
        inner = _in_order(builder, inner, axes)
    elif wanted == "float32":
        return _named(builder, real_codes(builder, source), port.name)
    if wanted == slot.dtype:
        return _named(builder, inner, port.name)
    codes = port_codes(slot, wanted)
    place = builder.port(port.name, builder.tensors[inner].shape, wanted, codes)
    op, version = (
        ("QUANTIZE", CODES_VERSION) if wanted == "uint8" else ("DEQUANTIZE", 3 if slot.is_wide else 2)
    )
    builder.operator(op, [inner], [place], version)
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
