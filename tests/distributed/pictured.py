"""A small network for gray pictures, its recipe, and folders of pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from PIL import Image

from calib8 import Preprocess
from small_nets import Net

RECIPE = Preprocess(mean=(120.0,), scale=(0.02,), color="gray")


def network() -> onnx.ModelProto:
    """Two convolutions with a BatchNormalization to fold."""
    net = Net(shape=("N", 1, 12, 12))
    y = net.op("Relu", net.batch_norm(net.conv("x", 1, 8, bias=False, name="first"), 8))
    return net.model(net.conv(y, 8, 3, 1, name="last"))


def drawn(folder: Path, count: int) -> list[Path]:
    """Pictures of several sizes."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(8)
    for index in range(count):
        pixels = rng.integers(0, 256, (14 + index % 5, 15), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:04}.png")
    return sorted(folder.iterdir())
