"""What moves codes and what picks them, bit for bit as LiteRT's reference kernels have them."""

from __future__ import annotations

import numpy as np
import pytest
from cases_moves import MOVES
from single_op import CASES, assert_same_bits


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", MOVES)
def test_move(op: str, dtype: str) -> None:
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        assert_same_bits(rng, MOVES[op](rng, dtype))
