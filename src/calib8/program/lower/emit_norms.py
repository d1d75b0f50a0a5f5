"""Normalization of rows, which are laid out last: channels of an image lie so already."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import float_attribute, input_at, int_attribute
from calib8.passes.row_chains import row_chain
from calib8.program.instructions import Instruction, LayerNorm, Reshape
from calib8.program.lower.builder import Builder
from calib8.program.lower.constants import fixed
from calib8.program.lower.convert import coded
from calib8.program.lower.forms import Coded
from calib8.program.lower.layout import axis_last
from calib8.program.lower.readers import tail_of
from calib8.program.lower.results import COMPUTED, Target, coded_source, deliver
from calib8.program.rounding.layer_norm import norm_rule
from calib8.program.rules import F32
from calib8.program.slot import WIDE_TYPE, Slot

EPSILON: Final = 1e-5
"""Of a normalization that does not say."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Codes whose axes from ``axis`` on are one row, as they lie, and what is done to it."""

    source: Coded
    axis: int
    scale: F32
    bias: F32
    epsilon: float
    centred: bool = True


def layer_norm(builder: Builder, node: ir.Node) -> None:
    """Rows of the last axes with mean 0 and spread 1, scaled and shifted by constants."""
    if any(builder.readers.get(value) or value.is_graph_output() for value in node.outputs[1:]):
        raise NoFormError("somebody reads its mean or its spread")
    _emit(builder, node, _last_axes(builder, node, centred=True))


def rms_norm(builder: Builder, node: ir.Node) -> None:
    """Rows of the last axes with a mean square of 1, scaled by constants."""
    _emit(builder, node, _last_axes(builder, node, centred=False))


def lp_norm(builder: Builder, node: ir.Node) -> None:
    """Rows of one axis with a sum of squares of 1: a mean square of one n-th."""
    if int_attribute(node, "p", 2) != 2:
        raise NoFormError("it adds up magnitudes, not squares")
    source = coded_source(builder, node)
    rank = len(source.order)
    axis = int_attribute(node, "axis", -1) % rank
    rows = builder.in_order(source, axis_last(rank, axis, source.order))
    count = builder.slots[rows.slot].shape[-1]
    scale, none = np.full(count, 1 / np.sqrt(count), np.float32), np.zeros(count, np.float32)
    _emit(builder, node, _Rows(rows, rank - 1, scale, none, 0.0, centred=False))


def begins_rows(builder: Builder, node: ir.Node) -> bool:
    """Whether a normalization of rows spelled out begins with a node, from codes to codes."""
    chain = row_chain(node)
    source = None if chain is None else coded(builder, chain.source)
    if chain is None or source is None or not tail_of(chain.nodes[-1].outputs[0]).kinds:
        return False
    return chain.least <= builder.kind(source).scale  # then only rows of zeros are shorter


def rows_spelled_out(builder: Builder, node: ir.Node) -> None:
    """All nodes of the chain that begins with this one."""
    chain = row_chain(node)
    assert chain is not None
    source = coded_source(builder, node)
    kept = tuple(axis for axis in source.order if axis not in chain.axes)
    inside = tuple(axis for axis in source.order if axis in chain.axes)
    rows = builder.in_order(source, (*kept, *inside))
    scale = chain.scale.transpose([chain.axes.index(axis) for axis in inside]).reshape(-1)
    norm = _Rows(rows, len(kept), scale, np.zeros_like(scale), chain.epsilon, centred=False)
    _emit(builder, chain.nodes[-1], norm, chain.nodes)
    builder.fused.update(chain.nodes[1:])


def _last_axes(builder: Builder, node: ir.Node, *, centred: bool) -> _Rows:
    """Several axes are one row in whatever order they lie; scales and biases are put in that order."""
    source = coded_source(builder, node)
    axis = int_attribute(node, "axis", -1) % len(source.order)
    kept, inside = (tuple(a for a in source.order if (a < axis) is front) for front in (True, False))
    rows = builder.in_order(source, (*kept, *inside))
    sizes, within = builder.shape(rows)[axis:], tuple(a - axis for a in inside)
    scale, bias = (_parameter(node, place, sizes).transpose(within).reshape(-1) for place in (1, 2))
    return _Rows(rows, axis, scale, bias, float_attribute(node, "epsilon", EPSILON), centred)


def _emit(builder: Builder, node: ir.Node, norm: _Rows, together: tuple[ir.Node, ...] = ()) -> None:
    """One LayerNorm; several axes become one before it."""
    rows, axis, centred = norm.source, norm.axis, norm.centred
    own = builder.kind(rows).scale

    def make(to: Target) -> Instruction:
        if builder.profile != "onnx" and WIDE_TYPE in (builder.slots[rows.slot].dtype, to.kind.dtype):
            raise NoFormError("its 16-bit codes are normalized in float32 alone")
        parameters = norm.scale, norm.bias, norm.epsilon
        rule = norm_rule(builder.profile, own, to.kind.scale, *parameters, centred=centred)
        if axis == len(rows.order) - 1:
            return LayerNorm(to.name, (rows.slot,), to.outputs, rule, to.low, to.high, centred)
        flat = _flat(builder, rows, axis)
        made = _like(builder, flat, to)
        builder.steps.append(LayerNorm(to.name, (flat,), (made,), rule, to.low, to.high, centred))
        return Reshape(to.name, (made,), to.outputs)

    deliver(builder, node, rows.order, make, together)


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
