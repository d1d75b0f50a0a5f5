"""Quantize and Dequantize natively equal NumPy's: ties, not-a-number, infinities, all layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from example_programs import EXAMPLES, codes, floats, plain, single, sums
from generated import CASES
from one_step import INPUT, OUTPUT, run_step
from padded_layers import OUTPUTS, padded_conv

from bits import ISAS, THREADS, assert_same_bits
from calib8.engine import steps
from calib8.engine.emit.loops import six
from calib8.program import instructions as op
from calib8.program.program import Port, Program
from calib8.program.rounding.pools import mean_rule
from calib8.program.verify import verify

SIZES = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65, 130)
LIMIT = 20_000
INT32 = np.iinfo(np.int32)


def random_shape(rng: np.random.Generator) -> tuple[int, ...]:
    while True:
        shape = tuple(int(size) for size in rng.choice(SIZES, rng.integers(1, 5)))
        if np.prod(shape) <= LIMIT:
            return shape


def awkward_floats(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> npt.NDArray[np.float32]:
    """Values over the range of codes and beyond, ties and their neighbours, and what is no number."""
    steps = rng.integers(-300, 300, shape) * 0.5
    values = np.where(rng.random(shape) < 0.5, steps, rng.standard_normal(shape) * 90)
    with np.errstate(over="ignore"):
        values = (values * scale).astype(np.float32)
        values = np.nextafter(
            values,
            rng.choice(floats(-np.inf, np.inf), shape),
            dtype=np.float32,
            where=(rng.random(shape) < 0.3),
            out=values,
        )
    odd = floats(np.nan, -np.nan, np.inf, -np.inf, 0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38)
    return np.where(rng.random(shape) < 0.02, rng.choice(odd, shape), values).astype(np.float32)


def scale_of(rng: np.random.Generator) -> float:
    """Mostly everyday scales, some at the ends of float32."""
    everyday = float(np.float32(np.exp(rng.uniform(-8, 3))))
    extremes = (float(np.float32(value)) for value in (1e-45, 1e-38, 1e38, 1.0, 0.5, 1 / 3))
    return everyday if rng.random() < 0.7 else float(rng.choice(list(extremes)))


def random_zero_point(rng: np.random.Generator, dtype: str) -> int:
    limits = np.iinfo(dtype)
    ends = (limits.min, limits.max, 0)
    return int(rng.choice(ends)) if rng.random() < 0.5 else int(rng.integers(limits.min, limits.max + 1))


@pytest.mark.parametrize(
    "key", [key for key in EXAMPLES if key[0] in ("Quantize", "Dequantize")], ids="-".join
)
def test_examples(key: Any) -> None:
    assert_same_bits(EXAMPLES[key])


@pytest.mark.parametrize("rounding", ["even", "away"])
def test_generated_quantize(rounding: str) -> None:
    for seed in range(2 * CASES):
        rng = np.random.default_rng(seed)
        shape, dtype, scale = random_shape(rng), str(rng.choice(["uint8", "int8"])), scale_of(rng)
        axes = tuple(int(axis) for axis in rng.permutation(len(shape)))
        zero_point = random_zero_point(rng, dtype)
        y = codes("y", *(shape[axis] for axis in axes), dtype=dtype, scale=scale, zero_point=zero_point)
        program = single(op.Quantize, [plain("x", *shape)], y, axes=axes, rounding=rounding)
        assert_same_bits(program, {"x": awkward_floats(rng, shape, scale)})


def test_every_code_and_tie_of_quantize() -> None:
    """All half steps and their neighbours, which a product with 1 / scale would get wrong here and there."""
    for scale in (0.1, 1 / 3, 0.7, 1.1754944e-38, 5e-39):
        step = np.float32(scale)
        ties = (np.arange(-600, 600) * 0.5 * np.float64(step)).astype(np.float32)
        x = np.concatenate([ties, np.nextafter(ties, np.float32(9)), np.nextafter(ties, np.float32(-9))])
        for rounding in ("even", "away"):
            y = codes("y", x.size, scale=float(step), zero_point=128)
            assert_same_bits(
                single(op.Quantize, [plain("x", x.size)], y, axes=(0,), rounding=rounding), {"x": x}
            )


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 16, 17, 40])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_images_are_quantized_into_a_bordered_tensor(channels: int, dtype: str) -> None:
    """NCHW into the border of a padded layer, whose result shows whether the border stayed whole."""
    for h, w in ((1, 1), (4, 7), (6, 16), (5, 37)):
        slots = (
            plain("x", 2, channels, h, w),
            codes("codes", 2, h, w, channels, dtype=dtype, zero_point=7),
            codes("y", 2, h, w, OUTPUTS),
        )
        layer = padded_conv("layer", 1, 2, channels)
        border = op.Quantize("border", (0,), (1,), (0, 2, 3, 1), "even")
        assert_same_bits(Program("onnx", slots, (border, layer), (Port("x", 0),), (Port("y", 2),)))


def test_generated_dequantize() -> None:
    for seed in range(3 * CASES):
        rng = np.random.default_rng(seed)
        shape = random_shape(rng)
        axes = tuple(int(axis) for axis in rng.permutation(len(shape)))
        feeds = None
        if rng.random() < 0.5:
            count = shape[-1] if rng.random() < 0.7 else 1
            x = sums("x", *shape, scales=np.exp(rng.uniform(-9, 3, count)).tolist())
            values = rng.integers(INT32.min, INT32.max, shape, endpoint=True) >> rng.integers(0, 31, shape)
            feeds = {"x": values.astype(np.int32)}
        else:
            dtype = str(rng.choice(["uint8", "int8"]))
            x = codes("x", *shape, dtype=dtype, scale=scale_of(rng), zero_point=random_zero_point(rng, dtype))
        y = plain("y", *(shape[axis] for axis in axes))
        assert_same_bits(single(op.Dequantize, [x], y, axes=axes), feeds, seed=seed)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 7, 8, 9, 21, 64])
@pytest.mark.parametrize("kind", ["codes", "sums", "sums per channel"])
def test_results_come_out_as_nchw(channels: int, kind: str) -> None:
    for h, w in ((1, 1), (3, 5), (7, 8), (9, 13)):
        shape = (2, h, w, channels)
        scales = np.linspace(0.1, 1.7, channels if kind == "sums per channel" else 1).tolist()
        x = codes("x", *shape, dtype="int8") if kind == "codes" else sums("x", *shape, scales=scales)
        y = plain("y", 2, channels, h, w)
        assert_same_bits(single(op.Dequantize, [x], y, axes=(0, 3, 1, 2)))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_scalars(dtype: str) -> None:
    """No axis at all, in and out."""
    slots = plain("x"), codes("q", dtype=dtype, zero_point=-7 if dtype == "int8" else 7), plain("y")
    quantize, dequantize = op.Quantize("q", (0,), (1,), (), "even"), op.Dequantize("y", (1,), (2,), ())
    program = Program("onnx", slots, (quantize, dequantize), (Port("x", 0),), (Port("y", 2),))
    verify(program)
    for value in (-1.0, 0.0, 0.33, 5.0, 99.0):
        assert_same_bits(program, {"x": np.array(value, np.float32)})
    assert_same_bits(single(op.Quantize, [slots[0]], slots[1], axes=(), rounding="away"))
    for coded in (slots[1], sums("x", scales=(0.25,))):
        assert_same_bits(single(op.Dequantize, [coded], slots[2], axes=()))


def test_a_mean_of_everything_comes_out_as_a_scalar() -> None:
    slots = codes("x", 2, 5, 3), codes("m", scale=0.001), plain("y")
    rule = mean_rule("onnx", 0.05, slots[1].scale, 30, "mean")
    mean = op.Mean("m", (0,), (1,), (0, 1, 2), rule, 0, 255)
    program = Program(
        "onnx", slots, (mean, op.Dequantize("y", (1,), (2,), ())), (Port("x", 0),), (Port("y", 2),)
    )
    verify(program)
    assert_same_bits(program)
    assert_same_bits(program, {"x": np.full((2, 5, 3), 4, np.uint8)})


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 9, 17])
def test_borders_of_some_channels_of_a_larger_tensor(isa: str, threads: int, channels: int) -> None:
    """Quantize into the first channels of NHWC, Dequantize out of them, with planes that have gaps."""
    rng = np.random.default_rng(channels)
    rows, columns, room = 3, 37, channels + 3
    planes = (rng.standard_normal((channels, rows, columns + 2)) * 40).astype(np.float32)
    pixels = rng.integers(0, 256, (rows, columns, room)).astype(np.uint8)
    plane = 4 * rows * (columns + 2)
    sizes = six((rows, columns, channels), 1)
    strides = six((4 * (columns + 2), 4, plane), 0), six((columns * room, room, 1), 0)
    quantize = steps.Quantize(INPUT, 0, OUTPUT, 0, sizes, *strides, 0.25, 3, -128, 127, 128, 0)
    want = pixels.copy()
    codes_of = np.clip(np.rint(planes[..., :columns] / np.float32(0.25)), -131, 124) + 131
    want[..., :channels] = codes_of.transpose(1, 2, 0)
    np.testing.assert_array_equal(run_step(quantize, pixels, planes, isa=isa, threads=threads), want)

    sizes = six((channels, rows, columns), 1)
    strides = six((1, columns * room, room), 0), six((plane, 4 * (columns + 2), 4), 0)
    dequantize = steps.Dequantize(INPUT, 0, OUTPUT, 0, 1, sizes, *strides, six((), 0), 0, 131)
    real = planes.copy()
    real[..., :columns] = (pixels[..., :channels].transpose(2, 0, 1).astype(np.float32) - 131) * 0.25
    np.testing.assert_array_equal(run_step(dequantize, planes, pixels, isa=isa, threads=threads), real)
