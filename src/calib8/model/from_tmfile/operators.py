"""Which function translates which Tengine operator.

What Tengine computes is what its reference kernels compute (``source/device/cpu/op``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from calib8.model.from_tmfile import elementwise, images, layers, moves
from calib8.model.from_tmfile.builder import Builder
from calib8.tmfile.graph import Node

Translate = Callable[[Builder, Node], None]

SAME_UNARY: Final = {
    "Absval": "Abs", "Ceil": "Ceil", "Logistic": "Sigmoid", "Reciprocal": "Reciprocal", "Sigmoid": "Sigmoid",
    "Softplus": "Softplus", "Tanh": "Tanh", "Dropout": "Identity", "Noop": "Identity",
}  # fmt: skip
"""Tengine → ONNX, functions of one tensor; HardSwish is apart, as its options are not looked at."""

SAME_SEVERAL: Final = {"Maximum": "Max", "Minimum": "Min", "Mean": "Mean", "AddN": "Sum", "MatMul": "MatMul"}
"""Tengine → ONNX, functions of several tensors."""

TRANSLATE: Final[Mapping[str, Translate]] = {
    **{name: elementwise.unary(op) for name, op in SAME_UNARY.items()},
    **{name: elementwise.several(op) for name, op in SAME_SEVERAL.items()},
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "ExpandDims"), moves.as_stated),
    "BatchNormalization": layers.batch_normalization,
    "Bias": layers.bias,
    "Clip": elementwise.clip,
    "Concat": moves.concat,
    "Convolution": layers.convolution,
    "Deconvolution": layers.deconvolution,
    "DepthToSpace": images.depth_to_space,
    "Eltwise": elementwise.eltwise,
    "Elu": elementwise.elu,
    "Flatten": moves.flatten,
    "FullyConnected": layers.fully_connected,
    "Gelu": elementwise.gelu,
    "HardSigmoid": elementwise.hard_sigmoid,
    "HardSwish": elementwise.unary("HardSwish"),
    "InstanceNorm": layers.instance_norm,
    "Interp": images.interp,
    "LRN": layers.lrn,
    "LogSoftmax": elementwise.along_axis("LogSoftmax"),
    "Mish": elementwise.mish,
    "PReLU": layers.prelu,
    "Pad": moves.pad,
    "Permute": moves.permute,
    "Pooling": images.pooling,
    "ReLU": elementwise.relu,
    "ReLU1": elementwise.limited(-1.0, 1.0),
    "ReLU6": elementwise.limited(0.0, 6.0),
    "ReduceL2": moves.reduce_l2,
    "Reduction": moves.reduction,
    "Scale": layers.scale,
    "Selu": elementwise.selu,
    "ShuffleChannel": moves.shuffle_channel,
    "Slice": moves.cut,
    "Softmax": elementwise.along_axis("Softmax"),
    "SpaceToDepth": images.space_to_depth,
    "Split": moves.split,
    "Transpose": moves.transpose,
    "Unary": elementwise.one_of_many,
    "Upsample": images.upsample,
}
"""Operator → what adds its nodes, or raises ``NoFormError``."""
