"""Odd but valid quantized graphs, of the kinds that users meet, written node by node.

Run: pip install onnx; python scripts/foreign_models/by_hand.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from graph import SIZE
from keep import keep
from onnx import TensorProto
from quantized_graph import QuantizedGraph

UNIT = 1 / 127
IMAGE = [1, 3, SIZE, SIZE]


def tensorrt_placement() -> onnx.ModelProto:
    """Q/DQ only in front of layers and on one residual branch; Relu, MaxPool and Add between are bare."""
    g = QuantizedGraph(seed=11)
    x = g.fake(g.input("image", IMAGE), UNIT)
    x = g.node("Relu", g.int8_conv(x, UNIT, (3, 8), stride=2))
    x = g.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    a = g.fake(x, 0.02)
    y = g.fake(g.node("Relu", g.int8_conv(a, 0.02, (8, 8))), 0.016)
    y = g.int8_conv(y, 0.016, (8, 8))
    x = g.node("Relu", g.node("Add", y, g.fake(x, 0.02)))
    g.output(g.int8_head(g.fake(x, 0.02), 0.02, 128), "logits")
    return g.model("tensorrt_placement", opset=13)


def duplicated_pairs() -> onnx.ModelProto:
    """The same Q/DQ twice in a row, and a second pair with the same parameters beside the first."""
    g = QuantizedGraph(seed=12)
    x = g.fake(g.fake(g.input("image", IMAGE), UNIT), UNIT)
    x = g.node("Relu", g.int8_conv(x, UNIT, (3, 8), stride=2))
    a, b = g.fake(g.fake(x, 0.02), 0.02), g.fake(x, 0.02)
    y = g.fake(g.int8_conv(a, 0.02, (8, 8)), 0.03)
    x = g.fake(g.node("Add", y, b), 0.04)
    g.output(g.fake(g.int8_head(x, 0.04, 512), 0.02), "logits")
    return g.model("duplicated_pairs", opset=13)


def shared_dequantize() -> onnx.ModelProto:
    """One DQ read by two Convs and an Add; one weight DQ read by two Convs of different input scale."""
    g = QuantizedGraph(seed=13)
    x = g.fake(g.input("image", IMAGE), UNIT)
    x = g.fake(g.node("Relu", g.int8_conv(x, UNIT, (3, 8), stride=2)), 0.0153, -128)
    weight, scales = g.int8_weight(g.weights(8, 8, 3, 3))
    a = g.fake(g.node("Relu", g.node("Conv", x, weight, pads=[1] * 4)), 0.0197, -100)
    b = g.fake(
        g.node("Conv", a, weight, g.int32_bias(g.uniform(-1, 1, 8), 0.0197 * scales), pads=[1] * 4), 0.0511, 5
    )
    c = g.fake(g.int8_conv(x, 0.0153, (8, 8), kernel=1), 0.0307, -7)
    x = g.fake(g.node("Add", g.fake(g.node("Add", b, c), 0.0511, 3), x), 0.0511, -10)
    g.output(g.fake(g.int8_head(x, 0.0511, 512), 0.02), "logits")
    return g.model("shared_dequantize", opset=15)


def two_scales() -> onnx.ModelProto:
    """One tensor quantized with two scales for two readers, then joined."""
    g = QuantizedGraph(seed=14)
    x = g.fake(g.input("image", IMAGE), UNIT)
    x = g.node("Relu", g.int8_conv(x, UNIT, (3, 8), stride=2))
    a = g.fake(g.int8_conv(g.fake(x, 0.02), 0.02, (8, 8)), 0.04)
    b = g.fake(g.int8_conv(g.fake(x, 0.009, 128, "uint8"), 0.009, (8, 8)), 0.03, 3)
    x = g.fake(g.node("Concat", a, b, axis=1), 0.035, -3)
    g.output(g.fake(g.int8_head(x, 0.035, 1024), 0.02), "logits")
    return g.model("two_scales", opset=17)


def lowest_weights() -> onnx.ModelProto:
    """Weights that use −128, whole channels of −128, 0 and 127 among them."""
    g = QuantizedGraph(seed=15)
    x = g.fake(g.input("image", IMAGE), UNIT)
    codes = g.generator.integers(-128, 128, (8, 3, 3, 3)).astype(np.int8)
    codes[0], codes[1], codes[2], codes[3, :, 0] = -128, 0, 127, -128
    scales = g.uniform(0.001, 0.004, 8)
    weight = g.stored(codes, scales, 0, np.zeros(8, np.int8))
    x = g.fake(g.node("Conv", x, weight, strides=[2, 2]), 0.02, 10)
    tensor = g.stored(np.full((4, 8, 1, 1), -128, np.int8), np.float32(0.002), None, np.int8(0))
    x = g.fake(g.node("Conv", x, tensor), 0.02, -20)
    g.output(g.fake(g.int8_head(x, 0.02, 196), 0.02), "logits")
    return g.model("lowest_weights", opset=13)


def weight_zero_points() -> onnx.ModelProto:
    """uint8 weights with a zero point, per tensor and per channel, and int8 ones with a zero point."""
    g = QuantizedGraph(seed=16)
    x = g.fake(g.input("image", IMAGE), UNIT, 128, "uint8")
    drawn = g.generator.integers
    weight = g.stored(drawn(0, 256, (8, 3, 3, 3)).astype(np.uint8), np.float32(0.003), None, np.uint8(117))
    x = g.fake(g.node("Relu", g.node("Conv", x, weight, pads=[1] * 4, strides=[2, 2])), 0.012, 0, "uint8")
    weight = g.stored(drawn(0, 256, (8, 1, 3, 3)).astype(np.uint8), g.uniform(0.002, 0.006, 8), 0,
                      drawn(90, 160, 8).astype(np.uint8))  # fmt: skip
    x = g.fake(g.node("Conv", x, weight, pads=[1] * 4, group=8), 0.03, 120, "uint8")
    weight = g.stored(drawn(-128, 128, (8, 8, 1, 1)).astype(np.int8), np.float32(0.004), None, np.int8(-9))
    x = g.fake(g.node("Conv", x, weight), 0.03, 128, "uint8")
    g.output(g.fake(g.int8_head(x, 0.03, 512), 0.02), "logits")
    return g.model("weight_zero_points", opset=13)


def odd_biases() -> onnx.ModelProto:
    """Biases in int8 with a scale of their own, in int32 with a scale that is not sx·sw, in float."""
    g = QuantizedGraph(seed=17)
    x = g.fake(g.input("image", IMAGE), UNIT)
    weight, _ = g.int8_weight(g.weights(8, 3, 3, 3))
    bias = g.stored(g.generator.integers(-128, 128, 8).astype(np.int8), np.float32(0.003), None, np.int8(0))
    x = g.fake(g.node("Relu", g.node("Conv", x, weight, bias, strides=[2, 2])), 0.02, -128)
    weight, _ = g.int8_weight(g.weights(8, 8, 3, 3))
    x = g.fake(g.node("Conv", x, weight, g.int32_bias(g.uniform(-0.5, 0.5, 8), 1e-6), pads=[1] * 4), 0.03)
    weight, _ = g.int8_weight(g.weights(8, 8, 1, 1))
    x = g.fake(g.node("Conv", x, weight, g.constant(g.uniform(-0.5, 0.5, 8))), 0.03)
    g.output(g.fake(g.int8_head(x, 0.03, 392), 0.02), "logits")
    return g.model("odd_biases", opset=13)


def contrib_domain() -> onnx.ModelProto:
    """Q/DQ of the domain com.microsoft in a model of opset 12, per channel as well."""
    g = QuantizedGraph(seed=18)
    g.domain = "com.microsoft"
    x = g.fake(g.input("image", IMAGE), UNIT, 127, "uint8")
    x = g.fake(g.node("Relu", g.int8_conv(x, UNIT, (3, 8), stride=2)), 0.01, 0, "uint8")
    x = g.fake(g.int8_conv(x, 0.01, (8, 8)), 0.03, 128, "uint8")
    g.output(g.fake(g.int8_head(x, 0.03, 512), 0.02), "logits", shape=[1, 10])
    return g.model("contrib_domain", opset=12, contrib=True)


def nhwc_border() -> onnx.ModelProto:
    """NHWC input and output, a Transpose before the first Q and after the last DQ."""
    g = QuantizedGraph(seed=19)
    x = g.node("Transpose", g.input("image", [1, SIZE, SIZE, 3]), perm=[0, 3, 1, 2])
    x = g.fake(g.node("Relu", g.int8_conv(g.fake(x, UNIT), UNIT, (3, 8), stride=2)), 0.02)
    x = g.fake(g.int8_conv(x, 0.02, (8, 4)), 0.04)
    g.output(g.node("Transpose", x, perm=[0, 2, 3, 1]), "map")
    return g.model("nhwc_border", opset=14)


def channel_shuffle() -> onnx.ModelProto:
    """Grouped 1×1 Convs with Reshape, Transpose, Reshape between, a Split and a Concat (ShuffleNet)."""
    g = QuantizedGraph(seed=20)
    x = g.fake(g.input("image", IMAGE), UNIT)
    x = g.fake(g.node("Relu", g.int8_conv(x, UNIT, (3, 8), stride=2)), 0.02)
    half = g.node("Split", x, g.constant(np.int64([4, 4])), outputs=2, axis=1)
    y = g.fake(g.node("Relu", g.int8_conv(f"{half}_1", 0.02, (4, 4), groups=2)), 0.02)
    x = g.fake(g.node("Concat", half, y, axis=1), 0.02)
    x = g.node("Reshape", x, g.constant(np.int64([1, 2, 4, 8, 8])))
    x = g.node("Transpose", x, perm=[0, 2, 1, 3, 4])
    x = g.fake(g.node("Reshape", x, g.constant(np.int64([1, 8, 8, 8]))), 0.02)
    x = g.fake(g.int8_conv(x, 0.02, (8, 8), kernel=1, groups=2), 0.02)
    g.output(g.fake(g.int8_head(x, 0.02, 512), 0.02), "logits")
    return g.model("channel_shuffle", opset=13)


def prelu() -> onnx.ModelProto:
    """PRelu with float slopes per channel and with slopes that are quantized themselves."""
    g = QuantizedGraph(seed=21)
    x = g.fake(g.input("image", IMAGE), UNIT)
    x = g.fake(g.int8_conv(x, UNIT, (3, 8), stride=2), 0.02)
    x = g.fake(g.node("PRelu", x, g.constant(g.uniform(-0.2, 0.5, 8, 1, 1))), 0.015, -60)
    x = g.fake(g.int8_conv(x, 0.015, (8, 8)), 0.03)
    slopes = g.stored(
        g.generator.integers(0, 128, (8, 1, 1)).astype(np.int8), np.float32(0.003), None, np.int8(0)
    )
    x = g.fake(g.node("PRelu", x, slopes), 0.025, -40)
    g.output(g.fake(g.int8_head(x, 0.025, 512), 0.02), "logits")
    return g.model("prelu", opset=16)


def yolo_head() -> onnx.ModelProto:
    """Sigmoid, Split, (2·xy − 0.5 + grid)·stride, (2·wh)²·anchors, Concat; every result quantized."""
    g = QuantizedGraph(seed=22)
    x = g.fake(g.input("image", IMAGE), UNIT)
    x = g.fake(g.node("Relu", g.int8_conv(x, UNIT, (3, 8), stride=2)), 0.02, -128)
    x = g.fake(g.int8_conv(x, 0.02, (8, 8), stride=2), 0.03)
    x = g.node("Reshape", x, g.constant(np.int64([1, 1, 8, 4, 4])))
    x = g.node("Transpose", x, perm=[0, 1, 3, 4, 2])
    x = g.fake(g.node("Sigmoid", x), 1 / 255, 0, "uint8")
    xy = g.node("Split", x, g.constant(np.int64([2, 2, 4])), outputs=3, axis=4)
    grid = np.stack(np.meshgrid(range(4), range(4)), -1).reshape(1, 1, 4, 4, 2)
    two = g.stored(np.array(127, np.int8), np.float32(2 / 127), None, np.int8(0))
    centre = g.fake(g.node("Mul", xy, two), 2 / 255, 0, "uint8")
    shift = g.stored((2 * grid).astype(np.int8), np.float32(0.5), None, np.int8(0))
    centre = g.fake(g.node("Add", centre, shift), 8 / 255, 0, "uint8")
    centre = g.fake(
        g.node("Mul", centre, g.stored(np.array(100, np.int8), np.float32(0.04))), 0.125, 0, "uint8"
    )
    size = g.fake(g.node("Mul", f"{xy}_1", two), 2 / 255, 0, "uint8")
    size = g.fake(g.node("Pow", size, g.constant(np.float32(2))), 4 / 255, 0, "uint8")
    anchors = g.stored(np.int8([80, 120]), np.float32(0.1), None, np.int8(0))
    size = g.fake(g.node("Mul", size, anchors), 0.125, 0, "uint8")
    joined = g.fake(g.node("Concat", centre, size, f"{xy}_2", axis=4), 0.125, 0, "uint8")
    g.output(g.node("Reshape", joined, g.constant(np.int64([1, -1, 8]))), "boxes")
    return g.model("yolo_head", opset=13)


def codes_at_the_border() -> onnx.ModelProto:
    """Graph input and output are uint8 codes: no float at the border."""
    g = QuantizedGraph(seed=23)
    x = g.dequantize(g.input("image", IMAGE, TensorProto.UINT8), UNIT, 128, "uint8")
    x = g.fake(g.node("Relu", g.int8_conv(x, UNIT, (3, 8), stride=2)), 0.01, 0, "uint8")
    x = g.int8_conv(x, 0.01, (8, 4))
    g.output(g.quantize(x, 0.03, 131, "uint8"), "codes", TensorProto.UINT8)
    return g.model("codes_at_the_border", opset=13)


def opset_10() -> onnx.ModelProto:
    """The first opset with QuantizeLinear: scales per tensor only, axes and bounds as attributes."""
    g = QuantizedGraph(seed=24)
    x = g.fake(g.input("image", IMAGE), UNIT, 128, "uint8")
    weight, scale = g.int8_weight(g.weights(8, 3, 3, 3), axis=None)
    bias = g.int32_bias(g.uniform(-0.2, 0.2, 8), np.float32(UNIT) * scale)
    x = g.node("Clip", g.node("Conv", x, weight, bias, strides=[2, 2], pads=[1] * 4), min=0.0, max=1.5)
    x = g.fake(x, 0.0065, 0, "uint8")
    x = g.fake(g.node("Resize", x, g.constant(np.float32([1, 1, 2, 2])), mode="nearest"), 0.0065, 0, "uint8")
    x = g.fake(g.node("AveragePool", x, kernel_shape=[4, 4], strides=[4, 4]), 0.006, 0, "uint8")
    x = g.node("Unsqueeze", g.node("Squeeze", g.node("ReduceMean", x, axes=[2, 3]), axes=[2, 3]), axes=[1])
    weight, _ = g.int8_weight(g.weights(8, 10), axis=None)
    x = g.node("MatMul", g.fake(g.node("Squeeze", x, axes=[1]), 0.006, 0, "uint8"), weight)
    g.output(g.fake(x, 0.02), "logits")
    return g.model("opset_10", opset=10)


def opset_21() -> onnx.ModelProto:
    """output_dtype in place of a zero point, DQ without zero point, axis −4 for weights per channel."""
    g = QuantizedGraph(seed=25)

    def fake(source: str, scale: float) -> str:
        step = g.constant(np.float32(scale))
        codes = g.node("QuantizeLinear", source, step, output_dtype=TensorProto.INT8)
        return g.node("DequantizeLinear", codes, step)

    x = fake(g.input("image", IMAGE), UNIT)
    weight = g.weights(8, 3, 3, 3)
    scales = (np.abs(weight).max((1, 2, 3)) / 127).astype(np.float32)
    codes = np.rint(weight / scales.reshape(-1, 1, 1, 1)).astype(np.int8)
    x = fake(g.node("Relu", g.node("Conv", x, g.stored(codes, scales, -4), pads=[1] * 4)), 0.02)
    x = fake(g.int8_conv(x, 0.02, (8, 8), stride=2), 0.03)
    g.output(fake(g.int8_head(x, 0.03, 512), 0.02), "logits")
    return g.model("opset_21", opset=21)


def no_zero_points() -> onnx.ModelProto:
    """Q and DQ without zero point (uint8 and 0), scales of shape [1], scales from Constant nodes."""
    g = QuantizedGraph(seed=26)

    def fake(source: str, scale: float) -> str:
        step = g.node("Constant", value_floats=[scale])
        return g.node("DequantizeLinear", g.node("QuantizeLinear", source, step), step)

    x = fake(g.input("image", IMAGE), 1 / 255)
    x = fake(g.node("Relu", g.int8_conv(x, 1 / 255, (3, 8), stride=2)), 0.01)
    x = fake(g.node("Relu", g.int8_conv(x, 0.01, (8, 8))), 0.02)
    weight, _ = g.int8_weight(g.weights(10, 8))
    x = fake(g.node("Flatten", g.node("GlobalAveragePool", x)), 0.01)
    g.output(g.fake(g.node("Gemm", x, weight, transB=1), 0.02), "logits")
    return g.model("no_zero_points", opset=13)


def bare_batch_norm() -> onnx.ModelProto:
    """A BatchNormalization between Conv and Relu, one between DQ and Q, one between Conv and Q."""
    g = QuantizedGraph(seed=27)
    x = g.fake(g.input("image", IMAGE), UNIT)
    x = g.fake(g.node("Relu", g.batch_norm(g.int8_conv(x, UNIT, (3, 8), stride=2), 8)), 0.02)
    x = g.fake(g.batch_norm(x, 8), 0.03, 4)
    x = g.fake(g.batch_norm(g.int8_conv(x, 0.03, (8, 8)), 8), 0.03, -9)
    g.output(g.fake(g.int8_head(x, 0.03, 512), 0.02), "logits")
    return g.model("bare_batch_norm", opset=15)


def two_activations() -> onnx.ModelProto:
    """Attention over pixels: MatMul of two activations, Softmax, Transpose, a scalar Mul."""
    g = QuantizedGraph(seed=28)
    x = g.fake(g.input("image", IMAGE), UNIT)
    x = g.fake(g.int8_conv(x, UNIT, (3, 8), stride=4), 0.02)
    pixels = g.node("Transpose", g.node("Reshape", x, g.constant(np.int64([1, 8, 16]))), perm=[0, 2, 1])
    weight, scales = g.int8_weight(g.weights(8, 24), axis=1)
    bias = g.int32_bias(g.uniform(-0.2, 0.2, 24), 0.02 * scales)
    joined = g.fake(g.node("Add", g.node("MatMul", pixels, weight), bias), 0.03)
    keys = g.node("Split", joined, g.constant(np.int64([8, 8, 8])), outputs=3, axis=2)
    scores = g.fake(g.node("MatMul", keys, g.node("Transpose", f"{keys}_1", perm=[0, 2, 1])), 0.08)
    scores = g.fake(g.node("Mul", scores, g.constant(np.float32(8**-0.5))), 0.03)
    shares = g.fake(g.node("Softmax", scores, axis=-1), 1 / 255, 0, "uint8")
    g.output(g.fake(g.node("MatMul", shares, f"{keys}_2"), 0.02, 3), "mixed")
    return g.model("two_activations", opset=17)


def weight_axes() -> onnx.ModelProto:
    """Scales per channel on axis 1 of ConvTranspose and Gemm, on −1 of MatMul; alpha and beta of Gemm."""
    g = QuantizedGraph(seed=29)
    x = g.fake(g.input("image", IMAGE), UNIT)
    x = g.fake(g.node("Relu", g.int8_conv(x, UNIT, (3, 8), stride=4)), 0.02)
    weight, scales = g.int8_weight(g.weights(8, 8, 3, 3), axis=1)
    x = g.node("ConvTranspose", x, weight, g.int32_bias(g.uniform(-0.2, 0.2, 8), 0.02 * scales),
               strides=[2, 2], pads=[1] * 4, output_padding=[1, 1])  # fmt: skip
    x = g.fake(g.node("Flatten", g.node("GlobalAveragePool", g.fake(x, 0.03))), 0.0107)
    weight, scales = g.int8_weight(g.weights(8, 12), axis=1)
    x = g.fake(g.node("Gemm", x, weight, g.int32_bias(g.uniform(-0.2, 0.2, 12), 0.0107 * scales)), 0.02)
    weight, _ = g.int8_weight(g.weights(12, 10), axis=-1)
    g.output(g.fake(g.node("MatMul", x, weight), 0.02), "logits")
    return g.model("weight_axes", opset=13)


def data_movement() -> onnx.ModelProto:
    """DepthToSpace, Slice with steps, Pad with a value, Gather, ReduceMax, Squeeze, Tile, Expand."""
    g = QuantizedGraph(seed=30)
    x = g.fake(g.input("image", IMAGE), UNIT)
    x = g.fake(g.int8_conv(x, UNIT, (3, 16), stride=2), 0.02, 5)
    x = g.fake(g.node("DepthToSpace", x, blocksize=2, mode="CRD"), 0.02, 5)
    x = g.node("Slice", x, *(g.constant(np.int64(v)) for v in ([14, 1], [-17, 15], [2, 3], [-2, 1])))
    x = g.fake(
        g.node("Pad", x, g.constant(np.int64([0, 0, 1, 0, 0, 0, 0, 2])), g.constant(np.float32(0.1))), 0.02, 5
    )
    x = g.fake(g.node("Gather", x, g.constant(np.int64([3, 1, 1])), axis=1), 0.02, 5)
    x = g.fake(g.node("ReduceMax", x, axes=[2], keepdims=1), 0.02, 5)
    x = g.node("Squeeze", x, g.constant(np.int64([2])))
    x = g.node("Tile", g.node("Unsqueeze", x, g.constant(np.int64([1]))), g.constant(np.int64([1, 2, 1, 1])))
    g.output(g.fake(g.node("Expand", x, g.constant(np.int64([2, 2, 3, 16]))), 0.02, 5), "moved")
    return g.model("data_movement", opset=13)


def partly_float() -> onnx.ModelProto:
    """A Conv that nobody quantized amid quantized ones: it has no integer form."""
    g = QuantizedGraph(seed=31)
    x = g.fake(g.input("image", IMAGE), UNIT)
    x = g.fake(g.node("Relu", g.int8_conv(x, UNIT, (3, 8), stride=2)), 0.02)
    x = g.fake(g.node("Relu", g.conv(x, (8, 8))), 0.03)
    g.output(g.fake(g.int8_head(x, 0.03, 512), 0.02), "logits")
    return g.model("partly_float", opset=17)


MODELS: tuple[Callable[[], onnx.ModelProto], ...] = (
    tensorrt_placement,
    duplicated_pairs,
    shared_dequantize,
    two_scales,
    lowest_weights,
    weight_zero_points,
    odd_biases,
    contrib_domain,
    nhwc_border,
    channel_shuffle,
    prelu,
    yolo_head,
    codes_at_the_border,
    opset_10,
    opset_21,
    no_zero_points,
    bare_batch_norm,
    two_activations,
    weight_axes,
    data_movement,
    partly_float,
)


if __name__ == "__main__":
    for make in MODELS:
        keep(f"hand_{make.__name__}", make(), f"by hand, onnx {onnx.__version__}")
