"""Means, largest and smallest codes over axes, their indices: natively and in NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from decode import steps_of
from example_programs import EXAMPLES, codes, plain, single
from generated import CHANNELS, SEEDS, clamp, code_slot, like, pick, with_steps
from nets import Net
from padded_layers import OUTPUTS, padded_conv

from bits import ISAS, assert_native_gives, assert_same_bits
from calib8.engine.compile import compile_program
from calib8.engine.emit.loops import Loop, merged
from calib8.engine.fields import FIRST_PORT
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program.program import Port, Program, Slot
from calib8.program.reference.executor import run_program
from calib8.program.rounding.pools import mean_rule
from calib8.program.rounding.quotient import length_rule
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

Rng = np.random.Generator
GLOBAL = ((1, 7, 7, 1000), (2, 8, 8, 64), (1, 1, 1, 130), (1, 14, 3, 17), (3, 2, 2, 48))


def shape_and_axes(rng: Rng) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Up to six axes, a few thousand elements."""
    rank = pick(rng, 1, 2, 3, 4, 4, 4, 5, 6)
    shape = [int(rng.integers(1, 7 if rank > 3 else 15)) for _ in range(rank)]
    if rng.random() < 0.6:
        shape[-1] = pick(rng, *CHANNELS)
    axes = [axis for axis in range(rank) if rng.random() < 0.5] or [int(rng.integers(rank))]
    return tuple(shape), tuple(int(axis) for axis in rng.permutation(axes))


def reduced(rng: Rng, shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the result, with axes of one or without."""
    if rng.random() < 0.5:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def mean_program(
    rng: Rng, profile: Profile, shape: tuple[int, ...], axes: tuple[int, ...], **scales: float
) -> Program:
    x, y = code_slot("x", rng, *shape), code_slot("y", rng, *reduced(rng, shape, axes), **scales)
    count, kind = int(np.prod([shape[axis] for axis in axes])), pick(rng, "mean", "mean", "sum")
    rule = mean_rule(profile, x.scale, y.scale, count, kind)  # type: ignore[arg-type]
    return single(op.Mean, [x], y, profile, axes=axes, rescale=rule, **clamp(rng, y))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ["Mean", "ReduceL2", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin"])
def test_examples(name: str, profile: Profile) -> None:
    assert_same_bits(EXAMPLES[name, profile])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_means(seed: int, profile: Profile) -> None:
    rng = np.random.default_rng((3, seed))
    shape, axes = shape_and_axes(rng)
    program = mean_program(rng, profile, shape, axes, scale=pick(rng, 0.05, 0.02, 0.3))
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_lengths(seed: int, profile: Profile) -> None:
    rng = np.random.default_rng((9, seed))
    shape, axes = shape_and_axes(rng)
    x = code_slot("x", rng, *shape)
    y = code_slot("y", rng, *reduced(rng, shape, axes), scale=pick(rng, 0.05, 0.4, 3.0))
    rule = length_rule(profile, x.scale, y.scale)
    program = single(op.ReduceL2, [x], y, profile, axes=axes, rescale=rule, **clamp(rng, y))
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("count", [1, 2, 257, 70_001])
def test_lengths_of_codes_at_the_end_of_their_range(count: int, profile: Profile) -> None:
    """Squares beyond 32 bits, along the last axis and along another one."""
    for shape, axis in (((1, count, 40), 1), ((2, count), 1)):
        x, y = codes("x", *shape, zero_point=0), codes("y", *shape[:1], *shape[2:], zero_point=0, scale=60.0)
        rule = length_rule(profile, x.scale, y.scale)
        program = single(op.ReduceL2, [x], y, profile, axes=(axis,), rescale=rule, low=0, high=255)
        assert_same_bits(program, {"x": np.full(shape, 255, np.uint8)})


@pytest.mark.parametrize("channels", [3, 4, 16, 31, 32, 33, 63, 64, 65, 100, 672])
@pytest.mark.parametrize("size", [(1, 1), (1, 5), (2, 1), (7, 7), (14, 5), (40, 9)])
def test_pixels_of_an_image_are_shared(size: tuple[int, int], channels: int) -> None:
    """The sums of all threads are added up by the last one, whatever was in their memory before."""
    rng = np.random.default_rng((*size, channels))
    program = mean_program(rng, pick(rng, *PROFILES), (1, *size, channels), (1, 2), scale=0.02)
    assert_same_bits(program, threads=(1, 2, 3, 7))


def test_sums_of_parts_beyond_16_bits() -> None:
    rng = np.random.default_rng(7)
    program = mean_program(rng, "onnx", (1, 70, 60, 40), (1, 2), scale=0.05)
    largest = {program.inputs[0].name: np.full((1, 70, 60, 40), np.iinfo(program.slots[0].dtype).max)}
    feeds = {name: array.astype(program.slots[0].dtype) for name, array in largest.items()}
    assert_native_gives(program, feeds, run_program(program, feeds), threads=(2, 3, 5))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("shape", GLOBAL)
def test_means_of_whole_images(shape: tuple[int, ...], profile: Profile) -> None:
    """An output scale as fine as the means are: their codes spread over the whole range."""
    rng = np.random.default_rng(shape)
    deviation = 0.05 * 74 / (shape[1] * shape[2]) ** 0.5
    assert_same_bits(mean_program(rng, profile, shape, (1, 2), scale=float(np.float32(deviation / 40))))


def test_a_mean_of_many_codes_at_the_end_of_their_range() -> None:
    """Sums beyond 16 bits."""
    x, y = codes("x", 1, 40, 33, 70, zero_point=0), codes("y", 1, 70, zero_point=0)
    program = single(
        op.Mean, [x], y, axes=(1, 2), rescale=mean_rule("onnx", 0.05, 0.05, 1320, "mean"), low=0, high=255
    )
    for value in (255, 254, 1):
        assert_same_bits(program, {"x": np.full(x.shape, value, np.uint8)})
    assert_same_bits(program)


@pytest.mark.parametrize("kind", [op.ReduceMax, op.ReduceMin])
@pytest.mark.parametrize("seed", SEEDS)
def test_extremes(seed: int, kind: Any) -> None:
    rng = np.random.default_rng((4, seed))
    shape, axes = shape_and_axes(rng)
    x = code_slot("x", rng, *shape)
    program = single(kind, [x], like(x, "y", *reduced(rng, shape, axes)), axes=axes)
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", [op.ArgMax, op.ArgMin])
@pytest.mark.parametrize("seed", SEEDS)
def test_indices_of_extremes(seed: int, kind: Any, last: bool, dtype: str) -> None:
    rng = np.random.default_rng((5, seed))
    shape, _ = shape_and_axes(rng)
    axis = pick(rng, len(shape) - 1, int(rng.integers(len(shape))))
    x = code_slot("x", rng, *shape)
    y = plain("y", *(1 if number == axis else size for number, size in enumerate(shape)), dtype=dtype)
    info = np.iinfo(x.dtype)
    high = pick(rng, info.max, info.min + 2)  # few values: many are equal
    feeds = {"x": rng.integers(info.min, high + 1, shape).astype(x.dtype)}
    program = single(kind, [x], y, axis=axis, last=last)
    verify(program)
    assert_same_bits(program, feeds)


@pytest.mark.parametrize("axes", [(1, 2), (3,), (2,), (1, 3)])
def test_reductions_of_an_image_with_a_border(axes: tuple[int, ...]) -> None:
    x = codes("x", 2, 6, 5, 19)
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    slots: tuple[Slot, ...] = (x, codes("a", 2, 6, 5, OUTPUTS), codes("m", *shape), codes("s", *shape))
    conv = padded_conv("conv", 0, 1, 19)
    count = int(np.prod([x.shape[axis] for axis in axes]))
    rule = mean_rule("onnx", 0.05, 0.05, count, "mean")
    steps = (conv, op.Mean("mean", (0,), (2,), axes, rule, 0, 255), op.ReduceMin("least", (0,), (3,), axes))
    ports = (Port("a", 1), Port("m", 2), Port("s", 3))
    assert_same_bits(Program("onnx", slots, steps, (Port("x", 0),), ports, "net"))


def test_axes_are_merged_only_where_both_sides_lie_without_gaps() -> None:
    assert merged_sizes((2, 12, 12), (1, 99, 99), (3, 4, 4), (4, 1, 1)) == [24]
    assert merged_sizes((2, 20, 12), (3, 4, 4), (4, 1, 1)) == [2, 12]
    assert merged_sizes((3, 4, 8), (4, 1, 1)) == [3, 4]
    assert merged_sizes((1, 4, 8)) == []


ALTERNATING = tuple(range(0, 16, 2))


@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize(
    "axes", [ALTERNATING, ALTERNATING[::-1], ALTERNATING[:4], (*ALTERNATING, 15), (0, 15)]
)
def test_more_axes_than_a_step_has_loops(axes: tuple[int, ...], ones: bool) -> None:
    """Kept and vanishing axes take turns; the results have ones in their place or not."""
    shape = (2, 2, 2, 1, 2, 3, 2, 2, 2, 2, 3, 2, 2, 2, 2, 2)
    after = [1 if axis in axes else size for axis, size in enumerate(shape) if ones or axis not in axes]
    count = int(np.prod([shape[axis] for axis in axes]))
    x, y = codes("x", *shape), codes("y", *after, scale=0.02)
    for profile in PROFILES:
        rule = mean_rule(profile, x.scale, y.scale, count, "mean")
        mean = single(op.Mean, [x], y, profile, axes=axes, rescale=rule, low=0, high=255)
        verify(mean)
        assert_same_bits(mean)
    for kind in (op.ReduceMax, op.ReduceMin):
        assert_same_bits(single(kind, [x], like(x, "y", *after), axes=axes))


def test_axes_that_stay_apart_in_many_places() -> None:
    """One step per place of the outermost ones."""
    shape = (2, 3) * 7
    x, y = codes("x", *shape), codes("y", *(3,) * 7)
    program = single(op.ReduceMax, [x], y, axes=tuple(range(0, 14, 2)))
    assert_same_bits(program, threads=(2,))


def test_many_axes_of_a_part_of_a_tensor() -> None:
    """The last two axes cannot be merged where the last one is read inside a longer one."""
    net = Net()
    x = net.lookup(net.input(*(2,) * 11, 5))
    part = net.slice(x, 1, 3)
    y = net.codes(*(2,) * 5, zero_point=net.slots[part].zero_point)
    program = net.program(net.step(op.ReduceMin, (part,), y, axes=(0, 2, 4, 6, 8, 10, 11)))
    assert_same_bits(program)


def merged_sizes(*axes: tuple[int, int, int]) -> list[int]:
    return [loop.size for loop in merged([Loop(size, (source, target)) for size, source, target in axes])]


def test_codes_beside_the_result_stay() -> None:
    """The result is written into the middle of a longer port."""
    for channels in (1, 5, 16, 40, 70):
        rule = mean_rule("onnx", 0.05, 0.05, 20, "mean")
        x = codes("x", 1, 4, 5, channels)
        program = single(op.Mean, [x], codes("y", 1, channels), axes=(1, 2), rescale=rule, low=0, high=255)
        plan = compile_program(program)
        place = {"target_buffer": FIRST_PORT + 1, "target_offset": 3}
        steps = [replace(step, **place) if step.opcode == "reduce" else step for step in steps_of(plan)[:-1]]  # type: ignore[arg-type]
        feeds = {"x": np.random.default_rng(0).integers(0, 256, x.shape).astype(np.uint8)}
        for isa in ISAS:
            got = np.full(channels + 99, 77, np.uint8)
            Engine(with_steps(plan, steps, got.shape), isa=isa, threads=2).run_into(feeds, [got])
            np.testing.assert_array_equal(
                got[3 : 3 + channels], run_program(program, feeds)[0][0], err_msg=isa
            )
            assert (got[:3] == 77).all() and (got[3 + channels :] == 77).all()
