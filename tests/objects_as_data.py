"""One object of every kind that may be given as data, and of those refused, by its name in docs/data.md.

All that work hold the same samples: ``VALUES``, or ``PIXELS`` that ``RECIPE`` makes inputs of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import calib8
from calibration_reader import CalibrationReader
from needed import needed

COUNT, CLASSES = 8, 4
VALUES = np.random.default_rng(5).standard_normal((COUNT, 3, 6, 6)).astype(np.float32)
PIXELS = np.random.default_rng(6).integers(0, 256, (COUNT, 6, 6, 3), dtype=np.uint8)
LABELS = np.arange(COUNT) % CLASSES
RECIPE = calib8.Preprocess(mean=(127.5,), scale=(1 / 64,))

Make = Callable[[Path], Any]
"""An object; the folder has the files of ``write_files``."""


class Numbered(Dataset[Any]):
    """A Dataset of PyTorch, and what is like one."""

    def __init__(self, row: Callable[[int], Any], count: int = COUNT) -> None:
        self.row, self.count = row, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        return self.row(number)


class Streaming(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(torch.from_numpy(VALUES))


class HuggingFace:
    """As a Dataset of the library ``datasets``: rows by number, and by iteration."""

    column_names = ("image", "label", "id")

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"image": Image.fromarray(PIXELS[number]), "label": int(LABELS[number]), "id": f"n{number}"}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[number] for number in range(COUNT))


def write_files(folder: Path) -> None:
    """Pictures in ``images``, arrays in ``x.npz`` and ``x.npy``."""
    (folder / "images").mkdir()
    for number, row in enumerate(PIXELS):
        Image.fromarray(row).save(folder / "images" / f"{number}.png")
    np.savez(folder / "x.npz", x=VALUES, labels=LABELS)
    np.save(folder / "x.npy", VALUES)


def _tensors() -> torch.Tensor:
    return torch.from_numpy(VALUES.copy())


def _labelled() -> TensorDataset:
    return TensorDataset(_tensors(), torch.from_numpy(LABELS))


def _files(folder: Path) -> list[Path]:
    return [folder / "images" / f"{number}.png" for number in range(COUNT)]


def _used_up() -> Iterator[Any]:
    rows = iter(VALUES)
    list(rows)
    return rows


ARRAYS: dict[str, Make] = {
    "array": lambda _: VALUES,
    "{name: array}": lambda _: {"x": VALUES},
    "{name: array, 'labels': integers}": lambda _: {"x": VALUES, "labels": LABELS},
    "(array, integers)": lambda _: (VALUES, LABELS),
    "tensor": lambda _: _tensors(),
    "tensor with a gradient": lambda _: _tensors().requires_grad_(),
    "list of arrays": lambda _: list(VALUES),
    "list of batches": lambda _: [VALUES[:5], VALUES[5:]],
    "tuple of tensors": lambda _: tuple(_tensors()),
    "list of (array, label)": lambda _: list(zip(VALUES, LABELS.tolist(), strict=True)),
    "list of {name: array}": lambda _: [{"x": row[None]} for row in VALUES],
    "list of ({name: array}, label)": lambda _: [
        ({"x": row[None]}, label) for row, label in zip(VALUES, LABELS, strict=True)
    ],
    "generator of arrays": lambda _: (row for row in VALUES),
    "map": lambda _: map(np.asarray, VALUES),
    "function that returns a generator": lambda _: lambda: (row for row in VALUES),
    "CalibrationDataReader": lambda _: CalibrationReader(VALUES),
    "DataLoader of x": lambda _: DataLoader(_tensors(), batch_size=3),
    "DataLoader of (x, y)": lambda _: DataLoader(_labelled(), batch_size=3),
    "DataLoader that shuffles": lambda _: DataLoader(_labelled(), batch_size=3, shuffle=True),
    "TensorDataset of (x, y)": lambda _: _labelled(),
    "Subset": lambda _: Subset(_labelled(), range(COUNT)),
    "Dataset of (x, y)": lambda _: Numbered(lambda n: (VALUES[n], LABELS[n])),
    "IterableDataset": lambda _: Streaming(),
    "file.npz": lambda folder: folder / "x.npz",
    "file.npy": lambda folder: str(folder / "x.npy"),
    "list of (array, one-hot vector)": lambda _: list(zip(VALUES, np.eye(CLASSES)[LABELS], strict=True)),
    "list of (array, boxes)": lambda _: [(row, {"boxes": np.zeros((2, 4))}) for row in VALUES],
}
PICTURES: dict[str, Make] = {
    "list of Pillow images": lambda _: [Image.fromarray(row) for row in PIXELS],
    "list of (Pillow image, label)": lambda _: [
        (Image.fromarray(row), int(label)) for row, label in zip(PIXELS, LABELS, strict=True)
    ],
    "array of pixels": lambda _: PIXELS,
    "(array of pixels, integers)": lambda _: (PIXELS, LABELS),
    "tensor of pixels N×C×H×W": lambda _: torch.from_numpy(PIXELS.transpose(0, 3, 1, 2).copy()),
    "list of arrays of pixels": lambda _: list(PIXELS),
    "list of paths": _files,
    "generator of paths": lambda folder: (str(file) for file in _files(folder)),
    "list of (path, label)": lambda folder: list(zip(_files(folder), LABELS.tolist(), strict=True)),
    "folder of images": lambda folder: folder / "images",
    "pattern of images": lambda folder: f"{folder}/images/*.png",
    "list of bytes": lambda folder: [file.read_bytes() for file in _files(folder)],
    "rows of WebDataset": lambda folder: [
        {"__key__": file.stem, "png": file.read_bytes(), "cls": b"%d" % label}
        for file, label in zip(_files(folder), LABELS, strict=True)
    ],
    "Dataset of Hugging Face": lambda _: HuggingFace(),
    "list of {'image': …, 'label': …}": lambda _: list(HuggingFace()),
}
REFUSED: dict[str, Make] = {
    "number, None": lambda _: 3,
    "function with arguments": lambda _: lambda first: VALUES,
    "function that returns a dictionary": lambda _: lambda: {"x": VALUES},
    "empty list": lambda _: [],
    "generator that was read already": lambda _: _used_up(),
    "Dataset shorter than its length": lambda _: Numbered(lambda n: list(VALUES)[n], COUNT + 1),
    "path of no file": lambda folder: folder / "gone",
    "list of paths of no files": lambda _: ["gone.png"],
    "pattern that matches nothing": lambda folder: f"{folder}/*.jpg",
    "array of another shape": lambda _: VALUES[:, :, :5],
    "array under another name": lambda _: {"y": VALUES},
    "sparse tensor": lambda _: _tensors().to_sparse(),
    "tensor of the device meta": lambda _: torch.empty(COUNT, 3, 6, 6, device="meta"),
    "DataFrame": lambda _: needed("pandas").DataFrame({"a": [1.0], "b": [2.0]}),
    "list of (array, array) of one shape": lambda _: [(row, row) for row in VALUES],
    "list of (array, array, array)": lambda _: [(row, row, row) for row in VALUES],
    "list of (array, text)": lambda _: [(row, "cat") for row in VALUES],
    "(array, integers) of other lengths": lambda _: (VALUES, LABELS[:3]),
    "list of (array, label beyond the classes)": lambda _: [(row, 99) for row in VALUES],
}
