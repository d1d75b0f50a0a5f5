"""The same samples in many objects (tensors, loaders, datasets, pictures), and what is read of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.tensors import TensorSpec

FLOAT = np.dtype(np.float32)
INPUT = [TensorSpec("x", FLOAT, ("N", 3, 5, 6))]
RECIPE = Preprocess(mean=(0.0,), scale=(1.0,))
COUNT = 6
VALUES = np.arange(COUNT * 90, dtype=np.float32).reshape(COUNT, 3, 5, 6)
PIXELS = (VALUES % 251).astype(np.uint8)
LABELS = list(range(10, 10 + COUNT))
ROWS = [np.ascontiguousarray(row.transpose(1, 2, 0)) for row in PIXELS]
"""The pixels H×W×C."""


class Numbered(Dataset[Any]):
    """A Dataset with numbered samples, as PyTorch's users write them: nothing ends its numbers."""

    def __init__(self, row: Callable[[int], Any]) -> None:
        self.row = row

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> Any:
        return self.row(number % COUNT)


class Streaming(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(torch.from_numpy(VALUES))


def tensors() -> torch.Tensor:
    return torch.from_numpy(VALUES.copy())


def pictures() -> list[Image.Image]:
    return [Image.fromarray(row) for row in ROWS]


def loader(batch: int, **options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(tensors(), torch.tensor(LABELS)), batch_size=batch, **options)


def read(
    data: Any, *, preprocess: Preprocess | None = None, **options: Any
) -> tuple[npt.NDArray[Any], list[int | None]]:
    """All values and labels of the samples, and the same a second time."""
    dataset = open_dataset(data, INPUT, preprocess, **options)
    first, again = list(dataset), list(dataset)
    values = np.concatenate([sample.inputs["x"] for sample in first])
    np.testing.assert_array_equal(values, np.concatenate([sample.inputs["x"] for sample in again]))
    assert len({sample.name for sample in first}) == len(first)
    return values, [sample.label for sample in first]
