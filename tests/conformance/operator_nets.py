"""Random graphs of one operator between codes, DQ → operator → Q, written line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from qdq_nets import Net

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 24, 33, 40)
CHANNELS = (1, 2, 3, 5, 8, 16, 17, 33)
ACTIVATIONS = ('Gelu <approximate = "none">', 'Gelu <approximate = "tanh">', "Mish", "Sigmoid", "Tanh")


class Coded(Net):
    """A graph whose inputs and output are codes of one type, with random scales and zero points."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.dtype: Any = (np.uint8, np.int8)[seed % 2]
        self.inputs: list[str] = []
        self.last: tuple[float, int] = (1.0, 0)

    def point(self) -> int:
        """A zero point, at an end of the type in every second case."""
        info = np.iinfo(self.dtype)
        inner = int(self.rng.integers(info.min, info.max + 1))
        return self.pick(int(info.min), int(info.max), inner, inner)

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def shape(self, axes: int, most: int, sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
        """Sizes of so many axes, at most so many elements."""
        while True:
            found = tuple(int(size) for size in self.rng.choice(sizes, axes))
            if np.prod(found, dtype=int) <= most:
                return found

    def read(self, name: str, shape: Sequence[int], scale: float | None = None) -> str:
        """An input of codes, dequantized; its scale and zero point are ``last``."""
        scale = float(np.float32(np.exp(self.rng.uniform(-5.5, -1.5)))) if scale is None else scale
        self.last = scale, self.point()
        self.inputs.append(f"{np.dtype(self.dtype).name}[{','.join(map(str, shape))}] {name}")
        return self.dequantize(name, *self.last, self.dtype)

    def real(self, *shape: int) -> str:
        return self.constant(self.rng.normal(0, 1, shape))

    def places(self, array: Any) -> str:
        return self.constant(array, np.int64)

    def written(
        self, x: str, scale: float, zero_point: int | None = None, opset: int = 17
    ) -> onnx.ModelProto:
        """The graph whose output is ``x`` in codes."""
        point = self.point() if zero_point is None else zero_point
        codes = self.quantize(x, float(np.float32(scale)), point, self.dtype)
        return self.proto(", ".join(self.inputs), f"{np.dtype(self.dtype).name} {codes}", opset=opset)

    def as_it_was(self, x: str) -> onnx.ModelProto:
        """The output has the codes of the last input in two of three cases."""
        same = self.rng.random() < 0.67
        return self.written(x, *self.last) if same else self.written(x, self.last[0] * 1.3)


def group_normalization(net: Coded) -> onnx.ModelProto:
    groups, shape = net.pick(1, 2, 3, 4), list(net.shape(net.pick(3, 4, 5), 2000, SIZES[:8]))
    shape[1] = groups * net.pick(1, 2, 3, 8)
    affine = f"{net.real(shape[1])}, {net.real(shape[1])}"
    x = net.read("x", shape)
    x = net.op(
        f"GroupNormalization <num_groups = {groups}, epsilon = {net.pick(1e-5, 1e-3)}> ({x}, {affine})"
    )
    return net.written(x, net.rng.uniform(0.01, 0.05), opset=21)


def response_normalization(net: Coded) -> onnx.ModelProto:
    """ConvNeXt V2: lengths of channels by their mean, codes between all steps."""
    net.dtype, shape = (
        np.uint8,
        (net.pick(1, 2), net.pick(2, 5, 8), net.pick(3, 7), net.pick(4, 8, 16, 17, 40)),
    )
    x = net.read("x", shape, 0.05)
    scale = float(np.float32(np.sqrt(shape[1] * shape[2]) * 8 / 255))
    length = net.coded(net.op(f"ReduceL2 <axes = [1, 2], keepdims = 1> ({x})"), scale)
    mean = net.coded(net.op(f"ReduceMean <axes = [3], keepdims = 1> ({length})"), scale)
    raised = net.op(f"Add ({mean}, {net.constant(1e-6)})")
    quotient = net.coded(net.op(f"Div ({length}, {raised})"), 2 / 255)
    y = net.coded(net.op(f"Mul ({x}, {quotient})"), 0.1, 20)
    y = net.coded(net.op(f"Mul ({y}, {net.real(shape[3])})"), 0.2, 128)
    return net.written(net.op(f"Add ({x}, {y})"), 0.25, 100)


def convolution_over_one_axis(net: Coded) -> onnx.ModelProto:
    groups, inner, outer = net.pick(1, 1, 2, 3), net.pick(*CHANNELS), net.pick(*CHANNELS)
    kernel, dilation = net.pick(1, 2, 3, 4, 7), net.pick(1, 1, 2, 3)
    pads = [int(net.rng.integers(kernel)) for _ in range(2)]
    length = max(net.pick(*SIZES), (kernel - 1) * dilation + 1)
    x = net.read("x", (net.pick(1, 2), groups * inner, length), 0.05)
    weight = net.weight(groups * outer, inner, kernel)
    bias = f", {net.bias(groups * outer, weight, 0.05)}" if net.rng.random() < 0.6 else ""
    window = f"pads = {pads}, strides = [{net.pick(1, 2, 3)}], dilations = [{dilation}], group = {groups}"
    x = net.op(f"Conv <{window}> ({x}, {weight}{bias})")
    return net.written(net.op(f"Relu ({x})") if net.pick(0, 1) else x, 0.035 * np.sqrt(inner * kernel))


def transposed_convolution_over_one_axis(net: Coded) -> onnx.ModelProto:
    inner, outer, kernel, stride = (
        net.pick(*CHANNELS),
        net.pick(*CHANNELS),
        net.pick(1, 2, 3, 6),
        net.pick(1, 2, 3),
    )
    pads = [int(net.rng.integers((kernel + 1) // 2)) for _ in range(2)]
    x = net.read("x", (net.pick(1, 2), inner, net.pick(3, 8, 17, 29)), 0.05)
    weight = net.weight(inner, outer, kernel, axis=net.pick(1, None))
    x = net.op(f"ConvTranspose <pads = {pads}, strides = [{stride}]> ({x}, {weight})")
    return net.written(x, 0.035 * np.sqrt(inner * kernel / stride))


def pool_over_one_axis(net: Coded) -> onnx.ModelProto:
    kernel = net.pick(1, 2, 3, 4, 6)
    pads = [int(net.rng.integers((kernel + 1) // 2)) for _ in range(2)]
    x = net.read("x", (net.pick(1, 2), net.pick(1, 3, 8, 17, 40), max(kernel, net.pick(*SIZES))))
    window = f"kernel_shape = [{kernel}], strides = [{net.pick(1, 2, 3)}], pads = {pads}"
    kind = net.pick(f"MaxPool <{window}>", f"AveragePool <{window}>", "GlobalAveragePool", "GlobalMaxPool")
    x = net.op(f"{kind} ({x})")
    return net.written(x, *net.last) if "Max" in kind else net.as_it_was(x)


def gather(net: Coded) -> onnx.ModelProto:
    shape = net.shape(net.pick(1, 2, 3, 4), 2000)
    axis = int(net.rng.integers(len(shape)))
    places = net.rng.integers(-shape[axis], shape[axis], net.shape(net.pick(0, 1, 2), 40, SIZES[:8]))
    return net.as_it_was(net.op(f"Gather <axis = {axis}> ({net.read('x', shape)}, {net.places(places)})"))


def gather_by_several_axes(net: Coded) -> onnx.ModelProto:
    shape = net.shape(net.pick(2, 3, 4), 2000)
    axes = int(net.rng.integers(1, len(shape) + 1))
    count = net.pick(1, 3, 11)
    places = np.stack([net.rng.integers(-size, size, count) for size in shape[:axes]], -1)
    return net.written(net.op(f"GatherND ({net.read('x', shape)}, {net.places(places)})"), *net.last)


def scatter(net: Coded) -> onnx.ModelProto:
    """All places in every second case, else some."""
    shape = net.shape(net.pick(2, 3), 1000)
    axes = int(net.rng.integers(1, len(shape) + 1))
    places = np.stack(np.indices(shape[:axes]), -1).reshape(-1, axes)
    if net.pick(0, 1):
        places = places[net.rng.permutation(len(places))[: max(1, len(places) // 2)]]
    x, kind = net.read("x", shape), net.last
    net.inputs.append(f"{np.dtype(net.dtype).name}[{','.join(map(str, (len(places), *shape[axes:])))}] u")
    updates = net.dequantize("u", *kind, net.dtype)
    return net.written(net.op(f"ScatterND ({x}, {net.places(places)}, {updates})"), *kind)


def largest_values(net: Coded) -> onnx.ModelProto:
    shape = net.shape(net.pick(1, 2, 3), 2000)
    axis = int(net.rng.integers(len(shape)))
    count = net.places([int(net.rng.integers(1, shape[axis] + 1))])
    x, kind = net.read("x", shape), f"TopK <axis = {axis}, largest = {net.pick(0, 1)}>"
    return net.written(f"{net.op(f'{kind} ({x}, {count})', outputs=2)}_0", *net.last)


def padding(net: Coded) -> onnx.ModelProto:
    """Any constant, also far outside of what the codes hold; edges and mirrors; negative widths crop."""
    shape = net.shape(net.pick(1, 2, 3, 4), 1500, SIZES[2:])
    least = net.pick(0, 0, 0, -1)
    widths = net.places([int(net.rng.integers(least, min(4, size))) for size in shape * 2])
    x, mode = net.read("x", shape), net.pick("constant", "constant", "edge", "reflect")
    fill = net.pick(0.0, float(net.rng.normal(0, 3)), net.last[0] * net.pick(-50, 7, 33), 1e9, -np.inf)
    value = f", {net.constant(fill)}" if mode == "constant" else ""
    return net.as_it_was(net.op(f'Pad <mode = "{mode}"> ({x}, {widths}{value})'))


def constant_stack(net: Coded) -> onnx.ModelProto:
    """Constant matrices on one side, positions of attention; or a constant matrix on the left."""
    rows, depth, columns = (net.pick(1, 2, 3, 5, 8, 16, 17, 33, 49) for _ in range(3))
    stack = net.pick((2,), (3,), (2, 3), (1, 3), ())
    left, info, scale = net.pick(0, 1) or not stack, np.iinfo(net.dtype), 0.03
    codes = net.rng.integers(info.min, info.max + 1, (*stack, *((rows, depth) if left else (depth, columns))))
    fixed = net.dequantize(net.constant(codes, net.dtype), scale, net.point(), net.dtype)
    batch = net.pick(stack, (1,) * len(stack), (), (2, *stack))
    x = net.read("x", (*batch, *((depth, columns) if left else (rows, depth))))
    x = net.op(f"MatMul ({fixed}, {x})" if left else f"MatMul ({x}, {fixed})")
    return net.written(x, net.last[0] * scale * 74 * 74 * np.sqrt(depth) / net.rng.uniform(30, 80))


def function_behind_a_layer(net: Coded) -> onnx.ModelProto:
    inner, outer = net.pick(*CHANNELS), net.pick(*CHANNELS)
    x = net.read("x", (net.pick(1, 2), inner, 6, 7), 0.05)
    weight = net.weight(outer, inner, net.pick(1, 3), net.pick(1, 3))
    x = net.op(f"Conv ({x}, {weight}, {net.bias(outer, weight, 0.05)})")
    return net.written(net.op(f"{net.pick(*ACTIVATIONS)} ({x})"), net.rng.uniform(0.02, 0.15), opset=20)


OPERATORS: dict[Callable[[Coded], onnx.ModelProto], float] = {
    group_normalization: 5e-4,
    response_normalization: 5e-3,
    convolution_over_one_axis: 5e-4,
    transposed_convolution_over_one_axis: 5e-4,
    pool_over_one_axis: 0.1,  # many means of few codes lie on a tie
    gather: 0.0,
    gather_by_several_axes: 0.0,
    scatter: 0.0,
    largest_values: 0.0,
    padding: 0.0,
    constant_stack: 0.0,
    function_behind_a_layer: 0.02,  # a curve of integers
}
"""Graphs → share of the codes that may be another than ONNX Runtime's, by one: it computes in float32."""
