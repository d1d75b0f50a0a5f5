"""How data objects are gone through: every pass the same, as far as needed, and no more than is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from data_samples import (
    COUNT,
    INPUT,
    LABELS,
    RECIPE,
    ROWS,
    VALUES,
    Streaming,
    loader,
    read,
    tensors,
)
from PIL import Image
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from calib8.data import streams
from calib8.data.opening import open_dataset
from calib8.errors import UsageError
from calibration_reader import CalibrationReader


def test_samples_are_counted_by_rows() -> None:
    assert [
        len(read(data, samples=3)[0]) for data in (loader(4), [VALUES[:2], VALUES[2:]], iter(VALUES))
    ] == [3, 3, 3]
    values, labels = read(TensorDataset(tensors(), torch.tensor(LABELS)), samples=2)
    np.testing.assert_array_equal(values, VALUES[[0, 3]])
    assert labels == [10, 13]


def test_a_shuffling_loader_is_read_once() -> None:
    values, labels = read(loader(2, shuffle=True))
    assert sorted(labels) == LABELS  # type: ignore[type-var]
    np.testing.assert_array_equal(values, VALUES[[label - 10 for label in labels]])  # type: ignore[operator]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_KEPT", 3 * VALUES[0].nbytes)
    with pytest.raises(UsageError, match="of type generator can be read only once"):
        list(open_dataset((row for row in VALUES), INPUT, None))
    assert len(list(open_dataset((row for row in VALUES), INPUT, None, samples=3))) == 3
    assert len(list(open_dataset(list(VALUES), INPUT, None))) == COUNT


def test_a_generator_is_not_read_further_than_needed() -> None:
    taken = []

    def rows() -> Iterator[Any]:
        for number in range(1000):
            taken.append(number)
            yield VALUES[0]

    dataset = open_dataset(rows(), INPUT, None, samples=4)
    assert not taken
    list(dataset), list(dataset)
    assert len(taken) == 4


def test_reused_arrays_of_a_generator_are_copied() -> None:
    def rows() -> Iterator[Any]:
        buffer = np.empty((3, 5, 6), np.float32)
        for row in VALUES:
            buffer[...] = row
            yield buffer

    np.testing.assert_array_equal(read(rows())[0], VALUES)


def test_a_batch_sampler_of_its_own_is_read_once() -> None:
    tensor = tensors()
    random = BatchSampler(RandomSampler(tensor), 2, drop_last=False)  # type: ignore[arg-type]
    values, _ = read(DataLoader(tensor, batch_sampler=random))  # type: ignore[arg-type]
    assert sorted(values[:, 0, 0, 0]) == sorted(VALUES[:, 0, 0, 0])


def test_a_stream_with_a_length() -> None:
    class Sized(Streaming):
        def __len__(self) -> int:
            return COUNT

    np.testing.assert_array_equal(read(Sized())[0], VALUES)


def test_functions_return_any_of_these() -> None:
    for data in (
        lambda: TensorDataset(tensors()),
        lambda: CalibrationReader(VALUES),
        lambda: loader(4),
        lambda: list(VALUES),
    ):
        np.testing.assert_array_equal(read(data)[0], VALUES)


def test_the_first_item_is_not_lost_to_the_look_at_it() -> None:
    asked: list[int] = []

    def rows() -> Iterator[Any]:
        for number in range(COUNT):
            asked.append(number)
            yield Image.fromarray(ROWS[number])

    dataset = open_dataset(rows, INPUT, RECIPE)
    assert asked == [0]
    assert len(list(dataset)) == COUNT and asked == list(range(COUNT))
