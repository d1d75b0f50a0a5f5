"""Samples that calibrate and samples that judge have nothing in common, whatever their order and names."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from calib8.data.opening import open_dataset
from calib8.data.samples import Dataset, Sample
from calib8.errors import DataError, UsageError
from calib8.tensors import TensorSpec
from calib8.tuning.split import Split, split


def opened(values: np.ndarray) -> Dataset:
    spec = TensorSpec("x", np.dtype(np.float32), (None, 2))
    return open_dataset({"x": values}, [spec], None)


def seen(dataset: Dataset) -> set[float]:
    return {float(np.asarray(sample.inputs["x"])[0, 0]) for sample in dataset}


def values(count: int, first: int = 0) -> np.ndarray:
    return np.repeat(np.arange(first, first + count, dtype=np.float32)[:, None], 2, axis=1)


def test_halves_by_content() -> None:
    parts = split(opened(values(31)), None)
    low, high = seen(parts.calibrating), seen(parts.judging)
    assert not low & high and low | high == set(map(float, range(31)))
    assert (parts.calibrating.count, parts.judging.count) == (15, 16)
    again = split(opened(values(31)[::-1].copy()), None)
    assert seen(again.judging) == high
    assert again.judging_digest == parts.judging_digest != parts.calibrating_digest


def test_equal_samples_are_on_one_side() -> None:
    for count in range(16, 24):
        parts = split(opened(np.repeat(values(count), 3, axis=0)), None)
        assert not seen(parts.calibrating) & seen(parts.judging)


@pytest.mark.parametrize("given", [False, True])
def test_samples_that_fill_no_batch_of_the_model_do_not_judge(given: bool) -> None:
    """What a model of a fixed batch is fed is whole batches."""
    spec = TensorSpec("x", np.dtype(np.float32), (4, 2))
    data = open_dataset({"x": values(38)}, [spec], None)
    judges = open_dataset({"x": values(18, first=100)}, [spec], None) if given else None
    parts = split(data, judges)
    assert parts.judging.count is not None and parts.judging.count % 4 == 0
    assert sum(len(sample.inputs["x"]) for sample in parts.judging) == parts.judging.count


def test_samples_of_their_own_judge_and_do_not_calibrate() -> None:
    parts = split(opened(values(40)), opened(values(20, first=30)))
    assert seen(parts.judging) == set(map(float, range(30, 50)))
    assert seen(parts.calibrating) == set(map(float, range(30)))
    assert parts.left_out == 10


def test_too_few_are_refused() -> None:
    with pytest.raises(DataError, match="leaves 7 samples"):
        split(opened(values(14)), None)
    with pytest.raises(DataError, match="leaves 3 samples"):
        split(opened(values(14)), opened(values(3, first=50)))
    with pytest.raises(UsageError, match="what calibrated cannot judge"):
        split(opened(values(14)), opened(values(14)))


class Loader:
    """Yields arrays of two numbers, new ones on every pass: the numbers of that pass, the last ones again."""

    def __init__(self, numbers: list[list[int]]) -> None:
        self.numbers, self.passes = numbers, 0

    def __iter__(self) -> Iterator[np.ndarray]:
        chosen = self.numbers[min(self.passes, len(self.numbers) - 1)]
        self.passes += 1
        for number in chosen:
            yield np.full((1, 2), number, np.float32)


def streamed(data: object) -> Dataset:
    return open_dataset(data, [TensorSpec("x", np.dtype(np.float32), (None, 2))], None)  # type: ignore[arg-type]


def test_what_can_be_read_again_is_read_again() -> None:
    """Every pass reads the loader anew, and the halves are those of the same samples read once."""
    loader = Loader([list(range(31))])
    parts, once = split(streamed(loader), None), split(streamed(iter(Loader([list(range(31))]))), None)
    assert seen(parts.judging) == seen(once.judging) and seen(parts.calibrating) == seen(once.calibrating)
    assert (parts.judging_digest, parts.calibrating_digest) == (once.judging_digest, once.calibrating_digest)
    assert loader.passes == 3
    assert not seen(parts.judging) & seen(parts.calibrating)
    assert loader.passes == 5


def test_samples_of_a_loader_take_no_memory_once_they_are_split() -> None:
    """Of 64 samples of 256 KB each less than two are there, where all of them were 16 MB."""

    def loader() -> Iterator[np.ndarray]:
        return (np.full((1, 65536), number, np.float32) for number in range(64))

    dataset = open_dataset(loader, [TensorSpec("x", np.dtype(np.float32), (None, 65536))], None)
    tracemalloc.start()
    try:
        parts = split(dataset, None)
        assert tracemalloc.get_traced_memory()[0] < 2 * 65536 * 4
    finally:
        tracemalloc.stop()
    assert parts.judging.count == 32


def test_what_can_be_read_once_is_kept() -> None:
    parts = split(streamed(iter(Loader([list(range(31))]))), None)
    assert not seen(parts.judging) & seen(parts.calibrating)
    assert len(seen(parts.judging)) == 16 and len(seen(parts.calibrating)) == 15


def test_ranks_are_the_order_of_the_digests() -> None:
    """What judges in the order of the data, as an array would be ordered."""
    order = [7, 3, 11, 0, *range(12, 31), 1, 2, 4, 5, 6, 8, 9, 10]
    first, second = (split(streamed(Loader([numbers])), None) for numbers in (order, order[::-1]))
    one, other = (
        [float(np.asarray(sample.inputs["x"])[0, 0]) for sample in sorted(part.judging, key=rank(part))]
        for part in (first, second)
    )
    assert one == other and sorted(first.ranks.values()) == list(range(16))


def rank(part: Split) -> Callable[[Sample], int]:
    return lambda sample: part.ranks[sample.name]


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (list(range(30, -1, -1)), "hold another 'sample"),
        (list(range(9)), "of the chosen samples earlier when they are read again"),
    ],
)
def test_data_that_change_are_refused(second: list[int], problem: str) -> None:
    parts = split(streamed(Loader([list(range(31)), second])), None)
    with pytest.raises(UsageError, match=problem):
        seen(parts.judging)
