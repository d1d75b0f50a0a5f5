"""Int8 Tengine graphs of one operator, as the tool writes them, with random codes and scales."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.tmfile.graph import Graph, Node, Option, Quantization, Tensor
from tmfile_nets import CONV, GLOBAL_AVERAGE, Net

Shape = tuple[int, ...]


def quantization(*scales: float) -> Quantization:
    return Quantization(np.array(scales, np.float32), np.zeros(len(scales), np.int32))


def codes_of(name: str, shape: Shape, scale: float, role: Any = "var") -> Tensor:
    return Tensor(name, shape, "int8", role, None, quantization(scale))


class CodedNet(Net):
    """A Net of int8 tensors."""

    def codes(self, name: str, shape: Shape, scale: float) -> int:
        return self.add(codes_of(name, shape, scale, "input"), "InputOp")

    def node(self, op: str, inputs: Sequence[int], shape: Shape, scale: float, /, **options: Option) -> int:
        return self.add(codes_of(f"{op}{len(self.nodes)}", shape, scale), op, tuple(inputs), **options)

    def weights(self, rng: np.random.Generator, shape: Shape) -> int:
        data = rng.integers(-127, 128, shape).astype(np.int8)
        return self.const("w", data, quantization(*rng.uniform(0.002, 0.006, shape[0])))

    def bias(self, rng: np.random.Generator, count: int) -> int:
        return self.const(
            "b", rng.integers(-3000, 3000, count).astype(np.int32), quantization(*[1e-4] * count)
        )


def convolution(
    rng: np.random.Generator,
    size: Shape = (9, 7),
    channels: int = 6,
    outputs: int = 10,
    batch: int = 1,
    **options: int,
) -> Graph:
    """One Convolution; options as those of the operator."""
    net, all_options = CodedNet(), CONV | {"input_channel": channels, "output_channel": outputs} | options
    kernel = [all_options[name] for name in ("kernel_h", "kernel_w")]
    depth = channels // all_options["group"]
    shape = (batch, outputs, *sizes(size, kernel, all_options))
    x = net.codes("x", (batch, channels, *size), float(rng.uniform(0.01, 0.05)))
    w = net.weights(rng, (outputs, depth, *kernel))
    inputs = (x, w, net.bias(rng, outputs)) if rng.random() < 0.7 else (x, w)
    spread = 127 * 70 * 0.03 * 0.004 * float(np.sqrt(depth * kernel[0] * kernel[1])) / 60
    net.node("Convolution", inputs, shape, spread, **all_options)
    return net.graph()


def sizes(size: Shape, kernel: Sequence[int], options: dict[str, int]) -> list[int]:
    """Rows and columns behind a window."""
    found = []
    for axis, (have, taps) in enumerate(zip(size, kernel, strict=True)):
        side = "hw"[axis]
        before, after = options[f"pad_{side}0"], options[f"pad_{side}1"]
        step, dilation = options[f"stride_{side}"], options.get(f"dilation_{side}", 1)
        if before < 0:
            found.append((have - 1) // step + 1)
        else:
            found.append((have + before + after - dilation * (taps - 1) - 1) // step + 1)
    return found


def pads(top: int, left: int, bottom: int, right: int) -> dict[str, int]:
    return {"pad_h0": top, "pad_w0": left, "pad_h1": bottom, "pad_w1": right}


def pool(rng: np.random.Generator, size: Shape = (9, 7), **options: int) -> Graph:
    """One Pooling of windows, or of the image."""
    net = CodedNet()
    all_options = (
        GLOBAL_AVERAGE | {"kernel_h": 3, "kernel_w": 3, "stride_h": 2, "stride_w": 2, "global": 0} | options
    )
    kernel = [all_options[name] for name in ("kernel_h", "kernel_w")]
    shape = [1, 1] if all_options["global"] else sizes(size, kernel, all_options)
    x = net.codes("x", (1, 5, *size), 0.031)
    net.node("Pooling", [x], (1, 5, *shape), float(rng.uniform(0.008, 0.031)), **all_options)
    return net.graph()


def fully_connected(rng: np.random.Generator, shape: Shape) -> Graph:
    net, inputs = CodedNet(), int(np.prod(shape[1:]))
    x = net.codes("x", shape, 0.02)
    operands = (x, net.weights(rng, (7, inputs)), net.bias(rng, 7))
    net.node("FullyConnected", operands, (shape[0], 7, *[1] * (len(shape) - 2)), 0.02, num_output=7)
    return net.graph()


def one(
    op: str, shape: Shape, result: Shape | None = None, scale: float = 0.017, /, **options: Option
) -> Graph:
    """A node of one input."""
    net = CodedNet()
    x = net.codes("x", shape, 0.023)
    net.node(op, [x], shape if result is None else result, scale, **options)
    return net.graph()


def pair(kind: int, first: Shape, second: Shape, scale: float = 0.03) -> Graph:
    """An Eltwise of two tensors."""
    net = CodedNet()
    x, y = net.codes("x", first, 0.023), net.codes("y", second, 0.041)
    net.node(
        "Eltwise",
        [x, y],
        max(first, second, key=lambda shape: np.prod(shape)),
        scale,
        type=kind,
        caffe_flavor=0,
    )
    return net.graph()


def concat(axis: int, *shapes: Shape, scale: float = 0.02) -> Graph:
    net = CodedNet()
    places = [net.codes(f"x{number}", shape, 0.011 * (number + 1)) for number, shape in enumerate(shapes)]
    result = list(shapes[0])
    result[axis] = sum(shape[axis] for shape in shapes)
    net.node("Concat", places, tuple(result), scale, axis=axis)
    return net.graph()


def with_constant(rng: np.random.Generator, last: type[np.generic] = np.int8) -> Graph:
    """A constant in codes, of another scale, before a tensor, and zeros behind it."""
    net = CodedNet()
    data = rng.integers(-127, 128, (1, 2, 4, 5)).astype(np.int8)
    first = net.const("first", data, quantization(0.05))
    zeros = net.const("last", np.zeros((1, 2, 4, 5), last), quantization(0.0))
    x = net.codes("x", (1, 3, 4, 5), 0.02)
    net.node("Concat", (first, x, zeros), (1, 7, 4, 5), 0.021, axis=1)
    return net.graph()


def met_by(kind: int, data: npt.NDArray[np.generic], scale: float = 0.03, *, first: bool = False) -> Graph:
    """An Eltwise of a tensor and a constant."""
    net = CodedNet()
    x, c = net.codes("x", IMAGE, 0.023), net.const("c", data, quantization(0.041))
    net.node("Eltwise", [c, x] if first else [x, c], IMAGE, scale, type=kind, caffe_flavor=0)
    return net.graph()


def some_codes(rng: np.random.Generator, *shape: int) -> npt.NDArray[np.int8]:
    return rng.integers(-127, 128, shape).astype(np.int8)


def prelu(rng: np.random.Generator, channels: int = 6) -> Graph:
    net = CodedNet()
    x = net.codes("x", (1, channels, 3, 4), 0.023)
    slopes = net.const("slopes", rng.normal(0, 0.5, channels).astype(np.float16))
    net.node("PReLU", [x, slopes], (1, channels, 3, 4), 0.02)
    return net.graph()


def split(axis: int) -> Graph:
    net = CodedNet()
    shape = (1, 6, 4, 8)
    x = net.codes("x", shape, 0.023)
    half = tuple(size // 2 if other == axis else size for other, size in enumerate(shape))
    for name in ("left", "right"):
        net.tensors.append(codes_of(name, half, 0.023))
    options: dict[str, Option] = {
        "axis": axis, "split_dim": 2, "is_caffe": False, "is_onnx": True,
        "split_sizes": (half[axis], half[axis]),
    }  # fmt: skip
    net.nodes.append(Node("split", "Split", (x,), (x + 1, x + 2), options))
    return net.graph()


IMAGE = (1, 6, 5, 4)
RESHAPE: dict[str, Option] = {"is_mxnet": 0, "reverse": 0, "shape": (-1,), "is_onnx": 1}
INTERP: dict[str, Option] = {"type": 1, "width_scale": 2.0, "height_scale": 1.5, "output_w": 8, "output_h": 7}

OPERATORS: dict[str, Callable[[np.random.Generator], Graph]] = {
    "Convolution 3x3": lambda rng: convolution(rng),
    "Convolution 3x3 s2 relu6": lambda rng: convolution(rng, stride_h=2, stride_w=2, activation=6),
    "Convolution 1x1": lambda rng: convolution(
        rng, kernel_h=1, kernel_w=1, activation=-1, **pads(0, 0, 0, 0)
    ),
    "Convolution 5x5 d2": lambda rng: convolution(
        rng, (13, 15), kernel_h=5, kernel_w=5, dilation_h=2, dilation_w=2, **pads(2, 3, 4, 3)
    ),
    "Convolution same": lambda rng: convolution(rng, (8, 6), stride_h=2, stride_w=2, **pads(-1, -1, -1, -1)),
    "Convolution same lower": lambda rng: convolution(
        rng, (8, 6), stride_h=2, stride_w=2, **pads(-2, -2, -2, -2)
    ),
    "Convolution groups": lambda rng: convolution(rng, group=2, activation=6),
    "Convolution groups unit": lambda rng: convolution(rng, group=3, outputs=9, activation=1),
    "Convolution unit": lambda rng: convolution(rng, activation=1),
    "Convolution depthwise": lambda rng: convolution(rng, outputs=6, group=6),
    "Convolution depthwise s2": lambda rng: convolution(
        rng, channels=19, outputs=19, group=19, stride_h=2, stride_w=2, activation=6
    ),
    "Convolution depthwise uneven": lambda rng: convolution(
        rng, outputs=6, group=6, stride_h=2, stride_w=2, **pads(0, 0, 1, 1)
    ),
    "Convolution depthwise 5x5": lambda rng: convolution(
        rng, outputs=6, group=6, kernel_h=5, kernel_w=5, **pads(2, 2, 2, 2)
    ),
    "Convolution depthwise of two": lambda rng: convolution(rng, outputs=6, group=6, batch=2),
    "Convolution two filters each": lambda rng: convolution(rng, outputs=12, group=6),
    "Pooling max": lambda rng: pool(rng, alg=0),
    "Pooling max padded": lambda rng: pool(rng, alg=0, **pads(1, 1, 1, 1)),
    "Pooling average": lambda rng: pool(rng, alg=1, **pads(1, 1, 1, 1)),
    "Pooling average of padding": lambda rng: pool(rng, alg=1, caffe_flavor=16, **pads(1, 1, 1, 1)),
    "Pooling of the image": lambda rng: pool(rng, **{"global": 1}),
    "Pooling max of the image": lambda rng: pool(rng, alg=0, **{"global": 1}),
    "FullyConnected": lambda rng: fully_connected(rng, (1, 37)),
    "FullyConnected of an image": lambda rng: fully_connected(rng, (1, 3, 4, 5)),
    "FullyConnected of two": lambda rng: fully_connected(rng, (2, 19)),
    "ReLU": lambda rng: one("ReLU", IMAGE, negative_slope=0.0),
    "ReLU with a slope": lambda rng: one("ReLU", IMAGE, negative_slope=0.1),
    "Sigmoid": lambda rng: one("Sigmoid", IMAGE, None, 1 / 127),
    "Clip": lambda rng: one("Clip", IMAGE, None, 0.02, max=6.0, min=0.0),
    "Clip that wraps": lambda rng: one("Clip", IMAGE, None, 0.01, max=6.0, min=-6.0),
    "PReLU": prelu,
    "Eltwise sum": lambda rng: pair(2, IMAGE, IMAGE),
    "Eltwise sum of channels": lambda rng: pair(2, IMAGE, (1, 6, 1, 1)),
    "Eltwise sum of one": lambda rng: pair(2, IMAGE, (1, 1, 1, 1)),
    "Eltwise difference": lambda rng: pair(4, IMAGE, IMAGE),
    "Eltwise difference turned": lambda rng: pair(4, (1, 6, 1, 1), IMAGE),
    "Eltwise product": lambda rng: pair(0, IMAGE, (1, 6, 1, 1), 0.04),
    "Eltwise maximum": lambda rng: pair(6, IMAGE, IMAGE),
    "Eltwise sum with a constant": lambda rng: met_by(2, some_codes(rng, *IMAGE)),
    "Eltwise sum with a number": lambda rng: met_by(2, some_codes(rng, 1)),
    "Eltwise difference to channels": lambda rng: met_by(4, some_codes(rng, 6, 1, 1)),
    "Eltwise difference of channels": lambda rng: met_by(4, some_codes(rng, 1, 6, 1, 1), first=True),
    "Eltwise product with channels": lambda rng: met_by(0, some_codes(rng, 6, 1, 1), scale=0.04),
    "Eltwise square": lambda rng: one("Eltwise", IMAGE, None, 0.06, type=15, caffe_flavor=0),
    "Eltwise logarithm": lambda rng: one("Eltwise", IMAGE, None, 0.06, type=11, caffe_flavor=0),
    "Softmax": lambda rng: one("Softmax", (3, 17), None, 1 / 127, axis=1),
    "Softmax of channels": lambda rng: one("Softmax", IMAGE, None, 1 / 127, axis=1),
    "Softmax of rows": lambda rng: one("Softmax", IMAGE, None, 1 / 127, axis=-2),
    "Concat": lambda rng: concat(1, (1, 3, 4, 5), (1, 2, 4, 5)),
    "Concat of rows": lambda rng: concat(2, (1, 3, 4, 5), (1, 3, 2, 5)),
    "Concat with a constant": with_constant,
    "Concat with zeros": lambda rng: with_constant(rng, np.float32),
    "Concat of vectors": lambda rng: concat(1, (2, 3), (2, 5), scale=0.001),
    "Reshape": lambda rng: one("Reshape", IMAGE, (1, 120), 0.023, **RESHAPE),
    "Reshape to an image": lambda rng: one("Reshape", (1, 120), IMAGE, 0.023, **RESHAPE),
    "Flatten": lambda rng: one("Flatten", IMAGE, (1, 120), 0.023, axis=1, end_axis=3),
    "Flatten to another scale": lambda rng: one("Flatten", IMAGE, (1, 120), 0.03, axis=1, end_axis=3),
    "Dropout": lambda rng: one("Dropout", IMAGE, None, 0.5),
    "Permute": lambda rng: one(
        "Permute", IMAGE, (1, 5, 4, 6), 0.023, flag=0, order0=0, order1=2, order2=3, order3=1
    ),
    "Permute of three": lambda rng: one(
        "Permute", (2, 3, 4), (3, 2, 4), 0.023, flag=0, order0=1, order1=0, order2=2, order3=0
    ),
    "Transpose": lambda rng: one("Transpose", IMAGE, (1, 4, 6, 5), perm=(0, 3, 1, 2)),
    "ShuffleChannel": lambda rng: one("ShuffleChannel", IMAGE, None, 0.023, group=2),
    "DepthToSpace": lambda rng: one("DepthToSpace", (1, 12, 2, 3), (1, 3, 4, 6), 0.023, block_size=2),
    "Split of channels": lambda rng: split(1),
    "Split of columns": lambda rng: split(3),
    "Interp": lambda rng: one("Interp", IMAGE, (1, 6, 7, 8), **INTERP),
    "Resize": lambda rng: one("Resize", IMAGE, (1, 6, 10, 8), scale_x=2.0, scale_y=2.0, type=0),
}  # fmt: skip
"""What it is → a graph of that one operator."""


def with_tensor(graph: Graph, name: str, **changes: Any) -> Graph:
    """The graph with other fields of one tensor."""
    tensors = [replace(one, **changes) if one.name == name else one for one in graph.tensors]
    return replace(graph, tensors=tuple(tensors))


def scaled(quantization_: Quantization | None, scale: float) -> Quantization:
    assert quantization_ is not None
    return replace(quantization_, scales=np.full_like(quantization_.scales, scale))


def image_of(rng: np.random.Generator, shape: Shape) -> npt.NDArray[np.int8]:
    """Codes, the ends more often than by chance."""
    values = rng.integers(-128, 128, shape)
    return np.where(rng.random(shape) < 0.1, rng.choice([-128, -127, 127], shape), values).astype(np.int8)
