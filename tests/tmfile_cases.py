"""A Tengine graph of every operator that has ONNX nodes, with an input and NumPy's output for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime

from calib8.tmfile.graph import Graph, Tensor
from tmfile_nets import Net

RNG = np.random.default_rng(3)
IMAGE = RNG.normal(size=(1, 4, 5, 6)).astype(np.float32)
ROWS = RNG.normal(size=(2, 6)).astype(np.float32)
Array = np.ndarray[Any, np.dtype[Any]]


def run(model: ir.Model, *feeds: Array) -> Array:
    session = onnxruntime.InferenceSession(
        ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [port.name for port in session.get_inputs()]
    return session.run(None, dict(zip(names, feeds, strict=True)))[0]


def one_node(op: str, x: Array, shape: tuple[int, ...], /, *constants: Array, **options: Any) -> Graph:
    """A graph of one operator: an input, constants, an output of a shape."""
    net = Net()
    places = [net.const(f"c{number}", array) for number, array in enumerate(constants)]
    image = net.input("x", x.shape)
    net.add(Tensor("y", shape), op, (image, *places), **options)
    return net.graph()


def pool(**options: int) -> dict[str, int]:
    usual = {
        "alg": 0,
        "kernel_h": 2,
        "kernel_w": 2,
        "stride_h": 2,
        "stride_w": 2,
        "global": 0,
        "caffe_flavor": 0,
    }
    return {**usual, "pad_h0": 0, "pad_w0": 0, "pad_h1": 0, "pad_w1": 0, **options}


def pooled(
    x: Array, out: tuple[int, int], kernel: int, stride: int, before: int, *, caffe: bool, mean: bool
) -> Array:
    """Windows in loops, as Tengine's reference kernel takes them."""
    result = np.zeros((*x.shape[:2], *out), np.float32)
    rows, columns = x.shape[2:]
    for i in range(out[0]):
        for j in range(out[1]):
            top, left = i * stride - before, j * stride - before
            bottom, right = min(top + kernel, rows + before), min(left + kernel, columns + before)
            size = (bottom - top) * (right - left)
            window = x[:, :, max(top, 0) : min(bottom, rows), max(left, 0) : min(right, columns)]
            if not caffe:
                size = window.shape[2] * window.shape[3]
            result[:, :, i, j] = window.sum((2, 3)) / size if mean else window.max((2, 3))
    return result


PER_CHANNEL = RNG.normal(size=4).astype(np.float32)
POSITIVE = np.abs(RNG.normal(size=4)).astype(np.float32) + 0.5
COLUMN = PER_CHANNEL.reshape(1, 4, 1, 1)
ELTWISE: dict[int, Callable[[Array, Array], Array]] = {
    0: np.multiply, 2: np.add, 4: np.subtract, 6: np.maximum, 10: np.divide,
}  # fmt: skip
erf = np.vectorize(math.erf)

Case = tuple[Graph, Array, Array]


def case(op: str, expected: Array, *constants: Array, x: Array = IMAGE, **options: Any) -> Case:
    return one_node(op, x, expected.shape, *constants, **options), x, expected


def softmax(x: Array, axis: int) -> Array:
    raised = np.exp(x - x.max(axis, keepdims=True))
    return raised / raised.sum(axis, keepdims=True)


NORMAL = {"rescale_factor": 2.0, "eps": 1e-3, "caffe_flavor": 0}
SLICE = {
    "axis": 2,
    "slice_points": (),
    "begins": (),
    "sizes": (),
    "is_caffe": 0,
    "is_mxnet": 0,
    "is_onnx": 1,
    "begin": 1,
    "end": 4,
    "step": 2,
}
REDUCE = {"dim_0": 2, "dim_1": 3, "dim_2": -2, "dim_3": -2}
PADDED = {"n_0": 0, "n_1": 0, "c_0": 0, "c_1": 0, "h_0": 1, "h_1": 2, "w_0": 0, "w_1": 1}


def cases() -> dict[str, Case]:
    x, rows = IMAGE, ROWS
    logistic = 1 / (1 + np.exp(-x))
    deviation = np.sqrt(POSITIVE / 2 + 1e-3)
    normalized = (x - (PER_CHANNEL / 2).reshape(1, 4, 1, 1)) / deviation.reshape(1, 4, 1, 1)
    moments = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    weight = RNG.normal(size=(3, 120)).astype(np.float32)
    flat = x.reshape(1, 120)
    groups = x.reshape(1, 2, 2, 5, 6).transpose(0, 2, 1, 3, 4).reshape(x.shape)
    wide = np.concatenate([x, 2 * x], 1)
    blocks = x[:, :, :4].reshape(1, 4, 2, 2, 3, 2)
    return {
        "Absval": case("Absval", np.abs(x)),
        "AddN": case("AddN", x + 2 * x, 2 * x, axis=0),
        "BatchNormalization": case(
            "BatchNormalization",
            normalized * COLUMN + POSITIVE.reshape(1, 4, 1, 1),
            PER_CHANNEL,
            POSITIVE,
            PER_CHANNEL,
            POSITIVE,
            **NORMAL,
        ),
        "Bias": case("Bias", x + COLUMN, PER_CHANNEL, bias_size=4),
        "BatchNormalization of Caffe": case(
            "BatchNormalization",
            normalized,
            PER_CHANNEL,
            POSITIVE,
            PER_CHANNEL,
            POSITIVE,
            **{**NORMAL, "caffe_flavor": 1},
        ),
        "Ceil": case("Ceil", np.ceil(x)),
        "Clip": case("Clip", np.clip(x, -0.5, 1), max=1.0, min=-0.5),
        "Concat": case("Concat", np.concatenate([x, x * 3], 1), x * 3, axis=1),
        "DepthToSpace": case(
            "DepthToSpace",
            x.reshape(1, 2, 2, 1, 5, 6).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 10, 12),
            block_size=2,
        ),
        "DepthToSpace of two channels": case(
            "DepthToSpace",
            wide.reshape(1, 2, 2, 2, 5, 6).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 10, 12),
            x=wide,
            block_size=2,
        ),
        "Dropout": case("Dropout", x),
        "Elu": case("Elu", np.where(x < 0, 0.7 * np.expm1(x), x), alpha=0.7),
        "ExpandDims": case("ExpandDims", rows.reshape(2, 1, 6), x=rows, axis=1),
        "Flatten": case("Flatten", flat, axis=1, end_axis=3),
        "FullyConnected": case(
            "FullyConnected", flat @ weight.T + weight[:, 0], weight, weight[:, 0], num_output=3
        ),
        "FullyConnected as an image": case(
            "FullyConnected", (flat @ weight.T).reshape(1, 3, 1, 1), weight.reshape(3, 4, 5, 6), num_output=3
        ),
        "Gelu": case("Gelu", x / 2 * (1 + erf(x / math.sqrt(2)))),
        "HardSigmoid": case("HardSigmoid", np.clip(0.3 * x + 0.4, 0, 1), alpha=0.3, beta=0.4),
        "HardSwish": case("HardSwish", x * np.clip(x + 3, 0, 6) / 6, alpha=1.0, beta=0.0),
        "InstanceNorm": case(
            "InstanceNorm",
            (x - moments[0]) / np.sqrt(moments[1] + 1e-4) * COLUMN + COLUMN,
            PER_CHANNEL,
            PER_CHANNEL,
            eps=1e-4,
        ),
        "Interp nearest": case(
            "Interp",
            x.repeat(2, 2).repeat(3, 3),
            type=1,
            width_scale=3.0,
            height_scale=2.0,
            output_w=0,
            output_h=0,
        ),
        "LRN": case(
            "LRN",
            x / (1.5 + 0.2 / 1 * x**2) ** 0.75,
            local_size=1,
            alpha=0.2,
            beta=0.75,
            region=0,
            k=1.5,
            bias=0.0,
            is_onnx=True,
        ),
        "LogSoftmax": case("LogSoftmax", np.log(softmax(x, 1)), axis=1),
        "Logistic": case("Logistic", logistic),
        "MatMul": case("MatMul", rows @ rows.T, np.ascontiguousarray(rows.T), x=rows),
        "Maximum": case("Maximum", np.maximum(x, 2 * x), 2 * x),
        "Mean": case("Mean", 2 * x, 3 * x),
        "Minimum": case("Minimum", np.minimum(x, 2 * x), 2 * x),
        "Mish": case("Mish", x * np.tanh(np.log1p(np.exp(x)))),
        "Noop": case("Noop", x),
        "PReLU": case("PReLU", np.where(x < 0, x * COLUMN, x), PER_CHANNEL),
        "Pad": case(
            "Pad",
            np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 1)], constant_values=2.5),
            **PADDED,
            mode=0,
            value=2.5,
        ),
        "Pad with its edge": case(
            "Pad", np.pad(x, [(0, 0), (0, 0), (1, 2), (0, 1)], "edge"), **PADDED, mode=1, value=0.0
        ),
        "Permute": case("Permute", x.transpose(0, 2, 3, 1), flag=0, order0=0, order1=2, order2=3, order3=1),
        "ReLU": case("ReLU", np.maximum(x, 0), negative_slope=0.0),
        "ReLU with a slope": case("ReLU", np.where(x < 0, 0.1 * x, x), negative_slope=0.1),
        "ReLU1": case("ReLU1", np.clip(x, -1, 1)),
        "ReLU6": case("ReLU6", np.clip(x * 5, 0, 6), x=x * 5),
        "Reciprocal": case("Reciprocal", 1 / x),
        "ReduceL2": case("ReduceL2", np.sqrt((x**2).sum(3)), axis=-1, keepdim=0),
        "Reduction sum": case("Reduction", x.sum((2, 3)), **REDUCE, type=0, keepdim=0),
        "Reduction mean": case("Reduction", x.mean((2, 3), keepdims=True), **REDUCE, type=1, keepdim=1),
        "Reduction max": case(
            "Reduction", x.max(3, keepdims=True), dim_0=-1, dim_1=-2, dim_2=-2, dim_3=-2, type=4, keepdim=1
        ),
        "Reshape": case(
            "Reshape",
            x.reshape(2, 60),
            np.array([2, 0], np.int32),
            is_mxnet=0,
            reverse=0,
            shape=(2, -1),
            is_onnx=1,
        ),
        "Scale": case(
            "Scale", x * COLUMN + 1, PER_CHANNEL, np.ones(4, np.float32), axis=1, num_axes=1, bias_term=1
        ),
        "Selu": case("Selu", 1.1 * np.where(x < 0, 1.5 * np.expm1(x), x), alpha=1.5, **{"lambda": 1.1}),
        "ShuffleChannel": case("ShuffleChannel", groups, group=2),
        "Sigmoid": case("Sigmoid", logistic),
        "Slice": case("Slice", x[:, :, 1:4:2], **SLICE),
        "Slice to the end": case("Slice", x[:, :, 3:], **{**SLICE, "begin": -2, "end": 2**31 - 1, "step": 1}),
        "Slice of TensorFlow": case(
            "Slice",
            x[:, 1:3, :, 2:6],
            **{**SLICE, "is_onnx": 0, "begins": (0, 1, 0, 2), "sizes": (1, 2, 5, 4)},
        ),
        "Softmax": case("Softmax", softmax(x, 1), axis=1),
        "Softplus": case("Softplus", np.log1p(np.exp(x))),
        "SpaceToDepth": case(
            "SpaceToDepth",
            blocks.transpose(0, 3, 5, 1, 2, 4).reshape(1, 16, 2, 3),
            x=x[:, :, :4].copy(),
            block_size=2,
        ),
        "Squeeze": case("Squeeze", x[0], dim_0=0, dim_1=-2, dim_2=-2, dim_3=-2),
        "Tanh": case("Tanh", np.tanh(x)),
        "Transpose": case("Transpose", x.transpose(0, 3, 1, 2), perm=(0, 3, 1, 2)),
        "Unary sine": case("Unary", np.sin(x), type=9),
        "Unary square": case("Unary", x * x, type=4),
        "Unary square root's reciprocal": case("Unary", 1 / np.sqrt(np.abs(x)), x=np.abs(x), type=6),
        "Unsqueeze": case("Unsqueeze", rows.reshape(1, 2, 1, 6), x=rows, axes=(0, 2)),
        "Upsample": case("Upsample", x.repeat(2, 2).repeat(2, 3), scale=2.0),
        **{
            f"Eltwise {kind}": case("Eltwise", f(x, 2 * x + 1), 2 * x + 1, type=kind, caffe_flavor=0)
            for kind, f in ELTWISE.items()
        },
        "Eltwise per channel": case("Eltwise", x * COLUMN, PER_CHANNEL, type=0, caffe_flavor=0),
        "Eltwise square": case("Eltwise", x * x, type=15, caffe_flavor=0),
        "Pooling of all": case("Pooling", x.mean((2, 3), keepdims=True), **pool(alg=1, **{"global": 1})),
        "Pooling as large as the image": case(
            "Pooling", x.max((2, 3), keepdims=True), **pool(kernel_h=5, kernel_w=6, stride_h=1, stride_w=1)
        ),
        "Pooling": case("Pooling", pooled(x, (2, 3), 2, 2, 0, caffe=False, mean=False), **pool()),
        "Pooling with padding": case(
            "Pooling",
            pooled(x, (3, 3), 3, 2, 1, caffe=False, mean=True),
            **pool(alg=1, kernel_h=3, kernel_w=3, pad_h0=1, pad_w0=1, pad_h1=1, pad_w1=1),
        ),
        "Pooling of Caffe, which rounds up": case(
            "Pooling", pooled(x, (3, 3), 2, 2, 0, caffe=True, mean=False), **pool(caffe_flavor=1)
        ),
        "Pooling of Caffe, which counts padding": case(
            "Pooling",
            pooled(x, (5, 6), 3, 1, 1, caffe=True, mean=True),
            **pool(alg=1, kernel_h=3, kernel_w=3, stride_h=1, stride_w=1, caffe_flavor=1, pad_h0=1, pad_w0=1),
        ),
    }


def convolved(x: Array, weight: Array, pads: tuple[int, int], stride: int = 1) -> Array:
    """One group in loops; padding before and behind, the same on both axes."""
    padded = np.pad(x, [(0, 0), (0, 0), pads, pads])
    kernel = weight.shape[2]
    sizes = [(size - kernel) // stride + 1 for size in padded.shape[2:]]
    result = np.zeros((x.shape[0], weight.shape[0], *sizes), np.float32)
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            window = padded[:, :, i * stride : i * stride + kernel, j * stride : j * stride + kernel]
            result[:, :, i, j] = np.tensordot(window, weight, ([1, 2, 3], [1, 2, 3]))
    return result
