"""Resized images, bit for bit as LiteRT's reference kernels have them."""

from __future__ import annotations

import numpy as np
import pytest
from cases_moves import RESIZES
from single_op import CASES, assert_same_bits


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", RESIZES)
def test_resize(op: str, dtype: str) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        assert_same_bits(rng, RESIZES[op](rng, dtype))
