"""Refuses quantizers that are none, all of them in one message, and brings the others into one form.

QuantizeLinear(x, scale, zero_point)   scale float32, finite, > 0: [], or [size of axis]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import UnsupportedModelError
from calib8.model.graph import Names, input_at, int_attribute
from calib8.ops.questions import is_quantizer, quantizes
from calib8.program.lower.canonical.codings import PLAIN_TYPES
from calib8.program.lower.canonical.qoperators import FORMS
from calib8.qparams import FLOAT32_TINY
from calib8.quantization.qdq import Codes, codes_of, label, stored_type

SHOWN: Final = 8
"""Problems that the message spells out."""

CURE: Final = "Quantize the model again, with constant float32 scales > 0, one per tensor or per channel"


def rewrite(model: ir.Model) -> int:
    """``QuantizeLinear(x, scale[1])`` → ``QuantizeLinear(x, scale[], zero_point[])``, axis ≥ 0 if it has one.

    Returns:
        Quantizers whose inputs changed.

    Raises:
        UnsupportedModelError: quantizers with a scale that is computed, not float32, not finite, ≤ 0 or too
            small for a normal float32; with zero points of another type or number than codes and scales;
            with an axis that does not exist or has another size; of half-precision or integer values.
            Other types of codes, scales per block, and scales per channel of activations pass.
    """
    found = [f"'{label(node)}' ({node.op_type}): {text}" for node in model.graph for text in _problems(node)]
    _refuse(model, found)
    names = Names(model.graph)
    return sum(_unify(names, node) for node in model.graph if is_quantizer(node))


def _refuse(model: ir.Model, found: list[str]) -> None:
    if not found:
        return
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    problem = f"its quantization is none: {'; '.join(found[:SHOWN])}{more}"
    raise UnsupportedModelError(model.graph.name or "model", problem, CURE)


def _problems(node: ir.Node) -> Iterator[str]:
    if node.op_type in FORMS:
        yield "its scales are computed"
    if not is_quantizer(node) or node.domain:
        return
    codes = codes_of(node)
    yield from _type_problems(codes)
    if codes.scale is None or codes.zero_point is None:
        yield f"its {'scale' if codes.scale is None else 'zero point'} is computed"
        return
    yield from _scale_problems(codes)
    yield from _shape_problems(codes)


def _type_problems(codes: Codes) -> Iterator[str]:
    node, source, scale, point = (
        codes.node,
        codes.node.inputs[0],
        codes.node.inputs[1],
        input_at(codes.node, 2),
    )
    if codes.dtype is not None and point is not None and stored_type(point) != codes.dtype:
        yield f"its zero point is {_type(stored_type(point))}, its codes are {_type(codes.dtype)}"
    if scale is not None and stored_type(scale) not in (None, ir.DataType.FLOAT):
        yield f"its scale is {_type(stored_type(scale))}"
    kind = None if source is None else stored_type(source)
    if quantizes(node) and kind not in (None, ir.DataType.FLOAT):
        yield f"it codes {_type(kind)}"


def _type(kind: ir.DataType | None) -> str:
    return "of unknown type" if kind is None else kind.name.lower()


def _scale_problems(codes: Codes) -> Iterator[str]:
    assert codes.scale is not None
    scales = codes.scale.reshape(-1)
    wrong = np.flatnonzero(~(np.isfinite(scales) & (scales >= FLOAT32_TINY)))
    if wrong.size:
        where = f" of channel {wrong[0]}" if scales.size > 1 else ""
        yield f"its scale{where} is {scales[wrong[0]]:.6g}"


def _shape_problems(codes: Codes) -> Iterator[str]:
    assert codes.scale is not None and codes.zero_point is not None
    size, source = codes.scale.size, codes.node.inputs[0]
    if codes.zero_point.size != size:
        yield f"it has {size} scales and {codes.zero_point.size} zero points"
    sizes = None if source is None or source.shape is None else list(source.shape)
    if size == 1 or _is_blocked(codes) or sizes is None:
        return
    if not -len(sizes) <= codes.axis < len(sizes):
        yield f"its axis {codes.axis} does not exist in a tensor of {len(sizes)} axes"
    elif sizes[codes.axis] != size:
        yield f"it has {size} scales for axis {codes.axis} of size {sizes[codes.axis]}"


def _is_blocked(codes: Codes) -> bool:
    """One scale per block of elements."""
    several = codes.scale is not None and codes.scale.ndim > 1 and codes.scale.size > 1
    return several or int_attribute(codes.node, "block_size", 0) > 0


def _unify(names: Names, node: ir.Node) -> bool:
    """Scale and zero point get the shape [] or [C], both are stated; the only attribute is an axis."""
    codes = codes_of(node)
    if codes.dtype not in PLAIN_TYPES or codes.dtype is None or _is_blocked(codes):
        return False
    assert codes.scale is not None and codes.zero_point is not None
    shape = () if codes.scale.size == 1 else (codes.scale.size,)
    point, source = input_at(node, 2), node.inputs[0]
    changed = codes.scale.shape != shape or codes.zero_point.shape != shape or point is None
    if changed:
        stem = node.name or ""
        scale = codes.scale.reshape(shape).astype(np.float32)
        zero_point = codes.zero_point.reshape(shape).astype(codes.dtype.numpy())
        node.resize_inputs(3)
        node.replace_input_with(1, names.constant(f"{stem}/scale", scale))
        node.replace_input_with(2, names.constant(f"{stem}/zero_point", zero_point))
    axes = None if source is None or source.shape is None else source.shape.rank()
    node.attributes.clear()
    if shape:
        axis = codes.axis % axes if axes is not None else codes.axis
        node.attributes["axis"] = ir.AttrInt64("axis", axis)
    return changed
