"""How many samples a run has is told by the inputs that have a batch axis, and by no other."""

from __future__ import annotations

import numpy as np
import pytest

from calib8.errors import DataError
from calib8.tasks.judged import _rows_of
from small_models import Array

IMAGES = np.zeros((3, 4, 8, 8), np.float32)


@pytest.mark.parametrize("other", [np.float32(0.5), np.zeros(7, np.float32), np.zeros((3, 2), np.float32)])
def test_numbers_beside_the_images_do_not_count(other: Array) -> None:
    assert _rows_of({"k": np.asarray(other), "x": IMAGES}) == ["0", "1", "2"]


@pytest.mark.parametrize(
    "fed", [{"k": np.zeros((0, 4))}, {"k": np.float32(1)}, {"k": np.zeros((2, 4)), "x": IMAGES}]
)
def test_where_nothing_tells_it_that_is_said(fed: dict[str, Array]) -> None:
    with pytest.raises(DataError, match="rows"):
        _rows_of({name: np.asarray(array) for name, array in fed.items()})
