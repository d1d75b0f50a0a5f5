"""Small networks of several operators, bit for bit as LiteRT's reference kernels have them."""

from __future__ import annotations

import numpy as np
import pytest
from cases_nets import CASES_OF
from single_op import CASES as COUNT
from single_op import assert_same_bits


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("net", CASES_OF)
def test_random_networks(net: str, dtype: str) -> None:
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        assert_same_bits(rng, CASES_OF[net](rng, dtype))
