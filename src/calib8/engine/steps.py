"""The steps of a plan: the structs of ``csrc/engine/steps/``, which say what they mean."""

from __future__ import annotations

from calib8.engine import fields  # noqa: F401 - structs inside steps are declared before them
from calib8.engine.structs import Struct


class Step(Struct):
    """What all steps are."""


class FillHalo(Step):
    """The border of a tensor in storage."""


class Copy(Step):
    """Runs of bytes moved."""


class Quantize(Step):
    """float32 to stored codes."""


class Dequantize(Step):
    """Stored codes or sums to float32."""


class Conv(Step):
    """Convolution or fully connected layer."""


class Depthwise(Step):
    """One filter per output channel."""


class MatMul(Step):
    """Product of two activations."""


class Requantize(Step):
    """Sums to codes."""


class Add(Step):
    """Sum or difference of codes."""


class AddSums(Step):
    """Sum where an operand is sums."""


class Mul(Step):
    """Product of codes."""


class TimeFilter(Step):
    """Sums over what filters gave lately."""


class Div(Step):
    """Quotient of codes."""


class RealRescale(Step):
    """Sums to codes by way of real numbers."""


class RealPair(Step):
    """Sum, difference or product of codes by way of real numbers."""


class RealFunction(Step):
    """A function of float32 values."""


class Extreme(Step):
    """Elementwise larger or smaller code."""


class Lookup(Step):
    """A table of codes."""


class MaxPool(Step):
    """Largest code of a window."""


class AveragePool(Step):
    """Mean of a window."""


class Reduce(Step):
    """Mean, length, largest or smallest over axes."""


class ArgMax(Step):
    """Index of the largest code."""


class Softmax(Step):
    """Softmax over the last axis."""


class LayerNorm(Step):
    """Rows of the last axis with mean 0 and spread 1, scaled and shifted."""


class GroupNorm(Step):
    """Groups of channels with mean 0 and spread 1 over an image, scaled and shifted."""


class Recurrent(Step):
    """LSTM, GRU or RNN over whole sequences."""


class IntegerLstm(Step):
    """LSTM of integers over whole sequences."""


class IntegerGru(Step):
    """GRU of integers over whole sequences."""


class ResizeLinear(Step):
    """Bilinear interpolation."""


class ResizeToFloat(Step):
    """Bilinear interpolation to float32, plane by plane."""


class Plane(Step):
    """One byte of 16-bit codes."""


class Finish(Step):
    """Sums of a layer with 16-bit codes to codes."""


class WideAdd(Step):
    """Sum or difference of codes of which some have 16 bits."""


class WideMul(Step):
    """Product of codes of which some have 16 bits."""


class WideLookup(Step):
    """A table from or to 16-bit codes."""


class WideMaxPool(Step):
    """Largest 16-bit code of a window."""


class WideQuantize(Step):
    """float32 to 16-bit codes."""


class WideDequantize(Step):
    """16-bit codes to float32."""


class WideConv(Step):
    """Conv that reads or writes 16-bit codes, where every sum fits int32."""


class WideDepthwise(Step):
    """Depthwise likewise."""


class WideFillHalo(Step):
    """FillHalo with a code of 16 bits."""


class WideLength(Step):
    """Reduce to a length of or to 16-bit codes."""


class WideLayerNorm(Step):
    """LayerNorm of or to 16-bit codes."""
