"""Plans as files that are mapped into memory: what opens one has almost nothing left to do.

    0      magic, 8 bytes
    8      format version, uint32
    12     zero, uint32
    16     bytes of the header, of the numbers, of the models and of the constants, uint64 each
    48     bytes of the whole file, uint64
    56     zero, uint64
    64     header: JSON in ASCII
           numbers: the rows of all steps one after the other, int64
           models: of the Float calls one after the other
           constants, with 64 bytes of zeros at their end
    end    checksum of all bytes before it, uint64 (``csrc/engine/checksum.h``)

Every part begins at a multiple of 64 bytes, numbers are little endian. Nothing of a file is believed, no size
either, before its checksum is right; then nothing is copied but the header and the models. A file that is
mapped must not be changed in place: ``save_plan`` writes a new one and renames it.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from calib8 import _core
from calib8.engine.plan import FloatCall, Plan, PlanPort, PlanState, Row, Stored
from calib8.engine.plan_check import ALIGNMENT, WRITE_AGAIN, check_plan, check_whole
from calib8.errors import ModelError
from calib8.forks import whole_imports

MAGIC: Final = b"\x89c8\x00\r\n\x1a\n"
"""Begins no text, and does not survive being copied as text."""

PROGRAM_MAGIC: Final = b"\x89c8p\r\n\x1a\n"
"""Begins saved programs (``calib8.program.file``), which are told from plans without reading that module."""

SUFFIX: Final = ".c8"
PROGRAM_SUFFIX: Final = ".c8p"
ANY_MODEL: Final = "Give the path of an .onnx, .tflite or .tmfile, a saved program or a plan"

FORMAT_VERSION: Final = 4
STATELESS_VERSION: Final = 3
"""Knows no states; plans without them are still written so."""

FIRST_VERSION: Final = 1
"""Rows of layers end before their activation."""

NO_ACTIVATION: Final = (0, -1, -1, -1, 0, 0, 0, 0)
PREFIX: Final = struct.Struct("<8sII4QQQ")
HEADER_KEYS: Final = frozenset(
    (
        *("name", "profile", "isa", "arena_bytes", "weight_bytes"),
        *("steps", "inputs", "outputs", "floats"),
    )
)
STATES: Final = "states"
"""Key of a header that not all have."""

CHECKSUM: Final = struct.Struct("<Q")


def save_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Writes a plan; the same plan gives the same bytes.

    Raises:
        ModelError: the plan is not sound (it could not be loaded).
        OutputError: the file cannot be written; an old file stays intact.
    """
    with whole_imports():
        from calib8.files import atomic_output  # who opens a plan writes nothing

    pieces = plan_pieces(plan)
    with atomic_output(path) as temporary, temporary.open("wb") as file:
        file.writelines(pieces)


def plan_pieces(plan: Plan) -> list[bytes | memoryview]:
    """The bytes of a plan's file, one piece behind the other.

    Raises:
        ModelError: the plan is not sound (it could not be loaded).
    """
    check_plan(plan, plan.name or "plan")

    numbers = [np.asarray(row.fields, "<i8") for row in plan.rows]
    parts: tuple[bytes | memoryview, ...] = (
        json.dumps(_header(plan), separators=(",", ":"), allow_nan=False).encode("ascii"),
        b"".join(row.tobytes() for row in numbers),
        b"".join(call.model for call in plan.floats),
        np.ascontiguousarray(plan.constants).data,
    )
    total = PREFIX.size + sum(len(part) + _padding(part) for part in parts) + CHECKSUM.size
    version = FORMAT_VERSION if plan.states else STATELESS_VERSION
    prefix = PREFIX.pack(MAGIC, version, 0, *map(len, parts), total, 0)
    pieces = [prefix, *(piece for part in parts for piece in (part, bytes(_padding(part))))]
    checksum = _core.engine.checksum([np.frombuffer(piece, np.uint8) for piece in pieces])
    return [*pieces, CHECKSUM.pack(checksum)]


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Maps a plan into memory; its arrays are read-only views of the file.

    Raises:
        ModelError: the file cannot be read, is no plan, is damaged, was made by a newer calib8, or does not
            hold what this one needs.
    """
    name = os.fspath(path)
    if not os.path.isfile(path):  # noqa: PTH113 - see below
        with whole_imports():
            from calib8.files import check_model_file  # for the words only

        check_model_file(path, "Give the path of a compiled plan")
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes longer to import than this takes to run
            sizes = _checked_prefix(name, file)
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(name, f"cannot be read ({reason})", "Give the path of a compiled plan") from error
    content = np.frombuffer(memory, np.uint8)
    _check_sum(name, content)
    try:
        return _plan(content, sizes)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        what = " ".join(str(error).split())
        raise ModelError(name, f"holds a header that makes no plan ({what:.80})", WRITE_AGAIN) from error


def is_plan_file(path: str | os.PathLike[str]) -> bool:
    """The file begins like a plan; False also for what cannot be read."""
    return _first_bytes(path) == MAGIC


def claims_to_be_plan(path: str | os.PathLike[str]) -> bool:
    """The file begins like a plan, or is named like one and begins like no program.

    So that a damaged plan is not taken for a damaged model. False also for what cannot be read.
    """
    first = _first_bytes(path)
    return first == MAGIC or (first not in (None, PROGRAM_MAGIC) and os.fspath(path).endswith(SUFFIX))


def _first_bytes(path: str | os.PathLike[str]) -> bytes | None:
    """As many as a magic has; None where there is no regular file that can be read."""
    if not os.path.isfile(path):  # noqa: PTH113 - a pipe would wait for ever; pathlib: see load_plan
        return None
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(len(MAGIC))
    except OSError:
        return None


class _Sizes(NamedTuple):
    """Bytes of the parts of a file."""

    header: int
    numbers: int
    models: int
    constants: int


def _header(plan: Plan) -> dict[str, Any]:
    states = [{**state._asdict(), "initial": state.initial.hex()} for state in plan.states]
    return {
        **({STATES: states} if states else {}),
        "name": plan.name,
        "profile": plan.profile,
        "isa": plan.isa,
        "arena_bytes": plan.arena_bytes,
        "weight_bytes": plan.weight_bytes,
        "steps": [
            [row.opcode, row.fields.size, name, macs]
            for row, name, macs in zip(plan.rows, plan.step_names, plan.step_macs, strict=True)
        ],
        "inputs": [_of_port(port) for port in plan.inputs],
        "outputs": [_of_port(port) for port in plan.outputs],
        "floats": [_call(call) for call in plan.floats],
    }


def _of_port(port: PlanPort) -> dict[str, Any]:
    """Scales and axes are additions that older versions of calib8 pass over: no reason for another format."""
    left_out = {
        *(() if port.scales else ("scales", "zero_point")),
        *(("counted",) if port.counted is None else ()),
    }
    return {key: value for key, value in port._asdict().items() if key not in left_out}


def _call(call: FloatCall) -> dict[str, Any]:
    def parts(tensors: Sequence[tuple[str, Stored]]) -> list[tuple[str, dict[str, Any]]]:
        return [(name, part._asdict()) for name, part in tensors]

    whole = call._asdict()
    return {**whole, "model": len(call.model), "inputs": parts(call.inputs), "outputs": parts(call.outputs)}


def _padding(part: bytes | memoryview) -> int:
    """Zeros behind a part."""
    return -len(part) % ALIGNMENT


def _checked_prefix(name: str, file: BinaryIO) -> _Sizes:
    """Sizes of the parts, once magic, version and the length of the file are right."""
    data = file.read(PREFIX.size)
    length = os.fstat(file.fileno()).st_size
    if data[: len(MAGIC)] != MAGIC:
        cure = "Give a file that calib8 compile wrote; if this is one, compile it again; name a model .onnx"
        raise ModelError(name, "is not a plan: it does not begin like one", cure)
    if len(data) < PREFIX.size:
        raise ModelError(name, f"is truncated: {len(data)} bytes", WRITE_AGAIN)
    _, version, _, *numbers, total, _ = PREFIX.unpack(data)
    if version > FORMAT_VERSION:
        problem = f"was made by a newer calib8 (format {version}, this one reads up to {FORMAT_VERSION})"
        raise ModelError(name, problem, "Install that version, or compile the model with this one")
    if length < total:
        raise ModelError(name, f"is truncated: {length} of {total} bytes", WRITE_AGAIN)
    sizes = _Sizes(*numbers)
    parts = sum(size + -size % ALIGNMENT for size in sizes)
    if version < FIRST_VERSION or total != length or PREFIX.size + parts + CHECKSUM.size != total:
        problem = f"is damaged: it states format {version} and {parts} in {total} of {length} bytes"
        raise ModelError(name, problem, WRITE_AGAIN)
    return sizes


def _check_sum(name: str, content: npt.NDArray[np.uint8]) -> None:
    [stated] = CHECKSUM.unpack(content[-CHECKSUM.size :].tobytes())
    if _core.engine.checksum([content[: -CHECKSUM.size]]) != stated:
        raise ModelError(name, "is damaged: its checksum does not match its bytes", WRITE_AGAIN)


def _plan(content: npt.NDArray[np.uint8], sizes: _Sizes) -> Plan:
    """The plan of a whole file; what it holds is still looked at, for it may come from another version."""
    parts, start = [], PREFIX.size
    for size in sizes:
        parts.append(content[start : start + size])
        start += size + -size % ALIGNMENT
    header = json.loads(parts[0].tobytes())
    if set(header) - {STATES} != HEADER_KEYS:
        raise ValueError(f"other keys: {', '.join(sorted(HEADER_KEYS ^ set(header)))}")
    steps = header["steps"]
    plan = Plan(
        name=str(header["name"]),
        profile=header["profile"],
        rows=_rows(steps, parts[1].view("<i8"), _version(content)),
        step_names=tuple(str(name) for _, _, name, _ in steps),
        step_macs=tuple(int(macs) for _, _, _, macs in steps),
        floats=_floats(header["floats"], parts[2]),
        constants=parts[3],
        arena_bytes=int(header["arena_bytes"]),
        inputs=tuple(map(_port, header["inputs"])),
        outputs=tuple(map(_port, header["outputs"])),
        weight_bytes=int(header["weight_bytes"]),
        isa=str(header["isa"]),
        states=tuple(map(_state, header.get(STATES, ()))),
    )
    check_whole(plan)
    return plan


def _version(content: npt.NDArray[np.uint8]) -> int:
    return int(PREFIX.unpack(content[: PREFIX.size].tobytes())[1])


def _rows(steps: Sequence[Any], numbers: npt.NDArray[np.int64], version: int) -> tuple[Row, ...]:
    rows, place = [], 0
    for opcode, size, _, _ in steps:
        if not 0 <= size <= numbers.size - place:
            raise ValueError(f"a step of {size} numbers")
        row = numbers[place : place + size]
        if version == FIRST_VERSION and opcode in ("conv", "depthwise"):
            row = np.append(row, NO_ACTIVATION)
        rows.append(Row(str(opcode), row))
        place += size
    if place != numbers.size:
        raise ValueError(f"{numbers.size} numbers for steps of {place}")
    return tuple(rows)


def _floats(calls: Sequence[Any], models: npt.NDArray[np.uint8]) -> tuple[FloatCall, ...]:
    found, place = [], 0
    for call in calls:
        size = int(call["model"])
        found.append(
            FloatCall(
                before=int(call["before"]),
                name=str(call["name"]),
                model=models[place : place + size].tobytes(),
                inputs=tuple((str(name), _stored(part)) for name, part in call["inputs"]),
                outputs=tuple((str(name), _stored(part)) for name, part in call["outputs"]),
                nodes=tuple(map(str, call["nodes"])),
                reasons=tuple(map(str, call["reasons"])),
            )
        )
        place += size
    return tuple(found)


def _stored(part: Any) -> Stored:
    return Stored(**{**part, "shape": tuple(map(int, part["shape"]))})


def _port(port: Any) -> PlanPort:
    shape = tuple(map(int, port["shape"]))
    scales = tuple(map(float, port.get("scales", ())))
    axis = port.get("counted")
    counted = None if axis is None else int(axis)
    return PlanPort(port["name"], port["dtype"], shape, scales, int(port.get("zero_point", 0)), counted)


def _state(state: Any) -> PlanState:
    initial = bytes.fromhex(state["initial"])
    return PlanState(str(state["input"]), str(state["output"]), int(state["fill"]), initial)
