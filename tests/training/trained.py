"""Simulated models that have seen some batches."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.numpy_helper
import torch
import torch.nn.functional as F
from networks_residual import CifarResNet
from torch import Tensor, nn


def resnet20(shared_data: Path) -> nn.Module:
    """The trained ResNet-20; its BatchNorms, folded in the file, only add."""
    graph = onnx.load(shared_data / "models" / "resnet20_cifar10.onnx").graph
    arrays = {one.name: torch.tensor(onnx.numpy_helper.to_array(one)) for one in graph.initializer}
    layers = [node for node in graph.node if node.op_type in ("Conv", "Gemm")]
    made = CifarResNet(depth=3, width=16).eval()
    products = [one for one in made.modules() if isinstance(one, (nn.Conv2d, nn.Linear))]
    norms = [one for one in made.modules() if isinstance(one, nn.BatchNorm2d)]
    with torch.no_grad():
        for product, node in zip(products, layers, strict=True):
            product.weight.copy_(arrays[node.input[1]])
        for norm, node in zip(norms, layers, strict=False):
            norm.weight.copy_(torch.sqrt(norm.running_var + norm.eps))
            norm.bias.copy_(arrays[node.input[2]])
        made.linear.bias.copy_(arrays[layers[-1].input[2]])
    return made


def images_and_labels(batches: int, size: int = 16, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """Random pictures whose brightest of ten regions is their class."""
    source = torch.Generator().manual_seed(seed)
    pictures = torch.randn(batches * size, 3, 32, 32, generator=source)
    labels = torch.randint(0, 10, (batches * size,), generator=source)
    for picture, label in zip(pictures, labels, strict=True):
        picture[:, 3 * int(label) : 3 * int(label) + 3] += 1.5
    return list(zip(pictures.split(size), labels.split(size), strict=True))


def train(model: nn.Module, batches: list[tuple[Tensor, Tensor]], rate: float = 0.02) -> list[float]:
    """Plain SGD; the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    for pictures, labels in batches:
        loss = F.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses
