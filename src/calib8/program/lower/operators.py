"""Which function emits which ONNX operator: a new one is a function in its family's file and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import onnx_ir as ir

from calib8.ops.groups import CLAMPS, CUTTING, FUNCTIONS, SAME_VALUES
from calib8.program.lower import (
    emit_borders,
    emit_curves,
    emit_elementwise,
    emit_groups,
    emit_layers,
    emit_moves,
    emit_norms,
    emit_pad,
    emit_pools,
    emit_quotients,
    emit_recurrent,
    emit_resize,
    emit_volume_pools,
    emit_volumes,
)
from calib8.program.lower.builder import Builder

Emit = Callable[[Builder, ir.Node], None]
"""Adds instructions and forms for a node, or raises ``NoFormError`` with the reason why it stays float."""

EMIT: Final[Mapping[str, Emit]] = {
    "QuantizeLinear": emit_borders.quantize,
    "DequantizeLinear": emit_borders.dequantize,
    "Cast": emit_borders.cast,
    "Identity": emit_borders.identity,
    "Dropout": emit_borders.identity,
    "Conv": emit_volumes.conv,
    "ConvTranspose": emit_volumes.conv_transpose,
    "Gemm": emit_layers.gemm,
    "MatMul": emit_layers.mat_mul,
    "Add": emit_elementwise.binary,
    "Sub": emit_elementwise.binary,
    "Mul": emit_elementwise.binary,
    "Div": emit_quotients.div,
    "Pow": emit_elementwise.binary,
    "Max": emit_elementwise.binary,
    "Min": emit_elementwise.binary,
    "Relu": emit_curves.activation,
    "Clip": emit_curves.activation,
    "MaxPool": emit_volume_pools.max_pool,
    "AveragePool": emit_volume_pools.average_pool,
    "GlobalAveragePool": emit_pools.mean,
    "ReduceMean": emit_pools.mean,
    "ReduceSum": emit_pools.mean,
    "ReduceL2": emit_pools.length,
    "GlobalMaxPool": emit_pools.extreme,
    "ReduceMax": emit_pools.extreme,
    "ReduceMin": emit_pools.extreme,
    "ArgMax": emit_pools.arg_extreme,
    "ArgMin": emit_pools.arg_extreme,
    "Softmax": emit_pools.softmax,
    "LayerNormalization": emit_norms.layer_norm,
    "RMSNormalization": emit_norms.rms_norm,
    "LpNormalization": emit_norms.lp_norm,
    "InstanceNormalization": emit_groups.instance_norm,
    "GroupNormalization": emit_groups.group_norm,
    "Resize": emit_resize.resize,
    "LSTM": emit_recurrent.recurrent,
    "GRU": emit_recurrent.recurrent,
    "RNN": emit_recurrent.recurrent,
    "Concat": emit_moves.concat,
    "DepthToSpace": emit_moves.depth_to_space,
    "SpaceToDepth": emit_moves.space_to_depth,
    "Expand": emit_moves.tile,
    "Tile": emit_moves.tile,
    "Gather": emit_moves.gather,
    "Pad": emit_pad.pad,
    "Slice": emit_moves.slice_,
    "Split": emit_moves.split,
    "Transpose": emit_moves.transpose,
    "Flatten": emit_moves.reshape,
    "Reshape": emit_moves.reshape,
    "Squeeze": emit_moves.reshape,
    "Unsqueeze": emit_moves.reshape,
} | dict.fromkeys(FUNCTIONS - CLAMPS, emit_curves.unary)

INTEGER_MOVES: Final = SAME_VALUES | CUTTING | {"DequantizeLinear", "Cast", "Gather", "MaxPool"}
"""What may read 8-bit integers as such, without their meaning: it only moves or compares them."""
