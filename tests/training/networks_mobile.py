"""Networks of depthwise layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from networks_residual import conv_norm
from torch import Tensor, nn


class ConvNormActivation(nn.Sequential):
    def __init__(self, ins: int, outs: int, size: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(*conv_norm(ins, outs, size, stride, groups), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    def __init__(self, ins: int, outs: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = ins * expand
        layers: list[nn.Module] = [] if expand == 1 else [ConvNormActivation(ins, hidden, 1)]
        layers += [ConvNormActivation(hidden, hidden, 3, stride, hidden), *conv_norm(hidden, outs, 1)]
        self.conv = nn.Sequential(*layers)
        self.use_res_connect = stride == 1 and ins == outs

    def forward(self, x: Tensor) -> Tensor:
        if self.use_res_connect:
            return x + self.conv(x)
        return self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks = [InvertedResidual(8, 8, 1, 1), InvertedResidual(8, 12, 2, 4), InvertedResidual(12, 12, 1, 4)]
        self.features = nn.Sequential(ConvNormActivation(3, 8, 3, 2), *blocks, ConvNormActivation(12, 24, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(24, 10))

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        x = F.adaptive_avg_pool2d(x, (1, 1))
        return self.classifier(torch.flatten(x, 1))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, gate: type[nn.Module], activation: type[nn.Module]) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, channels // 2, 1)
        self.fc2 = nn.Conv2d(channels // 2, channels, 1)
        self.activation = activation()
        self.scale_activation = gate()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))
        return scale * x


class MobileNetV3Block(nn.Module):
    def __init__(self, ins: int, outs: int, activation: type[nn.Module]) -> None:
        super().__init__()
        layers = [*conv_norm(ins, 16, 1), activation(inplace=True)]
        layers += [*conv_norm(16, 16, 5, 1, 16), activation(inplace=True)]
        layers += [SqueezeExcitation(16, nn.Hardsigmoid, nn.ReLU), *conv_norm(16, outs, 1)]
        self.block = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        result = self.block(x)
        result += x
        return result


class MobileNetV3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*conv_norm(3, 8, 3, 2), nn.Hardswish(inplace=True))
        self.blocks = nn.Sequential(MobileNetV3Block(8, 8, nn.ReLU), MobileNetV3Block(8, 8, nn.Hardswish))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(8, 16), nn.Hardswish(inplace=True), nn.Dropout(p=0.2, inplace=True), nn.Linear(16, 10)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.blocks(self.stem(x)))
        return self.classifier(torch.flatten(x, 1))


class DropPath(nn.Module):
    """Leaves a branch out for some samples, in training only."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.share == 0.0:
            return x
        kept = torch.rand(x.shape[0], 1, 1, 1) >= self.share
        return x * kept / (1.0 - self.share)


class MBConv(nn.Module):
    def __init__(self, channels: int, activation: type[nn.Module]) -> None:
        super().__init__()
        hidden = 2 * channels
        self.block = nn.Sequential(
            nn.Sequential(*conv_norm(channels, hidden, 1), activation(inplace=True)),
            nn.Sequential(*conv_norm(hidden, hidden, 3, 1, hidden), activation(inplace=True)),
            SqueezeExcitation(hidden, nn.Sigmoid, activation),
            nn.Sequential(*conv_norm(hidden, channels, 1)),
        )
        self.stochastic_depth = DropPath(0.5)

    def forward(self, x: Tensor) -> Tensor:
        result = self.stochastic_depth(self.block(x))
        result += x
        return result


class EfficientNet(nn.Module):
    """Swish, squeeze-and-excitation and stochastic depth; ``activation`` of the lite form is ReLU6."""

    def __init__(self, activation: type[nn.Module] = nn.SiLU) -> None:
        super().__init__()
        stem = nn.Sequential(*conv_norm(3, 8, 3, 2), activation(inplace=True))
        self.features = nn.Sequential(stem, MBConv(8, activation), MBConv(8, activation))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(0.2, inplace=True), nn.Linear(8, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))
