"""From the bytes of a .tflite file to a graph; a damaged file is an error, whatever it holds.

The generated accessors follow offsets without asking whether they stay inside the file. Every list is
therefore measured before it is walked, and what an accessor trips over becomes one error.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
import tflite

from calib8.errors import ModelError, UnsupportedModelError
from calib8.tflite.graph import Graph, Operator, Option, Quantization, Tensor
from calib8.tflite.schema import (
    DTYPES,
    IDENTIFIER,
    LARGEST_OLD_CODE,
    OPERATORS,
    OPTIONS,
    VERSION,
    accessor,
    names,
)

DAMAGE: Final = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError, KeyError)
"""What the accessors raise where offsets, sizes or names lead nowhere."""

CURE: Final = "Export or download the model again"
SMALLEST_ENTRY: Final = 4
"""Bytes that an entry of a list of tables takes at least: its offset."""


def is_tflite(path: str | os.PathLike[str]) -> bool:
    """The file begins like a TFLite model; a file that cannot be read does not."""
    try:
        with Path(path).open("rb") as file:
            return file.read(8)[4:] == IDENTIFIER
    except OSError:
        return False


def read_tflite(path: str | os.PathLike[str]) -> Graph:
    """The graph of a file.

    Raises:
        ModelError: the file cannot be read, or it is damaged.
        UnsupportedModelError: it has several subgraphs.
    """
    name = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ModelError(
            name, f"cannot be read ({error.strerror})", "Give the path of a .tflite file"
        ) from error
    return parse(data, name)


def parse(data: bytes, name: str = "model") -> Graph:
    """The graph of the bytes of a file; ``name`` is for messages.

    Raises:
        ModelError: the bytes are damaged.
        UnsupportedModelError: several subgraphs.
    """
    if data[4:8] != IDENTIFIER:
        raise ModelError(name, "is no TFLite model: bytes 4 to 7 are not TFL3", CURE)
    try:
        model = tflite.Model.GetRootAs(data, 0)
        if model.Version() != VERSION:
            raise ModelError(name, f"has schema version {model.Version()}", f"Version {VERSION} can be read")
        return _graph(_File(data), model, name)
    except DAMAGE as error:
        raise ModelError(name, f"is damaged ({error})", CURE) from error


class _File:
    """The bytes, and lists of tables in them."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def tables(self, table: Any, field: str) -> list[Any]:
        """Entries of a list of tables.

        Raises:
            ValueError: it is longer than the file, or an entry is missing.
        """
        count = getattr(table, f"{field}Length")()
        if not 0 <= count <= len(self.data) // SMALLEST_ENTRY:
            raise ValueError(f"a list of {count} entries in {len(self.data)} bytes")
        entries = [getattr(table, field)(place) for place in range(count)]
        if any(entry is None for entry in entries):
            raise ValueError(f"an entry of {field} is missing")
        return entries

    def span(self, start: int, size: int) -> bytes:
        """Bytes behind the model proper, as files over 2 GB have them.

        Raises:
            ValueError: they lie outside the file.
        """
        if start < 0 or size < 0 or start + size > len(self.data):
            raise ValueError(f"bytes {start} to {start + size} of {len(self.data)}")
        return self.data[start : start + size]


def _graph(file: _File, model: Any, name: str) -> Graph:
    subgraphs = file.tables(model, "Subgraphs")
    if len(subgraphs) != 1:
        raise UnsupportedModelError(
            name, f"has {len(subgraphs)} subgraphs", "Export the model without control flow: one subgraph"
        )
    graph = subgraphs[0]
    buffers = [_bytes(file, buffer) for buffer in file.tables(model, "Buffers")]
    codes = [_operator_name(code) for code in file.tables(model, "OperatorCodes")]
    metadata = {_text(entry.Name()): buffers[entry.Buffer()] for entry in file.tables(model, "Metadata")}
    return Graph(
        tensors=tuple(_tensor(tensor, buffers) for tensor in file.tables(graph, "Tensors")),
        operators=tuple(_operator(operator, codes) for operator in file.tables(graph, "Operators")),
        inputs=_ints(graph, "Inputs"),
        outputs=_ints(graph, "Outputs"),
        name=_text(graph.Name()),
        description=_text(model.Description()),
        metadata=metadata,
    )


def _bytes(file: _File, buffer: Any) -> bytes:
    if buffer.Offset() > 1:
        return file.span(buffer.Offset(), buffer.Size())
    return b"" if buffer.DataIsNone() else bytes(buffer.DataAsNumpy())


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


def _ints(table: Any, field: str) -> tuple[int, ...]:
    if getattr(table, f"{field}IsNone")():
        return ()
    return tuple(getattr(table, f"{field}AsNumpy")().tolist())


def _operator_name(code: Any) -> tuple[str, int, str]:
    """Name, version, and of a custom operator what it calls itself."""
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    if number < LARGEST_OLD_CODE:  # files from before the wide field
        number = code.DeprecatedBuiltinCode()
    return OPERATORS.get(number, f"operator {number}"), code.Version(), _text(code.CustomCode())


def _operator(operator: Any, codes: list[tuple[str, int, str]]) -> Operator:
    op, version, custom = codes[operator.OpcodeIndex()]
    inputs, outputs = _ints(operator, "Inputs"), _ints(operator, "Outputs")
    return Operator(op, inputs, outputs, _options(operator, op), version, custom)


def _options(operator: Any, op: str) -> dict[str, Option]:
    """Fields of the options; a table that is left out has its defaults.

    Raises:
        ValueError: they are those of another operator.
    """
    known = OPTIONS.get(op)
    if known is None:
        return {}
    kind, table = operator.BuiltinOptionsType(), operator.BuiltinOptions()
    if kind not in (0, getattr(tflite.BuiltinOptions, known.table)):
        raise ValueError(f"{op} has options of another operator")
    if kind == 0 or table is None:
        return defaults(op)
    options = getattr(tflite, known.table)()
    options.Init(table.Bytes, table.Pos)
    return {field: _option(options, field, kind) for field, kind in known.fields.items()}


def _option(options: Any, field: str, kind: str) -> Option:
    name = accessor(field)
    if kind == "ints":
        return _ints(options, name)
    value: Option = getattr(options, name)()
    if kind == "value":
        return value
    return names(getattr(tflite, kind)).get(int(value), f"{kind} {value}")  # type: ignore[arg-type]


def defaults(op: str) -> dict[str, Option]:
    """The schema's defaults of the options of an operator."""
    known = OPTIONS.get(op)
    if known is None:
        return {}
    empty = getattr(tflite, known.table)()
    empty.Init(EMPTY_TABLE, 4)
    return {field: _option(empty, field, kind) for field, kind in known.fields.items()}


EMPTY_TABLE: Final = struct.pack("<HHi", 4, 4, 4)
"""A table without fields: its vtable of four bytes, and the way back to it."""


def _tensor(tensor: Any, buffers: list[bytes]) -> Tensor:
    dtype = DTYPES.get(tensor.Type(), f"type {tensor.Type()}")
    shape, content = _ints(tensor, "Shape"), buffers[tensor.Buffer()]
    return Tensor(
        name=_text(tensor.Name()),
        shape=shape,
        dtype=dtype,
        data=_array(content, dtype, shape, _text(tensor.Name())) if content else None,
        quantization=_quantization(tensor.Quantization()),
        signature=_ints(tensor, "ShapeSignature"),
        is_variable=bool(tensor.IsVariable()),
    )


def _array(content: bytes, dtype: str, shape: tuple[int, ...], name: str) -> np.ndarray[Any, Any]:
    """The elements; of types that NumPy does not have, their bytes.

    Raises:
        ValueError: fewer or more bytes than the shape asks for.
    """
    try:
        item = np.dtype(dtype).newbyteorder("<")
    except TypeError:
        return np.frombuffer(content, np.uint8)
    if min(shape, default=1) < 0 or len(content) != np.prod(shape, dtype=object) * item.itemsize:
        raise ValueError(f"tensor '{name}', {dtype} {list(shape)}, has a buffer of {len(content)} bytes")
    return np.frombuffer(content, item).reshape(shape)


def _quantization(parameters: Any) -> Quantization | None:
    """None where there is no scale: limits alone are for information."""
    if parameters is None or parameters.ScaleIsNone():
        return None
    scales = np.array(parameters.ScaleAsNumpy(), np.float32)
    if not scales.size:
        return None
    given = [] if parameters.ZeroPointIsNone() else parameters.ZeroPointAsNumpy()
    zero_points = np.array(given, np.int64) if len(given) else np.zeros(scales.size, np.int64)
    return Quantization(scales, zero_points, parameters.QuantizedDimension())
