"""InstanceNormalization and GroupNormalization: groups of channels of [N, …, C], over all places."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import float_attribute, input_at, int_attribute
from calib8.passes.norm_chains import NormChain, norm_chain
from calib8.program.instructions import GroupNorm, Instruction, Reshape
from calib8.program.lower.builder import Builder
from calib8.program.lower.constants import fixed
from calib8.program.lower.convert import coded
from calib8.program.lower.emit_norms import EPSILON
from calib8.program.lower.forms import Coded
from calib8.program.lower.readers import tail_of
from calib8.program.lower.results import COMPUTED, Target, coded_source, deliver
from calib8.program.rounding.group_norm import group_norm_rule
from calib8.program.rules import F32
from calib8.program.slot import Slot


@dataclass(frozen=True, eq=False)
class _Groups:
    """What is normalized: codes of [N, C, …] in any order, and float32 scale and bias per channel."""

    source: Coded
    groups: int
    scale: F32
    bias: F32
    epsilon: float


def instance_norm(builder: Builder, node: ir.Node) -> None:
    """Every channel by itself; or groups of them, where it is part of a GroupNormalization spelled out."""
    epsilon = float_attribute(node, "epsilon", EPSILON)
    chain = norm_chain(node)
    whole = None if chain is None else _whole(builder, node, chain)
    if chain is not None and whole is not None:
        scale, bias = (array.astype(np.float32) for array in (chain.scale, chain.bias))
        _emit(builder, chain.nodes, _Groups(whole, chain.groups, scale, bias, epsilon))
        return
    source = coded_source(builder, node)
    channels = _channels(builder, source)
    scale, bias = (_vector(node, place, channels, channels) for place in (1, 2))
    _emit(builder, (node,), _Groups(source, channels, scale, bias, epsilon))


def group_norm(builder: Builder, node: ir.Node) -> None:
    """Groups of channels; operator set 18 has a scale for each group, later ones for each channel."""
    source = coded_source(builder, node)
    channels, groups = _channels(builder, source), int_attribute(node, "num_groups", 0)
    if groups < 1 or channels % groups:
        raise NoFormError(f"{channels} channels are no {groups} groups")
    scale, bias = (_vector(node, place, channels, groups) for place in (1, 2))
    epsilon = float_attribute(node, "epsilon", EPSILON)
    _emit(builder, (node,), _Groups(source, groups, scale, bias, epsilon))


def _whole(builder: Builder, node: ir.Node, chain: NormChain) -> Coded | None:
    """The codes before the Reshape, if they are those that the chain reads and a quantizer is behind it."""
    whole, inner = coded(builder, chain.whole), coded(builder, node.inputs[0])
    if whole is None or inner is None or builder.kind(whole) != builder.kind(inner):
        return None
    return whole if tail_of(chain.nodes[-1].outputs[0]).kinds else None


def _channels(builder: Builder, source: Coded) -> int:
    shape = builder.shape(source)
    if len(shape) < 3:
        raise NoFormError("its input has no channels over places")
    return shape[1]


def _vector(node: ir.Node, place: int, channels: int, groups: int) -> F32:
    """Scale or bias, one number per channel."""
    array = fixed(input_at(node, place))
    if array is None:
        raise NoFormError(COMPUTED)
    if array.dtype != np.float32 or array.shape not in ((groups,), (channels,)):
        raise NoFormError(f"it has parameters of {array.dtype} and shape {list(array.shape)}")
    return np.repeat(array, channels // array.size).astype(np.float32)


def _emit(builder: Builder, nodes: tuple[ir.Node, ...], norm: _Groups) -> None:
    """One GroupNorm; channels are laid out last, images first; other than four axes become four."""
    order = (0, *(axis for axis in norm.source.order if axis > 1), 1)
    rows = builder.in_order(norm.source, order)
    own, shape = builder.kind(rows).scale, builder.slots[rows.slot].shape
    image = (shape[0], *((1, math.prod(shape[1:-1])) if len(shape) != 4 else shape[1:3]), shape[-1])
    count = image[1] * image[2] * (image[3] // norm.groups)

    def make(to: Target) -> Instruction:
        scales = own, to.kind.scale
        rule = group_norm_rule(builder.profile, count, *scales, norm.scale, norm.bias, norm.epsilon)
        if image == shape:
            return GroupNorm(to.name, (rows.slot,), to.outputs, norm.groups, rule, to.low, to.high)
        four = builder.moved(rows, image, (0, 1, 2, 3), lambda ports: Reshape(*ports), "image").slot
        wanted = builder.slots[to.outputs[0]]
        slot = Slot(f"{wanted.name}/image", image, wanted.dtype, wanted.scales, wanted.zero_point)
        made = builder.slot(slot)
        builder.steps.append(GroupNorm(to.name, (four,), (made,), norm.groups, rule, to.low, to.high))
        return Reshape(to.name, (made,), to.outputs)

    deliver(builder, nodes[-1], order, make, nodes)
    builder.fused.update(nodes[1:])
