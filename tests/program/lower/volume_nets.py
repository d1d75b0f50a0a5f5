"""Random layers and pools over volumes [N, C, D, H, W], quantized, with awkward sizes and windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import onnx
from qdq_nets import Net

SIZES: Final = (1, 2, 3, 4, 5, 6, 7, 9)
CHANNELS: Final = (1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 33)
KERNELS: Final = (
    (1, 1, 1),
    (3, 3, 3),
    (1, 3, 3),
    (3, 1, 1),
    (2, 2, 2),
    (3, 5, 5),
    (2, 1, 3),
    (1, 1, 3),
    (5, 3, 1),
)
Rng = np.random.Generator


def windows(rng: Rng, *, dilated: bool) -> dict[str, list[int]]:
    """Kernel, strides, pads and dilations of a layer or pool."""
    kernel = list(KERNELS[rng.integers(len(KERNELS))])
    dilations = [int(rng.integers(1, 4)) if dilated and rng.random() < 0.3 else 1 for _ in range(3)]
    return {
        "kernel_shape": kernel,
        "strides": [int(rng.integers(1, 4)) if rng.random() < 0.4 else 1 for _ in range(3)],
        "pads": [int(rng.integers(0, kernel[axis % 3])) for axis in range(6)],
        "dilations": dilations,
    }


def sizes(rng: Rng, window: dict[str, list[int]]) -> list[int]:
    """Depth, rows and columns into which the window fits."""
    found = []
    for axis in range(3):
        reach = (window["kernel_shape"][axis] - 1) * window["dilations"][axis] + 1
        least = reach - window["pads"][axis] - window["pads"][axis + 3]
        found.append(max(int(SIZES[rng.integers(len(SIZES))]), least, 1))
    return found


def stated(window: dict[str, list[int]]) -> str:
    """The attributes as text."""
    return ", ".join(f"{name} = {values}" for name, values in window.items())


def source(rng: Rng, net: Net) -> str:
    """The input in codes of either type."""
    dtype = np.uint8 if rng.random() < 0.6 else np.int8
    info = np.iinfo(dtype)
    return net.coded("x", 0.05, int(rng.integers(info.min, info.max, endpoint=True)), dtype)


def result(rng: Rng, net: Net, name: str, scale: float) -> str:
    """The result in codes, behind a Relu now and then."""
    if rng.random() < 0.4:
        return net.coded(net.op(f"Relu ({name})"), scale, 0)
    return net.coded(name, scale, int(rng.integers(90, 160)))


def volume(batch: int, channels: int, sides: list[int]) -> str:
    """The text of the input."""
    return f"float[{batch},{channels},{','.join(map(str, sides))}] x"


def convolution(seed: int) -> onnx.ModelProto:
    """A Conv, grouped or depthwise at times."""
    rng = np.random.default_rng(seed)
    net, window = Net(seed), windows(rng, dilated=True)
    kind = rng.choice(["plain", "plain", "grouped", "depthwise"])
    inputs, outputs = (int(CHANNELS[rng.integers(len(CHANNELS))]) for _ in range(2))
    groups = 1
    if kind == "depthwise":
        groups, outputs = inputs, inputs * int(rng.integers(1, 3))
    elif kind == "grouped":
        groups = int(rng.integers(2, 5))
        inputs, outputs = groups * int(rng.integers(1, 7)), groups * int(rng.integers(1, 7))
    x = source(rng, net)
    weight = net.weight(outputs, inputs // groups, *window["kernel_shape"])
    bias = f", {net.bias(outputs, weight, 0.05)}" if rng.random() < 0.6 else ""
    layer = net.op(f"Conv <{stated(window)}, group = {groups}> ({x}, {weight}{bias})")
    taps = inputs // groups * int(np.prod(window["kernel_shape"]))
    coded = result(rng, net, layer, float(np.float32(0.05 * 0.008 * 70 * 90 * taps**0.5 / 60)))
    return net.proto(volume(int(rng.integers(1, 4)), inputs, sizes(rng, window)), coded)


def transposed(seed: int) -> onnx.ModelProto:
    """A ConvTranspose."""
    rng = np.random.default_rng(seed)
    net, window = Net(seed), windows(rng, dilated=True)
    groups = 1 if rng.random() < 0.7 else 2
    inputs, outputs = (groups * int(rng.integers(1, 9)) for _ in range(2))
    if rng.random() < 0.5:
        window |= {"strides": list(window["kernel_shape"]), "dilations": [1, 1, 1]}
    window["pads"] = [0, *window["pads"][1:3], 0, *window["pads"][4:]]
    reach = [(k - 1) * d + 1 for k, d in zip(window["kernel_shape"], window["dilations"], strict=True)]
    window["pads"] = [min(pad, (reach[axis % 3] - 1) // 2) for axis, pad in enumerate(window["pads"])]
    x, weight = source(rng, net), net.weight(inputs, outputs // groups, *window["kernel_shape"], axis=None)
    layer = net.op(f"ConvTranspose <{stated(window)}, group = {groups}> ({x}, {weight})")
    coded = result(rng, net, layer, 0.06)
    sides = [int(rng.integers(1, 6)) for _ in range(3)]
    return net.proto(volume(int(rng.integers(1, 3)), inputs, sides), coded)


def max_pool(seed: int) -> onnx.ModelProto:
    """A MaxPool."""
    rng = np.random.default_rng(seed)
    net, window = Net(seed), windows(rng, dilated=True)
    # taps do not jump over the volume: a window that sees none of it has no maximum
    sides = [max(pair) for pair in zip(sizes(rng, window), window["dilations"], strict=True)]
    codes = net.quantize("x", 0.05, 120)
    x = net.dequantize(codes, 0.05, 120)
    pooled = net.op(f"MaxPool <{stated(window)}, ceil_mode = {int(rng.random() < 0.3)}> ({x})")
    return net.proto(
        volume(int(rng.integers(1, 3)), int(rng.integers(1, 9)), sides), net.coded(pooled, 0.05, 120)
    )


def average_pool(seed: int) -> onnx.ModelProto:
    """An AveragePool."""
    rng = np.random.default_rng(seed)
    net, window = Net(seed), windows(rng, dilated=False)
    sides = sizes(rng, window)
    del window["dilations"]
    more = f"count_include_pad = {int(rng.random() < 0.5)}, ceil_mode = {int(rng.random() < 0.3)}"
    pooled = net.op(f"AveragePool <{stated(window)}, {more}> ({source(rng, net)})")
    coded = result(rng, net, pooled, 0.031)
    return net.proto(volume(int(rng.integers(1, 3)), int(rng.integers(1, 9)), sides), coded)


KINDS: Final[dict[str, Callable[[int], onnx.ModelProto]]] = {
    "convolution": convolution,
    "transposed": transposed,
    "max_pool": max_pool,
    "average_pool": average_pool,
}
