"""Layers and pools over volumes: native kernels give the reference's bits, and frames are not moved."""

from __future__ import annotations

import numpy as np
import pytest
from decode import steps_of
from qdq_nets import Net, lowered, random_feeds, steps
from volume_nets import KINDS

from bits import assert_same_bits
from calib8.engine.compile import compile_program
from calib8.engine.frames import runs
from calib8.engine.steps import Copy, Depthwise
from calib8.program.program import Program

CASES = {"convolution": 40, "transposed": 20, "max_pool": 20, "average_pool": 20}
SEEDS = [
    *(pytest.param(kind, range(1000, 1000 + count), id=kind) for kind, count in CASES.items()),
    *(pytest.param(kind, range(1000 + count, 1100), id=f"more-{kind}", marks=pytest.mark.slow)
      for kind, count in CASES.items()),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "seeds"), SEEDS)
def test_random_layers(kind: str, seeds: range) -> None:
    for seed in seeds:
        program = lowered(KINDS[kind](seed))
        if "Float" not in steps(program):
            assert_same_bits(program, random_feeds(program, seed))


def residual(batch: int) -> Program:
    """Two layers over three axes, a depthwise one between them and a sum around them."""
    net = Net()
    window = "kernel_shape = [3, 3, 3], pads = [1, 1, 1, 1, 1, 1]"
    x = net.coded(net.op(f"Conv <{window}> ({net.coded('x', 0.05, 120)}, {net.weight(8, 3, 3, 3, 3)})"), 1, 0)
    y = net.coded(net.op(f"Conv <{window}, group = 8> ({x}, {net.weight(8, 1, 3, 3, 3)})"), 0.6, 0)
    z = net.coded(net.op(f"Conv <{window}> ({y}, {net.weight(8, 8, 3, 3, 3)})"), 1.5, 128)
    total = net.coded(net.op(f"Relu ({net.op(f'Add ({x}, {z})')})"), 2.0, 0)
    halved = f"{window}, strides = [2, 2, 2]"
    last = net.coded(net.op(f"Conv <{halved}> ({total}, {net.weight(8, 8, 3, 3, 3)})"), 6.0, 128)
    pooled = net.coded(net.op(f"GlobalAveragePool ({last})"), 3.0, 128)
    return lowered(net.proto(f"float[{batch},3,6,9,7] x", pooled))


@pytest.mark.parametrize("batch", [1, 2])
def test_a_residual_block(batch: int) -> None:
    assert_same_bits(residual(batch))


def test_nothing_is_moved_between_layers() -> None:
    """Every tensor is written where the next layer reads it, frames of padding around it."""
    plan = compile_program(residual(1))
    made = steps_of(plan)
    assert not any(isinstance(step, Copy) for step in made)
    assert sum(isinstance(step, Depthwise) for step in made) == 1
    joined = 3 * 6 * 9 * 7 * 8
    assert plan.arena_bytes < 5 * joined


def test_runs_are_images_equally_far_apart() -> None:
    found = list(runs(np.array([0, 2, 4, 9, 11, 10], np.int32)))
    assert found == [(0, range(0, 6, 2)), (3, range(9, 13, 2)), (5, range(10, 11))]


def test_a_batch_takes_one_step_per_volume() -> None:
    net = Net()
    layer = net.op(
        f"Conv <kernel_shape = [3, 1, 1]> ({net.coded('x', 0.05, 120)}, {net.weight(5, 4, 3, 1, 1)})"
    )
    program = lowered(net.proto("float[3,4,6,5,5] x", net.coded(layer, 2.0, 128)))
    assert [row.opcode for row in compile_program(program).rows].count("conv") == 3
    assert_same_bits(program)
