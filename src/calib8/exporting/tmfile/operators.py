"""Which function writes which ONNX op as a Tengine operator: those of its converter, where that has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import onnx_ir as ir

from calib8.exporting.tmfile import elementwise, images, layers, moves, pads
from calib8.exporting.tmfile.net import Net

Translate = Callable[[Net, ir.Node], None]

TRANSLATE: Final[Mapping[str, Translate]] = {
    "Abs": elementwise.unary(0),
    "Acos": elementwise.unary(13),
    "Add": elementwise.eltwise(2),
    "Asin": elementwise.unary(12),
    "Atan": elementwise.unary(14),
    "AveragePool": images.windows(images.AVERAGE),
    "BatchNormalization": layers.batch_normalization,
    "Ceil": elementwise.unary(3),
    "Clip": elementwise.clip,
    "Concat": moves.concat,
    "Conv": layers.convolution,
    "ConvTranspose": layers.deconvolution,
    "Cos": elementwise.unary(10),
    "DepthToSpace": images.depth_to_space,
    "Div": elementwise.eltwise(10),
    "Dropout": elementwise.gone,
    "Elu": elementwise.elu,
    "Exp": elementwise.eltwise(12),
    "Flatten": moves.flatten,
    "Floor": elementwise.eltwise(14),
    "Gemm": layers.gemm,
    "GlobalAveragePool": images.whole(images.AVERAGE),
    "GlobalMaxPool": images.whole(images.MAX),
    "HardSigmoid": elementwise.hard_sigmoid,
    "HardSwish": elementwise.hard_swish,
    "Identity": elementwise.gone,
    "InstanceNormalization": layers.instance_norm,
    "LRN": layers.lrn,
    "LeakyRelu": elementwise.leaky_relu,
    "Log": elementwise.unary(8),
    "LogSoftmax": moves.along_axis("LogSoftmax"),
    "MatMul": layers.mat_mul,
    "Max": elementwise.largest,
    "MaxPool": images.windows(images.MAX),
    "Mean": elementwise.same("Mean"),
    "Min": elementwise.smallest,
    "Mish": elementwise.same("Mish"),
    "Mul": elementwise.eltwise(0),
    "Neg": elementwise.unary(1),
    "PRelu": layers.prelu,
    "Pad": pads.pad,
    "Pow": elementwise.eltwise(16),
    "Reciprocal": elementwise.same("Reciprocal"),
    "ReduceL2": moves.reduce_l2,
    "ReduceLogSum": moves.reduction(9),
    "ReduceLogSumExp": moves.reduction(10),
    "ReduceMax": moves.reduction(4),
    "ReduceMean": moves.reduction(1),
    "ReduceMin": moves.reduction(5),
    "ReduceProd": moves.reduction(6),
    "ReduceSum": moves.reduction(0),
    "ReduceSumSquare": moves.reduction(3),
    "Relu": elementwise.relu,
    "Reshape": moves.reshape,
    "Resize": images.resize,
    "Selu": elementwise.selu,
    "Sigmoid": elementwise.same("Sigmoid"),
    "Sin": elementwise.unary(9),
    "Slice": moves.cut,
    "Softmax": moves.along_axis("Softmax"),
    "Softplus": elementwise.same("Softplus"),
    "SpaceToDepth": images.space_to_depth,
    "Split": moves.split,
    "Sqrt": elementwise.eltwise(13),
    "Squeeze": moves.reshape,
    "Sum": elementwise.summed,
    "Sub": elementwise.eltwise(4),
    "Tan": elementwise.unary(11),
    "Tanh": elementwise.same("Tanh"),
    "Transpose": moves.transpose,
    "Unsqueeze": moves.reshape,
}
"""Op → what adds its nodes, or raises ``NoFormError``."""

SPELLED: Final[Mapping[str, str]] = {"Gelu": "Gelu", "Mish": "Mish"}
"""Function that several nodes spell → its operator."""
