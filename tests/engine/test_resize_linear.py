"""Linear Resize under every rounding, natively and in NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from decode import steps_of
from example_programs import EXAMPLES, codes, single
from generated import CHANNELS, SEEDS, assert_neighbours_stay, code_slot, like, pick, to_float
from padded_layers import OUTPUTS, padded_conv

from bits import ISAS, assert_same_bits
from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.errors import ModelError
from calib8.program import instructions as op
from calib8.program.program import Port, Program
from calib8.program.reference.executor import run_program
from calib8.program.rounding.resize import COORDINATE_MODES, float_axis, linear_axis
from calib8.program.rules import PROFILES, LinearAxis, Profile
from calib8.program.verify import verify


def axis(profile: Profile, size: int, target: int, mode: str) -> LinearAxis:
    return linear_axis(profile, size, target, float(np.float32(target / size)), mode)


@pytest.mark.parametrize("profile", PROFILES)
def test_examples(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["ResizeLinear", profile])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_resize_linear(seed: int, profile: Profile) -> None:
    rng = np.random.default_rng((7, seed))
    sizes = [int(size) for size in rng.integers(1, 9, 2)]
    targets = [pick(rng, size, 2 * size, 3 * size, int(rng.integers(1, 15))) for size in sizes]
    x = code_slot("x", rng, pick(rng, 1, 2), *sizes, pick(rng, *CHANNELS))
    y = like(x, "y", x.shape[0], *targets, x.shape[3])
    if profile == "onnx" and rng.random() < 0.7:
        y = code_slot("y", rng, *y.shape, scale=pick(rng, 0.05, 0.04, 0.11))
    mode = pick(rng, *COORDINATE_MODES)
    rows, columns = (axis(profile, size, target, mode) for size, target in zip(sizes, targets, strict=True))
    program = single(op.ResizeLinear, [x], y, profile, rows=rows, columns=columns)
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_float_sums_of_codes(seed: int) -> None:
    """TFLite's bilinear resize of uint8; fractions of the first pixels may be below 0."""
    rng = np.random.default_rng((8, seed))
    sizes, targets = rng.integers(1, 9, 2).tolist(), rng.integers(1, 20, 2).tolist()
    x = codes("x", pick(rng, 1, 2), *sizes, pick(rng, *CHANNELS))
    half_pixel = bool(rng.integers(2))
    rows, columns = (
        float_axis(size, target, np.float32(size) / np.float32(target), half_pixel=half_pixel)
        for size, target in zip(sizes, targets, strict=True)
    )
    y = like(x, "y", x.shape[0], *targets, x.shape[3])
    program = single(op.ResizeLinear, [x], y, "tflite", rows=rows, columns=columns)
    verify(program)
    assert_same_bits(program, seed=seed)


def test_float_sums_are_of_uint8() -> None:
    x, along = codes("x", 1, 2, 2, 3, dtype="int8"), float_axis(2, 4, np.float32(0.5), half_pixel=True)
    program = single(op.ResizeLinear, [x], like(x, "y", 1, 4, 4, 3), "tflite", rows=along, columns=along)
    with pytest.raises(ModelError, match="TFLite does so for uint8 alone"):
        verify(program)


@pytest.mark.parametrize(("scale", "output_scale"), [(1e-30, 1e-30), (1e30, 1e28), (1e35, 1e-3), (1e-3, 1e3)])
def test_extreme_scales(scale: float, output_scale: float) -> None:
    x, y = codes("x", 1, 5, 5, 40, scale=scale), codes("y", 1, 10, 10, 40, scale=output_scale)
    along = axis("onnx", 5, 10, "half_pixel")
    assert_same_bits(single(op.ResizeLinear, [x], y, rows=along, columns=along))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("channels", [5, 64, 70])
def test_resize_between_borders(channels: int, profile: Profile) -> None:
    """Input and output are stored with borders."""
    slots = (
        codes("x", 2, 5, 4, channels),
        codes("y", 2, 10, 8, channels),
        codes("a", 2, 5, 4, OUTPUTS),
        codes("b", 2, 10, 8, OUTPUTS),
    )
    rows, columns = axis(profile, 5, 10, "half_pixel"), axis(profile, 4, 8, "half_pixel")
    steps = (
        padded_conv("first", 0, 2, channels, profile),
        op.ResizeLinear("resize", (0,), (1,), rows, columns),
        padded_conv("second", 1, 3, channels, profile),
    )
    assert_same_bits(Program(profile, slots, steps, (Port("x", 0),), (Port("a", 2), Port("b", 3)), "net"))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("channels", [1, 7, 16, 33, 100])
def test_channels_beside_the_result_stay(channels: int, profile: Profile) -> None:
    rows, columns = axis(profile, 3, 6, "half_pixel"), axis(profile, 4, 7, "half_pixel")
    x, y = codes("x", 1, 3, 4, channels), codes("y", 1, 6, 7, channels)
    program = single(op.ResizeLinear, [x], y, profile, rows=rows, columns=columns)
    assert_neighbours_stay(program, "resize_linear")


def opcodes(program: Program) -> list[str]:
    return [step.opcode for step in steps_of(compile_program(program))]


@pytest.mark.parametrize("seed", SEEDS)
def test_resize_to_float(seed: int) -> None:
    rng = np.random.default_rng((9, seed))
    sizes = [int(size) for size in rng.integers(1, 25, 2)]
    factors = rng.choice([1.5, 1.6, 2, 3, 8], 2)
    targets = [int(np.ceil(size * factor)) for size, factor in zip(sizes, factors, strict=True)]
    x = code_slot("x", rng, pick(rng, 1, 2), *sizes, pick(rng, *CHANNELS))
    y = code_slot("y", rng, x.shape[0], *targets, x.shape[3], scale=pick(rng, x.scale, 0.04, 0.11))
    mode = pick(rng, *COORDINATE_MODES)
    rows, columns = (axis("onnx", size, target, mode) for size, target in zip(sizes, targets, strict=True))
    program = to_float(single(op.ResizeLinear, [x], y, "onnx", rows=rows, columns=columns))
    verify(program)
    assert "resize_to_float" in opcodes(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize(("scale", "output_scale"), [(1e-30, 1e-30), (1e30, 1e28), (1e35, 1e-3), (1e-3, 1e3)])
def test_extreme_scales_to_float(scale: float, output_scale: float) -> None:
    x, y = codes("x", 1, 5, 5, 40, scale=scale), codes("y", 1, 10, 10, 40, scale=output_scale)
    along = axis("onnx", 5, 10, "half_pixel")
    program = to_float(single(op.ResizeLinear, [x], y, rows=along, columns=along))
    assert_same_bits(program)


@pytest.mark.parametrize("columns", [2, 7, 9, 17, 31, 33])
def test_floats_behind_the_result_stay(columns: int) -> None:
    x, y = codes("x", 1, 3, columns, 3), codes("y", 1, 6, 2 * columns - 1, 3)
    along, across = axis("onnx", 3, 6, "half_pixel"), axis("onnx", columns, 2 * columns - 1, "half_pixel")
    program = to_float(single(op.ResizeLinear, [x], y, rows=along, columns=across))
    shape = program.slots[-1].shape
    feeds = {"x": np.random.default_rng(0).integers(0, 256, x.shape).astype(np.uint8)}
    for isa in ISAS:
        wider = np.full(int(np.prod(shape)) + 32, 77, np.float32)
        got = wider[:-32].reshape(shape)
        Engine(compile_program(program), isa=isa, threads=2).run_into(feeds, [got])
        np.testing.assert_array_equal(got, run_program(program, feeds)[0], err_msg=isa)
        assert (wider[-32:] == 77).all(), isa


@pytest.mark.parametrize("channels", [1, 3, 21])
def test_halves_between_codes(channels: int) -> None:
    """Eight times as wide, with one scale: many results lie in the middle between two codes."""
    x, y = codes("x", 1, 9, 33, channels, scale=1.0), codes("y", 1, 72, 264, channels, scale=1.0)
    rows, columns = axis("onnx", 9, 72, "half_pixel"), axis("onnx", 33, 264, "half_pixel")
    program = single(op.ResizeLinear, [x], y, rows=rows, columns=columns)
    assert_same_bits(program)
    assert_same_bits(to_float(program))


def test_what_is_not_resized_to_float_at_once() -> None:
    """Hardly wider images, other orders of axes, codes that others read, and other profiles."""
    along, wider = axis("onnx", 5, 6, "half_pixel"), axis("onnx", 5, 10, "half_pixel")
    x = codes("x", 1, 5, 5, 3)
    hardly = single(op.ResizeLinear, [x], like(x, "y", 1, 10, 6, 3), rows=wider, columns=along)
    clearly = single(op.ResizeLinear, [x], like(x, "y", 1, 10, 10, 3), rows=wider, columns=wider)
    both = to_float(clearly)
    both = replace(both, outputs=(*both.outputs, Port("codes", 1)))
    narrow = axis("single", 5, 10, "half_pixel")
    other = single(op.ResizeLinear, [x], like(x, "y", 1, 10, 10, 3), "single", rows=narrow, columns=narrow)
    for program in (to_float(hardly), to_float(clearly, (0, 1, 2, 3)), both, to_float(other)):
        verify(program)
        assert "resize_to_float" not in opcodes(program)
        assert_same_bits(program)
