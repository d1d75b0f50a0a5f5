"""Networks that are fine in float and broken in int8, each by one known cause, and data for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from small_models import normal, onnx_model
from small_nets import Net

Array = npt.NDArray[Any]
CHANNEL = 5
LOUD = 1000.0


def samples(count: int = 24, size: int = 12, mean: float = 0.0, scale: float = 1.0) -> list[dict[str, Array]]:
    """Inputs [1, 4, size, size], normal with this mean and standard deviation."""
    rng = np.random.default_rng(11)
    shape = (1, 4, size, size)
    return [{"x": (mean + scale * rng.standard_normal(shape)).astype(np.float32)} for _ in range(count)]


def _net() -> Net:
    return Net(shape=("N", 4, 12, 12))


def plain() -> onnx.ModelProto:
    """Three layers, a pool and a classifier: nothing is wrong with it."""
    net = _net()
    y = net.op("Relu", net.conv("x", 4, 8, name="first"), name="first_relu")
    y = net.op("Relu", net.conv(y, 8, 8, name="second"), name="second_relu")
    y = net.op("Relu", net.conv(y, 8, 8, name="third"), name="third_relu")
    y = net.op("Flatten", net.op("GlobalAveragePool", y, name="pool"), name="flat")
    return net.model(net.op("Gemm", y, net.weight(5, 8), net.weight(5), transB=1, name="scores"))


def one_loud_channel() -> onnx.ModelProto:
    """``plain``, one channel between 'second' and 'third' 1000 times as large: the same function."""
    proto = plain()
    nodes = {node.name: node for node in proto.graph.node}
    _scale(proto, nodes["second"].input[1], CHANNEL, LOUD, axis=0)
    _scale(proto, nodes["second"].input[2], CHANNEL, LOUD, axis=0)
    _scale(proto, nodes["third"].input[1], CHANNEL, 1.0 / LOUD, axis=1)
    return proto


def _scale(proto: onnx.ModelProto, name: str, channel: int, factor: float, axis: int) -> None:
    tensor = next(one for one in proto.graph.initializer if one.name == name)
    array = numpy_helper.to_array(tensor).copy()
    index: list[Any] = [slice(None)] * array.ndim
    index[axis] = channel
    array[tuple(index)] *= np.float32(factor)
    tensor.CopyFrom(numpy_helper.from_array(array, name))


def detector() -> onnx.ModelProto:
    """Boxes of 0 … 640 pixels and class scores of 0 … 1 in one Concat 'detections', as YOLO heads end."""
    net = _net()
    y = net.op("Relu", net.conv("x", 4, 8, name="trunk"), name="trunk_relu")
    weight = net.const(60.0 * net.rng.normal(0, 0.5, (4, 8, 1, 1)))
    boxes = net.op("Conv", y, weight, net.const(np.full(4, 200.0)), name="box_conv")
    boxes = net.clip(boxes, 0.0, 640.0, name="boxes")
    scores = net.op("Sigmoid", net.conv(y, 8, 6, 1, name="class_conv"), name="scores")
    found = net.op("Concat", boxes, scores, axis=1, name="detections")
    return net.model(net.op("Reshape", found, net.const([0, 10, 144], np.int64), name="rows"))


def normalized() -> onnx.ModelProto:
    """A BatchNormalization trained on standard normal inputs behind the first layer."""
    net = _net()
    kernel = net.rng.normal(0, 0.5, (8, 4, 3, 3))
    deviation = np.sqrt(np.sum(np.square(kernel), axis=(1, 2, 3)))
    y = net.op("Conv", "x", net.const(kernel), name="first", pads=[1] * 4)
    parts = [np.ones(8), np.full(8, 0.3), np.zeros(8), np.square(deviation)]
    y = net.op("BatchNormalization", y, *(net.const(part) for part in parts), name="first_norm")
    y = net.op("Relu", net.conv(net.op("Relu", y), 8, 8, name="second"), name="second_relu")
    return net.model(net.conv(y, 8, 4, name="last"))


def dead_norm() -> onnx.ModelProto:
    """Channel 0 of 'first' is constant; one of 'second' reads it alone: its σ² is almost 0."""
    net = _net()
    first = net.rng.normal(0, 0.5, (8, 4, 3, 3))
    first[0] = 0.0
    bias = net.rng.normal(0, 0.5, 8)
    bias[0] = 0.37
    y = net.op("Relu", net.op("Conv", "x", net.const(first), net.const(bias), name="first", pads=[1] * 4))
    second = net.rng.normal(0, 0.3, (8, 8, 1, 1))
    second[CHANNEL] = 0.0
    second[CHANNEL, 0] = 0.5
    y = net.op("Conv", y, net.const(second), name="second")
    variance, mean = net.rng.uniform(0.5, 2.0, 8), np.zeros(8)
    variance[CHANNEL], mean[CHANNEL] = 1e-12, np.float32(0.37) * np.float32(0.5)
    parts = [np.ones(8), np.full(8, 0.2), mean, variance]
    y = net.op("BatchNormalization", y, *(net.const(part) for part in parts), name="dead")
    return net.model(net.conv(net.op("Relu", y, name="norm_relu"), 8, 4, name="last"))


def uneven_factors() -> onnx.ModelProto:
    """Offsets times the strides 1 and 64 in one Mul, before another layer."""
    net = _net()
    y = net.op("Relu", net.conv("x", 4, 8, name="trunk"), name="trunk_relu")
    strides = np.where(np.arange(8) < 4, 1.0, 64.0).reshape(1, 8, 1, 1)
    y = net.op("Mul", y, net.const(strides), name="strided")
    weight = net.rng.normal(0, 0.5, (4, 8, 1, 1)) / strides
    return net.model(net.op("Conv", y, net.const(weight), net.weight(4), name="last"))


def saturated() -> onnx.ModelProto:
    """Gates that are all but open nearly everywhere, and a layer that looks at what they lack."""
    net = _net()
    y = net.op("Conv", "x", net.weight(8, 4, 1, 1), net.const(np.full(8, 9.0)), name="opening")
    y = net.op("Sigmoid", y, name="gates")
    weight = net.rng.normal(0, 1.0, (4, 8, 1, 1))
    closed = -np.sum(weight, axis=(1, 2, 3))
    return net.model(net.op("Conv", y, net.const(weight), net.const(closed), name="last"))


def heavy_tail() -> onnx.ModelProto:
    """The tensor 'm' has a heavy tail in all of its channels, so that no factor per channel helps it."""
    constants = {
        "w": normal(8, 4, 3, 3) * np.float32(0.3), "v": normal(8, 8, 3, 3, seed=1),
        "u": normal(8, 8, 3, 3, seed=2), "t": normal(2, 8, 1, 1, seed=3), "b": normal(8, seed=4),
    }  # fmt: skip
    conv = "Conv<pads = [1, 1, 1, 1]>"
    body = f"""c = {conv}(x, w) q = Mul(c, c) p = Mul(q, q) m = Mul(p, q) d = {conv}(m, v, b) r = Sigmoid(d)
    e = {conv}(r, u) s = Relu(e) y = Conv(s, t)"""
    model = onnx_model("float[N,4,8,8] x", "float[N,2,8,8] y", body, constants)
    for node in model.graph.node:
        node.name = node.output[0]
    return model
