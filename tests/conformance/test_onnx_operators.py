"""Single operators as graphs, lowered and run, beside ONNX Runtime that computes every node as it stands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from operator_nets import OPERATORS, Coded
from qdq_nets import lowered, random_feeds

from bits import assert_native_gives
from calib8.program.reference.executor import run_program
from small_models import run

BLOCKS, CASES = 10, 20
"""200 cases of every operator; a tenth of them in the tests that run by default."""


@pytest.mark.one_in(BLOCKS)
@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("build", OPERATORS, ids=lambda build: build.__name__)
def test_operator(build: Callable[[Coded], onnx.ModelProto], block: int) -> None:
    apart = total = 0
    for seed in range(block * CASES, (block + 1) * CASES):
        proto = build(Coded(seed))
        program = lowered(proto)
        feeds = random_feeds(program, seed)
        made = run_program(program, feeds)
        assert_native_gives(program, feeds, made)
        [wanted] = run(proto, feeds)
        assert (made[0].shape, made[0].dtype) == (wanted.shape, wanted.dtype)
        distance = np.abs(made[0].astype(int) - wanted.astype(int))
        assert distance.max(initial=0) <= (1 if OPERATORS[build] else 0), f"seed {seed}"
        apart, total = apart + int(np.count_nonzero(distance)), total + distance.size
    assert apart <= OPERATORS[build] * total
