"""What generated kernel tests share: how many cases there are; slots and clamps drawn from a generator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
from decode import steps_of
from example_programs import codes

from bits import ISAS
from calib8.engine.codec import encode
from calib8.engine.compile import compile_program
from calib8.engine.fields import FIRST_PORT
from calib8.engine.plan import Plan, PlanPort, Row
from calib8.engine.run import Engine
from calib8.engine.steps import Step
from calib8.program import instructions as op
from calib8.program.program import Port, Program, Slot
from calib8.program.reference.executor import run_program
from calib8.qparams import QParams

CASES: Final = int(os.environ.get("CALIB8_KERNEL_CASES", "24"))
"""Generated cases per kind of step; scripts/check-full asks for more."""

SEEDS: Final = range(CASES)
CHANNELS: Final = (1, 2, 3, 4, 5, 8, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 130, 200, 256, 300)
"""Whole vectors of every instruction set, and what lies beside them."""

T = TypeVar("T")


def pick(rng: np.random.Generator, *options: T) -> T:
    """One of the options."""
    return options[int(rng.integers(len(options)))]


def code_slot(name: str, rng: np.random.Generator, *shape: int, scale: float = 0.05) -> Slot:
    """Codes of either type with any zero point, both ends often."""
    dtype = pick(rng, "uint8", "int8")
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    zero_point = pick(rng, low, high, (low + high + 1) // 2, int(rng.integers(low, high + 1)))
    return codes(name, *shape, scale=scale, zero_point=zero_point, dtype=dtype)


def like(slot: Slot, name: str, *shape: int) -> Slot:
    """Another shape of the same type, scale and zero point."""
    return codes(name, *shape, scale=slot.scale, zero_point=slot.zero_point, dtype=slot.dtype)


def qparams(slot: Slot) -> QParams:
    """Scale and zero point of codes."""
    return QParams(slot.scale, slot.zero_point)


def clamp(rng: np.random.Generator, slot: Slot) -> dict[str, int]:
    """The range of the type, or a part of it."""
    low, high = np.iinfo(slot.dtype).min, np.iinfo(slot.dtype).max
    if rng.random() < 0.6:
        return {"low": low, "high": high}
    return {"low": low + int(rng.integers(0, 90)), "high": high - int(rng.integers(0, 90))}


def with_steps(plan: Plan, steps: Sequence[Step], shape: tuple[int, ...]) -> Plan:
    """The plan with other steps and an output of another shape."""
    port = PlanPort(plan.outputs[0].name, plan.outputs[0].dtype, shape)
    return replace(plan, rows=tuple(Row(step.opcode, encode(step)) for step in steps), outputs=(port,))


def assert_neighbours_stay(program: Program, opcode: str) -> None:
    """A step that writes some channels of a wider tensor of uint8 leaves all others as they are."""
    plan, source = compile_program(program), program.slots[0]
    images, rows, columns, channels = program.slots[-1].shape
    width, start = channels + 29, 11
    place = {"buffer": FIRST_PORT + 1, "offset": start}
    strides = {"image_stride": rows * columns * width, "row_stride": columns * width, "column_stride": width}
    steps: list[Step] = []
    for step in steps_of(plan)[:-1]:  # the last one copies the result into the port
        if step.opcode == opcode:
            view = replace(step.output, **place, **strides)  # type: ignore[attr-defined]
            step = replace(step, output=view)  # type: ignore[call-arg]
        steps.append(step)
    shape = (images, rows, columns, width)
    feeds = {"x": np.random.default_rng(0).integers(0, 256, source.shape).astype(np.uint8)}
    (wanted,) = run_program(program, feeds)
    for isa in ISAS:
        got = np.full(shape, 77, np.uint8)
        Engine(with_steps(plan, steps, shape), isa=isa, threads=2).run_into(feeds, [got])
        np.testing.assert_array_equal(got[..., start : start + channels], wanted, err_msg=isa)
        assert (np.delete(got, np.s_[start : start + channels], axis=3) == 77).all(), isa


def to_float(program: Program, axes: tuple[int, ...] = (0, 3, 1, 2)) -> Program:
    """The program with float32 outputs; ``axes`` are those of the codes in the order of the output."""
    codes = program.slots[-1]
    floats = Slot("f", tuple(codes.shape[axis] for axis in axes), "float32")
    last = op.Dequantize("out", (len(program.slots) - 1,), (len(program.slots),), axes)
    return replace(
        program,
        slots=(*program.slots, floats),
        instructions=(*program.instructions, last),
        outputs=(Port("out", len(program.slots)),),
    )
