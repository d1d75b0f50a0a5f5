"""Constants of a plan that lead beside an image or out of 16 bits are told when it is opened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from decode import steps_of
from wide_programs import WIDE

from calib8 import InferenceSession, ModelError
from calib8.engine.compile import compile_program
from calib8.engine.emitter import aligned_bytes
from calib8.engine.plan import Plan
from program.example_programs import EXAMPLES

SEGMENTS = 32
"""Of a curve; its constants are as many values, slopes and bends, int16."""


def with_numbers(plan: Plan, place: int, numbers: dict[int, int], dtype: Any) -> Plan:
    """The plan with some numbers of an array among its constants changed."""
    constants = aligned_bytes(plan.constants.size - 64)
    constants[:] = plan.constants
    array = constants[place:].view(dtype)
    for index, value in numbers.items():
        array[index] = value
    return replace(plan, constants=constants)


def is_refused(plan: Plan, why: str) -> bool:
    try:
        InferenceSession(plan)
    except ModelError as error:
        assert why in str(error)
        return True
    return False


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("axis", ["row", "column"])
def test_a_resize_reads_pixels_of_its_image(axis: str, end: str) -> None:
    plan = compile_program(EXAMPLES["ResizeLinear", "single"])
    [step] = [step for step in steps_of(plan) if step.opcode == "resize_linear"]
    size = step.input.rows if axis == "row" else step.input.columns
    place = getattr(step, f"{axis}_{end}")
    for index, refused in ((-1, True), (0, False), (size - 1, False), (size, True)):
        found = with_numbers(plan, place, {0: index}, np.int32)
        assert is_refused(found, "a place beside its image") == refused


def curve_segments() -> tuple[Plan, int]:
    """A plan with a curve behind a layer, and where its segments are."""
    plan = compile_program(WIDE["DepthwiseConv of a curve, 8 to 16", "single"])
    found = [step.activation.segments for step in steps_of(plan) if getattr(step, "activation", None)]
    return plan, next(place for place in found if place >= 0)


@pytest.mark.parametrize("segment", [0, 7, SEGMENTS - 1])
@pytest.mark.parametrize(
    ("slope", "bend", "refused"),
    [
        (20000, 12767, False),
        (20000, 12768, True),
        (-20000, 12768, True),
        (20000, -12768, True),
        (32767, 0, False),
        (32767, 1, True),
        (0, -32767, False),
        (-32768, 0, True),
    ],
)
def test_the_steepest_of_a_segment_is_its_slope_with_its_bend(
    segment: int, slope: int, bend: int, refused: bool
) -> None:
    """The two together are multiplied as 16 bits."""
    plan, place = curve_segments()
    numbers = {SEGMENTS + segment: slope, 2 * SEGMENTS + segment: bend}
    assert is_refused(with_numbers(plan, place, numbers, np.int16), "a segment that is too steep") == refused
