"""Runs a program natively on every instruction set that is here and compares it with NumPy.

With ``CALIB8_RECORD=FOLDER`` every plan is also written there with its inputs and outputs; the native check
(``tests/native/recorded.h`` has the format) runs them again under sanitizers and on other processors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8 import _core
from calib8.engine.compile import compile_program
from calib8.engine.plan import FloatCall, Plan
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program.ops.operand import Operand
from calib8.program.program import Program, Slot
from calib8.program.reference.executor import run_program
from calib8.program.reference.floats import run_float

Array = npt.NDArray[Any]
ISAS: tuple[str, ...] = tuple(_core.engine.available_isas())
THREADS = (1, 2)
FAST_ISAS: tuple[str, ...] = ISAS[:-1] or ISAS
"""All but the plain loops, which take seconds for a real network."""


def random_feeds(program: Program, rng: np.random.Generator) -> dict[str, Array]:
    """Codes over their whole range, sums up to a few thousand, floats over the range of codes and beyond."""
    feeds = {port.name: random_array(program.slots[port.slot], rng) for port in program.inputs}
    for step in program.instructions:  # others than lengths that there are, would be refused
        if isinstance(step, op.Recurrent) and "lengths" in step.extras:
            slot = step.inputs[1 + step.extras.index("lengths")]
            for port in program.inputs:
                if port.slot == slot:
                    most = program.slots[step.inputs[0]].shape[0]
                    feeds[port.name] = rng.integers(0, most + 1, program.slots[slot].shape).astype(np.int32)
    return feeds


def random_array(slot: Slot, rng: np.random.Generator) -> Array:
    dtype = np.dtype(slot.dtype)
    if slot.is_codes:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max + 1, slot.shape).astype(dtype)
    if dtype.kind == "f":
        return (rng.standard_normal(slot.shape) * 4).astype(dtype)
    return rng.integers(-9000, 9000, slot.shape).astype(dtype)


def assert_same_bits(
    program: Program,
    feeds: Mapping[str, Array] | None = None,
    *,
    seed: int = 0,
    isas: Sequence[str] = ISAS,
    threads: Sequence[int] = THREADS,
) -> None:
    """The native engine gives the reference's outputs on all these instruction sets and thread counts."""
    feeds = random_feeds(program, np.random.default_rng(seed)) if feeds is None else feeds
    assert_native_gives(program, feeds, run_program(program, feeds), isas=isas, threads=threads)


def assert_native_gives(
    program: Program,
    feeds: Mapping[str, Array],
    wanted: Sequence[Array],
    *,
    isas: Sequence[str] = ISAS,
    threads: Sequence[int] = THREADS,
) -> None:
    """The native engine gives these outputs on all these instruction sets and thread counts."""
    plan = compile_program(program)
    if folder := os.environ.get("CALIB8_RECORD"):
        record(folder, plan, feeds, wanted)
    for isa in isas:
        for count in threads:
            engine = Engine(plan, isa=isa, threads=count, float_runner=partial(run_call, program))
            assert engine.isa == isa
            for _ in range(2):  # the second run finds a used arena
                for port, got, want in zip(plan.outputs, engine.run(feeds), wanted, strict=True):
                    where = f"{port.name} on {isa} with {count} threads"
                    np.testing.assert_array_equal(got, want, err_msg=where)


def with_fields(plan: Plan, opcode: str, changes: Mapping[str, int]) -> Plan:
    """The plan with other numbers in the first step of a kind, whose fields have these names."""
    place = next(place for place, row in enumerate(plan.rows) if row.opcode == opcode)
    names = _core.engine.schemas()[opcode]
    fields = plan.rows[place].fields.copy()
    for name, value in changes.items():
        fields[names.index(name)] = value
    rows = list(plan.rows)
    rows[place] = rows[place]._replace(fields=fields)
    return replace(plan, rows=tuple(rows))


FILE_BYTES: Final = 1 << 24
"""Of recorded plans: an emulator keeps memory of every thread that has ended, until its process ends."""


def record(folder: str, plan: Plan, feeds: Mapping[str, Array], wanted: Sequence[Array]) -> None:
    """Appends a plan that needs no ONNX Runtime to a file, with what goes in and what comes out.

    Every process has files of its own, a new one behind every ``FILE_BYTES``.
    """
    if plan.floats:
        return
    Path(folder).mkdir(exist_ok=True)
    whole = sum(1 for path in Path(folder).glob(f"{os.getpid()}-*") if path.stat().st_size >= FILE_BYTES)
    with (Path(folder) / f"{os.getpid()}-{whole}").open("ab") as file:
        for numbers in _recorded(plan, [feeds[port.name] for port in plan.inputs], wanted):
            file.write(np.asarray(numbers, np.int64).tobytes())


def _recorded(
    plan: Plan, inputs: Sequence[Array], outputs: Sequence[Array]
) -> Iterator[Sequence[int] | Array]:
    yield [len(plan.rows)]
    for opcode, row in plan.rows:
        yield from _bytes(np.frombuffer(opcode.encode(), np.uint8))
        yield [row.size]
        yield row
    yield from _bytes(plan.constants)
    yield [plan.arena_bytes, len(inputs), len(outputs)]
    for array in (*inputs, *outputs):
        yield from _bytes(array)


def _bytes(array: Array) -> Iterator[Sequence[int] | Array]:
    data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    yield [data.size]
    yield np.concatenate([data, np.zeros(-data.size % 8, np.uint8)]).view(np.int64)


def run_call(program: Program, call: FloatCall, inputs: Sequence[Array]) -> list[Array]:
    """A Float call as the reference executor runs it."""
    steps = [step for step in program.instructions if isinstance(step, op.Float) and step.name == call.name]
    slots = [program.slots[number] for number in steps[0].inputs]
    return run_float(steps[0], [Operand(slot, array) for slot, array in zip(slots, inputs, strict=True)])
