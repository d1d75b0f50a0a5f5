"""The networks that everybody measures with, from compact tables; weights are random.

``TOPOLOGIES`` names them with the products per image that their papers or torchvision publish; ``draw`` makes
the ONNX model. The shapes are torchvision's where it has the network.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx

from layers import Drawing, Tensor

CLASSES = 1000


@dataclass(frozen=True)
class Topology:
    """A network: how it is drawn, rows and columns of its images, published products per image in 10⁹."""

    draw: Callable[[Drawing, Tensor], Sequence[Tensor]]
    gmacs: float
    size: int = 224


def draw(name: str, size: int | None = None) -> tuple[onnx.ModelProto, int]:
    """The float model of a network of ``TOPOLOGIES`` and its products per image.

    Args:
        name: key of ``TOPOLOGIES``.
        size: rows and columns of its images, None for the published ones.
    """
    topology = TOPOLOGIES[name]
    drawing = Drawing(name, np.random.default_rng(zlib.crc32(name.encode())))
    outputs = topology.draw(drawing, drawing.image(size or topology.size))
    return drawing.model(outputs), drawing.macs


def classify(d: Drawing, x: Tensor) -> list[Tensor]:
    """Global mean and a fully connected layer."""
    return [d.dense(d.global_pool(x), CLASSES)]


def resnet(d: Drawing, x: Tensor, *, counts: Sequence[int], bottleneck: bool) -> Sequence[Tensor]:
    x = d.pool(d.unit(x, 64, 7, 2), "MaxPool", 3, 2, pad=1)
    for stage, count in enumerate(counts):
        width = 64 << stage
        for number in range(count):
            stride = 2 if stage and not number else 1
            if bottleneck:
                y = d.unit(d.unit(x, width), width, 3, stride)
                y = d.unit(y, 4 * width, activation="none")
            else:
                y = d.unit(d.unit(x, width, 3, stride), width, 3, activation="none")
            if x.channels != y.channels or stride > 1:
                x = d.unit(x, y.channels, 1, stride, activation="none")
            x = d.add(y, x, "relu")
    return classify(d, x)


def vgg19(d: Drawing, x: Tensor) -> Sequence[Tensor]:
    for channels, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(count):
            x = d.activate(d.conv(x, channels, 3), "relu")
        x = d.pool(x, "MaxPool", 2, 2)
    return perceptron(d, x)


def alexnet(d: Drawing, x: Tensor) -> Sequence[Tensor]:
    x = d.pool(d.activate(d.conv(x, 64, 11, 4, pad=2), "relu"), "MaxPool", 3, 2)
    x = d.pool(d.activate(d.conv(x, 192, 5), "relu"), "MaxPool", 3, 2)
    for channels in (384, 256, 256):
        x = d.activate(d.conv(x, channels, 3), "relu")
    return perceptron(d, d.pool(x, "MaxPool", 3, 2))


def perceptron(d: Drawing, x: Tensor) -> list[Tensor]:
    """Three fully connected layers, as in AlexNet and VGG."""
    x = d.flatten(x)
    for _ in range(2):
        x = d.activate(d.dense(x, 4096), "relu")
    return [d.dense(x, CLASSES)]


FIRES = (
    ((16, 64), (16, 64)),
    ((32, 128), (32, 128)),
    ((48, 192), (48, 192), (64, 256), (64, 256)),
)
"""SqueezeNet 1.1: squeezed and expanded channels; a pool stands before each row."""


def squeezenet(d: Drawing, x: Tensor) -> Sequence[Tensor]:
    x = d.activate(d.conv(x, 64, 3, 2, pad=0), "relu")
    for row in FIRES:
        x = d.pool(x, "MaxPool", 3, 2, ceil=True)
        for squeezed, expanded in row:
            x = d.activate(d.conv(x, squeezed), "relu")
            x = d.concat([d.activate(d.conv(x, expanded, kernel), "relu") for kernel in (1, 3)])
    return [d.global_pool(d.activate(d.conv(x, CLASSES), "relu"))]


INCEPTIONS = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)
"""GoogLeNet: channels of 1×1; 1×1, 3×3; 1×1, 3×3; pooled 1×1. Pools stand between the rows."""


def googlenet(d: Drawing, x: Tensor) -> Sequence[Tensor]:
    x = d.pool(d.unit(x, 64, 7, 2), "MaxPool", 3, 2, ceil=True)
    x = d.pool(d.unit(d.unit(x, 64), 192, 3), "MaxPool", 3, 2, ceil=True)
    for number, row in enumerate(INCEPTIONS):
        if number:
            x = d.pool(x, "MaxPool", 3 if number == 1 else 2, 2, ceil=True)
        for one, reduced, three, narrow, other, pooled in row:
            x = d.concat(
                [
                    d.unit(x, one),
                    d.unit(d.unit(x, reduced), three, 3),
                    d.unit(d.unit(x, narrow), other, 3),
                    d.unit(d.pool(x, "MaxPool", 3, 1, pad=1, ceil=True), pooled),
                ]
            )
    return classify(d, x)


def inception_v3(d: Drawing, x: Tensor) -> Sequence[Tensor]:
    x = d.unit(d.unit(d.unit(x, 32, 3, 2, pad=0), 32, 3, pad=0), 64, 3)
    x = d.unit(d.unit(d.pool(x, "MaxPool", 3, 2), 80), 192, 3, pad=0)
    x = d.pool(x, "MaxPool", 3, 2)
    for pooled in (32, 64, 64):
        five = d.unit(d.unit(x, 48), 64, 5)
        three = d.unit(d.unit(d.unit(x, 64), 96, 3), 96, 3)
        x = d.concat([d.unit(x, 64), five, three, _pooled(d, x, pooled)])
    three = d.unit(d.unit(d.unit(x, 64), 96, 3), 96, 3, 2, pad=0)
    x = d.concat([d.unit(x, 384, 3, 2, pad=0), three, d.pool(x, "MaxPool", 3, 2)])
    for width in (128, 160, 160, 192):
        seven = _chain(d, d.unit(x, width), ((width, (1, 7)), (192, (7, 1))))
        twice = ((width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7)))
        x = d.concat([d.unit(x, 192), seven, _chain(d, d.unit(x, width), twice), _pooled(d, x, 192)])
    seven = _chain(d, d.unit(x, 192), ((192, (1, 7)), (192, (7, 1))))
    three = d.unit(d.unit(x, 192), 320, 3, 2, pad=0)
    x = d.concat([three, d.unit(seven, 192, 3, 2, pad=0), d.pool(x, "MaxPool", 3, 2)])
    for _ in range(2):
        y = d.unit(x, 384)
        z = d.unit(d.unit(x, 448), 384, 3)
        split = [d.concat([d.unit(t, 384, (1, 3)), d.unit(t, 384, (3, 1))]) for t in (y, z)]
        x = d.concat([d.unit(x, 320), *split, _pooled(d, x, 192)])
    return classify(d, x)


def _chain(d: Drawing, x: Tensor, units: Sequence[tuple[int, tuple[int, int]]]) -> Tensor:
    for channels, kernel in units:
        x = d.unit(x, channels, kernel)
    return x


def _pooled(d: Drawing, x: Tensor, channels: int) -> Tensor:
    return d.unit(d.pool(x, "AveragePool", 3, 1, pad=1), channels)


MOBILENET_V1 = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)
)  # fmt: skip
"""Channels and stride of the depthwise-separable layers."""


def mobilenet_v1(d: Drawing, x: Tensor) -> Sequence[Tensor]:
    x = d.unit(x, 32, 3, 2)
    for channels, stride in MOBILENET_V1:
        x = d.unit(d.unit(x, x.channels, 3, stride, groups=x.channels), channels)
    return classify(d, x)


MOBILENET_V2 = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3), (6, 320, 1, 1, 3),
)  # fmt: skip
EFFICIENTNET_LITE0 = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
"""Rows of inverted residuals: expansion, channels, blocks, stride of the first, kernel."""


def inverted_residuals(
    d: Drawing, x: Tensor, *, rows: Sequence[tuple[int, int, int, int, int]]
) -> Sequence[Tensor]:
    x = d.unit(x, 32, 3, 2, activation="relu6")
    for expansion, channels, count, first, kernel in rows:
        for number in range(count):
            stride = 1 if number else first
            y = x if expansion == 1 else d.unit(x, expansion * x.channels, activation="relu6")
            y = d.unit(y, y.channels, kernel, stride, groups=y.channels, activation="relu6")
            y = d.unit(y, channels, activation="none")
            x = d.add(x, y) if number else y
    return classify(d, d.unit(x, 1280, activation="relu6"))


def densenet121(d: Drawing, x: Tensor) -> Sequence[Tensor]:
    x = d.pool(d.unit(x, 64, 7, 2), "MaxPool", 3, 2, pad=1)
    for stage, count in enumerate((6, 12, 24, 16)):
        if stage:
            x = d.activate(d.batch_norm(x), "relu")
            x = d.pool(d.conv(x, x.channels // 2, bias=False), "AveragePool", 2, 2)
        for _ in range(count):
            y = d.conv(d.activate(d.batch_norm(x), "relu"), 128, bias=False)
            y = d.conv(d.activate(d.batch_norm(y), "relu"), 32, 3, bias=False)
            x = d.concat([x, y])
    return classify(d, d.activate(d.batch_norm(x), "relu"))


def convnext(d: Drawing, x: Tensor, *, counts: Sequence[int], width: int) -> Sequence[Tensor]:
    """LayerNorms, which stay in float, between layers that do not."""
    x = d.layer_norm(d.conv(x, width, 4, 4, pad=0))
    for stage, count in enumerate(counts):
        if stage:
            x = d.conv(d.layer_norm(x), width << stage, 2, 2, pad=0)
        for _ in range(count):
            y = d.layer_norm(d.conv(x, x.channels, 7, groups=x.channels))
            y = d.conv(d.activate(d.conv(y, 4 * x.channels), "gelu"), x.channels)
            x = d.add(x, d.scale(y))
    return [d.dense(d.layer_norm(d.global_pool(x)), CLASSES)]


def yolo(d: Drawing, x: Tensor) -> Sequence[Tensor]:
    """YOLOv5n: SiLU, cross-stage-partial stages, pyramid, three heads of 3 · (5 + 80) channels."""
    silu = partial(d.unit, activation="silu")
    levels = []
    x = silu(x, 16, 6, 2, pad=2)
    for channels, count in ((32, 1), (64, 2), (128, 3), (256, 1)):
        x = _cross_stage(d, silu(x, channels, 3, 2), channels, count)
        levels.append(x)
    pooled = [silu(x, 128)]
    for _ in range(3):
        pooled.append(d.pool(pooled[-1], "MaxPool", 5, 1, pad=2))
    top = silu(silu(d.concat(pooled), 256), 128)
    middle = _cross_stage(d, d.concat([d.double(top), levels[2]]), 128, 1, shortcut=False)
    middle = silu(middle, 64)
    fine = _cross_stage(d, d.concat([d.double(middle), levels[1]]), 64, 1, shortcut=False)
    middle = _cross_stage(d, d.concat([silu(fine, 64, 3, 2), middle]), 128, 1, shortcut=False)
    coarse = _cross_stage(d, d.concat([silu(middle, 128, 3, 2), top]), 256, 1, shortcut=False)
    return [d.conv(level, 255) for level in (fine, middle, coarse)]


def _cross_stage(d: Drawing, x: Tensor, channels: int, count: int, *, shortcut: bool = True) -> Tensor:
    """Half of the channels through residual blocks, half past them."""
    silu = partial(d.unit, activation="silu")
    y, past = silu(x, channels // 2), silu(x, channels // 2)
    for _ in range(count):
        z = silu(silu(y, channels // 2), channels // 2, 3)
        y = d.add(y, z) if shortcut else z
    return silu(d.concat([y, past]), channels)


TOPOLOGIES = {
    "resnet18": Topology(partial(resnet, counts=(2, 2, 2, 2), bottleneck=False), 1.814),
    "resnet50": Topology(partial(resnet, counts=(3, 4, 6, 3), bottleneck=True), 4.089),
    "resnet101": Topology(partial(resnet, counts=(3, 4, 23, 3), bottleneck=True), 7.801),
    "resnet152": Topology(partial(resnet, counts=(3, 8, 36, 3), bottleneck=True), 11.514),
    "vgg19": Topology(vgg19, 19.632),
    "alexnet": Topology(alexnet, 0.714),
    "squeezenet1_1": Topology(squeezenet, 0.349),
    "googlenet": Topology(googlenet, 1.498),
    "inception_v3": Topology(inception_v3, 5.713, size=299),
    "mobilenet_v1": Topology(mobilenet_v1, 0.569),
    "mobilenet_v2": Topology(partial(inverted_residuals, rows=MOBILENET_V2), 0.301),
    "efficientnet_lite0": Topology(partial(inverted_residuals, rows=EFFICIENTNET_LITE0), 0.385),
    "densenet121": Topology(densenet121, 2.834),
    "convnext_atto": Topology(partial(convnext, counts=(2, 2, 6, 2), width=40), 0.55),
    "yolov5n": Topology(yolo, 2.25, size=640),
}
"""Published products: torchvision's tables; papers of MobileNet and EfficientNet-lite; timm's table for
ConvNeXt-Atto; YOLOv5's table / 2."""
