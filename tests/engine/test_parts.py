"""Steps made by hand for layouts that programs seldom have: some channels of a larger tensor, rows with gaps.

What the step does not write must stay as it was.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from bits import ISAS, THREADS

from calib8 import _core
from calib8.engine import steps
from calib8.engine.codec import encode
from calib8.engine.compile import aligned_bytes
from calib8.engine.emit.loops import six
from calib8.engine.fields import FIRST_PORT, NONE, View

Array = npt.NDArray[Any]

INPUT: Final = FIRST_PORT
OUTPUT: Final = FIRST_PORT + 1
"""Buffers that a step may name: what it reads, and what it changes."""


def run_step(step: steps.Step, before: Array, read: Array | None = None, *, isa: str, threads: int) -> Array:
    """What becomes of ``before``, the output buffer, where the step reads ``read``; one constant, 0.25."""
    read = np.zeros(1, np.uint8) if read is None else read
    constants = aligned_bytes(64)
    constants[:4] = np.array([0.25], np.float32).view(np.uint8)
    rows, sizes = [(step.opcode, encode(step))], [read.nbytes, before.nbytes]
    engine = _core.engine.Engine(rows, constants, 64, 0, sizes, isa, threads, False)
    after = before.copy()
    engine.run(_core.engine.Context(engine), 0, 1, [read], [after], None)
    return after


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("channels", [1, 3, 16, 17, 40])
@pytest.mark.parametrize("halo", [(1, 1, 1, 1), (0, 2, 3, 0), (2, 0, 0, 1)], ids=str)
def test_fill_halo(isa: str, threads: int, channels: int, halo: tuple[int, int, int, int]) -> None:
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
def test_copy(isa: str, threads: int, channels: int) -> None:
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
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 9, 17])
def test_quantize_and_dequantize(isa: str, threads: int, channels: int) -> None:
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
