"""Slots by themselves, and the order of reading and writing: each is written once, before it is read."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calib8.errors import ModelError
from calib8.program.ops.step import instruction_label
from calib8.program.program import Program, Slot
from calib8.program.verify.step import program_label, slot_label

BORDER_TYPES: Final = (
    "float16",
    "float32",
    "float64",
    "bool",
    "int16",
    "int64",
    "uint16",
    "uint32",
    "uint64",
)
"""Types of slots that hold plain numbers; int16 with a scale holds codes, and int32 without
scales plain numbers."""

ELEMENT_LIMIT: Final = 1 << 31
"""Tensors have fewer elements, so that an int32 can name each."""

RANK_LIMIT: Final = 32
"""Axes of an array in every NumPy."""

WRITE_ONCE: Final = "Give every tensor a slot of its own"


def check_slots(program: Program) -> None:
    """Refuses slots with impossible shapes, types, scales or zero points.

    Raises:
        ModelError: names the slot and the value.
    """
    for number, slot in enumerate(program.slots):
        problem = _shape_problem(slot) or _type_problem(slot) or _scale_problem(slot)
        if problem is not None:
            subject = f"{program_label(program)}, {slot_label(program, number)}"
            raise ModelError(subject, problem[0], problem[1])


Problem = tuple[str, str]
"""What is wrong, and the cure."""


def _shape_problem(slot: Slot) -> Problem | None:
    if any(size < 1 for size in slot.shape):
        return f"has shape {list(slot.shape)}", "Sizes must be at least 1"
    if len(slot.shape) > RANK_LIMIT:
        return f"has {len(slot.shape)} axes", f"The limit is {RANK_LIMIT}"
    if math.prod(slot.shape) >= ELEMENT_LIMIT:
        return f"has shape {list(slot.shape)}, {math.prod(slot.shape)} elements", "The limit is 2^31 - 1"
    return None


def _type_problem(slot: Slot) -> Problem | None:
    if not (slot.is_codes or slot.dtype == "int32" or slot.dtype in BORDER_TYPES):
        return (
            f"has the unknown type {slot.dtype!r:.60}",
            "Slots hold uint8, int8, int16, int32 or a border type",
        )
    return None


def _scale_problem(slot: Slot) -> Problem | None:
    """Codes: one scale, a zero point of their type. Sums: one scale or one per index of the last axis."""
    scales = slot.scales
    if scales.ndim != 1 or not np.all(np.isfinite(scales) & (scales > 0)):
        bad = scales[~(np.isfinite(scales) & (scales > 0))].reshape(-1)[:1]
        return f"has scales of shape {list(scales.shape)}, {bad}", "Scales are [n], finite and above 0"
    if slot.is_codes:
        limits = np.iinfo(slot.dtype)
        if scales.size != 1:
            return f"holds codes and has {scales.size} scales", "Give it one"
        if not limits.min <= slot.zero_point <= limits.max:
            return f"has the zero point {slot.zero_point}", f"{slot.dtype} needs {limits.min} … {limits.max}"
        return None
    if slot.zero_point != 0:
        return f"holds {slot.dtype} and has the zero point {slot.zero_point}", "Only codes have one"
    if slot.dtype != "int32" and scales.size:
        return f"holds {slot.dtype} and has {scales.size} scales", "Only codes and sums have scales"
    if scales.size > 1 and scales.size != (slot.shape or (1,))[-1]:
        return f"has {scales.size} scales for shape {list(slot.shape)}", "Give one, or one per channel"
    return None


def check_order(program: Program) -> None:
    """Refuses slot numbers out of range, slots written twice or never, read before written; port names twice.

    Raises:
        ModelError: names instruction or port, and slot.
    """
    label = program_label(program)
    written: set[int] = set()
    for port in program.inputs:
        _require_slot(program, port.slot, f'{label}, input "{port.name}"')
        _write(program, port.slot, written, f'{label}, input "{port.name}"')
    for number, instruction in enumerate(program.instructions):
        subject = instruction_label(label, number, instruction)
        for slot in (*instruction.inputs, *instruction.outputs):
            _require_slot(program, slot, subject)
        for slot in instruction.inputs:
            _read(program, slot, written, subject)
        for slot in instruction.outputs:
            _write(program, slot, written, subject)
    for port in program.outputs:
        _require_slot(program, port.slot, f'{label}, output "{port.name}"')
        _read(program, port.slot, written, f'{label}, output "{port.name}"')
    for slot in range(len(program.slots)):
        if slot not in written:
            raise ModelError(f"{label}, {slot_label(program, slot)}", "is never written", "Leave it out")
    _check_ports(program)


def _require_slot(program: Program, slot: int, subject: str) -> None:
    if not 0 <= slot < len(program.slots):
        raise ModelError(
            subject, f"names slot {slot}", f"The program has {len(program.slots)} slots, counted from 0"
        )


def _read(program: Program, slot: int, written: set[int], subject: str) -> None:
    if slot not in written:
        raise ModelError(
            subject,
            f"reads {slot_label(program, slot)} before it is written",
            "Order instructions by their data",
        )


def _write(program: Program, slot: int, written: set[int], subject: str) -> None:
    if slot in written:
        raise ModelError(subject, f"writes {slot_label(program, slot)} a second time", WRITE_ONCE)
    written.add(slot)


def _check_ports(program: Program) -> None:
    if not program.outputs:
        raise ModelError(program_label(program), "has no outputs", "Name at least one slot as output")
    for ports, what in ((program.inputs, "inputs"), (program.outputs, "outputs")):
        names = [port.name for port in ports]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ModelError(
                program_label(program), f'has several {what} called "{twice}"', "Give each a name of its own"
            )
    _check_states(program)


def _check_states(program: Program) -> None:
    """Refuses states that are no ports, or whose two slots or initial values differ."""
    label = program_label(program)
    inputs = {port.name: program.slots[port.slot] for port in program.inputs}
    outputs = {port.name: program.slots[port.slot] for port in program.outputs}
    for place, state in enumerate(program.states):
        subject = f'{label}, state "{state.input}"'
        earlier = program.states[:place]
        if state.input not in inputs or state.output not in outputs:
            problem = f'is fed with "{state.output}", and they are not an input and an output'
            raise ModelError(subject, problem, "Name an input and an output")
        if any(state.input == one.input or state.output == one.output for one in earlier):
            raise ModelError(subject, "shares a port with another one", "Give each its own")
        read, written = inputs[state.input], outputs[state.output]
        if not _alike(read, written):
            problem = (
                f"is {read.dtype} {list(read.shape)}, and {written.dtype} {list(written.shape)} is fed to it"
            )
            raise ModelError(subject, problem, "Both have one type, shape, scale and zero point")
        first = state.initial
        if first.size and (first.dtype.name, first.shape) != (read.dtype, read.shape):
            problem = f"begins as {first.dtype} {list(first.shape)}"
            raise ModelError(subject, problem, f"Give {read.dtype} {list(read.shape)}, or nothing for 0")
        if first.dtype.kind == "f" and not np.all(np.isfinite(first)):
            raise ModelError(subject, "begins with NaN or infinite values", "Give finite ones")


def _alike(read: Slot, written: Slot) -> bool:
    same = (read.dtype, read.shape, read.zero_point) == (written.dtype, written.shape, written.zero_point)
    return same and np.array_equal(read.scales, written.scales)
