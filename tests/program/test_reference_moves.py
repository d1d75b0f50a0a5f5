"""Data movement of the reference."""

from __future__ import annotations

import numpy as np
import pytest
from plain_loops import codes, run_one

from calib8.program.instructions import Concat, Gather, Pad, Reshape, Slice, Transpose

X = codes("x", (2, 3, 4))
DATA = np.arange(24, dtype=np.uint8).reshape(X.shape)


def test_concat() -> None:
    other = codes("b", (2, 1, 4))
    second = np.full(other.shape, 99, np.uint8)
    result = run_one(Concat("c", (0, 1, 0), (2,), 1), (X, other, codes("y", (2, 7, 4))), DATA, second)
    assert np.array_equal(result[:, :3], DATA)
    assert set(result[:, 3].reshape(-1).tolist()) == {99}
    assert np.array_equal(result[:, 4:], DATA)


def test_pad() -> None:
    step = Pad("p", (0,), (1,), (0, 1, 0), (1, 0, 2), 200)
    result = run_one(step, (X, codes("y", (3, 4, 6))), DATA)
    assert np.array_equal(result[:2, 1:, :4], DATA)
    assert (result == 200).sum() == 3 * 4 * 6 - 24


def test_transpose() -> None:
    result = run_one(Transpose("t", (0,), (1,), (2, 0, 1)), (X, codes("y", (4, 2, 3))), DATA)
    assert result.flags.c_contiguous
    for i, j, k in np.ndindex(X.shape):
        assert result[k, i, j] == DATA[i, j, k]


def test_reshape() -> None:
    result = run_one(Reshape("r", (0,), (1,)), (X, codes("y", (6, 4))), DATA)
    assert result.reshape(-1).tolist() == list(range(24))


@pytest.mark.parametrize(
    ("starts", "steps", "shape"),
    [
        ((0, 1, 0), (1, 1, 2), (2, 2, 2)),
        ((1, 2, 3), (-1, -1, -1), (2, 3, 4)),
        ((1, 0, 3), (-1, 1, -2), (1, 3, 2)),
        ((0, 2, 0), (1, -2, 3), (2, 2, 2)),
        ((1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ],
)
def test_slice(starts: tuple[int, ...], steps: tuple[int, ...], shape: tuple[int, ...]) -> None:
    result = run_one(Slice("s", (0,), (1,), starts, steps), (X, codes("y", shape)), DATA)
    for place in np.ndindex(*shape):
        source = tuple(s + k * p for s, k, p in zip(starts, steps, place, strict=True))
        assert result[place] == DATA[source]


def test_gather() -> None:
    indices = np.array([3, 3, 0, 1, 2], np.int32)
    result = run_one(Gather("g", (0,), (1,), 2, indices), (X, codes("y", (2, 3, 5))), DATA)
    assert np.array_equal(result, DATA[:, :, [3, 3, 0, 1, 2]])
