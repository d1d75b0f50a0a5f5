"""The networks that the benchmarks of training train: ResNet-20 with trained weights, and a MobileNetV2.

The file of the trained ResNet-20 has its BatchNorm folded. ``trained_resnet20`` puts it back: every layer
gets the mean and variance of its own outputs on augmented training images as moving statistics, and the
scale and shift that undo them. In eval mode the module computes what the file does; in training mode it
behaves like one that was just trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import onnx.numpy_helper
import torch
import torch.nn.functional as F
from torch import nn

from qat_data import Images, augmented, batches

BLOCKS = 3
STATISTICS_IMAGES = 5000
WIDTHS = (16, 32, 64)
INVERTED = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks and first stride of the stages of MobileNetV2."""


class Shortcut(nn.Module):
    """Every other pixel, and channels of zeros on both sides: no weights."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.channels, self.channels))


class BasicBlock(nn.Module):
    """Two 3×3 layers and the way around them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = outputs // inputs
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if stride == 1 else Shortcut((outputs - inputs) // 2)
        self.relu2 = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu2(y + self.shortcut(x))


class ResNet20(nn.Module):
    """The network for CIFAR-10 of He et al., shortcuts of option A; float32 [N, 3, 32, 32] → [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTHS[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        self.relu = nn.ReLU()
        inputs = (WIDTHS[0], *WIDTHS[:-1])
        self.layers = nn.Sequential(
            *(
                BasicBlock(first if block == 0 else width, width)
                for first, width in zip(inputs, WIDTHS, strict=True)
                for block in range(BLOCKS)
            )
        )
        self.pool = nn.AvgPool2d(8)
        self.linear = nn.Linear(WIDTHS[-1], 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(self.relu(self.bn1(self.conv1(x))))
        return self.linear(torch.flatten(self.pool(y), 1))


def trained_resnet20(file: Path, images: Images) -> ResNet20:
    """The network with the weights of the ONNX file; BatchNorm from the first of these images."""
    network = ResNet20().eval()
    convs = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    norms = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    weights, biases = folded_layers(file)
    linear = network.linear
    with torch.no_grad():
        for layer, weight in zip((*convs, linear), weights, strict=True):
            layer.weight.copy_(weight)
        linear.bias.copy_(biases[-1])
        for norm, bias in zip(norms, biases[:-1], strict=True):
            norm.weight.copy_((norm.running_var + norm.eps).sqrt())
            norm.bias.copy_(bias)
        some = augmented(images.pixels[:STATISTICS_IMAGES], torch.Generator().manual_seed(0))
        put_back_batch_norm(network, convs, norms, Images(some, images.labels[:STATISTICS_IMAGES]))
    return network


def folded_layers(file: Path) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Weights and biases of the layers of an ONNX file, in the order of its nodes."""
    graph = onnx.load(file).graph
    arrays = {tensor.name: torch.tensor(onnx.numpy_helper.to_array(tensor)) for tensor in graph.initializer}
    layers = [node for node in graph.node if node.op_type in ("Conv", "Gemm")]
    return [arrays[node.input[1]] for node in layers], [arrays[node.input[2]] for node in layers]


def put_back_batch_norm(
    network: nn.Module, convs: Sequence[nn.Conv2d], norms: Sequence[nn.BatchNorm2d], images: Images
) -> None:
    """Sets the moving statistics to those of the images, and scale and shift so that no output changes."""
    sums = {conv: [torch.zeros(conv.out_channels, dtype=torch.float64) for _ in range(2)] for conv in convs}

    def count(conv: nn.Module, _: object, output: torch.Tensor) -> None:
        values = output.double()
        sums[conv][0] += values.mean((0, 2, 3)) * len(values)
        sums[conv][1] += values.square().mean((0, 2, 3)) * len(values)

    handles = [conv.register_forward_hook(count) for conv in convs]
    for inputs, _ in batches(images, 250):
        network(inputs)
    for handle in handles:
        handle.remove()
    for conv, norm in zip(convs, norms, strict=True):
        mean, square = (total / len(images) for total in sums[conv])
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(square - mean.square())
        norm.weight.copy_((norm.running_var + norm.eps).sqrt())
        norm.bias.add_(mean)


class InvertedResidual(nn.Module):
    """A block of MobileNetV2: wider, depthwise, narrow."""

    def __init__(self, expansion: int, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        inner = inputs * expansion
        wider = [] if expansion == 1 else normalized_layer(inputs, inner, 1)
        self.layers = nn.Sequential(
            *wider,
            *normalized_layer(inner, inner, 3, stride, groups=inner),
            *normalized_layer(inner, outputs, 1)[:-1],
        )
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def normalized_layer(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU6()]


class MobileNetV2(nn.Module):
    """The network of Sandler et al., random weights; float32 [N, 3, H, W] → [N, classes].

    ``width`` is a factor of the number of channels.
    """

    def __init__(self, classes: int = 10, width: float = 0.5) -> None:
        super().__init__()
        channels = int(32 * width)
        stages = normalized_layer(3, channels, 3, 2)
        for expansion, full, blocks, stride in INVERTED:
            outputs = int(full * width)
            for block in range(blocks):
                stages.append(InvertedResidual(expansion, channels, outputs, stride if block == 0 else 1))
                channels = outputs
        stages += normalized_layer(channels, 1280, 1)
        self.features = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))
