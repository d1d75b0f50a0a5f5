"""ONNX files read without their large constants passing through protobuf, which keeps a second copy of them.

    ModelProto   7 graph        GraphProto   5 initializer
    TensorProto  1 dims   2 data_type   8 name   9 raw_data   13 external_data   14 data_location

A file is walked field by field. Of every initializer whose ``raw_data`` is large this part stays out of the
bytes that protobuf parses; it is read into an array of its own. Files that are built in another way are left
to the ordinary reader.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir

LARGE_FILE: Final = 2**23
LARGE_CONSTANT: Final = 2**16
"""Bytes from which on a file, and a constant in it, is read apart."""

GRAPH, INITIALIZER = 7, 5
DIMS, DATA_TYPE, NAME, RAW_DATA, EXTERNAL_DATA, DATA_LOCATION = 1, 2, 8, 9, 13, 14
VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5

WHOLE_BYTES: Final = frozenset((1, 2, 3, 4, 5, 6, 7, 10, 11, 16))
"""Data types whose elements take one or more whole bytes: float, uint8, int8, … bfloat16."""


class _Field(NamedTuple):
    """A field of a message: where it and its value begin, where both end; the value itself of a varint."""

    number: int
    wire: int
    start: int
    begin: int
    end: int
    value: int


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

    parsed: list[bytes] = field(default_factory=list)
    checked: list[bytes] = field(default_factory=list)

    def add(self, parsed: bytes, checked: bytes | None = None) -> None:
        self.parsed.append(parsed)
        self.checked.append(parsed if checked is None else checked)

    def message(self, number: int) -> tuple[bytes, bytes]:
        """Both as a field of a message around them."""
        return _message(number, b"".join(self.parsed)), _message(number, b"".join(self.checked))


class _Constant(NamedTuple):
    """A large constant: its name, its type, and where its bytes are."""

    name: str
    data_type: int
    begin: int
    end: int


def read_light(path: Path) -> LightModel | None:
    """Reads a large file of the suffix ``.onnx``; None for any other, and where the ordinary reader must do.

    Raises:
        OSError: it cannot be read.
        DecodeError, ValueError, TypeError, LookupError: as from ``onnx_ir.load``.
    """
    if path.suffix != ".onnx" or path.stat().st_size < LARGE_FILE:
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            light, constants = _without_constants(data)
        except (ValueError, IndexError):
            return None
    if not constants:
        return None
    model = ir.from_proto(onnx.ModelProto.FromString(b"".join(light.parsed)))
    if not _give_back(model, constants, path):
        return None
    ir.external_data.set_base_dir(model.graph, os.path.dirname(path))  # noqa: PTH120 - as onnx_ir.load does
    return LightModel(model, b"".join(light.checked))


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
        value.const_value = ir.Tensor(array, old.dtype, shape=ir.Shape(sizes), name=old.name)
    return True


def _without_constants(data: mmap.mmap) -> tuple[_Light, list[_Constant]]:
    """The model's bytes without the large constants of its graph, and these.

    Raises:
        ValueError, IndexError: it is no message, or has several graphs or constants of one name.
    """
    model, constants, graphs = _Light(), list[_Constant](), 0
    for part in _fields(data, 0, len(data)):
        if part.number == GRAPH and part.wire == LENGTH:
            graphs += 1
            model.add(*_graph(data, part, constants).message(GRAPH))
        else:
            model.add(data[part.start : part.end])
    if graphs > 1 or len({constant.name for constant in constants}) < len(constants):
        raise ValueError("not one graph with constants of different names")
    return model, constants


def _graph(data: mmap.mmap, whole: _Field, constants: list[_Constant]) -> _Light:
    graph, kept = _Light(), whole.begin
    for part in _fields(data, whole.begin, whole.end):
        if part.number != INITIALIZER or part.wire != LENGTH or part.end - part.begin < LARGE_CONSTANT:
            continue
        found = _initializer(data, part)
        if found is None:
            continue
        constant, light = found
        graph.add(data[kept : part.start])
        graph.add(*light.message(INITIALIZER))
        constants.append(constant)
        kept = part.end
    graph.add(data[kept : whole.end])
    return graph


def _initializer(data: mmap.mmap, whole: _Field) -> tuple[_Constant, _Light] | None:
    """A large constant and what is left of it; None for one that stays."""
    light, raw, name, data_type = _Light(), list[_Field](), "", 0
    for part in _fields(data, whole.begin, whole.end):
        if part.number in (EXTERNAL_DATA, DATA_LOCATION):
            return None
        if part.number == RAW_DATA and part.wire == LENGTH:
            raw.append(part)
            continue
        content = data[part.start : part.end]
        if part.number == NAME and part.wire == LENGTH:
            name = data[part.begin : part.end].decode()
        elif part.number == DATA_TYPE:
            data_type = part.value
        light.add(content, b"" if part.number == DIMS else None)
    if (
        len(raw) != 1
        or raw[0].end - raw[0].begin < LARGE_CONSTANT
        or data_type not in WHOLE_BYTES
        or not name
    ):
        return None
    element = bytes(ir.DataType(data_type).numpy().itemsize)
    light.add(b"", bytes([DIMS << 3 | VARINT, 1]) + _message(RAW_DATA, element))
    return _Constant(name, data_type, raw[0].begin, raw[0].end), light


def _fields(data: mmap.mmap, begin: int, end: int) -> Iterator[_Field]:
    """The fields of a message.

    Raises:
        ValueError, IndexError: there is something else.
    """
    place = begin
    while place < end:
        start = place
        tag, place = _varint(data, place)
        number, wire, value = tag >> 3, tag & 7, 0
        first = place
        if wire == VARINT:
            value, place = _varint(data, place)
        elif wire == LENGTH:
            size, first = _varint(data, place)
            place = first + size
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            place += 8 if wire == EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {wire}")
        if place > end:
            raise ValueError("a field ends behind its message")
        yield _Field(number, wire, start, first, place, value)


def _varint(data: mmap.mmap, place: int) -> tuple[int, int]:
    """A number in groups of seven bits, and where it ends."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _message(number: int, content: bytes) -> bytes:
    """A field that holds a message or bytes."""
    size, prefix = len(content), bytearray([number << 3 | LENGTH])
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + content
