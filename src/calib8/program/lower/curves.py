"""Functions of one coded tensor: building them up node by node until a quantizer turns them into a table."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.program.expressions import Apply, Constant, Expression, Source
from calib8.program.lower.builder import Builder
from calib8.program.lower.constants import fixed
from calib8.program.lower.forms import Coded, Curve


def curve_of(builder: Builder, value: ir.Value | None) -> Curve | None:
    """The value as a function of codes, None where it is none."""
    form = None if value is None else builder.forms.get(value)
    if isinstance(form, Coded):
        return Curve(form, Source())
    return form if isinstance(form, Curve) else None


def channel_constant(array: npt.NDArray[Any], shape: Sequence[int]) -> tuple[Constant, int | None] | None:
    """A constant that varies along one axis of a tensor at most, and that axis.

    Args:
        array: float32 or the integers that an exponent may be; broadcasts against the tensor without making
            it larger.
        shape: logical sizes of the tensor.
    """
    if (
        array.ndim > len(shape)
        or not (array.dtype == np.float32 or array.dtype.kind in "iu")
        or not array.size
    ):
        return None
    wide = array.astype(np.float32).reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if any(size not in (1, whole) for size, whole in zip(wide.shape, shape, strict=True)):
        return None
    for axis, size in enumerate(wide.shape):
        first = wide.take([0], axis=axis)
        if size > 1 and np.array_equal(wide, np.broadcast_to(first, wide.shape)):
            wide = first
    varies = [axis for axis, size in enumerate(wide.shape) if size > 1]
    if len(varies) > 1:
        return None
    return Constant(wide.reshape(-1) if varies else wide.reshape(())), varies[0] if varies else None


def applied(builder: Builder, node: ir.Node, inputs: Sequence[ir.Value | None], op: str = "") -> Curve | str:
    """The node as a function of one coded tensor, or why it is none.

    Args:
        builder: the program.
        node: gives operator and attributes.
        inputs: its operands: curves of the same tensor and constants, one curve at least.
        op: operator, where it is not the node's.
    """
    curves = [curve_of(builder, value) for value in inputs]
    source = next((curve.source for curve in curves if curve is not None), None)
    if source is None:
        return "its input is not quantized"
    axes: set[int] = set()
    args: list[Expression] = []
    for value, curve in zip(inputs, curves, strict=True):
        array = fixed(value)
        if curve is None and array is None:
            return "one of its inputs is not quantized"
        if curve is not None and curve.source != source:
            return "it joins functions of different tensors that are not quantized"
        found = (curve.expression, curve.axis) if curve is not None else None
        if array is not None:
            found = channel_constant(array, builder.shape(source))
        if found is None:
            return "its constant varies along more than one axis"
        args.append(found[0])
        axes |= {found[1]} if found[1] is not None else set()
    if len(axes) > 1:
        return "its constants vary along different axes"
    expression = Apply(op or node.op_type, tuple(args), plain_attributes(node))
    return Curve(source, expression, axes.pop() if axes else None)


def plain_attributes(node: ir.Node) -> MappingProxyType[str, float | int | str]:
    """Numbers and words; lists and tensors have no place in a function of one number."""
    kinds = (ir.AttributeType.FLOAT, ir.AttributeType.INT, ir.AttributeType.STRING)
    found = {name: attr.value for name, attr in node.attributes.items() if attr.type in kinds}
    return MappingProxyType(found)


def number_constant(number: float) -> Constant:
    """A float32 number."""
    return Constant(np.array(number, np.float32))
