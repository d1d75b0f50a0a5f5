"""Hints for arrays that do not fit: what they say to do makes the array fit."""

from typing import Any

import numpy as np
import pytest

from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.data.rearranged import rearrangement
from calib8.errors import DataError
from calib8.tensors import TensorSpec

FIRST, LAST, GRAY = ("N", 3, 8, 6), (1, 8, 6, 3), ("N", 1, None, None)
PLAIN = "Give arrays of the model's type and shape, batch axis included."


def spec(shape: tuple[Any, ...]) -> list[TensorSpec]:
    return [TensorSpec("x", np.dtype(np.float32), shape)]


@pytest.mark.parametrize(
    ("given", "wanted", "code"),
    [
        ((2, 8, 6, 3), FIRST, ".transpose(0, 3, 1, 2)"),
        ((2, 3, 8, 6), LAST, ".transpose(0, 2, 3, 1)"),
        ((4, 1, 8, 6, 3), FIRST, ".transpose(0, 1, 4, 2, 3)"),
        ((3, 8, 6), FIRST, "[None]"),
        ((8, 6, 3), LAST, "[None]"),
        ((8, 6, 3), FIRST, ".transpose(2, 0, 1)[None]"),
        ((3, 8, 6), LAST, ".transpose(1, 2, 0)[None]"),
        ((5, 8, 6), GRAY, "[:, None]"),
        ((5, 8, 6), ("N", 8, 6, 1), "[..., None]"),
        ((8, 6), GRAY, "[None, None]"),
        ((8, 6), ("N", 8, 6, 1), "[None, ..., None]"),
        ((4,), ("N", 4), "[None]"),
        ((2, 5, 100), ("N", 100, 5), ".transpose(0, 2, 1)"),
    ],
)
def test_the_hint_makes_the_array_fit(given: Any, wanted: Any, code: str) -> None:
    array = np.zeros(given, np.float32)
    for data in ({"x": array}, array):
        with pytest.raises(DataError) as caught:
            list(open_dataset(data, spec(wanted), None))
        assert caught.value.cure == f"Give array{code}, so that the axes are those of the model"
    mended = eval(f"array{code}", {"array": array})
    assert list(open_dataset({"x": mended}, spec(wanted), None))
    if code == "[None]":  # a batch axis that is missing is added to single samples
        assert list(open_dataset([{"x": array}], spec(wanted), None))
    elif len(given) <= len(wanted):
        with pytest.raises(DataError) as caught:
            list(open_dataset([{"x": array[:1] if len(given) == len(wanted) else array}], spec(wanted), None))
        assert f"Give array{code}, so" in str(caught.value)


@pytest.mark.parametrize("given", [(2, 3, 8, 7), (2, 8, 7, 3), (2, 6, 8, 3), (2, 3), (9, 9, 9)])
def test_no_hint_where_nothing_helps(given: Any) -> None:
    assert rearrangement(given, FIRST) == ""
    with pytest.raises(DataError) as caught:
        list(open_dataset([{"x": np.zeros(given, np.float32)}], spec(FIRST), None))
    assert str(caught.value).endswith(PLAIN)


def test_a_wrong_type_comes_before_the_axes() -> None:
    with pytest.raises(DataError) as caught:
        list(open_dataset({"x": np.zeros((2, 8, 6, 3), complex)}, spec(FIRST), None))
    assert str(caught.value).endswith(PLAIN)


def test_pixels_channels_first_and_one_image_alone() -> None:
    with pytest.raises(
        DataError, match=r"image\.transpose\(1, 2, 0\), for all at once images\.transpose\(0, 2"
    ):
        list(open_dataset({"images": np.zeros((2, 3, 8, 6), np.uint8)}, spec(FIRST), Preprocess()))
    image = np.zeros((8, 6, 3), np.uint8)
    with pytest.raises(DataError, match=r"is one image by its shape 8×6×3, .* Give array\[None\]"):
        list(open_dataset(image, spec(FIRST), Preprocess()))
    assert len(list(open_dataset(image[None], spec(FIRST), Preprocess()))) == 1
