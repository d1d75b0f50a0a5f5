"""Operators on 16-bit codes, bit for bit as LiteRT's reference kernels have them."""

from __future__ import annotations

import numpy as np
import pytest
from cases_wide import CASES_OF
from litert import Kernels, litert_outputs
from single_op import CASES as COUNT
from single_op import assert_same_bits, feeds

from calib8.tflite.write import serialize


@pytest.mark.parametrize("op", CASES_OF)
def test_random_models(op: str) -> None:
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        graph = CASES_OF[op](rng, "int16")
        assert_same_bits(rng, graph)


@pytest.mark.parametrize("kernels", ["optimized", "xnnpack"])
@pytest.mark.parametrize("op", ["ADD", "CONV_2D", "FULLY_CONNECTED", "MUL", "SUB", "TRANSPOSE_CONV"])
def test_litert_has_one_rounding_of_16_bits(op: str, kernels: Kernels) -> None:
    """All three sets of kernels give the same bits, of FULLY_CONNECTED where there is a bias."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        graph = CASES_OF[op](rng, "int16")
        if op == "FULLY_CONNECTED" and graph.operators[0].inputs[-1] < 0:
            continue
        model, fed = serialize(graph), feeds(rng, graph)
        [wanted], [found] = litert_outputs(model, fed), litert_outputs(model, fed, kernels)
        np.testing.assert_array_equal(found, wanted)
