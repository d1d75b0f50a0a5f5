"""From the bytes of a .tflite file to a graph; a damaged file is an error, whatever it holds.

Tables, texts and lists are followed only inside the file (``bounds``), and every number that names something
else in the file is looked at before it is used. Constants stay where they are: their arrays are views of the
bytes that were read.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import tflite

from calib8.errors import ModelError, UnsupportedModelError
from calib8.files import check_model_file
from calib8.tflite.bounds import MOST_ENTRIES, Budget, bounded
from calib8.tflite.check import MOST_AXES, check
from calib8.tflite.graph import CUSTOM, Graph, Operator, Option, Quantization, Tensor
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
from calib8.tflite.variables import without_variables

DAMAGE: Final = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError, KeyError)
"""What the accessors raise where offsets, sizes or names lead nowhere."""

CURE: Final = "Export or download the model again"

NUMPY_TYPES: Final = {
    "float16", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128",
}  # fmt: skip
"""Types of which NumPy has arrays; of the others a constant is its bytes."""

Bytes = npt.NDArray[np.uint8]
Entry = TypeVar("Entry")


def read_tflite(path: str | os.PathLike[str]) -> Graph:
    """The graph of a file, checked.

    Raises:
        ModelError: the file cannot be read, it is damaged, or it contradicts itself.
        UnsupportedModelError: subgraphs that do more than to begin variables, or sparse constants.
    """
    name = os.fspath(path)
    check_model_file(path, "Give the path of a .tflite file")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ModelError(
            name, f"cannot be read ({error.strerror})", "Give the path of a .tflite file"
        ) from error
    return parse(data, name)


def parse(data: bytes, name: str = "model") -> Graph:
    """The graph of the bytes of a file, checked; ``name`` is for messages.

    Raises:
        ModelError: the bytes are damaged, or the model contradicts itself.
        UnsupportedModelError: subgraphs that do more than to begin variables, or sparse constants.
    """
    if data[4:8] != IDENTIFIER:
        raise ModelError(name, "is not a TFLite model: bytes 4 to 7 are not TFL3", CURE)
    try:
        graph = _model(_File(data, name))
    except struct.error as error:
        problem = f"is damaged: it ends at byte {len(data)}, before what it refers to"
        raise ModelError(name, problem, CURE) from error
    except DAMAGE as error:
        raise ModelError(name, f"is damaged ({error})", CURE) from error
    check(graph, name)
    return graph


class _File:
    """The bytes, and what is taken from them."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name
        self.budget = Budget(len(data))

    def tables(self, table: Any, field: str) -> list[Any]:
        """Entries of a list of tables.

        Raises:
            ValueError: there are too many of them, or one leaves the file.
        """
        count = getattr(table, f"{field}Length")()
        if count > MOST_ENTRIES:
            raise ValueError(f"{count} entries in the list {field}; the most are {MOST_ENTRIES}")
        entry = getattr(table, field)
        return [bounded(entry(place), self.budget) for place in range(count)]

    def array(self, table: Any, field: str) -> npt.NDArray[Any]:
        """A list of numbers, empty where it is left out; a view of the file."""
        if getattr(table, f"{field}IsNone")():
            return np.zeros(0, np.int64)
        numbers: npt.NDArray[Any] = getattr(table, f"{field}AsNumpy")()
        self.budget.spend(numbers.nbytes)
        return numbers

    def ints(self, table: Any, field: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        return tuple(self.array(table, field).tolist())

    def content(self, buffer: Any) -> Bytes:
        """The bytes of a buffer: in the model proper, or behind it as files over 2 GB have them.

        Raises:
            ValueError: they lie outside the file.
        """
        start, size = buffer.Offset(), buffer.Size()
        if start <= 1:  # 0 and 1 stand for none
            empty = buffer.DataIsNone()
            return np.zeros(0, np.uint8) if empty else buffer.DataAsNumpy()
        if start + size > len(self.data):
            raise ValueError(f"a buffer of {size} bytes at byte {start} of {len(self.data)}")
        return np.frombuffer(self.data, np.uint8)[start : start + size]


def _model(file: _File) -> Graph:
    model = bounded(tflite.Model.GetRootAs(file.data, 0), file.budget)
    if model.Version() != VERSION:
        raise ModelError(file.name, f"has schema version {model.Version()}", f"Version {VERSION} can be read")
    subgraphs = file.tables(model, "Subgraphs")
    buffers = [file.content(buffer) for buffer in file.tables(model, "Buffers")]
    codes = [_operator_name(code) for code in file.tables(model, "OperatorCodes")]
    graphs = [_subgraph(file, subgraph, buffers, codes) for subgraph in subgraphs]
    return replace(
        without_variables(graphs, file.name),
        description=_text(model.Description()),
        metadata=_metadata(file, model, buffers),
    )


def _subgraph(file: _File, graph: Any, buffers: list[Bytes], codes: list[tuple[str, int, str]]) -> Graph:
    """As the file has it, unchecked."""
    inputs = file.ints(graph, "Inputs")
    operators = tuple(_operator(file, operator, codes) for operator in file.tables(graph, "Operators"))
    written = {*inputs, *(place for operator in operators for place in operator.outputs)}
    tensors = [_tensor(file, tensor, buffers) for tensor in file.tables(graph, "Tensors")]
    return Graph(
        tensors=tuple(
            tensor if place in written else _with_no_elements(tensor) for place, tensor in enumerate(tensors)
        ),
        operators=operators,
        inputs=inputs,
        outputs=file.ints(graph, "Outputs"),
        name=_text(graph.Name()),
    )


def _metadata(file: _File, model: Any, buffers: list[Bytes]) -> dict[str, bytes]:
    metadata = {}
    for entry in file.tables(model, "Metadata"):
        content = _entry(buffers, entry.Buffer(), "buffers")
        file.budget.spend(content.size)
        metadata[_text(entry.Name())] = content.tobytes()
    return metadata


def _entry(entries: Sequence[Entry], place: int, what: str) -> Entry:
    """One of a list that is named by its place.

    Raises:
        ValueError: there are fewer.
    """
    if not 0 <= place < len(entries):
        raise ValueError(f"number {place} of {len(entries)} {what}")
    return entries[place]


def _text(value: bytes | None) -> str:
    """Bytes that are no UTF-8 become a mark: names are for messages."""
    return "" if value is None else value.decode("utf-8", "replace")


def _operator_name(code: Any) -> tuple[str, int, str]:
    """Name, version, and of a custom operator what it calls itself."""
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    if number < LARGEST_OLD_CODE:  # files from before the wide field
        number = code.DeprecatedBuiltinCode()
    return OPERATORS.get(number, f"operator {number}"), code.Version(), _text(code.CustomCode())


def _operator(file: _File, operator: Any, codes: list[tuple[str, int, str]]) -> Operator:
    op, version, custom = _entry(codes, operator.OpcodeIndex(), "operator codes")
    inputs, outputs = file.ints(operator, "Inputs"), file.ints(operator, "Outputs")
    own = file.array(operator, "CustomOptions").astype(np.uint8).tobytes() if op == CUSTOM else b""
    between = file.ints(operator, "Intermediates")
    return Operator(op, inputs, outputs, _options(file, operator, op), version, custom, own, between)


def _options(file: _File, operator: Any, op: str) -> dict[str, Option]:
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
    return _fields(file, bounded(options, file.budget), op)


def _fields(file: _File, options: Any, op: str) -> dict[str, Option]:
    return {field: _option(file, options, field, kind) for field, kind in OPTIONS[op].fields.items()}


def _option(file: _File, options: Any, field: str, kind: str) -> Option:
    name = accessor(field)
    if kind == "ints":
        return file.ints(options, name)
    value: Option = getattr(options, name)()
    if kind == "text":
        return "" if value is None else value.decode()  # type: ignore[union-attr]
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
    return _fields(_File(EMPTY_TABLE, op), empty, op)


EMPTY_TABLE: Final = struct.pack("<HHi", 4, 4, 4)
"""A table without fields: its vtable of four bytes, and the way back to it."""


def _tensor(file: _File, tensor: Any, buffers: list[Bytes]) -> Tensor:
    name, dtype = _text(tensor.Name()), DTYPES.get(tensor.Type(), f"type {tensor.Type()}")
    if tensor.Sparsity() is not None:
        raise UnsupportedModelError(
            file.name, f"tensor '{name}' is stored sparse", "Export the model without sparse constants"
        )
    shape, content = file.ints(tensor, "Shape"), _entry(buffers, tensor.Buffer(), "buffers")
    return Tensor(
        name=name,
        shape=shape,
        dtype=dtype,
        data=_array(file, content, dtype, shape, name) if content.size else None,
        quantization=_quantization(file, tensor.Quantization()),
        signature=file.ints(tensor, "ShapeSignature"),
        is_variable=bool(tensor.IsVariable()),
    )


def _with_no_elements(tensor: Tensor) -> Tensor:
    """A constant of no elements, whose buffer is empty; any other tensor as it is."""
    if 0 not in tensor.shape or tensor.data is not None or tensor.dtype not in NUMPY_TYPES:
        return tensor
    if tensor.is_variable or min(tensor.shape) < 0 or len(tensor.shape) > MOST_AXES:
        return tensor
    return replace(tensor, data=np.zeros(tensor.shape, tensor.dtype))


def _array(file: _File, content: Bytes, dtype: str, shape: tuple[int, ...], name: str) -> npt.NDArray[Any]:
    """The elements; of types that NumPy does not have, their bytes.

    Raises:
        ValueError: fewer or more bytes than the shape asks for.
    """
    if dtype not in NUMPY_TYPES:
        return content
    item = np.dtype(dtype).newbyteorder("<")
    if len(shape) > MOST_AXES:
        raise ValueError(f"tensor '{name}' has {len(shape)} axes")
    if min(shape, default=1) < 0 or content.size != math.prod(shape) * item.itemsize:
        raise ValueError(f"tensor '{name}', {dtype} {list(shape)}, has a buffer of {content.size} bytes")
    if dtype == "bool":
        return np.not_equal(content, 0).reshape(shape)
    array: npt.NDArray[Any] = content.view(item).reshape(shape)
    if array.flags.aligned:
        return array
    file.budget.spend(array.nbytes)
    return array.copy()


def _quantization(file: _File, parameters: Any) -> Quantization | None:
    """None where there is no scale: limits alone are for information."""
    if parameters is None:
        return None
    parameters = bounded(parameters, file.budget)
    scales = np.array(file.array(parameters, "Scale"), np.float32)
    if not scales.size:
        return None
    given = file.array(parameters, "ZeroPoint")
    zero_points = np.array(given, np.int64) if given.size else np.zeros(scales.size, np.int64)
    return Quantization(scales, zero_points, parameters.QuantizedDimension())
