"""Random float TFLite models of one operator, for every operator that becomes ONNX nodes.

Images come in as they are, or through a pool that changes nothing, so that they lie channels first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from litert import Kernels, litert_outputs

from calib8.tflite.graph import Graph, Operator, Option, Tensor
from calib8.tflite.write import serialize

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
NO_REFERENCE_KERNEL = ("CEIL", "ELU", "ROUND")
Rng = np.random.Generator


@dataclass
class FloatNet:
    """A float model while it is put together; shapes of computed tensors come from LiteRT."""

    rng: Rng
    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)

    def add(self, tensor: Tensor) -> int:
        self.tensors.append(replace(tensor, name=f"{tensor.name}{len(self.tensors)}"))
        return len(self.tensors) - 1

    def fed(self, *shape: int, dtype: str = "float32") -> int:
        """An input; images may pass through a pool."""
        self.inputs.append(self.add(Tensor("x", shape, dtype)))
        if len(shape) == 4 and dtype == "float32" and self.rng.random() < 0.6:
            return self.pooled(self.inputs[-1])
        return self.inputs[-1]

    def pooled(self, x: int) -> int:
        options = {"padding": "VALID", "stride_w": 1, "stride_h": 1, "filter_width": 1, "filter_height": 1}
        return self.op("MAX_POOL_2D", [x], shape=self.tensors[x].shape, **options)

    def constant(self, data: npt.ArrayLike, dtype: str = "float32") -> int:
        array = np.asarray(data, dtype)
        return self.add(Tensor("k", array.shape, dtype, array))

    def normal(self, *shape: int) -> int:
        """A constant of random numbers."""
        return self.constant(self.rng.normal(0, 1, shape))

    def op(
        self,
        op: str,
        inputs: Sequence[int],
        *,
        shape: Sequence[int] = (),
        dtype: str = "float32",
        version: int = 1,
        **options: Option,
    ) -> int:
        """An operator of one output."""
        y = self.add(Tensor("y", tuple(shape), dtype))
        self.operators.append(Operator(op, tuple(inputs), (y,), options, version))
        return y

    def ops(self, op: str, inputs: Sequence[int], count: int, **options: Option) -> list[int]:
        """An operator of several outputs."""
        ys = [self.add(Tensor("y", (), "float32")) for _ in range(count)]
        self.operators.append(Operator(op, tuple(inputs), tuple(ys), options))
        return ys

    def graph(self, *outputs: int) -> Graph:
        """The model with the shapes that LiteRT finds."""
        graph = Graph(tuple(self.tensors), tuple(self.operators), tuple(self.inputs), tuple(outputs), "net")
        return with_shapes(graph)


def with_shapes(graph: Graph) -> Graph:
    """The graph with the shapes of all its computed tensors."""
    computed = [place for operator in graph.operators for place in operator.outputs]
    model = serialize(replace(graph, outputs=tuple(computed)))
    found = litert_outputs(model, feeds(np.random.default_rng(0), graph), kernels(graph))
    tensors = list(graph.tensors)
    for place, array in zip(computed, found, strict=True):
        tensors[place] = replace(tensors[place], shape=array.shape)
    return replace(graph, tensors=tuple(tensors))


def kernels(graph: Graph) -> Kernels:
    """The reference kernels, for operators that have some."""
    return "optimized" if graph.operators[-1].op in NO_REFERENCE_KERNEL else "reference"


def feeds(rng: Rng, graph: Graph) -> list[npt.NDArray[Any]]:
    """Random numbers for every input; integers are small."""
    tensors = [graph.tensors[place] for place in graph.inputs]
    return [
        rng.uniform(-3, 3, tensor.shape).astype(tensor.dtype)
        if tensor.dtype == "float32"
        else rng.integers(0, 2, tensor.shape).astype(tensor.dtype)
        for tensor in tensors
    ]


def image(rng: Rng, net: FloatNet, depth: int | None = None, least: int = 1) -> int:
    """An image fed to the model."""
    n, c = int(rng.integers(1, 3)), depth or int(rng.integers(1, 9))
    h, w = rng.integers(least, least + 9, 2).tolist()
    return net.fed(n, h, w, c)


def activated(rng: Rng) -> dict[str, Option]:
    return {"fused_activation_function": str(rng.choice(ACTIVATIONS))}


def strided(rng: Rng) -> dict[str, Option]:
    stride = rng.integers(1, 4, 2).tolist()
    return {"padding": str(rng.choice(["SAME", "VALID"])), "stride_h": stride[0], "stride_w": stride[1]}


def dilated(rng: Rng, options: dict[str, Option]) -> dict[str, Option]:
    dilation = rng.integers(1, 3, 2).tolist()
    return options | {"dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1]}


def conv_2d(rng: Rng) -> Graph:
    net, kernel, groups = FloatNet(rng), rng.integers(1, 5, 2).tolist(), int(rng.choice([1, 1, 2]))
    depth, outputs = int(rng.integers(1, 6)), groups * int(rng.integers(1, 6))
    x = image(rng, net, depth * groups, least=8)
    inputs = [x, net.normal(outputs, *kernel, depth), net.normal(outputs)]
    return net.graph(net.op("CONV_2D", inputs, **dilated(rng, strided(rng)), **activated(rng)))


def depthwise_conv_2d(rng: Rng) -> Graph:
    net, kernel = FloatNet(rng), rng.integers(1, 5, 2).tolist()
    depth, multiplier = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    x = image(rng, net, depth, least=8)
    inputs = [x, net.normal(1, *kernel, depth * multiplier), net.normal(depth * multiplier)]
    options = dilated(rng, strided(rng)) | activated(rng)
    return net.graph(net.op("DEPTHWISE_CONV_2D", inputs, depth_multiplier=multiplier, **options))


def transpose_conv(rng: Rng) -> Graph:
    net, options = FloatNet(rng), strided(rng) | activated(rng)
    stride = [int(options["stride_h"]), int(options["stride_w"])]  # type: ignore[arg-type]
    depth, outputs, kernel = int(rng.integers(1, 6)), int(rng.integers(1, 6)), rng.integers(1, 5, 2).tolist()
    x = image(rng, net, depth)
    n, h, w, _ = net.tensors[x].shape
    if options["padding"] == "SAME":
        kernel = [max(pair) for pair in zip(kernel, stride, strict=True)]
        size = [h * stride[0], w * stride[1]]
    else:
        size = [(have - 1) * step + k for have, step, k in zip((h, w), stride, kernel, strict=True)]
    shape = net.constant([n, *size, outputs], "int32")
    inputs = [
        shape,
        net.normal(outputs, *kernel, depth),
        x,
        *([net.normal(outputs)] if rng.random() < 0.5 else []),
    ]
    return net.graph(net.op("TRANSPOSE_CONV", inputs, shape=(n, *size, outputs), **options))


def fully_connected(rng: Rng) -> Graph:
    net, width, outputs = FloatNet(rng), int(rng.integers(1, 9)), int(rng.integers(1, 9))
    keep = bool(rng.random() < 0.5)
    shape = (*rng.integers(1, 4, int(rng.integers(1, 4))).tolist(), width)
    bias = [net.normal(outputs)] if rng.random() < 0.7 else []
    x = net.fed(*shape)
    options = {"keep_num_dims": keep, **activated(rng)}
    return net.graph(net.op("FULLY_CONNECTED", [x, net.normal(outputs, width), *bias], **options))


def batch_matmul(rng: Rng) -> Graph:
    net = FloatNet(rng)
    batch = rng.integers(1, 4, int(rng.integers(1, 3))).tolist()
    m, k, n = rng.integers(1, 8, 3).tolist()
    adj_x, adj_y = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    a = net.fed(*batch, *((k, m) if adj_x else (m, k)))
    shape = (*batch, *((n, k) if adj_y else (k, n)))
    b = net.normal(*shape) if rng.random() < 0.5 else net.fed(*shape)
    return net.graph(net.op("BATCH_MATMUL", [a, b], adj_x=adj_x, adj_y=adj_y))


def binary(
    op: str, *, fuses: bool = False, positive: bool = False, dtype: str = "float32"
) -> Callable[[Rng], Graph]:
    """Two tensors, one of which may be broadcast or constant."""

    def build(rng: Rng) -> Graph:
        net = FloatNet(rng)
        rank = int(rng.choice([1, 2, 4, 4, 4]))
        shape = rng.integers(1, 6, rank).tolist()
        other = [size if rng.random() < 0.6 else 1 for size in shape]
        if rng.random() < 0.4:
            other = other[int(rng.integers(0, rank)) :]
        a = net.fed(*shape)
        a = net.op("EXP", [a], shape=tuple(shape)) if positive else a
        b = net.normal(*other) if rng.random() < 0.5 else net.fed(*other)
        sides = [a, b] if positive or rng.random() < 0.5 else [b, a]
        return net.graph(net.op(op, sides, dtype=dtype, **(activated(rng) if fuses else {})))

    return build


def unary(op: str, *, positive: bool = False, **options: Option) -> Callable[[Rng], Graph]:
    def build(rng: Rng) -> Graph:
        net = FloatNet(rng)
        shape = rng.integers(1, 7, int(rng.choice([1, 2, 3, 4, 4, 4]))).tolist()
        x = net.fed(*shape)
        x = net.op("EXP", [x], shape=tuple(shape)) if positive else x
        return net.graph(net.op(op, [x], **options))

    return build


def leaky_relu(rng: Rng) -> Graph:
    net = FloatNet(rng)
    return net.graph(net.op("LEAKY_RELU", [image(rng, net)], alpha=float(np.float32(rng.uniform(0, 0.5)))))


def softmax(rng: Rng) -> Graph:
    net = FloatNet(rng)
    x = net.fed(*rng.integers(1, 9, int(rng.choice([1, 2, 3, 4]))).tolist())
    return net.graph(net.op("SOFTMAX", [x], beta=float(rng.choice([1.0, 0.5, 2.0]))))


def prelu(rng: Rng) -> Graph:
    net = FloatNet(rng)
    x = image(rng, net)
    return net.graph(net.op("PRELU", [x, net.normal(1, 1, net.tensors[x].shape[3])]))


def gelu(rng: Rng) -> Graph:
    return unary("GELU", approximate=bool(rng.random() < 0.5))(rng)


def pool(op: str) -> Callable[[Rng], Graph]:
    def build(rng: Rng) -> Graph:
        net, size = FloatNet(rng), rng.integers(1, 5, 2).tolist()
        x = image(rng, net, least=6)
        options = strided(rng) | activated(rng)
        return net.graph(net.op(op, [x], filter_height=size[0], filter_width=size[1], **options))

    return build


def reduction(op: str) -> Callable[[Rng], Graph]:
    def build(rng: Rng) -> Graph:
        net = FloatNet(rng)
        rank = int(rng.choice([2, 3, 4, 4, 4]))
        x = net.fed(*rng.integers(1, 6, rank).tolist())
        axes = rng.permutation(rank)[: int(rng.integers(1, rank + 1))]
        axes = [int(axis) - (rank if rng.random() < 0.3 else 0) for axis in axes]
        return net.graph(net.op(op, [x, net.constant(axes, "int32")], keep_dims=bool(rng.random() < 0.5)))

    return build


def resize(op: str) -> Callable[[Rng], Graph]:
    def build(rng: Rng) -> Graph:
        net = FloatNet(rng)
        x = image(rng, net)
        size = net.constant(rng.integers(1, 20, 2), "int32")
        corners, centers = [(False, False), (True, False), (False, True)][int(rng.integers(0, 3))]
        return net.graph(net.op(op, [x, size], align_corners=corners, half_pixel_centers=centers))

    return build


def arg(op: str) -> Callable[[Rng], Graph]:
    def build(rng: Rng) -> Graph:
        net, kind = FloatNet(rng), str(rng.choice(["INT32", "INT64"]))
        rank = int(rng.choice([1, 2, 4, 4]))
        x = net.fed(*rng.integers(1, 6, rank).tolist())
        axis = net.constant(int(rng.integers(-rank, rank)), "int32")
        return net.graph(net.op(op, [x, axis], dtype=kind.lower(), output_type=kind))

    return build


def quotient(rng: Rng) -> Graph:
    """The divisor stays away from 0."""
    net = FloatNet(rng)
    shape = rng.integers(1, 6, 4).tolist()
    divisor = net.op("EXP", [net.fed(*shape)], shape=tuple(shape))
    dividend = net.fed(*shape) if rng.random() < 0.5 else net.normal(1, 1, 1, shape[3])
    return net.graph(net.op("DIV", [dividend, divisor], **activated(rng)))


def whole_division(op: str) -> Callable[[Rng], Graph]:
    """Quotients of floats or whole numbers, rounded down, or what they leave; many have no fraction."""

    def build(rng: Rng) -> Graph:
        net = FloatNet(rng)
        shape = rng.integers(1, 6, 4).tolist()
        dtype = str(rng.choice(["float32", "int32"]))
        divisor = rng.choice([-3, -2, -1, 1, 2, 3, 7], shape[3] if rng.random() < 0.5 else shape)
        dividend = net.constant(rng.integers(-20, 20, shape), dtype)
        if dtype == "float32":
            side = net.op("ADD", [net.fed(*shape), dividend], shape=shape)
            side = net.op("FLOOR", [side], shape=shape) if rng.random() < 0.5 else side
        else:
            side = net.op("ADD", [net.fed(*shape, dtype=dtype), dividend], shape=shape, dtype=dtype)
        return net.graph(net.op(op, [side, net.constant(divisor, dtype)], dtype=dtype))

    return build


def logical(op: str) -> Callable[[Rng], Graph]:
    def build(rng: Rng) -> Graph:
        net = FloatNet(rng)
        shape = rng.integers(1, 5, 4).tolist()
        sides = [net.op("GREATER", [net.fed(*shape), net.normal(*shape)], shape=tuple(shape), dtype="bool")]
        if op != "LOGICAL_NOT":
            sides.append(
                net.op("GREATER", [net.fed(*shape), net.normal(*shape)], shape=tuple(shape), dtype="bool")
            )
        return net.graph(net.op(op, sides, dtype="bool"))

    return build


def shape(rng: Rng) -> Graph:
    net = FloatNet(rng)
    return net.graph(net.op("SHAPE", [image(rng, net)], dtype="int32", out_type="INT32"))
