"""What the native engine refuses: plans that would leave their buffers, wrong contexts, absurd sizes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from decode import steps_of
from example_programs import EXAMPLES

from bits import random_feeds
from calib8 import _core
from calib8.engine.codec import encode
from calib8.engine.compile import compile_program
from calib8.engine.fields import ARENA, View, Window
from calib8.engine.plan import Plan
from calib8.engine.run import Engine
from calib8.engine.steps import MaxPool
from calib8.program.reference.executor import run_program

PLANS = {
    name: compile_program(program) for (name, profile), program in EXAMPLES.items() if profile == "single"
}
RUNNABLE = {name: plan for name, plan in PLANS.items() if not plan.floats}
ABSURD = (-1, 1 << 20, 1 << 62)
"""What a field is set to: some of it is allowed for some fields, none of it may do harm."""


def native(plan: Plan, **changes: Any) -> Any:
    """The native engine of a plan with other arguments."""
    arguments: dict[str, Any] = {
        "steps": list(plan.rows),
        "constants": plan.constants,
        "arena_bytes": plan.arena_bytes,
        "port_bytes": plan.port_bytes,
        "inputs": len(plan.inputs),
    }
    return _core.engine.Engine(**{**arguments, **changes})


def with_field(plan: Plan, step: int, field: int, value: int) -> list[tuple[str, npt.NDArray[np.int64]]]:
    rows = [(opcode, fields.copy()) for opcode, fields in plan.rows]
    rows[step][1][field] = value
    return rows


@pytest.mark.parametrize("name", RUNNABLE)
def test_no_tampered_field_leads_outside(name: str) -> None:
    """Every field of every step is set to absurd numbers: refused, or the run stays inside its buffers.

    The sanitizers of the native check see what this test cannot.
    """
    plan = RUNNABLE[name]
    ports = [np.zeros(size, np.uint8) for size in plan.port_bytes]
    inputs, outputs = ports[: len(plan.inputs)], ports[len(plan.inputs) :]
    refused = 0
    for step, row in enumerate(plan.rows):
        for field in range(row.fields.size):
            for value in ABSURD:
                try:
                    engine = native(plan, steps=with_field(plan, step, field, value))
                except ValueError:
                    refused += 1
                    continue
                context = _core.engine.Context(engine)
                engine.run(context, 0, len(plan.rows), inputs, outputs)
    assert refused > 10 * len(plan.rows)


def test_constants_that_lead_elsewhere_are_refused() -> None:
    plan = PLANS["Conv"]
    conv = next(step for step in steps_of(plan) if step.opcode == "conv")
    for field, type_, value in (
        ("tap_offsets", np.int64, 1 << 30),
        ("tap_offsets", np.int64, -(1 << 30)),
        ("panel_widths", np.int32, 5),
    ):
        constants = plan.constants.copy()
        place = getattr(conv, field)
        constants[place : place + np.dtype(type_).itemsize].view(type_)[0] = value
        with pytest.raises(ValueError, match="broken"):
            native(plan, constants=aligned(constants))


def aligned(array: npt.NDArray[np.uint8], off: int = 0) -> npt.NDArray[np.uint8]:
    """A copy that begins ``off`` bytes behind a multiple of 64."""
    memory = np.zeros(array.size + 128, np.uint8)
    first = (off - memory.ctypes.data) % 64
    memory[first : first + array.size] = array
    return memory[first : first + array.size]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda plan: {"arena_bytes": 1 << 60}, "bytes of memory"),
        (lambda plan: {"arena_bytes": -1}, "negative"),
        (lambda plan: {"arena_bytes": 64}, "leaves its buffer"),
        (lambda plan: {"port_bytes": [-1, 8]}, "negative"),
        (lambda plan: {"port_bytes": []}, "does not exist"),
        (lambda plan: {"constants": aligned(plan.constants, 8)}, "aligned"),
        (lambda plan: {"constants": plan.constants[:64]}, "leaves its buffer"),
        (lambda plan: {"threads": 0}, "threads"),
        (lambda plan: {"threads": 257}, "threads"),
        (lambda plan: {"steps": [("dance", np.zeros(3, np.int64))]}, "dance"),
        (lambda plan: {"steps": [("conv", np.zeros(3, np.int64))]}, "3 fields"),
    ],
)
def test_descriptions_that_contradict_themselves(
    change: Callable[[Plan], dict[str, Any]], reason: str
) -> None:
    plan = PLANS["Conv"]
    with pytest.raises(ValueError, match=reason):
        native(plan, **change(plan))


WITH_SCRATCH = {
    *("conv", "depthwise", "mat_mul", "max_pool", "average_pool", "reduce", "softmax", "group_norm"),
    "recurrent",
    "integer_lstm",
    "integer_gru",
}
"""Steps whose kernels keep something beside the arena."""


@pytest.mark.parametrize("opcode", sorted({row.opcode for plan in RUNNABLE.values() for row in plan.rows}))
def test_threads_get_memory_for_the_steps_that_need_it(opcode: str) -> None:
    """As much on every instruction set, and nothing for kernels that need none."""
    plan = next(plan for plan in RUNNABLE.values() if opcode in {row.opcode for row in plan.rows})
    steps = [(row.opcode, row.fields) for row in plan.rows if row.opcode == opcode]
    [need] = {native(plan, steps=steps, isa=isa).scratch_bytes for isa in _core.engine.available_isas()}
    assert (need > 0) == (opcode in WITH_SCRATCH)
    everything = native(plan).scratch_bytes
    assert everything == max(
        native(plan, steps=[(row.opcode, row.fields)]).scratch_bytes for row in plan.rows
    )


MANY_CHANNELS = dict.fromkeys(("output.images", "output.rows", "output.columns", "input.images"), 1) | {
    "input.channels": 1000,
    "output.channels": 1000,
}


@pytest.mark.parametrize(
    ("name", "opcode", "changes", "least"),
    [
        ("AveragePool", "average_pool", MANY_CHANNELS, 2000),
        ("MaxPool", "max_pool", {"input.columns": 1000}, 1000),
        ("Softmax", "softmax", {"classes": 1000}, 4000),
        ("MatMul", "mat_mul", {"depth": 1000}, 64000),
    ],
)
def test_wider_steps_get_more_of_it(name: str, opcode: str, changes: dict[str, int], least: int) -> None:
    """A plan says nothing of this memory: no number of it can make it smaller than its steps need."""
    plan, names = PLANS[name], _core.engine.schemas()[opcode]
    row = next(row for row in plan.rows if row.opcode == opcode)
    fields = row.fields.copy()
    for field, value in changes.items():
        fields[names.index(field)] = value
    before = native(plan, steps=[(opcode, row.fields)]).scratch_bytes
    after = native(plan, steps=[(opcode, fields)], arena_bytes=1 << 24).scratch_bytes
    assert after >= max(before + 1, least)


def test_steps_that_need_more_memory_than_the_machine_has() -> None:
    """Told before anything is allocated; the arena alone would fit."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    plan, names = PLANS["Softmax"], _core.engine.schemas()["softmax"]
    fields = next(row.fields for row in plan.rows if row.opcode == "softmax").copy()
    float_rule = 2  # which has no most of classes
    changes = {"source_offset": 0, "target_offset": 0, "rows": 1, "classes": machine // 8, "kind": float_rule}
    for field, value in changes.items():
        fields[names.index(field)] = value
    for field in ("source_buffer", "target_buffer"):
        fields[names.index(field)] = ARENA
    with pytest.raises(ValueError, match=r"needs \d+ bytes of memory"):
        native(plan, steps=[("softmax", fields)], arena_bytes=machine // 8)
    fields[names.index("classes")] = machine // 32
    assert native(plan, steps=[("softmax", fields)], arena_bytes=machine // 32).scratch_bytes <= machine


def test_a_plan_that_writes_into_its_inputs_is_refused() -> None:
    plan = PLANS["Conv"]
    copy = next(place for place, step in enumerate(plan.rows) if step.opcode == "copy")
    fields = _core.engine.schemas()["copy"]
    rows = with_field(plan, copy, fields.index("target_buffer"), 2)
    row = rows[copy][1]
    row[fields.index("target_offset")] = 0
    row[fields.index("source_offset")] = 0
    row[[fields.index(f"sizes.{axis}") for axis in range(6)]] = 1
    row[fields.index("run")] = 1
    with pytest.raises(ValueError, match="writes into an input"):
        native(plan, steps=rows)


def test_a_context_serves_its_own_engine_only() -> None:
    plan = PLANS["Conv"]
    one, other = native(plan), native(plan)
    ports = [np.zeros(size, np.uint8) for size in plan.port_bytes]
    with pytest.raises(ValueError, match="another engine"):
        one.run(_core.engine.Context(other), 0, 1, ports[:1], ports[1:])


def test_a_context_outlives_the_last_name_of_its_engine() -> None:
    context = _core.engine.Context(native(PLANS["Conv"]))
    arena = context.arena()
    del context
    arena[:] = 7
    assert int(arena.sum()) == 7 * arena.size


def test_misaligned_arrays_and_wrong_sizes_are_refused() -> None:
    plan = PLANS["Quantize"]
    engine = native(plan)
    context = _core.engine.Context(engine)
    sizes = plan.port_bytes
    odd = np.zeros(sizes[0] + 1, np.uint8)[1:].view(np.float32)
    output = np.zeros(sizes[1], np.uint8)
    with pytest.raises(ValueError, match="aligned"):
        engine.run(context, 0, 1, [odd], [output])
    for inputs, outputs in (([output], [output]), ([], [output]), ([odd.copy()], [])):
        with pytest.raises(ValueError, match=r"bytes|number of"):
            engine.run(context, 0, 1, inputs, outputs)
    for first, last in ((-1, 1), (0, len(plan.rows) + 1), (2, 1)):
        with pytest.raises(ValueError, match="no such steps"):
            engine.run(context, first, last, [odd.copy()], [output])


def test_a_forked_child_runs_and_ends() -> None:
    """The child has none of the parent's threads: it starts its own, and neither end waits for the others."""
    program = EXAMPLES["Conv", "onnx"]
    feeds = random_feeds(program, np.random.default_rng(0))
    wanted = run_program(program, feeds)[0]
    engine = Engine(compile_program(program), threads=2)
    engine.run(feeds)
    child = os.fork()
    if child == 0:
        right = all(np.array_equal(engine.run(feeds)[0], wanted) for _ in range(3))
        del engine
        os._exit(0 if right else 1)
    guard = threading.Timer(60, os.kill, (child, 9))
    guard.start()
    assert os.waitpid(child, 0)[1] == 0
    guard.cancel()
    np.testing.assert_array_equal(engine.run(feeds)[0], wanted)


def test_fewer_arena_bytes_than_the_plan_uses_are_refused() -> None:
    for name, plan in RUNNABLE.items():
        if plan.arena_bytes > 64:
            with pytest.raises(ValueError, match="leaves its buffer"):
                native(replace(plan, arena_bytes=64))
        assert native(plan) is not None, name


@pytest.mark.parametrize("column_stride", [7, 8, 9])
def test_a_step_writes_no_element_twice(column_stride: int) -> None:
    """Two pixels of 8 channels that lie 7 apart share one element."""
    source = View(ARENA, 0, 1, 1, 2, 8, 64, 64, 8)
    target = View(ARENA, 1024, 1, 1, 2, 8, 64, 64, column_stride)
    step = MaxPool(source, target, Window(1, 1, 1, 1, 1, 1, 0, 0, 0, 0))
    arguments = {"steps": [(step.opcode, encode(step))], "arena_bytes": 4096, "port_bytes": [], "inputs": 0}
    if column_stride >= 8:
        assert native(PLANS["Conv"], **arguments) is not None
        return
    with pytest.raises(ValueError, match="writes an element twice"):
        native(PLANS["Conv"], **arguments)
