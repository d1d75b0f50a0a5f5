"""Pad: borders of one code, or of repeated pixels.

constant                  Pad with the code of the number, if that code means exactly the number
                          or the only quantizer behind would make that code of it
edge, reflect, wrap       one Gather per axis
negative widths           cut off by a Gather
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import input_at
from calib8.program.instructions import Pad
from calib8.program.lower.builder import Builder, shape_of
from calib8.program.lower.constants import fixed
from calib8.program.lower.convert import codes_at
from calib8.program.lower.forms import Coded, CodeType
from calib8.program.lower.layout import physical
from calib8.program.lower.moves import picked
from calib8.program.lower.readers import tail_of
from calib8.program.lower.results import COMPUTED, coded_source
from calib8.qparams import dequantize, quantize


def pad(builder: Builder, node: ir.Node) -> None:
    """A border around codes."""
    source = coded_source(builder, node)
    widths = _widths(node, len(source.order))
    if widths is None:
        raise NoFormError(COMPUTED)
    attribute = node.attributes.get("mode")
    mode = "constant" if attribute is None else attribute.as_string()
    if mode != "constant":
        _repeated_border(builder, source, widths, mode, node.outputs[0])
        return
    number = _number(node)
    if number is None:
        raise NoFormError(COMPUTED)
    _constant_border(builder, node, source, widths, number)


def _constant_border(
    builder: Builder, node: ir.Node, source: Coded, widths: list[tuple[int, int]], number: float
) -> None:
    value, code = node.outputs[0], _code(builder.kind(source), number)
    if not _means(builder.kind(source), code, number):
        at_quantizer = _at_quantizer(builder, node)
        if at_quantizer is None:
            raise NoFormError(f"its padding {number:g} is not a multiple of the scale")
        source = at_quantizer
        code = _code(builder.kind(source), number)
    sizes, order = builder.shape(source), source.order
    for axis, (before, after) in enumerate(widths):
        if min(before, after) < 0:
            kept = range(max(-before, 0), sizes[axis] - max(-after, 0))
            source = picked(builder, source, axis, list(kept))
    first, last = (physical([max(pair[side], 0) for pair in widths], order) for side in (0, 1))
    builder.forms[value] = builder.moved(
        source, physical(shape_of(value), order), order, lambda ports: Pad(*ports, first, last, code), value
    )


def _at_quantizer(builder: Builder, node: ir.Node) -> Coded | None:
    """The input in the codes of the only quantizer behind the node, which is then carried out before it."""
    tail, value = tail_of(node.outputs[0]), node.inputs[0]
    if value is None or not tail.only_codes or len(tail.kinds) != 1 or tail.activations:
        return None
    return codes_at(builder, value, tail.kinds[0])


def _code(kind: CodeType, number: float) -> int:
    return int(quantize(np.array(number, np.float32), kind.scale, kind.zero_point, kind.spec))


def _means(kind: CodeType, code: int, number: float) -> bool:
    """The code stands for exactly the number."""
    return float(dequantize(np.array(code), kind.scale, kind.zero_point)) == number


def _widths(node: ir.Node, rank: int) -> list[tuple[int, int]] | None:
    """(before, after) per logical axis, None where they are computed."""
    pads, axes = fixed(node.inputs[1]), fixed(input_at(node, 3))
    if pads is None or (axes is None and input_at(node, 3) is not None):
        return None
    listed = range(rank) if axes is None else [int(axis) % rank for axis in axes.reshape(-1)]
    numbers = [int(number) for number in pads.reshape(-1)]
    count = len(numbers) // 2
    widths = [(0, 0)] * rank
    for place, axis in enumerate(listed):
        widths[axis] = (numbers[place], numbers[place + count])
    return widths


def _number(node: ir.Node) -> float | None:
    """The number that a Pad writes, None where it is computed."""
    array = fixed(input_at(node, 2))
    if array is None:
        return 0.0 if input_at(node, 2) is None else None
    return float(array.reshape(-1)[0])


def _repeated_border(
    builder: Builder, source: Coded, widths: list[tuple[int, int]], mode: str, value: ir.Value
) -> None:
    """``edge``, ``reflect`` and ``wrap`` repeat pixels."""
    result = source
    for axis, (before, after) in enumerate(widths):
        size = builder.shape(result)[axis]
        places = range(-before, size + after)
        if mode == "edge":
            indices = [min(max(place, 0), size - 1) for place in places]
        elif mode == "wrap":
            indices = [place % size for place in places]
        elif mode == "reflect":
            period = max(2 * (size - 1), 1)
            indices = [min(place % period, period - place % period) % size for place in places]
        else:
            raise NoFormError(f"it pads with mode {mode}")
        result = picked(builder, result, axis, indices)
    builder.forms[value] = result
