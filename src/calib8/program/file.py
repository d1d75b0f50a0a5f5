"""Programs as files: the same program is the same bytes, and a broken file is told from a whole one.

    0      magic, 8 bytes
    8      format version, uint32
    12     length of the header, uint64
    20     length of the whole file, uint64
    28     header: JSON in ASCII
           arrays, each at a multiple of 64 bytes, little endian, in C order
    end    SHA-256 of all bytes before it, 32 bytes

Numbers are little endian. The header describes the dataclasses of a program by their names, so that a new
instruction needs no code here:

    {"Conv": {"name": …, "strides": [2, 2], "weight": {"array": 7}, …}}      an instance: class and fields
    {"array": 7}, {"bytes": 7}                                              entry 7 of the list of arrays
    [dtype, shape, offset]                                                  that entry; offsets count from 0

Nothing of a file is believed, no size either, before its checksum is right.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from dataclasses import MISSING, fields, is_dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import ModelError
from calib8.files import atomic_output, check_model_file
from calib8.program import rules
from calib8.program.instructions import TRAITS, Float
from calib8.program.magic import MAGIC as MAGIC
from calib8.program.magic import is_program_file as is_program_file
from calib8.program.program import Port, Program, Slot, State
from calib8.program.verify import verify

FORMAT_VERSION: Final = 4
WIDE_VERSION: Final = 3
"""Knows no states; programs without them are still written so."""

FUNCTIONS_VERSION: Final = 2
"""Knows no 16-bit codes; programs without them are still written so."""

FIRST_VERSION: Final = 1
"""Knows no functions behind layers either."""

PREFIX: Final = struct.Struct("<8sIQQ")
ALIGNMENT: Final = 64
CHECKSUM_BYTES: Final = 32
ARRAY_TYPES: Final = ("int8", "uint8", "int16", "int32", "float32")

CLASSES: Final[dict[str, type]] = {
    kind.__name__: kind
    for kind in (Program, Slot, Port, State, Float, *TRAITS, *vars(rules).values())
    if isinstance(kind, type) and is_dataclass(kind)
}
"""Name → class of everything that a program is made of."""

WRITE_AGAIN: Final = "Write it again from the model"


def save_program(program: Program, path: str | os.PathLike[str]) -> None:
    """Writes a program; the same program gives the same bytes.

    Raises:
        ModelError: the program is not sound (it could not be loaded).
        OutputError: the file cannot be written; an old file stays intact.
    """
    verify(program)
    arrays: list[npt.NDArray[Any]] = []
    encoded = _encode(program, arrays)
    blocks = [_padded(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()) for array in arrays]
    offsets = accumulate((len(block) for block in blocks), initial=0)
    entries = [
        [array.dtype.name, array.shape, offset] for array, offset in zip(arrays, offsets, strict=False)
    ]
    document = {"program": encoded, "arrays": entries}
    header = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
    start = len(_padded(bytes(PREFIX.size) + header))
    total = start + sum(len(block) for block in blocks) + CHECKSUM_BYTES
    prefix = PREFIX.pack(MAGIC, _version(program), len(header), total)
    digest = hashlib.sha256()
    with atomic_output(path) as temporary, temporary.open("wb") as file:
        for block in (_padded(prefix + header), *blocks):
            digest.update(block)
            file.write(block)
        file.write(digest.digest())


def load_program(path: str | os.PathLike[str]) -> Program:
    """Reads a program and verifies it; its arrays are read-only views of the file's bytes.

    Raises:
        ModelError: the file cannot be read, is no program, is damaged, was made by a newer calib8, or holds
            a program that is not sound.
    """
    name = str(path)
    check_model_file(path, "Give the path of a saved program")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ModelError(
            name, f"cannot be read ({error.strerror or error})", "Give the path of a saved program"
        ) from error
    header_bytes = _checked(name, data)
    try:
        program = _decoded(data, header_bytes)
    except _BrokenHeaderError as error:
        raise ModelError(name, f"holds {error}", WRITE_AGAIN) from error
    except RecursionError as error:
        raise ModelError(name, "holds a header nested beyond all programs", WRITE_AGAIN) from error
    try:
        verify(program)
    except ModelError as error:
        raise ModelError(f"{name}, {error.subject}", error.problem, error.cure) from error
    return program


def _version(program: Program) -> int:
    """The first format that can hold a program."""
    if program.states:
        return FORMAT_VERSION
    if any(slot.is_wide for slot in program.slots):
        return WIDE_VERSION
    found = (getattr(step, "rescale", None) for step in program.instructions)
    functions = any(isinstance(rule, rules.TwoSidedRescale | rules.CurveRescale) for rule in found)
    return FUNCTIONS_VERSION if functions else FIRST_VERSION


class _BrokenHeaderError(Exception):
    """What a header holds that no program is made of, as the object of "holds"."""


def _padded(block: bytes) -> bytes:
    """The bytes, filled with zeros to a multiple of the alignment."""
    return block + bytes(-len(block) % ALIGNMENT)


def _encode(value: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    """The JSON form of a value; arrays and bytes are appended to the list."""
    if is_dataclass(value):
        named = [field.name for field in fields(value)]
        if isinstance(value, Program) and not value.states:
            named.remove("states")  # earlier versions read it
        content = {name: _encode(getattr(value, name), arrays) for name in named}
        return {type(value).__name__: content}
    if isinstance(value, tuple):
        return [_encode(item, arrays) for item in value]
    if isinstance(value, bytes):
        arrays.append(np.frombuffer(value, np.uint8))
        return {"bytes": len(arrays) - 1}
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    return value


def _checked(name: str, data: bytes) -> int:
    """Length of the header, once magic, version and checksum are right."""
    if data[: len(MAGIC)] != MAGIC:
        raise ModelError(name, "is not a saved program", "Give a file that calib8 saved a program to")
    if len(data) < PREFIX.size + CHECKSUM_BYTES:
        raise ModelError(name, f"is truncated: {len(data)} bytes", WRITE_AGAIN)
    _, version, header_bytes, total = PREFIX.unpack_from(data)
    if version > FORMAT_VERSION:
        raise ModelError(
            name,
            f"was made by a newer calib8 (format {version}, this one reads up to {FORMAT_VERSION})",
            "Install that version, or save the program with this one",
        )
    if hashlib.sha256(data[:-CHECKSUM_BYTES]).digest() != data[-CHECKSUM_BYTES:]:
        if len(data) < total:
            raise ModelError(name, f"is truncated: {len(data)} of {total} bytes", WRITE_AGAIN)
        raise ModelError(name, "is damaged: its checksum does not match its bytes", WRITE_AGAIN)
    if version < FIRST_VERSION or total != len(data):
        raise ModelError(name, f"states format {version} and {total} of {len(data)} bytes", WRITE_AGAIN)
    return int(header_bytes)


def _decoded(data: bytes, header_bytes: int) -> Program:
    end = PREFIX.size + header_bytes
    if end > len(data) - CHECKSUM_BYTES:
        raise _BrokenHeaderError(f"a header of {header_bytes} bytes, more than the file has")
    try:
        document = json.loads(data[PREFIX.size : end].decode("ascii"))
    except ValueError as error:
        raise _BrokenHeaderError("a header that is no JSON") from error
    if not (isinstance(document, dict) and isinstance(document.get("arrays"), list)):
        raise _BrokenHeaderError("a header without a list of arrays")
    start = end + -end % ALIGNMENT
    arrays = [_array(entry, data, start) for entry in document["arrays"]]
    program = _decode(document.get("program"), arrays)
    if not isinstance(program, Program):
        raise _BrokenHeaderError("no program")
    return program


def _array(entry: Any, data: bytes, start: int) -> npt.NDArray[Any]:
    """A read-only view of the bytes that an entry of the list of arrays names."""
    match entry:
        case [str(dtype), [*shape], int(offset)] if dtype in ARRAY_TYPES and offset >= 0:
            kind = np.dtype(dtype).newbyteorder("<")
        case _:
            raise _BrokenHeaderError(f"the array {entry!r:.60}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise _BrokenHeaderError(f"an array of shape {shape!r:.60}")
    count = math.prod(shape)
    if start + offset + count * kind.itemsize > len(data) - CHECKSUM_BYTES:
        raise _BrokenHeaderError(f"an array {entry!r:.60} that reaches beyond the file")
    try:
        flat = np.frombuffer(data, kind, count, start + offset)
        return flat.astype(kind.newbyteorder("="), copy=False).reshape(shape)
    except ValueError as error:  # more axes than NumPy has
        raise _BrokenHeaderError(f"an array of shape {shape!r:.60}") from error


def _decode(value: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    """The inverse of ``_encode``; what fields hold is left to ``verify``."""
    if isinstance(value, list):
        return tuple(_decode(item, arrays) for item in value)
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise _BrokenHeaderError(f"an object of {len(value)} names where one is needed")
    ((name, content),) = value.items()
    if name in ("array", "bytes"):
        if type(content) is not int or not 0 <= content < len(arrays):
            raise _BrokenHeaderError(f"the array number {content!r:.60} of {len(arrays)}")
        return arrays[content] if name == "array" else arrays[content].tobytes()
    return _instance(name, content, arrays)


def _instance(name: str, content: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    kind: Any = CLASSES.get(name)
    if kind is None:
        raise _BrokenHeaderError(f"the unknown type {name!r:.60}")
    known = {field.name: field for field in fields(kind)}
    if not isinstance(content, dict):
        raise _BrokenHeaderError(f"a {name} without fields")
    unknown = sorted(set(content) - set(known))
    if unknown:
        raise _BrokenHeaderError(f"a {name} with the unknown field {unknown[0]!r:.60}")
    needed = {
        key for key, field in known.items() if field.default is MISSING and field.default_factory is MISSING
    }
    missing = sorted(needed - set(content))
    if missing:
        raise _BrokenHeaderError(f"a {name} without {missing[0]!r}")
    return kind(**{key: _decode(item, arrays) for key, item in content.items()})
