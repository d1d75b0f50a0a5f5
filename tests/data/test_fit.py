"""Which axis of a model's input holds the channels, and the size that it leaves open or asks for."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.data.fit import fit_preprocess
from calib8.data.preprocess import Layout, Preprocess
from calib8.errors import DataError, UsageError
from calib8.tensors import TensorSpec

Shape = tuple[int | str | None, ...]


def fitted(shape: Shape | None, **settings: object) -> Preprocess:
    p = Preprocess(**{"size": (20, 30), **settings})  # type: ignore[arg-type]
    return fit_preprocess(p, [TensorSpec("x", np.dtype(np.float32), shape)], "images")


@pytest.mark.parametrize("asked", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((1, 3, 20, 30), "NCHW"),
        ((1, 20, 30, 3), "NHWC"),
        (("N", 3, "H", "W"), "NCHW"),
        (("N", "H", "W", 3), "NHWC"),
        ((1, 3, 20, None), "NCHW"),
        ((1, None, 30, 3), "NHWC"),
        ((3, "H", "W"), "NCHW"),
    ],
)
def test_the_axis_that_has_as_many_is_that_of_the_channels(asked: Layout, shape: Shape, layout: str) -> None:
    """Where the other one is open, it is not: whatever was asked for."""
    assert fitted(shape, layout=asked).layout == layout


@pytest.mark.parametrize("asked", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", [(1, 3, 3, 3), ("N", "A", "B", "C"), None])
def test_where_sizes_do_not_tell_the_user_does(asked: Layout, shape: Shape | None) -> None:
    size = (3, 3) if shape == (1, 3, 3, 3) else (20, 30)
    assert fitted(shape, layout=asked, size=size).layout == asked


def test_the_size_is_the_models() -> None:
    assert fitted((1, 3, 48, 64), size=None).size == (48, 64)
    assert fitted((1, 48, 64, 3), size=None).size == (48, 64)
    assert fitted((1, 3, "H", "W")).size == (20, 30)
    with pytest.raises(UsageError, match="20×30 does not fit"):
        fitted((1, 3, 48, 30))
    with pytest.raises(UsageError, match="leaves the image size open"):
        fitted((1, 3, 48, "W"), size=None)


def test_channels_that_no_axis_has_are_refused() -> None:
    with pytest.raises(UsageError, match="gives 3 channels"):
        fitted((1, 4, 20, 30))
    with pytest.raises(DataError, match="no batch axis"):
        fitted(("H", "W", 3))
