"""The instruction set of the integer program: plain frozen data over numbered slots.

A slot (``slot.Slot``) is a typed tensor of fixed shape. An instruction reads the slots ``inputs`` and writes
the slots ``outputs``. Images lie in NHWC; weights of a Conv in OHWI (output channel, row, column, input
channel). What is known of each instruction is in the module of its family in ``ops``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calib8.program.ops import (
    borders,
    constant,
    conv,
    conv_transpose,
    depthwise,
    elementwise,
    group_norm,
    integer_gru,
    integer_lstm,
    layer_norm,
    length,
    mat_mul,
    moves,
    pools,
    quotient,
    real,
    real_function,
    recurrent,
    resize,
    softmax,
    time_filter,
)
from calib8.program.ops.borders import Dequantize as Dequantize
from calib8.program.ops.borders import Quantize as Quantize
from calib8.program.ops.cells import Recurrent as Recurrent
from calib8.program.ops.constant import Constant as Constant
from calib8.program.ops.conv import Conv as Conv
from calib8.program.ops.conv import FullyConnected as FullyConnected
from calib8.program.ops.conv_transpose import ConvTranspose as ConvTranspose
from calib8.program.ops.depthwise import DepthwiseConv as DepthwiseConv
from calib8.program.ops.elementwise import Add as Add
from calib8.program.ops.elementwise import AddSums as AddSums
from calib8.program.ops.elementwise import Lookup as Lookup
from calib8.program.ops.elementwise import Maximum as Maximum
from calib8.program.ops.elementwise import Minimum as Minimum
from calib8.program.ops.elementwise import Mul as Mul
from calib8.program.ops.elementwise import Requantize as Requantize
from calib8.program.ops.elementwise import Sub as Sub
from calib8.program.ops.floats import Float as Float
from calib8.program.ops.group_norm import GroupNorm as GroupNorm
from calib8.program.ops.instruction import Instruction as Instruction
from calib8.program.ops.integer_cells import IntegerLstm as IntegerLstm
from calib8.program.ops.integer_gru_cells import IntegerGru as IntegerGru
from calib8.program.ops.layer_norm import LayerNorm as LayerNorm
from calib8.program.ops.length import ReduceL2 as ReduceL2
from calib8.program.ops.mat_mul import MatMul as MatMul
from calib8.program.ops.moves import Concat as Concat
from calib8.program.ops.moves import Gather as Gather
from calib8.program.ops.moves import Pad as Pad
from calib8.program.ops.moves import Reshape as Reshape
from calib8.program.ops.moves import Slice as Slice
from calib8.program.ops.moves import Transpose as Transpose
from calib8.program.ops.pools import ArgMax as ArgMax
from calib8.program.ops.pools import ArgMin as ArgMin
from calib8.program.ops.pools import AveragePool as AveragePool
from calib8.program.ops.pools import MaxPool as MaxPool
from calib8.program.ops.pools import Mean as Mean
from calib8.program.ops.pools import ReduceMax as ReduceMax
from calib8.program.ops.pools import ReduceMin as ReduceMin
from calib8.program.ops.quotient import Div as Div
from calib8.program.ops.real import RealPair as RealPair
from calib8.program.ops.real import RealRescale as RealRescale
from calib8.program.ops.real_function import RealFunction as RealFunction
from calib8.program.ops.resize import ResizeLinear as ResizeLinear
from calib8.program.ops.resize import ResizeNearest as ResizeNearest
from calib8.program.ops.softmax import Softmax as Softmax
from calib8.program.ops.time_filter import TimeFilter as TimeFilter
from calib8.program.ops.traits import Traits
from calib8.program.ops.weighted import Weighted as Weighted

TRAITS: Final[Mapping[type[Instruction], Traits]] = {
    **borders.TRAITS,
    **conv.TRAITS,
    **depthwise.TRAITS,
    **conv_transpose.TRAITS,
    **mat_mul.TRAITS,
    **elementwise.TRAITS,
    **quotient.TRAITS,
    **real.TRAITS,
    **real_function.TRAITS,
    **pools.TRAITS,
    **length.TRAITS,
    **softmax.TRAITS,
    **layer_norm.TRAITS,
    **group_norm.TRAITS,
    **recurrent.TRAITS,
    **integer_lstm.TRAITS,
    **time_filter.TRAITS,
    **integer_gru.TRAITS,
    **resize.TRAITS,
    **moves.TRAITS,
    **constant.TRAITS,
}
"""What is known of every instruction but ``Float``, whose results only ONNX Runtime knows."""
