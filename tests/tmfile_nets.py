"""Tengine graphs for tests: a small classifier of 8×8 images, and a node of every operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from calib8.tmfile.graph import CONST, INPUT, NHWC, Graph, Node, Option, Quantization, Tensor
from calib8.tmfile.schema import OPERATORS

CLASSES = 5
CONV = {
    "kernel_h": 3, "kernel_w": 3, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1,
    "input_channel": 3, "output_channel": 4, "group": 1, "activation": 0,
    "pad_h0": 1, "pad_w0": 1, "pad_h1": 1, "pad_w1": 1,
}  # fmt: skip
GLOBAL_AVERAGE = {
    "alg": 1, "kernel_h": 8, "kernel_w": 8, "stride_h": 1, "stride_w": 1, "global": 1, "caffe_flavor": 0,
    "pad_h0": 0, "pad_w0": 0, "pad_h1": 0, "pad_w1": 0,
}  # fmt: skip


class Net:
    """A graph while it grows; tensors are named by what ``add`` returns."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []

    def add(self, tensor: Tensor, op: str, inputs: tuple[int, ...] = (), **options: Option) -> int:
        """A tensor and the node that writes it, under the same name."""
        self.tensors.append(tensor)
        place = len(self.tensors) - 1
        self.nodes.append(Node(tensor.name, op, inputs, (place,), options))
        return place

    def const(self, name: str, data: np.ndarray, quantization: Quantization | None = None) -> int:
        tensor = Tensor(name, data.shape, data.dtype.name, "const", data, quantization)
        return self.add(tensor, CONST)

    def input(self, name: str, shape: tuple[int, ...]) -> int:
        return self.add(Tensor(name, shape, role="input"), INPUT)

    def graph(self, **fields: Any) -> Graph:
        """Inputs are all InputOp nodes, the output is the last node."""
        inputs = tuple(place for place, node in enumerate(self.nodes) if node.op == INPUT)
        return Graph(tuple(self.tensors), tuple(self.nodes), inputs, (len(self.nodes) - 1,), **fields)


def classifier(seed: int = 0) -> Graph:
    """Convolution with ReLU, pooling to a pixel, fully connected."""
    rng = np.random.default_rng(seed)
    net = Net()
    w = net.const("w", rng.normal(size=(4, 3, 3, 3)).astype(np.float32))
    b = net.const("b", rng.normal(size=4).astype(np.float32))
    dense = net.const("dense.w", rng.normal(size=(CLASSES, 4)).astype(np.float32))
    x = net.input("image", (1, 3, 8, 8))
    conv = net.add(Tensor("conv", (1, 4, 8, 8)), "Convolution", (x, w, b), **CONV)
    pooled = net.add(Tensor("pooled", (1, 4, 1, 1)), "Pooling", (conv,), **GLOBAL_AVERAGE)
    net.add(Tensor("scores", (1, CLASSES)), "FullyConnected", (pooled, dense), num_output=CLASSES)
    return net.graph(made_from=3)


def images_nhwc(seed: int = 0) -> Graph:
    """Layers with what is turned in the order NHWC: a depthwise one, Concat, Reshape, Pad, Softmax."""
    rng, net = np.random.default_rng(seed), Net()
    shape = (1, 6, 5, 4)
    w = net.const("w", rng.normal(size=(4, 3, 3, 4)).astype(np.float32))
    d = net.const("d", rng.normal(size=(4, 3, 3, 1)).astype(np.float32))
    x = net.input("x", shape)
    options = {**CONV, "input_channel": 4}
    y = net.add(Tensor("y", shape), "Convolution", (x, w), **options)
    z = net.add(Tensor("z", shape), "Convolution", (y, d), **{**options, "group": 4})
    both = net.add(Tensor("both", (1, 6, 5, 8)), "Concat", (y, z), axis=3)
    how = {"is_mxnet": 0, "reverse": 0, "is_onnx": 0}
    wide = net.add(Tensor("wide", (1, 3, 10, 8)), "Reshape", (both,), shape=(1, 3, 10, 8), **how)
    pads = dict.fromkeys(("n_0", "n_1", "c_0", "h_0", "w_0", "w_1"), 0) | {"c_1": 1, "h_1": 2}
    padded = net.add(Tensor("padded", (1, 4, 12, 8)), "Pad", (wide,), **pads, mode=0, value=0.0)
    soft = net.add(Tensor("soft", (1, 4, 12, 8)), "Softmax", (padded,), axis=3)
    net.add(Tensor("flat", (1, 384)), "Reshape", (soft,), shape=(1, 384), **how)
    return net.graph(model_layout=NHWC, graph_layout=NHWC)


def coded(graph: Graph) -> Graph:
    """The same fields as a quantized file: types, scales, one scale per output channel of the weights."""
    tensors = []
    for number, tensor in enumerate(graph.tensors):
        count = tensor.shape[0] if tensor.role == "const" else 1
        scales = np.float32(0.01) * np.arange(1, count + 1, dtype=np.float32)
        points = np.zeros(count, np.int32)
        bias = tensor.role == "const" and len(tensor.shape) == 1
        dtype = "int32" if bias else "int8"
        data = None if tensor.data is None else np.rint(tensor.data).astype(dtype)
        tensors.append(replace(tensor, dtype=dtype, data=data, quantization=Quantization(scales, points)))
        assert number == len(tensors) - 1
    return replace(graph, tensors=tuple(tensors))


def every_operator(seed: int = 0) -> Graph:
    """A node of every operator, options drawn at random; it computes nothing sensible."""
    rng = np.random.default_rng(seed)
    net = Net()
    x = net.input("x", (1, 2, 3, 4))
    net.const("half", rng.normal(size=3).astype(np.float16))
    net.const("short", rng.integers(-9, 9, (2, 1)).astype(np.int16))
    net.const("empty", np.zeros((0, 4), np.uint8))
    for operator in OPERATORS.values():
        if operator.name not in (CONST, INPUT):
            options = {name: _option(kind, rng) for name, kind in operator.options}
            net.add(Tensor(f"y_{operator.name}", (1, 2)), operator.name, (x,), **options)
    net.nodes[-1] = replace(net.nodes[-1], dynamic_shape=True)
    return net.graph(name="part", model_name="model", graph_layout=1, model_layout=1)


def _option(kind: str, rng: np.random.Generator) -> Option:
    number, real = int(rng.integers(0, 99)), float(np.float32(rng.normal()))
    reals = tuple(float(np.float32(value)) for value in rng.normal(size=8))
    choices: dict[str, Option] = {
        "int": -number, "uint": number, "float": real, "bool": bool(number % 2), "text": "été",
        "ints": tuple(range(number % 3)), "floats": reals, "anchors": reals,
    }  # fmt: skip
    return choices[kind]


def same(one: Graph, other: Graph) -> bool:
    """All fields of two graphs are equal."""
    return fields(one) == fields(other)


def fields(graph: Graph) -> Any:
    """A graph as nested tuples."""
    tensors = tuple(
        (t.name, t.shape, t.dtype, t.role, _bytes(t.data), t.layout)
        + (
            ()
            if t.quantization is None
            else (_bytes(t.quantization.scales), _bytes(t.quantization.zero_points))
        )
        for t in graph.tensors
    )
    nodes = tuple(
        (n.name, n.op, n.inputs, n.outputs, repr(dict(n.options)), n.dynamic_shape) for n in graph.nodes
    )
    about = (graph.made_from, graph.graph_layout, graph.model_layout, graph.name, graph.model_name)
    return tensors, nodes, graph.inputs, graph.outputs, about


def _bytes(data: np.ndarray | None) -> tuple[str, bytes] | None:
    return None if data is None else (data.dtype.name, data.tobytes())
