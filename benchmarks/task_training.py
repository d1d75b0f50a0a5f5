"""ResNet-20 with LeakyReLU for ``task_networks.py``: the trained one with other activations, trained on.

Takes minutes. Another machine gets slightly other weights: sums of a GPU or of other threads round otherwise.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from qat_data import training_images
from qat_loop import Recipe, train
from qat_networks import ResNet20, trained_resnet20

EPOCHS = 3
RATE = 0.02
SLOPE = 0.1
SEED = 0
COUNT = 50_000


def leaky_resnet20(trained: Path, cifar: Path, output: Path, count: int = COUNT) -> None:
    """Writes the network.

    Args:
        trained: ONNX file of the ResNet-20 with ReLU.
        cifar: folder of the unpacked package with the training images.
        output: the ONNX file to write.
        count: training images.
    """
    images = training_images(cifar, count)
    network = with_leaky(trained_resnet20(trained, images))
    network.train()
    train(network, images, Recipe(epochs=EPOCHS, rate=RATE), SEED, None)
    exported(network.eval(), output)


def with_leaky(network: ResNet20) -> ResNet20:
    """LeakyReLU in place of every ReLU."""
    for module in list(network.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.ReLU):
                setattr(module, name, nn.LeakyReLU(SLOPE))
    return network


def exported(network: nn.Module, output: Path) -> None:
    """Writes a network of CIFAR-10 with a free batch."""
    torch.onnx.export(
        network, (torch.zeros(1, 3, 32, 32),), output, dynamo=False, input_names=["input"],
        output_names=["logits"], dynamic_axes={"input": {0: "N"}, "logits": {0: "N"}}, opset_version=17,
    )  # fmt: skip
