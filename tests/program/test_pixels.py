"""Pixels in place of float32 inputs: the same codes as preprocessing and quantizing one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from example_programs import codes, plain, single

from calib8.data.preprocess import Preprocess
from calib8.errors import UsageError
from calib8.program import instructions as op
from calib8.program.pixels import with_pixels
from calib8.program.program import Port, Program
from calib8.program.reference.executor import run_program
from calib8.program.verify import verify

RGB = Preprocess(mean=(123.675, 116.28, 103.53), scale=(1 / 58.395, 1 / 57.12, 1 / 57.375))


def border(channels: int = 3, **target: Any) -> Program:
    x = plain("image", 2, channels, 4, 5)
    y = codes("y", 2, 4, 5, channels, **({"scale": 0.0186, "zero_point": 114} | target))
    program = single(op.Quantize, [x], y, axes=(0, 2, 3, 1), rounding="even")
    table = np.arange(256, dtype=np.uint8)[::-1].astype(y.dtype)
    after = op.Lookup("after", (1,), (2,), table, "Reverse")
    return replace(
        program,
        slots=(*program.slots, replace(y, name="z")),
        instructions=(*program.instructions, after),
        outputs=(Port("z", 2),),
    )


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("rounding", ["even", "away"])
def test_pixels_give_the_codes_of_the_preprocessed_image(dtype: str, rounding: str) -> None:
    program = border(dtype=dtype, zero_point=-14 if dtype == "int8" else 114)
    program = replace(
        program,
        instructions=(replace(program.instructions[0], rounding=rounding), program.instructions[1]),
    )
    pixels = np.random.default_rng(0).integers(0, 256, (2, 4, 5, 3)).astype(np.uint8)
    values = (pixels.astype(np.float32) - np.float32(RGB.mean)) * np.float32(RGB.scale)
    direct = with_pixels(program, RGB)
    verify(direct)
    assert direct.slots[direct.inputs[0].slot].shape == pixels.shape
    wanted = run_program(program, {"image": np.ascontiguousarray(values.transpose(0, 3, 1, 2))})
    np.testing.assert_array_equal(run_program(direct, {"image": pixels})[0], wanted[0])


def test_pixels_that_are_the_codes_need_no_table() -> None:
    program = border(scale=float(np.float32(1 / 128)), zero_point=128)
    direct = with_pixels(program, Preprocess(mean=(128.0,), scale=(1 / 128,)))
    verify(direct)
    assert [step.name for step in direct.instructions] == ["after"] and len(direct.slots) == 2
    pixels = np.arange(120, dtype=np.uint8).reshape(2, 4, 5, 3)
    np.testing.assert_array_equal(run_program(direct, {"image": pixels})[0], 255 - pixels)


@pytest.mark.parametrize("name", ["other", "y"])
def test_unknown_inputs_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="image"):
        with_pixels(border(), RGB, name)


def test_another_number_of_channels_is_refused() -> None:
    with pytest.raises(UsageError, match="channels"):
        with_pixels(border(channels=4), RGB)


def test_inputs_that_others_read_are_refused() -> None:
    program = border()
    program = replace(program, outputs=(*program.outputs, program.inputs[0]))
    with pytest.raises(UsageError, match="Feed float32"):
        with_pixels(program, RGB)
