"""LayerNormalization over the last axis, which is laid out last: channels of an image lie so already."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.graph import float_attribute, input_at, int_attribute
from calib8.program.instructions import Instruction, LayerNorm
from calib8.program.lower.builder import Builder
from calib8.program.lower.constants import fixed
from calib8.program.lower.layout import axis_last
from calib8.program.lower.results import COMPUTED, Target, coded_source, deliver
from calib8.program.rounding.layer_norm import norm_rule
from calib8.program.rules import F32

EPSILON: Final = 1e-5
"""Of a LayerNormalization that does not say."""


def layer_norm(builder: Builder, node: ir.Node) -> None:
    """Rows of the last axis with mean 0 and spread 1, scaled and shifted by constants."""
    source = coded_source(builder, node)
    rank = len(source.order)
    if int_attribute(node, "axis", -1) not in (-1, rank - 1):
        raise NoFormError("it normalizes over several axes")
    if any(builder.readers.get(value) or value.is_graph_output() for value in node.outputs[1:]):
        raise NoFormError("somebody reads its mean or its spread")
    rows = builder.in_order(source, axis_last(rank, rank - 1, source.order))
    own, channels = builder.kind(rows).scale, builder.shape(rows)[-1]
    scale, bias = _vector(node, 1, channels), _vector(node, 2, channels)
    epsilon = float_attribute(node, "epsilon", EPSILON)

    def make(to: Target) -> Instruction:
        rule = norm_rule(builder.profile, own, to.kind.scale, scale, bias, epsilon)
        return LayerNorm(to.name, (rows.slot,), to.outputs, rule, to.low, to.high)

    deliver(builder, node, rows.order, make)


def _vector(node: ir.Node, place: int, channels: int) -> F32:
    """Scale or bias, one number per channel; a bias that is not there is 0."""
    value = input_at(node, place)
    if value is None:
        return np.zeros(channels, np.float32)
    array = fixed(value)
    if array is None:
        raise NoFormError(COMPUTED)
    is_row = array.size in (1, channels) and array.shape[-1:] in ((), (array.size,))
    if array.dtype != np.float32 or not is_row:
        raise NoFormError(f"it has parameters of {array.dtype} and shape {list(array.shape)}")
    return np.broadcast_to(array.reshape(-1), (channels,)).astype(np.float32)
