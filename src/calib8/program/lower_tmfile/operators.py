"""Which function lowers which operator of Tengine: a new one is a function of its family and a line here.

Others have no int8 kernel in Tengine: its runtime ends with an error, or reads codes as float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calib8.program.lower_tmfile import functions, layers, moves, pools
from calib8.program.lower_tmfile.builder import Builder
from calib8.tmfile.graph import Node

LOWER: Final[Mapping[str, Callable[[Builder, Node], None]]] = {
    "Clip": functions.clip,
    "Concat": moves.concat,
    "Convolution": layers.convolution,
    "DepthToSpace": moves.depth_to_space,
    "Dropout": moves.dropout,
    "Eltwise": functions.eltwise,
    "Flatten": moves.reshape,
    "FullyConnected": layers.fully_connected,
    "Interp": moves.interp,
    "Permute": moves.permute,
    "Pooling": pools.pooling,
    "PReLU": functions.prelu,
    "ReLU": functions.relu,
    "Reshape": moves.reshape,
    "Resize": moves.resize,
    "ShuffleChannel": moves.shuffle_channel,
    "Sigmoid": functions.sigmoid,
    "Softmax": pools.softmax,
    "Split": moves.split,
    "Transpose": moves.transpose,
}
"""Operator → what adds its instructions, or raises ``NoFormError``."""

NO_KERNEL: Final = "Tengine's runtime has no int8 kernel for it"

_COPIES: Final = frozenset({"DepthToSpace", "Flatten", "Permute", "Reshape", "ShuffleChannel", "Split"})


def copies_codes(node: Node) -> bool:
    """Whether Tengine moves the codes of a node as they are, whatever the scales of both tensors say."""
    return node.op in _COPIES or (node.op == "Concat" and len(node.inputs) == 1)
