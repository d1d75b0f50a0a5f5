"""LayerNormalization over the last axes, which are laid out last: channels of an image lie so already."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import float_attribute, input_at, int_attribute
from calib8.program.instructions import Instruction, LayerNorm, Reshape
from calib8.program.lower.builder import Builder
from calib8.program.lower.constants import fixed
from calib8.program.lower.forms import Coded
from calib8.program.lower.results import COMPUTED, Target, coded_source, deliver
from calib8.program.rounding.layer_norm import norm_rule
from calib8.program.rules import F32
from calib8.program.slot import Slot

EPSILON: Final = 1e-5
"""Of a normalization that does not say."""


def layer_norm(builder: Builder, node: ir.Node) -> None:
    """Rows of the last axes with mean 0 and spread 1, scaled and shifted by constants.

    Several axes are one row in whatever order they lie; scales and biases are put in that order.
    """
    source = coded_source(builder, node)
    rank = len(source.order)
    axis = int_attribute(node, "axis", -1) % rank
    if any(builder.readers.get(value) or value.is_graph_output() for value in node.outputs[1:]):
        raise NoFormError("somebody reads its mean or its spread")
    kept, inside = (tuple(a for a in source.order if (a < axis) is front) for front in (True, False))
    rows = builder.in_order(source, (*kept, *inside))
    own, sizes = builder.kind(rows).scale, builder.shape(rows)[axis:]
    within = tuple(a - axis for a in inside)
    scale, bias = (_parameter(node, place, sizes).transpose(within).reshape(-1) for place in (1, 2))
    epsilon = float_attribute(node, "epsilon", EPSILON)

    def make(to: Target) -> Instruction:
        rule = norm_rule(builder.profile, own, to.kind.scale, scale, bias, epsilon)
        if len(inside) == 1:
            return LayerNorm(to.name, (rows.slot,), to.outputs, rule, to.low, to.high)
        flat = _flat(builder, rows, axis)
        made = _like(builder, flat, to)
        builder.steps.append(LayerNorm(to.name, (flat,), (made,), rule, to.low, to.high))
        return Reshape(to.name, (made,), to.outputs)

    deliver(builder, node, rows.order, make)


def _flat(builder: Builder, rows: Coded, axis: int) -> int:
    """Slot of the same codes with the axes from ``axis`` on as one."""
    old = builder.slots[rows.slot]
    shape = (*old.shape[:axis], math.prod(old.shape[axis:]))
    return builder.moved(rows, shape, tuple(range(axis + 1)), lambda ports: Reshape(*ports), "rows").slot


def _like(builder: Builder, slot: int, to: Target) -> int:
    """A new slot of the shape of another one for codes that get their own shape behind it."""
    wanted = builder.slots[to.outputs[0]]
    shape = builder.slots[slot].shape
    return builder.slot(Slot(f"{wanted.name}/rows", shape, wanted.dtype, wanted.scales, wanted.zero_point))


def _parameter(node: ir.Node, place: int, sizes: tuple[int, ...]) -> F32:
    """Scale or bias, one number per value of a row of these sizes; a bias that is not there is 0."""
    value = input_at(node, place)
    if value is None:
        return np.zeros(sizes, np.float32)
    array = fixed(value)
    if array is None:
        raise NoFormError(COMPUTED)
    shape = array.shape
    while len(shape) > len(sizes) and shape[0] == 1:
        shape = shape[1:]
    behind = sizes[len(sizes) - len(shape) :] if len(shape) <= len(sizes) else ()
    fits = len(behind) == len(shape) and all(
        one in (1, size) for one, size in zip(shape, behind, strict=True)
    )
    if array.dtype != np.float32 or not fits:
        raise NoFormError(f"it has parameters of {array.dtype} and shape {list(array.shape)}")
    return np.broadcast_to(array.reshape(shape), sizes).astype(np.float32)
