"""ONNX files read without their large constants passing through protobuf, which keeps a second copy of them.

    ModelProto   7 graph        GraphProto   5 initializer
    TensorProto  1 dims   2 data_type   8 name   9 raw_data   4-7, 10, 11 lists of numbers or strings
                 13 external_data   14 data_location

A file is walked field by field. Of every initializer whose ``raw_data`` is large this part stays out of the
bytes that protobuf parses; it is read into an array of its own. Files that are built in another way are left
to the ordinary reader, as are those of which less than half lies in such constants.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from calib8.model.stored_constants import check_initializers

LARGE_FILE: Final = 2**23
LARGE_CONSTANT: Final = 2**16
"""Bytes from which on a file, and a constant in it, is read apart."""

GRAPH, INITIALIZER = 7, 5
DIMS, DATA_TYPE, NAME, RAW_DATA = 1, 2, 8, 9
ELSEWHERE: Final = frozenset((4, 5, 6, 7, 10, 11, 13, 14))
"""Fields of a constant that holds its values in another way."""

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5

WHOLE_BYTES: Final = frozenset((1, 2, 3, 4, 5, 6, 7, 10, 11, 16))
"""Data types whose elements take one or more whole bytes: float, uint8, int8, … bfloat16."""

WINDOW: Final = 2**16
"""Bytes that are read at once while a file is walked."""

Piece: TypeAlias = "bytes | tuple[int, int]"
"""Bytes, or where they lie in the file."""


class _Field(NamedTuple):
    """A field of a message: where it and its value begin, where both end; the value itself of a varint."""

    number: int
    wire: int
    start: int
    begin: int
    end: int
    value: int


class _File:
    """The bytes of a file, read as they are asked for."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self.size = file, size
        self._first, self._window = 0, b""

    def at(self, place: int) -> int:
        """A byte; IndexError where there is none."""
        index = place - self._first
        if not 0 <= index < len(self._window):
            self._first, index = place, 0
            self._file.seek(place)
            self._window = self._file.read(WINDOW)
        return self._window[index]

    def between(self, begin: int, end: int) -> bytes:
        """Some of the bytes."""
        self._file.seek(begin)
        return self._file.read(end - begin)


@dataclass
class LightModel:
    """A model without its large constants.

    Attributes:
        model: what was read; its large constants are arrays.
        checked: bytes of the same model for ``onnx.checker``, with a single element in each large constant.
    """

    model: ir.Model
    checked: bytes


@dataclass
class _Light:
    """Pieces of the two models."""

    parsed: list[Piece] = field(default_factory=list)
    checked: list[Piece] = field(default_factory=list)

    def add(self, parsed: Piece, checked: Piece | None = None) -> None:
        self.parsed.append(parsed)
        self.checked.append(parsed if checked is None else checked)

    def add_message(self, number: int, other: _Light) -> None:
        """The other's pieces as a field of a message."""
        for mine, pieces in ((self.parsed, other.parsed), (self.checked, other.checked)):
            mine += [_prefix(number, _size(pieces)), *pieces]


class _Constant(NamedTuple):
    """A large constant: its name, and where its bytes are."""

    name: str
    begin: int
    end: int


def read_light(path: Path) -> LightModel | None:
    """Reads a large file of the suffix ``.onnx``; None for any other, and where the ordinary reader must do.

    Raises:
        DecodeError, ValueError, TypeError, LookupError: as from ``onnx_ir.load``.
        ModelError: as from ``check_initializers``.
    """
    if path.suffix != ".onnx" or sys.byteorder != "little":
        return None
    try:
        size = path.stat().st_size
        if size < LARGE_FILE:
            return None
        with path.open("rb") as handle:
            file = _File(handle, size)
            light, constants = _without_constants(file)
            if 2 * sum(constant.end - constant.begin for constant in constants) < size:
                return None
            parsed, checked = (_joined(file, pieces) for pieces in (light.parsed, light.checked))
    except (OSError, ValueError, IndexError):
        return None
    proto = onnx.ModelProto.FromString(parsed)
    check_initializers(proto, str(path))
    model = ir.from_proto(proto)
    if not _give_back(model, constants, path):
        return None
    ir.external_data.set_base_dir(model.graph, os.path.dirname(path))  # noqa: PTH120 - as onnx_ir.load does
    return LightModel(model, checked)


def _give_back(model: ir.Model, constants: list[_Constant], path: Path) -> bool:
    """Makes initializers of the constants; False where one does not fit."""
    for constant in constants:
        value = model.graph.initializers.get(constant.name)
        old = None if value is None else value.const_value
        size = constant.end - constant.begin
        if value is None or old is None or old.nbytes != size:
            return False
        content = np.fromfile(path, np.uint8, size, offset=constant.begin)
        if content.size != size:
            return False
        content.flags.writeable = False
        sizes = old.shape.numpy()
        array = content.view(old.dtype.numpy()).reshape(sizes)
        value.const_value = ir.Tensor(
            array, old.dtype, shape=ir.Shape(sizes), name=old.name, doc_string=old.doc_string,
            metadata_props=dict(old.metadata_props),
        )  # fmt: skip
    return True


def _without_constants(file: _File) -> tuple[_Light, list[_Constant]]:
    """The model's bytes without the large constants of its graph, and these.

    Raises:
        ValueError, IndexError: it is no message, or has several graphs.
    """
    model, constants, graphs = _Light(), list[_Constant](), 0
    for part in _fields(file, 0, file.size):
        if part.number == GRAPH and part.wire == LENGTH:
            graphs += 1
            model.add_message(GRAPH, _graph(file, part, constants))
        else:
            model.add((part.start, part.end))
    if graphs > 1:
        raise ValueError("several graphs")
    return model, constants


def _graph(file: _File, whole: _Field, constants: list[_Constant]) -> _Light:
    graph, kept = _Light(), whole.begin
    for part in _fields(file, whole.begin, whole.end):
        if part.number != INITIALIZER or part.wire != LENGTH or part.end - part.begin < LARGE_CONSTANT:
            continue
        found = _initializer(file, part)
        if found is None:
            continue
        constant, light = found
        graph.add((kept, part.start))
        graph.add_message(INITIALIZER, light)
        constants.append(constant)
        kept = part.end
    graph.add((kept, whole.end))
    return graph


def _initializer(file: _File, whole: _Field) -> tuple[_Constant, _Light] | None:
    """A large constant and what is left of it; None for one that stays."""
    light, raw, name, data_type = _Light(), list[_Field](), "", 0
    for part in _fields(file, whole.begin, whole.end):
        if part.number in ELSEWHERE:
            return None
        if part.number == RAW_DATA and part.wire == LENGTH:
            raw.append(part)
            continue
        if part.number == NAME and part.wire == LENGTH:
            name = file.between(part.begin, part.end).decode()
        elif part.number == DATA_TYPE:
            data_type = part.value
        light.add((part.start, part.end), b"" if part.number == DIMS else None)
    taken = len(raw) == 1 and data_type in WHOLE_BYTES and name
    if not taken or raw[0].end - raw[0].begin < LARGE_CONSTANT:
        return None
    element = bytes(ir.DataType(data_type).numpy().itemsize)
    one = bytes([DIMS << 3 | VARINT, 1])
    light.add(b"", one + _prefix(RAW_DATA, len(element)) + element)
    return _Constant(name, raw[0].begin, raw[0].end), light


def _fields(file: _File, begin: int, end: int) -> Iterator[_Field]:
    """The fields of a message.

    Raises:
        ValueError, IndexError: there is something else.
    """
    place = begin
    while place < end:
        start = place
        tag, place = _varint(file, place)
        number, wire, value = tag >> 3, tag & 7, 0
        first = place
        if wire == VARINT:
            value, place = _varint(file, place)
        elif wire == LENGTH:
            size, first = _varint(file, place)
            place = first + size
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            place += 8 if wire == EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {wire}")
        if place > end:
            raise ValueError("a field ends behind its message")
        yield _Field(number, wire, start, first, place, value)


def _varint(file: _File, place: int) -> tuple[int, int]:
    """A number in groups of seven bits, and where it ends."""
    value = shift = 0
    while True:
        byte = file.at(place)
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _prefix(number: int, size: int) -> bytes:
    """What stands before the bytes of a field that holds a message or bytes."""
    prefix = bytearray([number << 3 | LENGTH])
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix)


def _size(pieces: list[Piece]) -> int:
    return sum(len(piece) if isinstance(piece, bytes) else piece[1] - piece[0] for piece in pieces)


def _joined(file: _File, pieces: list[Piece]) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else file.between(*piece) for piece in pieces)
