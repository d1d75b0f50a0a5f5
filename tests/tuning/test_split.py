"""Samples that calibrate and samples that judge have nothing in common, whatever their order and names."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.data.opening import open_dataset
from calib8.data.samples import Dataset
from calib8.errors import DataError, UsageError
from calib8.tensors import TensorSpec
from calib8.tuning.split import split


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
