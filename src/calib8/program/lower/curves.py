"""Functions of one coded tensor: building them up node by node until a quantizer turns them into a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.program.expressions import Apply, Constant, Expression, Source
from calib8.program.lower.builder import Builder
from calib8.program.lower.constants import fixed
from calib8.program.lower.forms import Coded, Curve
from calib8.program.lower.results import NOT_CODED
from calib8.program.lower.rows import MAX_TABLES, varying_axes, wide_constant


def curve_of(builder: Builder, value: ir.Value | None) -> Curve | None:
    """The value as a function of codes, None where it is none."""
    form = None if value is None else builder.forms.get(value)
    if isinstance(form, Coded):
        return Curve(form, Source())
    return form if isinstance(form, Curve) else None


def applied(builder: Builder, node: ir.Node) -> Curve:
    """The node as a function of one coded tensor.

    Its inputs are functions of the same tensor, one at least, and constants.

    Raises:
        NoFormError: it is none.
    """
    curves = [curve_of(builder, value) for value in node.inputs]
    source = next((curve.source for curve in curves if curve is not None), None)
    if source is None:
        raise NoFormError(NOT_CODED)
    args: list[Expression] = []
    for value, curve in zip(node.inputs, curves, strict=True):
        if curve is not None and curve.source != source:
            raise NoFormError("it joins functions of different tensors that are not quantized")
        args.append(float_constant(value, builder.shape(source)) if curve is None else curve.expression)
    expression = Apply(node.op_type, tuple(args), plain_attributes(node))
    places = math.prod(builder.shape(source)[axis] for axis in varying_axes(expression))
    if places > MAX_TABLES:
        raise NoFormError(f"its constant has {places} places, each of which would need a table")
    return Curve(source, expression)


def float_constant(value: ir.Value | None, shape: Sequence[int]) -> Constant:
    """A float constant, or the integers that an exponent may be, with all axes of ``shape``.

    Raises:
        NoFormError: the value is no such constant.
    """
    array = fixed(value)
    if array is None:
        raise NoFormError("one of its inputs is not quantized")
    if array.dtype != np.float32 and array.dtype.kind not in "iu":
        raise NoFormError(f"its constant is {array.dtype}")
    wide = wide_constant(array.astype(np.float32), shape)
    if wide is None:
        raise NoFormError("its constant is larger than its input")
    return Constant(wide)


def plain_attributes(node: ir.Node) -> MappingProxyType[str, float | int | str]:
    """Numbers and words; lists and tensors have no place in a function of one number."""
    kinds = (ir.AttributeType.FLOAT, ir.AttributeType.INT, ir.AttributeType.STRING)
    found = {name: attr.value for name, attr in node.attributes.items() if attr.type in kinds}
    return MappingProxyType(found)


def number_constant(number: float) -> Constant:
    """A float32 number."""
    return Constant(np.array(number, np.float32))
