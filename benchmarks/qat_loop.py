"""A training loop as any user of PyTorch writes it, the same for float, calib8 and peers."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from qat_data import Images, batches, training_batches


def options(description: str) -> argparse.ArgumentParser:
    """What every benchmark of training is asked: folders of data and images, how many, how fast, where to."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("cifar", type=Path)
    parser.add_argument("--images", type=int, default=10_000, help="training images")
    parser.add_argument("--rate", type=float, default=1e-4, help="learning rate of the first step")
    parser.add_argument("--judged", type=int, help="evaluation images (default: all)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    return parser


@dataclass(frozen=True)
class Recipe:
    """How long and how fast: SGD with momentum, the rate falls as half a cosine.

    Attributes:
        epochs: how often all images are seen.
        batch: images per step.
        rate: learning rate of the first step; the last one's is 1 % of it.
        momentum, decay: of SGD; only tensors of two or more dimensions decay.
        frozen: share of the steps, at the end, with ranges and BatchNorm frozen.
    """

    epochs: int = 3
    batch: int = 128
    rate: float = 1e-3
    momentum: float = 0.9
    decay: float = 1e-4
    frozen: float = 1 / 3

    def rate_at(self, done: float) -> float:
        """Learning rate after this share of the steps."""
        return self.rate * (0.01 + 0.99 * (1 + math.cos(math.pi * done)) / 2)


def optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [
        {"params": [some for some in parameters if some.dim() >= 2], "weight_decay": recipe.decay},
        {"params": [some for some in parameters if some.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(groups, lr=recipe.rate, momentum=recipe.momentum)


def step(
    network: nn.Module, by: torch.optim.Optimizer, inputs: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """One step of training; the loss."""
    by.zero_grad()
    loss = F.cross_entropy(network(inputs), labels)
    loss.backward()
    by.step()
    return loss.detach()


def train(
    network: nn.Module,
    images: Images,
    recipe: Recipe,
    seed: int,
    freeze: Callable[[nn.Module], object] | None,
) -> list[float]:
    """Trains in place; the mean loss of every epoch.

    ``freeze`` is called once, where the last ``recipe.frozen`` of the steps begin.
    """
    random = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    by = optimizer(network, recipe)
    per_epoch = len(images) // recipe.batch
    steps = per_epoch * recipe.epochs
    freeze_at = round(steps * (1 - recipe.frozen))
    losses, done = [], 0
    for _ in range(recipe.epochs):
        total = torch.zeros(())
        for inputs, labels in training_batches(images, recipe.batch, random):
            if done == freeze_at and freeze is not None:
                freeze(network)
            for group in by.param_groups:
                group["lr"] = recipe.rate_at(done / steps)
            total += step(network, by, inputs, labels)
            done += 1
        losses.append(float(total) / per_epoch)
    return losses


def predictions(
    network: Callable[[torch.Tensor], torch.Tensor], images: Images, batch: int = 250
) -> torch.Tensor:
    """The class of each image, int64 [N]; a module must be in eval mode."""
    with torch.no_grad():
        return torch.cat([network(inputs).argmax(1) for inputs, _ in batches(images, batch)])


def percent_equal(one: torch.Tensor, other: torch.Tensor) -> float:
    """Accuracy, or agreement, in percent."""
    return 100 * float((one == other).double().mean())
