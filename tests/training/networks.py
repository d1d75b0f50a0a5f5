"""Small networks as PyTorch users write them; a few channels wide, with statistics in their batch norms."""

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


class Shared(nn.Module):
    """One ReLU for all places, one convolution that is called twice, a part that is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.conv = nn.Conv2d(6, 6, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.fc = nn.Linear(6, 10)
        self.never = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.stem(x))
        x = self.relu(self.conv(x)) + x
        x = self.relu(self.conv(x))
        return self.fc(x.mean([2, 3]))


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


class Functional(nn.Module):
    """No layers, only functions of parameters and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(0.3 * torch.randn(8, 3, 3, 3))
        self.gain = nn.Parameter(torch.rand(8) + 0.5)
        self.shift = nn.Parameter(torch.randn(8))
        self.register_buffer("mean", torch.randn(8))
        self.register_buffer("var", torch.rand(8) + 0.5)
        self.matrix = nn.Parameter(0.3 * torch.randn(10, 8))
        self.offset = nn.Parameter(torch.zeros(10))

    def forward(self, x: Tensor) -> Tensor:
        x = F.conv2d(x, self.kernel, stride=2, padding=1)
        x = F.batch_norm(x, self.mean, self.var, self.gain, self.shift, training=self.training, momentum=0.1)
        x = F.hardtanh(F.relu_(x), 0.0, 6.0)
        x = F.max_pool2d(x, 2)
        x = F.dropout(x, 0.3, self.training)
        x = F.adaptive_avg_pool2d(x, 1).squeeze(-1).squeeze(-1)
        return F.log_softmax(F.linear(x, self.matrix, self.offset), dim=1)


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


class TwoTowers(nn.Module):
    """Two inputs, results in each other, and an option that is seldom used."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Conv2d(3, 4, 3, padding=1)
        self.right = nn.Conv2d(1, 4, 3, padding=1)
        self.fc = nn.Linear(4, 10)

    def forward(
        self, image: Tensor, depth: Tensor, with_features: bool = True
    ) -> tuple[Tensor, dict[str, list[Tensor]]] | Tensor:
        both = F.relu(self.left(image) + self.right(depth))
        scores = self.fc(both.mean((2, 3)))
        return (scores, {"features": [both, torch.sigmoid(both)]}) if with_features else scores


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "resnet_basic": lambda: ResNet(BasicBlock),
    "resnet_bottleneck": lambda: ResNet(Bottleneck),
    "cifar_resnet": CifarResNet,
    "mobilenet_v2": MobileNetV2,
    "mobilenet_v3": MobileNetV3,
    "inception": Inception,
    "squeezenet": SqueezeNet,
    "efficientnet": EfficientNet,
    "efficientnet_lite": lambda: EfficientNet(nn.ReLU6),
    "shared": Shared,
    "shufflenet": ShuffleNet,
    "unet": UNet,
    "functional": Functional,
    "densenet": DenseNet,
    "two_towers": TwoTowers,
}
"""Name → network; all take a batch of 3·32·32 images, ``two_towers`` 1·32·32 ones too."""


def network(name: str, seed: int = 0) -> nn.Module:
    """One of ``NETWORKS`` in evaluation, with weights and batch norms from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = NETWORKS[name]().eval()
        for part in made.modules():
            if isinstance(part, nn.BatchNorm2d):
                assert part.running_mean is not None and part.running_var is not None
                nn.init.uniform_(part.running_mean, -0.5, 0.5)
                nn.init.uniform_(part.running_var, 0.5, 2.0)
                nn.init.uniform_(part.weight, 0.5, 1.5)
                nn.init.uniform_(part.bias, -0.5, 0.5)
    return made


def example(name: str, batch: int = 2, seed: int = 1) -> tuple[Tensor, ...]:
    """Inputs for a network."""
    source = torch.Generator().manual_seed(seed)
    image = torch.randn(batch, 3, 32, 32, generator=source)
    return (image, torch.randn(batch, 1, 32, 32, generator=source)) if name == "two_towers" else (image,)
