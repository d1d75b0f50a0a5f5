"""Small networks as PyTorch users write them; a few channels wide, with statistics in their batch norms."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from networks_joining import DenseNet, Inception, ShuffleNet, SqueezeNet, UNet
from networks_mobile import EfficientNet, MobileNetV2, MobileNetV3
from networks_residual import BasicBlock, Bottleneck, CifarResNet, ResNet
from torch import Tensor, nn


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


class Transformer(nn.Module):
    """Patches, a block of attention and one of GELU, with LayerNorm before both."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 8, stride=8)
        self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(3))
        self.qkv, self.join = nn.Linear(24, 72), nn.Linear(24, 24)
        self.wide, self.narrow = nn.Linear(24, 48), nn.Linear(48, 24)
        self.fc = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        parts = self.qkv(self.norms[0](x)).reshape(-1, 16, 3, 2, 12).permute(2, 0, 3, 1, 4).unbind(0)
        joined = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.join(joined.transpose(1, 2).reshape(-1, 16, 24))
        x = x + self.narrow(F.gelu(self.wide(self.norms[1](x))))
        return self.fc(self.norms[2](x).mean(1))


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
    "transformer": Transformer,
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
