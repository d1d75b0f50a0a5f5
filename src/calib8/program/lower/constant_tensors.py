"""Coded constants as tensors among others, where a table per place would be too large or none helps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx_ir as ir

from calib8.program.instructions import Constant
from calib8.program.lower.builder import Builder, shape_of
from calib8.program.lower.constants import coded_constant
from calib8.program.lower.forms import Coded, Order
from calib8.program.program import CODE_TYPES, Slot


def constant_tensor(builder: Builder, value: ir.Value | None, order: Order) -> Coded | None:
    """A constant as codes that lie in an order, with axes of one in front up to its rank.

    None for what is no constant of 8-bit codes with one scale, or has more axes.
    """
    found = coded_constant(value)
    if value is None or found is None or found.axis is not None or found.values.dtype.name not in CODE_TYPES:
        return None
    missing = len(order) - found.values.ndim
    if missing < 0:
        return None
    values = found.values.reshape((1,) * missing + found.values.shape).transpose(order)
    scale = np.asarray(found.scale, np.float32).reshape(1)
    slot = Slot(value.name or "", values.shape, values.dtype.name, scale, int(found.zero_point))
    number = builder.slot(slot)
    builder.steps.append(Constant(value.name or "", (), (number,), np.ascontiguousarray(values)))
    return Coded(number, order)


@contextmanager
def constants_as_tensors(builder: Builder, node: ir.Node, order: Order) -> Iterator[None]:
    """While the body runs, constant inputs of a node have codes in the program as its other inputs have."""
    made = list[ir.Value]()
    for value in node.inputs:
        if value is not None and value not in builder.forms and len(shape_of(value)) == len(order):
            form = constant_tensor(builder, value, order)
            if form is not None:
                builder.forms[value] = form
                made.append(value)
    try:
        yield
    finally:
        for value in made:
            builder.forms.pop(value, None)
