"""Copies natively equal NumPy's: every move, all element sizes, borders in storage, tails of any length."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from decode import steps_of
from example_programs import EXAMPLES, codes, ints, plain, single
from generated import CASES
from one_step import INPUT, OUTPUT, run_step
from padded_layers import OUTPUTS, padded_conv

from bits import ISAS, THREADS, assert_same_bits
from calib8.engine import steps
from calib8.engine.compile import compile_program
from calib8.engine.emit.loops import six
from calib8.engine.fields import NONE, View
from calib8.program import instructions as op
from calib8.program.program import Port, Program, Slot

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 31, 33, 48, 63, 65, 130)
LIMIT = 20_000
MOVES = ("Concat", "ResizeNearest", "Pad", "Transpose", "Reshape", "Slice", "Gather")


def random_shape(rng: np.random.Generator, rank: int) -> tuple[int, ...]:
    """Sizes full of edges, not too many elements."""
    while True:
        shape = tuple(int(size) for size in rng.choice(SIZES, rank))
        if np.prod(shape) <= LIMIT:
            return shape


def random_slot(rng: np.random.Generator, shape: tuple[int, ...]) -> Slot:
    dtype = str(rng.choice(["uint8", "int8", "uint8", "int8", "float32", "int64", "float16"]))
    return codes("x", *shape, dtype=dtype) if dtype in ("uint8", "int8") else plain("x", *shape, dtype=dtype)


def like(slot: Slot, *shape: int) -> Slot:
    return replace(slot, name="y", shape=shape)


def concat(rng: np.random.Generator) -> Program:
    shape = list(random_shape(rng, int(rng.integers(1, 5))))
    axis = int(rng.integers(len(shape)))
    lengths = [shape[axis], *(int(size) for size in rng.choice(SIZES[:11], rng.integers(0, 3)))]
    first = random_slot(rng, tuple(shape))
    parts = [
        replace(first, name=f"x{place}", shape=(*shape[:axis], length, *shape[axis + 1 :]))
        for place, length in enumerate(lengths)
    ]
    output = like(first, *shape[:axis], sum(lengths), *shape[axis + 1 :])
    return single(op.Concat, parts, output, axis=axis)


def resize_nearest(rng: np.random.Generator) -> Program:
    n, h, w, c = random_shape(rng, 4)
    if rng.random() < 0.5:
        rows, columns = np.arange(2 * h) // 2, np.arange(3 * w) // 3
    else:
        rows = np.sort(rng.integers(0, h, rng.integers(1, 20)))
        columns = np.sort(rng.integers(0, w, rng.integers(1, 20)))
    x = random_slot(rng, (n, h, w, c))
    output = like(x, n, rows.size, columns.size, c)
    return single(op.ResizeNearest, [x], output, rows=ints(*rows), columns=ints(*columns))


def pad(rng: np.random.Generator) -> Program:
    shape = random_shape(rng, int(rng.integers(1, 5)))
    before, after = (tuple(int(n) for n in rng.integers(0, 4, len(shape))) for _ in range(2))
    if len(shape) == 4 and rng.random() < 0.5:  # an image: only rows and columns
        before, after = (0, *before[1:3], 0), (0, *after[1:3], 0)
    dtype = str(rng.choice(["uint8", "int8"]))
    x = codes("x", *shape, dtype=dtype)
    output = like(x, *(b + size + a for b, size, a in zip(before, shape, after, strict=True)))
    value = int(rng.integers(-128, 128)) if dtype == "int8" else int(rng.integers(256))
    return single(op.Pad, [x], output, before=before, after=after, value=value)


def transpose(rng: np.random.Generator) -> Program:
    rank = int(rng.integers(1, 8))
    x = random_slot(rng, random_shape(rng, rank) if rank < 6 else (2, 3, 2, 3, 4, 2, 3)[:rank])
    axes = tuple(int(axis) for axis in rng.permutation(rank))
    return single(op.Transpose, [x], like(x, *(x.shape[axis] for axis in axes)), axes=axes)


def reshape(rng: np.random.Generator) -> Program:
    x = random_slot(rng, random_shape(rng, int(rng.integers(1, 5))))
    return single(op.Reshape, [x], like(x, int(np.prod(x.shape[:-1])), x.shape[-1]))


def take_slice(rng: np.random.Generator) -> Program:
    x = random_slot(rng, random_shape(rng, int(rng.integers(1, 5))))
    starts, paces, counts = [], [], []
    for size in x.shape:
        pace = int(rng.choice([1, 1, 1, 2, 3, -1, -2]))
        start = int(rng.integers(size))
        room = start // -pace if pace < 0 else (size - 1 - start) // pace
        starts.append(start), paces.append(pace), counts.append(int(rng.integers(room + 1)) + 1)
    return single(op.Slice, [x], like(x, *counts), starts=tuple(starts), steps=tuple(paces))


def gather(rng: np.random.Generator) -> Program:
    shape = random_shape(rng, int(rng.integers(1, 5)))
    axis = int(rng.integers(len(shape)))
    size = shape[axis]
    how = rng.integers(3)
    if how == 0:
        indices = rng.integers(0, size, rng.integers(1, 40))
    elif how == 1:  # a channel shuffle of as many groups as divide the channels
        groups = max(count for count in (1, 2, 3, 4) if size % count == 0)
        indices = np.arange(size).reshape(groups, -1).T.reshape(-1)
    else:
        indices = np.full(rng.integers(1, 9), rng.integers(size))
    x = random_slot(rng, shape)
    output = like(x, *shape[:axis], indices.size, *shape[axis + 1 :])
    return single(op.Gather, [x], output, axis=axis, indices=ints(*indices))


MAKERS = (concat, resize_nearest, pad, transpose, reshape, take_slice, gather)


@pytest.mark.parametrize("key", [key for key in EXAMPLES if key[0] in MOVES], ids="-".join)
def test_examples(key: Any) -> None:
    assert_same_bits(EXAMPLES[key])


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_generated_moves(make: Any) -> None:
    for seed in range(CASES):
        assert_same_bits(make(np.random.default_rng(seed)), seed=seed)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8, 15, 16, 17, 33, 64, 100])
@pytest.mark.parametrize("outwards", [False, True], ids=["NCHW to NHWC", "NHWC to NCHW"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_images_change_their_layout(channels: int, outwards: bool, dtype: str) -> None:
    for h, w in ((1, 1), (3, 5), (9, 16), (7, 50), (33, 33)):
        shape, axes = ((2, channels, h, w), (0, 2, 3, 1))
        if outwards:
            shape, axes = ((2, h, w, channels), (0, 3, 1, 2))
        x = codes("x", *shape) if dtype == "uint8" else plain("x", *shape)
        y = like(x, *(shape[axis] for axis in axes))
        assert_same_bits(single(op.Transpose, [x], y, axes=axes))


@pytest.mark.parametrize("channels", [1, 3, 4, 17])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_borders_in_storage_stay_whole(channels: int, dtype: str) -> None:
    """A move out of an image with a border into another one; both are read by padded layers afterwards."""
    shape = (2, 6, 21, channels)
    for step, size in (
        (op.Transpose("move", (0,), (1,), (0, 2, 1, 3)), (2, 21, 6, channels)),
        (op.Slice("move", (0,), (1,), (1, 5, 1, 0), (1, -2, 3, 1)), (1, 3, 6, channels)),
        (op.Gather("move", (0,), (1,), 3, ints(*[0] * 5)), (2, 6, 21, 5)),
        (op.Pad("move", (0,), (1,), (0, 2, 0, 1), (0, 1, 3, 0), 9), (2, 9, 24, channels + 1)),
        (op.ResizeNearest("move", (0,), (1,), ints(0, 5, 5), ints(1, 20)), (2, 3, 2, channels)),
        (op.Concat("move", (0, 0), (1,), 2), (2, 6, 42, channels)),
    ):
        x, y = (codes(name, *at, dtype=dtype, zero_point=5) for name, at in (("x", shape), ("y", size)))
        results = [codes("a", *shape[:3], OUTPUTS), codes("b", *size[:3], OUTPUTS)]
        layers = padded_conv("first", 0, 2, shape[3]), padded_conv("second", 1, 3, size[3])
        ports = Port("a", 2), Port("b", 3)
        program = Program("onnx", (x, y, *results), (step, *layers), (Port("x", 0),), ports)
        assert_same_bits(program)


def test_a_concatenation_of_one_tensor_with_itself() -> None:
    x, y = codes("x", 2, 5, 3), codes("y", 2, 5, 6)
    step = op.Concat("twice", (0, 0), (1,), 2)
    assert_same_bits(Program("onnx", (x, y), (step,), (Port("x", 0),), (Port("y", 1),)))


def test_moves_of_whole_images_are_single_runs() -> None:
    """What lies side by side on both ends is one run: the least work that there can be."""
    x, y = codes("x", 2, 5, 7, 3), codes("y", 2, 5, 7, 3)
    plan = compile_program(single(op.Transpose, [x], y, axes=(0, 1, 2, 3)))
    copies = [step for step in steps_of(plan) if isinstance(step, steps.Copy)]
    assert [step.run for step in copies] == [210, 210, 210]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("channels", [1, 3, 16, 17, 40])
@pytest.mark.parametrize("halo", [(1, 1, 1, 1), (0, 2, 3, 0), (2, 0, 0, 1)], ids=str)
def test_borders_of_some_channels_of_a_larger_tensor(
    isa: str, threads: int, channels: int, halo: tuple[int, int, int, int]
) -> None:
    """Only the border, and of it only these channels; with all channels the rows have no gaps."""
    top, left, bottom, right = halo
    for more in (0, 5):
        before = np.random.default_rng(0).integers(0, 256, (2, top + 6 + bottom, left + 4 + right, 40 + more))
        before = before.astype(np.uint8)
        image, row, pixel = before[0].size, before[0, 0].size, before.shape[-1]
        view = View(OUTPUT, top * row + left * pixel, 2, 6, 4, channels, image, row, pixel)
        want = before.copy()
        want[..., :channels] = 77
        inside = slice(top, top + 6), slice(left, left + 4)
        want[:, inside[0], inside[1]] = before[:, inside[0], inside[1]]
        step = steps.FillHalo(view, top, left, bottom, right, 77)
        np.testing.assert_array_equal(run_step(step, before, isa=isa, threads=threads), want)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 9, 16, 17, 40])
def test_images_move_into_some_channels_of_a_larger_tensor(isa: str, threads: int, channels: int) -> None:
    """NCHW into the first channels of NHWC, and the other way round out of them."""
    rng = np.random.default_rng(channels)
    rows, columns, room = 3, 37, channels + 3
    planes = rng.integers(0, 256, (channels, rows, columns)).astype(np.uint8)
    pixels = rng.integers(0, 256, (rows, columns, room)).astype(np.uint8)
    plane_strides, pixel_strides = (columns, 1, rows * columns), (columns * room, room, 1)
    sizes = six((rows, columns, channels), 1)
    strides = six(plane_strides, 0), six(pixel_strides, 0)
    step = steps.Copy(INPUT, 0, OUTPUT, 0, 1, sizes, *strides, six((), NONE), 128)
    want = pixels.copy()
    want[..., :channels] = planes.transpose(1, 2, 0) ^ 128
    np.testing.assert_array_equal(run_step(step, pixels, planes, isa=isa, threads=threads), want)

    sizes = six((channels, rows, columns), 1)
    strides = six((1, columns * room, room), 0), six((rows * columns, columns, 1), 0)
    step = steps.Copy(INPUT, 0, OUTPUT, 0, 1, sizes, *strides, six((), NONE), 0)
    want = pixels[..., :channels].transpose(2, 0, 1)
    np.testing.assert_array_equal(run_step(step, planes, pixels, isa=isa, threads=threads), want)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("flip", [0, 128])
def test_one_run_of_bytes(isa: str, threads: int, flip: int) -> None:
    """Inputs and outputs that lie as they are fed: shares of 64 bytes, a shorter last one."""
    rng = np.random.default_rng(flip)
    for run in (*range(1, 68), 95, 96, 127, 128, 129, 191, 193, 200, 4095, 4097):
        read = rng.integers(0, 256, run).astype(np.uint8)
        before = rng.integers(0, 256, run + 2).astype(np.uint8)
        step = steps.Copy(INPUT, 0, OUTPUT, 1, run, six((), 1), six((), 0), six((), 0), six((), NONE), flip)
        want = np.concatenate([before[:1], read ^ np.uint8(flip), before[-1:]])
        np.testing.assert_array_equal(run_step(step, before, read, isa=isa, threads=threads), want)
