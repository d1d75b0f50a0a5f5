"""Convolutions whose products are those of tiles, 16 pixels × 64 bytes × 16 channels, in all their forms."""

from __future__ import annotations

import numpy as np
import pytest
from conv_cases import code_slot, fused_tail, keep_fixed_sums, layer, one_step, pointwise, with_tail
from generated import pick

from bits import assert_same_bits
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.rules import PROFILES, Profile

Rng = np.random.Generator

FORMS = {
    "where they lie": (16, 16, 128, 64, 1, 1, 1),
    "one section of less": (8, 16, 48, 96, 1, 1, 1),
    "equal sections of less": (7, 16, 96, 80, 1, 1, 1),
    "the last section from the right": (6, 16, 136, 48, 1, 1, 1),
    "fewer rows than a tile has": (5, 5, 192, 64, 1, 1, 1),
    "rows that end inside tiles": (14, 14, 64, 130, 3, 1, 1),
    "whole tiles in every row": (4, 32, 64, 64, 3, 1, 1),
    "steps of two": (29, 27, 64, 72, 3, 2, 1),
    "runs across sections": (12, 13, 24, 96, 3, 1, 1),
    "short runs": (20, 20, 4, 64, 7, 2, 1),
    "groups": (9, 11, 192, 192, 3, 1, 3),
    "several blocks": (30, 30, 128, 33, 3, 1, 1),
    "deep": (4, 5, 1160, 40, 3, 1, 1),
    "a point too few": (3, 5, 128, 64, 1, 1, 1),
}
"""What is special → rows, columns, input and output channels, kernel, step, groups."""


def convolution(rng: Rng, profile: Profile, name: str) -> Program:
    rows, columns, inputs, outputs, kernel, step, groups = FORMS[name]
    pad = kernel // 2
    sizes = [(size + 2 * pad - kernel) // step + 1 for size in (rows, columns)]
    x, y = code_slot(rng, "x", (1, rows, columns, inputs)), code_slot(rng, "y", (1, *sizes, outputs))
    fields = layer(rng, profile, x, y, (outputs, kernel, kernel, inputs // groups))
    geometry = {"strides": (step, step), "pads": (pad,) * 4, "dilations": (1, 1), "groups": groups}
    return one_step(profile, x, y, op.Conv("conv", (0,), (1,), **fields, **geometry))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", FORMS)
def test_every_form(name: str, profile: Profile) -> None:
    assert_same_bits(convolution(np.random.default_rng((97, *name.encode())), profile, name))


@pytest.mark.parametrize("seed", range(36))
def test_residuals_and_tables_behind_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calib8.engine.compile.fuse", fused_tail)
    if seed // 6 % 2:
        keep_fixed_sums(monkeypatch)
    rng = np.random.default_rng((98, seed))
    program = convolution(rng, PROFILES[seed % 3], pick(rng, *FORMS))
    add, lookup = ((True, False), (True, True), (False, True))[seed // 3 % 3]
    assert_same_bits(with_tail(rng, program, add=add, lookup=lookup), seed=seed)


@pytest.mark.parametrize(
    "depth", [*range(28, 68, 4), 92, 96, 100, 124, 128, 132, 188, 192, 196, 252, 256, 260]
)
def test_every_depth(depth: int) -> None:
    """Sections of all sizes, with one, three and four strips of channels, in rows of 17 … 63 pixels."""
    rng = np.random.default_rng((99, depth))
    for outputs in (16, 40, 64):
        for columns in (17, 31, 33, 63):
            assert_same_bits(
                pointwise(rng, PROFILES[depth // 4 % 3], 1, columns, depth, outputs), threads=(1,)
            )


def test_the_largest_sums() -> None:
    """128 · 255 · 127 a section and channel: sums of 32 bits, as they are."""
    rng = np.random.default_rng(0)
    program = pointwise(rng, "onnx", 4, 16, 2048, 32)
    assert_same_bits(
        program,
        {"x": np.full((1, 4, 16, 2048), np.iinfo(program.slots[0].dtype).max, program.slots[0].dtype)},
    )


def test_memory_does_not_grow_by_them() -> None:
    """A block of windows takes 256 KB, or two tiles of pixels where these need more; one pixel takes none."""
    rng = np.random.default_rng(0)
    shapes = ((1, 1, 25088), (1, 1, 4096), (32, 32, 512), (7, 7, 1024), (4, 4, 25088), (5, 5, 9000))
    for rows, columns, depth in shapes:
        plan = compile_program(pointwise(rng, "onnx", rows, columns, depth, 64))
        windows = (
            0 if rows * columns < 16 else max(1 << 18, 16 * min(2, -(-rows * columns // 16)) * (depth + 63))
        )
        others = (1 << 18) + 12 * depth
        assert Engine(plan).scratch_bytes <= 66_000 + max(windows, others)
