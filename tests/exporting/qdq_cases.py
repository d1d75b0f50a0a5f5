"""Quantized graphs with one thing each that becomes operators on codes, in uint8 and in int8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from qdq_nets import Net

SCALE: Final = 0.05
OTHER_SCALE: Final = 0.08
IMAGE: Final = "float[N,4,8,8] x"


@dataclass(frozen=True)
class Codes:
    """uint8 or int8, with a zero point in the middle and the lowest code."""

    dtype: npt.DTypeLike

    @property
    def middle(self) -> int:
        return self.lowest + 120

    @property
    def lowest(self) -> int:
        return 0 if np.dtype(self.dtype) == np.uint8 else -128


class CodedNet(Net):
    """A net whose tensors all have codes of one type."""

    def __init__(self, codes: Codes) -> None:
        super().__init__(seed=5)
        self.codes = codes

    def coded_as(self, x: str, scale: float, zero_point: int) -> str:
        """Q and DQ in the type of this net."""
        return self.coded(x, scale, zero_point, self.codes.dtype)

    def image(self) -> str:
        """The input in codes."""
        return self.coded_as("x", SCALE, self.codes.middle)

    def conv(self, x: str, scale: float = SCALE, attributes: str = "pads = [1, 1, 1, 1]") -> str:
        """A layer of 4 channels with scales per channel and a bias."""
        weight = self.weight(4, 4, 3, 3)
        return self.op(f"Conv <{attributes}> ({x}, {weight}, {self.bias(4, weight, scale)})")

    def result(self, y: str, scale: float = OTHER_SCALE, zero_point: int | None = None) -> onnx.ModelProto:
        """The model that yields ``y`` as it comes out of codes."""
        point = self.codes.middle if zero_point is None else zero_point
        return self.proto(IMAGE, self.coded_as(y, scale, point))


Build = Callable[[CodedNet], onnx.ModelProto]


def strided_conv(net: CodedNet) -> onnx.ModelProto:
    y = net.conv(net.image(), attributes='auto_pad = "SAME_UPPER", strides = [2, 2], dilations = [1, 1]')
    return net.result(y)


def depthwise_conv(net: CodedNet) -> onnx.ModelProto:
    weight = net.weight(4, 1, 3, 3, axis=None)
    y = net.op(
        f"Conv <group = 4, pads = [1, 1, 1, 1]> ({net.image()}, {weight}, {net.bias(4, weight, SCALE)})"
    )
    return net.result(y)


def relu_by_saturation(net: CodedNet) -> onnx.ModelProto:
    return net.result(net.op(f"Relu ({net.conv(net.image())})"), 0.02, net.codes.lowest)


def relu_between_codes(net: CodedNet) -> onnx.ModelProto:
    return net.result(net.op(f"Relu ({net.conv(net.image())})"), 0.02)


def clip_between_codes(net: CodedNet) -> onnx.ModelProto:
    limits = f"{net.constant(-0.31)}, {net.constant(0.77)}"
    return net.result(net.op(f"Clip ({net.conv(net.image())}, {limits})"), 0.02)


def gemm(net: CodedNet) -> onnx.ModelProto:
    flat = net.op(f"Flatten ({net.image()})")
    weight = net.weight(5, 256)
    bias = net.bias(5, weight, SCALE)
    x = net.coded_as(flat, SCALE, net.codes.middle)
    return net.result(net.op(f"Gemm <transB = 1> ({x}, {weight}, {bias})"), 0.5)


def matmul_by_weight(net: CodedNet) -> onnx.ModelProto:
    return net.result(net.op(f"MatMul ({net.image()}, {net.weight(8, 6, axis=1)})"))


def matmul_of_activations(net: CodedNet) -> onnx.ModelProto:
    x = net.image()
    other = net.coded_as(net.op("Transpose <perm = [0, 1, 3, 2]> (x)"), OTHER_SCALE, net.codes.middle)
    return net.result(net.op(f"MatMul ({x}, {other})"))


def residual(net: CodedNet) -> onnx.ModelProto:
    x = net.image()
    y = net.coded_as(net.conv(x), OTHER_SCALE, net.codes.middle)
    return net.result(net.op(f"Relu ({net.op(f'Add ({x}, {y})')})"), 0.06, net.codes.lowest)


def product_with_constant(net: CodedNet) -> onnx.ModelProto:
    factor = net.weight(4, 1, 1, axis=None, dtype=net.codes.dtype)
    return net.result(net.op(f"Mul ({net.image()}, {factor})"), 0.02)


def pools(net: CodedNet) -> onnx.ModelProto:
    window = "kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]"
    y = net.coded_as(net.op(f"MaxPool <{window}> ({net.image()})"), SCALE, net.codes.middle)
    average = net.op(f"AveragePool <{window}, count_include_pad = 1> ({y})")
    y = net.coded_as(average, 0.03, net.codes.middle)
    return net.result(net.op(f"GlobalAveragePool ({y})"), 0.02)


def functions(net: CodedNet) -> onnx.ModelProto:
    y = net.coded_as(net.op(f"LeakyRelu <alpha = 0.2> ({net.image()})"), SCALE, net.codes.middle)
    y = net.coded_as(net.op(f"Sigmoid ({y})"), 1 / 256, net.codes.lowest)
    return net.result(net.op(f"Softmax <axis = -1> ({y})"), 1 / 256, net.codes.lowest)


def concat_of_scales(net: CodedNet) -> onnx.ModelProto:
    x = net.image()
    y = net.coded_as(net.conv(x), OTHER_SCALE, net.codes.lowest)
    return net.result(net.op(f"Concat <axis = 1> ({x}, {y})"))


def concat_of_codes(net: CodedNet) -> onnx.ModelProto:
    x = net.image()
    y = net.coded_as(net.conv(x), SCALE, net.codes.middle)
    return net.result(net.op(f"Concat <axis = 1> ({x}, {y})"), SCALE)


def moves(net: CodedNet) -> onnx.ModelProto:
    one, four = net.constant([1], np.int64), net.constant([4], np.int64)
    y = net.op(f"Slice ({net.image()}, {one}, {four}, {net.constant([2], np.int64)})")
    borders = net.constant([0, 0, 1, 0, 0, 0, 0, 2], np.int64)
    y = net.op(f"Pad ({y}, {borders}, {net.constant(np.float32(20) * np.float32(SCALE))})")
    y = net.op(f"DepthToSpace <blocksize = 2> ({y})")
    sizes = net.constant([1, 1, 2, 2])
    y = net.op(f'Resize <mode = "nearest"> ({y}, , {sizes})')
    return net.result(net.op(f"Transpose <perm = [0, 2, 3, 1]> ({y})"), SCALE)


def split(net: CodedNet) -> onnx.ModelProto:
    sizes = net.constant([1, 3], np.int64)
    parts = net.op(f"Split <axis = 1> ({net.image()}, {sizes})", outputs=2)
    first, second = (net.coded_as(f"{parts}_{k}", SCALE, net.codes.middle) for k in range(2))
    return net.proto(IMAGE, first, second)


def clip_of_codes(net: CodedNet) -> onnx.ModelProto:
    return net.result(net.op(f"Relu ({net.image()})"), SCALE)


def codes_out(net: CodedNet) -> onnx.ModelProto:
    name = np.dtype(net.codes.dtype).name
    codes = net.quantize(net.conv(net.image()), OTHER_SCALE, net.codes.middle, net.codes.dtype)
    return net.proto(IMAGE, f"{name} {codes}")


CASES: Final[dict[str, tuple[Build, tuple[str, ...]]]] = {
    "strided_conv": (strided_conv, ("QLinearConv",)),
    "depthwise_conv": (depthwise_conv, ("QLinearConv",)),
    "relu_by_saturation": (relu_by_saturation, ("QLinearConv",)),
    "relu_between_codes": (relu_between_codes, ("QLinearConv", "Clip")),
    "clip_between_codes": (clip_between_codes, ("QLinearConv", "Clip")),
    "gemm": (gemm, ("Flatten", "QGemm")),
    "matmul_by_weight": (matmul_by_weight, ("QLinearMatMul",)),
    "matmul_of_activations": (matmul_of_activations, ("Transpose", "QLinearMatMul")),
    "residual": (residual, ("QLinearConv", "QLinearAdd")),
    "product_with_constant": (product_with_constant, ("QLinearMul",)),
    "pools": (pools, ("MaxPool", "QLinearAveragePool", "QLinearGlobalAveragePool")),
    "functions": (functions, ("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax")),
    "concat_of_scales": (concat_of_scales, ("QLinearConv", "QLinearConcat")),
    "concat_of_codes": (concat_of_codes, ("QLinearConv", "Concat")),
    "moves": (moves, ("Slice", "Pad", "DepthToSpace", "Resize", "Transpose")),
    "split": (split, ("Split",)),
    "clip_of_codes": (clip_of_codes, ("Clip",)),
    "codes_out": (codes_out, ("QLinearConv",)),
}
"""Name → builder, and the operators of the result beside quantizers."""


def case(name: str, dtype: Any) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """The QDQ model of a case, and the operators that it becomes."""
    build, expected = CASES[name]
    return build(CodedNet(Codes(dtype))), expected
