"""Networks whose branches meet in a concatenation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from networks_residual import conv_norm
from torch import Tensor, nn


class BasicConv2d(nn.Module):
    def __init__(self, ins: int, outs: int, size: int, padding: int = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(ins, outs, size, padding=padding, bias=False)
        self.bn = nn.BatchNorm2d(outs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class InceptionBlock(nn.Module):
    def __init__(self, ins: int) -> None:
        super().__init__()
        self.branch1x1 = BasicConv2d(ins, 4, 1)
        self.branch3x3_1 = BasicConv2d(ins, 4, 1)
        self.branch3x3_2 = BasicConv2d(4, 6, 3, 1)
        self.branch_pool = BasicConv2d(ins, 4, 1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        branch3x3 = self.branch3x3_2(self.branch3x3_1(x))
        branch_pool = self.branch_pool(F.avg_pool2d(x, kernel_size=3, stride=1, padding=1))
        return [self.branch1x1(x), branch3x3, branch_pool]

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(self._forward(x), 1)


class InceptionAux(nn.Module):
    def __init__(self, ins: int) -> None:
        super().__init__()
        self.conv = BasicConv2d(ins, 4, 1)
        self.fc = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(F.adaptive_avg_pool2d(x, (1, 1)))
        return self.fc(torch.flatten(x, 1))


class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transform_input = True
        self.Conv2d_1a = BasicConv2d(3, 8, 3)
        self.Mixed_5b = InceptionBlock(8)
        self.AuxLogits = InceptionAux(14)
        self.Mixed_5c = InceptionBlock(14)
        self.fc = nn.Linear(14, 10)

    def _transform_input(self, x: Tensor) -> Tensor:
        if self.transform_input:
            first = torch.unsqueeze(x[:, 0], 1) * (0.229 / 0.5) + (0.485 - 0.5) / 0.5
            second = torch.unsqueeze(x[:, 1], 1) * (0.224 / 0.5) + (0.456 - 0.5) / 0.5
            third = torch.unsqueeze(x[:, 2], 1) * (0.225 / 0.5) + (0.406 - 0.5) / 0.5
            x = torch.cat((first, second, third), 1)
        return x

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor | None]:
        x = self.Mixed_5b(self.Conv2d_1a(self._transform_input(x)))
        aux = self.AuxLogits(x) if self.training else None
        x = F.max_pool2d(self.Mixed_5c(x), 3, 2)
        x = F.adaptive_avg_pool2d(x, 1)
        x = F.dropout(x, p=0.5, training=self.training)
        x = self.fc(torch.flatten(x, 1))
        if self.training:
            return x, aux
        return x


class Fire(nn.Module):
    def __init__(self, ins: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(ins, squeeze, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        one = self.expand1x1_activation(self.expand1x1(x))
        return torch.cat([one, self.expand3x3_activation(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(8, 4, 6),
            Fire(12, 4, 6),
        )
        head = [nn.Dropout(0.5), nn.Conv2d(12, 10, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))]
        self.classifier = nn.Sequential(*head)

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(self.classifier(self.features(x)), 1)


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    batch, channels, height, width = x.size()
    x = x.view(batch, groups, channels // groups, height, width)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(batch, channels, height, width)


class ShuffleBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        pointwise = [*conv_norm(half, half, 1), nn.ReLU(inplace=True)]
        self.branch = nn.Sequential(*pointwise, *conv_norm(half, half, 3, 1, half), *conv_norm(half, half, 1))

    def forward(self, x: Tensor) -> Tensor:
        kept, other = x.chunk(2, dim=1)
        return channel_shuffle(torch.cat((kept, F.relu(self.branch(other))), dim=1), 2)


class ShuffleNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Sequential(*conv_norm(3, 8, 3, 2), nn.ReLU(inplace=True))
        self.stage2 = nn.Sequential(ShuffleBlock(8), ShuffleBlock(8))
        self.fc = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.stage2(self.conv1(x)).mean([2, 3]))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1 = nn.Sequential(*conv_norm(3, 6, 3), nn.LeakyReLU(0.1, inplace=True))
        self.down2 = nn.Sequential(*conv_norm(6, 8, 3, 2), nn.LeakyReLU(0.1, inplace=True))
        self.down3 = nn.Sequential(*conv_norm(8, 8, 3, 2), nn.LeakyReLU(0.1, inplace=True))
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.join = nn.Conv2d(16, 8, 3, padding=1)
        self.head = nn.Conv2d(14, 2, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        one = self.down1(x)
        two = self.down2(one)
        three = self.up(self.down3(two))
        joined = F.relu(self.join(torch.cat([three, two], 1)))
        wide = F.interpolate(joined, scale_factor=2.0, mode="nearest")
        out = self.head(torch.cat([wide, one], dim=1))
        return {"out": out, "features": joined}


class DenseLayer(nn.Module):
    def __init__(self, ins: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(ins)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(ins, growth, 3, padding=1, bias=False)
        self.drop_rate = 0.1

    def forward(self, inputs: list[Tensor]) -> Tensor:
        new = self.conv1(self.relu1(self.norm1(torch.cat(inputs, 1))))
        if self.drop_rate > 0:
            new = F.dropout(new, p=self.drop_rate, training=self.training)
        return new


class DenseNet(nn.Module):
    """Batch norm and ReLU come before the convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(3, 6, 3, 2, 1, bias=False)
        self.layers = nn.ModuleDict({f"denselayer{i + 1}": DenseLayer(6 + 4 * i, 4) for i in range(3)})
        self.norm5 = nn.BatchNorm2d(18)
        self.pool = nn.AvgPool2d(2, 2)
        self.classifier = nn.Linear(18, 10)

    def forward(self, x: Tensor) -> Tensor:
        features = [self.conv0(x)]
        for layer in self.layers.values():
            features.append(layer(features))
        out = F.relu(self.norm5(torch.cat(features, 1)), inplace=True)
        out = F.adaptive_avg_pool2d(self.pool(out), (1, 1))
        return self.classifier(torch.flatten(out, 1))
