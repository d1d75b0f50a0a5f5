"""Residual networks."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def conv_norm(ins: int, outs: int, size: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    pad = (size - 1) // 2
    return [nn.Conv2d(ins, outs, size, stride, pad, groups=groups, bias=False), nn.BatchNorm2d(outs)]


class BasicBlock(nn.Module):
    def __init__(self, ins: int, outs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(ins, outs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outs, outs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outs)
        self.downsample: nn.Module | None = None
        if stride != 1 or ins != outs:
            self.downsample = nn.Sequential(*conv_norm(ins, outs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    def __init__(self, ins: int, outs: int, stride: int = 1) -> None:
        super().__init__()
        inner = outs // 4
        self.conv1, self.bn1 = conv_norm(ins, inner, 1)
        self.conv2, self.bn2 = conv_norm(inner, inner, 3, stride)
        self.conv3, self.bn3 = conv_norm(inner, outs, 1)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(*conv_norm(ins, outs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """The stem of ImageNet networks, two stages of ``block``, a pool and a classifier."""

    def __init__(self, block: Callable[[int, int, int], nn.Module]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(block(8, 8, 1), block(8, 8, 1))
        self.layer2 = nn.Sequential(block(8, 16, 2), block(16, 16, 1))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class PaddedShortcut(nn.Module):
    """Every other pixel, and zeros for the new channels: the shortcut without weights."""

    def __init__(self, ins: int, outs: int) -> None:
        super().__init__()
        self.more = (outs - ins) // 2

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.more, self.more), "constant", 0)


class CifarBlock(nn.Module):
    def __init__(self, ins: int, outs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv_norm(ins, outs, 3, stride)
        self.conv2, self.bn2 = conv_norm(outs, outs, 3)
        self.shortcut = nn.Sequential() if stride == 1 else PaddedShortcut(ins, outs)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class CifarResNet(nn.Module):
    """6·``depth`` + 2 layers; 3 is ResNet-20, whose widths are 16, 32 and 64."""

    def __init__(self, depth: int = 3, width: int = 4) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv_norm(3, width, 3)
        stages = []
        for stage in range(3):
            outs = width << stage
            ins = outs if stage == 0 else outs // 2
            first = CifarBlock(ins, outs, 1 if stage == 0 else 2)
            stages.append(nn.Sequential(first, *(CifarBlock(outs, outs, 1) for _ in range(depth - 1))))
        self.layer1, self.layer2, self.layer3 = stages
        self.linear = nn.Linear(4 * width, 10)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layer3(self.layer2(self.layer1(out)))
        out = F.avg_pool2d(out, out.size()[3])
        out = out.view(out.size(0), -1)
        return self.linear(out)
