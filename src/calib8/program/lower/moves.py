"""Moving codes about: other shapes and orders of axes, with as little copying as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import ModelError
from calib8.program.instructions import Gather, Reshape
from calib8.program.lower.builder import Builder
from calib8.program.lower.forms import Coded
from calib8.program.lower.layout import physical, plan_reshape
from calib8.tensors import shape_text


def transposed(source: Coded, axes: Sequence[int]) -> Coded:
    """ONNX's Transpose: logical axis i of the result is axis ``axes[i]`` of the source. Nothing is moved."""
    place = {old: new for new, old in enumerate(axes)}
    return Coded(source.slot, tuple(place[axis] for axis in source.order))


def reshaped(builder: Builder, source: Coded, shape: Sequence[int], to: ir.Value | str = "reshaped") -> Coded:
    """The codes with other logical sizes.

    Args:
        builder: the program.
        source: what is reshaped.
        shape: logical sizes of the result.
        to: the tensor that the result is, or an addition to the source's name.

    Raises:
        ModelError: the result holds more or fewer values.
    """
    if builder.shape(source) == tuple(shape):
        return source
    if math.prod(builder.shape(source)) != math.prod(shape):
        problem = f"values of {shape_text(builder.shape(source))} cannot become {shape_text(shape)}"
        name = to if isinstance(to, str) else to.name or "reshaped"
        raise ModelError(f"tensor '{name}'", problem, "Give the inputs the sizes that the model was made for")
    plan = plan_reshape(builder.shape(source), source.order, shape)
    moved = builder.in_order(source, plan.before)
    sizes = physical(shape, plan.after)
    if builder.slots[moved.slot].shape == sizes:
        return Coded(moved.slot, plan.after)
    return builder.moved(moved, sizes, plan.after, lambda ports: Reshape(*ports), to)


def picked(
    builder: Builder, source: Coded, axis: int, indices: npt.ArrayLike, to: ir.Value | str = "picked"
) -> Coded:
    """Entries of one logical axis in the order of ``indices``."""
    places = np.asarray(indices, np.int32)
    size = builder.shape(source)[axis]
    if np.array_equal(places, np.arange(size)):
        return source
    row = source.order.index(axis)
    old = builder.slots[source.slot].shape
    sizes = (*old[:row], places.size, *old[row + 1 :])
    return builder.moved(source, sizes, source.order, lambda ports: Gather(*ports, row, places), to)
