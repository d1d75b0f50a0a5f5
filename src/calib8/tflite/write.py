"""From a graph to the bytes of a .tflite file: the same graph, the same bytes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import flatbuffers
import numpy as np
import tflite

from calib8.errors import UnsupportedModelError
from calib8.files import atomic_output
from calib8.tflite.graph import Graph, Operator, Quantization, Tensor
from calib8.tflite.schema import (
    IDENTIFIER,
    LARGEST_OLD_CODE,
    OPERATOR_CODES,
    OPTIONS,
    TYPE_CODES,
    VERSION,
    accessor,
    members,
)
from calib8.tflite.variables import with_variables

LARGEST: Final = 2_000_000_000
"""Bytes of constants that a file may hold: its offsets reach 2 GB."""

Code = tuple[str, int, str]
"""Name, version and own name of an operator."""

ALIGNMENT: Final = 16
"""Of the data of constants: the runtime reads them where they lie in the file."""


def write_tflite(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Writes the file.

    Raises:
        UnsupportedModelError: it would be too large.
        OutputError: it cannot be written; an old one stays intact.
    """
    data = serialize(graph)
    with atomic_output(path) as temporary:
        temporary.write_bytes(data)


def serialize(graph: Graph) -> bytes:
    """The bytes of the file; states become variables.

    Raises:
        UnsupportedModelError: the constants take more than a file can hold.
        KeyError: a type, operator, option or member of an enumeration that the schema does not have.
    """
    return serialize_subgraphs(with_variables(graph))


def serialize_subgraphs(graphs: Sequence[Graph]) -> bytes:
    """The bytes of a file of several subgraphs; description and metadata are those of the first.

    Raises:
        UnsupportedModelError, KeyError: as ``serialize``.
    """
    builder, main = flatbuffers.Builder(1 << 16), graphs[0]
    buffers = [b""]
    tensors = [
        [_tensor(builder, tensor, _place(buffers, _content(tensor))) for tensor in graph.tensors]
        for graph in graphs
    ]
    metadata = [_metadata(builder, name, _place(buffers, data)) for name, data in main.metadata.items()]
    size = sum(map(len, buffers))
    if size > LARGEST:
        problem = f"holds {size:,} bytes of constants, a TFLite file at most {LARGEST:,}"
        raise UnsupportedModelError(main.name or "model", problem, "Keep it as ONNX")
    codes = list(dict.fromkeys(_code_key(operator) for graph in graphs for operator in graph.operators))
    subgraphs = [_subgraph(builder, graph, own, codes) for graph, own in zip(graphs, tensors, strict=True)]
    fields = {
        "OperatorCodes": _vector(builder, [_code(builder, *code) for code in codes]),
        "Subgraphs": _vector(builder, subgraphs),
        "Description": builder.CreateString(main.description),
        "Buffers": _vector(builder, [_buffer(builder, content) for content in buffers]),
    }
    if metadata:
        fields["Metadata"] = _vector(builder, metadata)
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, VERSION)
    for name, offset in fields.items():
        getattr(tflite, f"ModelAdd{name}")(builder, offset)
    builder.Finish(tflite.ModelEnd(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _place(buffers: list[bytes], content: bytes) -> int:
    """Number of the buffer that holds the content: 0, the empty one, for none."""
    if not content:
        return 0
    buffers.append(content)
    return len(buffers) - 1


def _content(tensor: Tensor) -> bytes:
    if tensor.data is None:
        return b""
    return np.ascontiguousarray(tensor.data, tensor.data.dtype.newbyteorder("<")).tobytes()


def _vector(builder: Any, offsets: Sequence[int]) -> int:
    """A list of tables that are written already."""
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _numbers(builder: Any, values: Any, dtype: str) -> int:
    return int(builder.CreateNumpyVector(np.asarray(values, dtype)))


def _buffer(builder: Any, content: bytes) -> int:
    if not content:
        tflite.BufferStart(builder)
        return int(tflite.BufferEnd(builder))
    builder.StartVector(1, len(content), ALIGNMENT)
    builder.head -= len(content)
    builder.Bytes[builder.head : builder.head + len(content)] = content
    data = builder.EndVector()
    tflite.BufferStart(builder)
    tflite.BufferAddData(builder, data)
    return int(tflite.BufferEnd(builder))


def _metadata(builder: Any, name: str, buffer: int) -> int:
    text = builder.CreateString(name)
    tflite.MetadataStart(builder)
    tflite.MetadataAddName(builder, text)
    tflite.MetadataAddBuffer(builder, buffer)
    return int(tflite.MetadataEnd(builder))


def _tensor(builder: Any, tensor: Tensor, buffer: int) -> int:
    name, shape = builder.CreateString(tensor.name), _numbers(builder, tensor.shape, "int32")
    signature = _numbers(builder, tensor.signature, "int32") if tensor.signature else None
    quantization = None
    if tensor.quantization is not None:
        quantization = _quantization(builder, tensor.quantization)
    tflite.TensorStart(builder)
    tflite.TensorAddShape(builder, shape)
    tflite.TensorAddType(builder, TYPE_CODES[tensor.dtype])
    tflite.TensorAddBuffer(builder, buffer)
    tflite.TensorAddName(builder, name)
    if quantization is not None:
        tflite.TensorAddQuantization(builder, quantization)
    tflite.TensorAddIsVariable(builder, tensor.is_variable)
    if signature is not None:
        tflite.TensorAddShapeSignature(builder, signature)
    tflite.TensorAddHasRank(builder, True)
    return int(tflite.TensorEnd(builder))


def _quantization(builder: Any, quantization: Quantization) -> int:
    scales = _numbers(builder, quantization.scales, "float32")
    zero_points = _numbers(builder, quantization.zero_points, "int64")
    tflite.QuantizationParametersStart(builder)
    tflite.QuantizationParametersAddScale(builder, scales)
    tflite.QuantizationParametersAddZeroPoint(builder, zero_points)
    tflite.QuantizationParametersAddQuantizedDimension(builder, quantization.axis)
    return int(tflite.QuantizationParametersEnd(builder))


def _code_key(operator: Operator) -> Code:
    return operator.op, operator.version, operator.custom_code


def _code(builder: Any, op: str, version: int, custom: str) -> int:
    text = builder.CreateString(custom) if custom else None
    tflite.OperatorCodeStart(builder)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(OPERATOR_CODES[op], LARGEST_OLD_CODE))
    if text is not None:
        tflite.OperatorCodeAddCustomCode(builder, text)
    tflite.OperatorCodeAddVersion(builder, version)
    tflite.OperatorCodeAddBuiltinCode(builder, OPERATOR_CODES[op])
    return int(tflite.OperatorCodeEnd(builder))


def _operator(builder: Any, operator: Operator, code: int) -> int:
    inputs = _numbers(builder, operator.inputs, "int32")
    outputs = _numbers(builder, operator.outputs, "int32")
    options = _options(builder, operator)
    own = builder.CreateByteVector(operator.custom_options) if operator.custom_options else None
    between = _numbers(builder, operator.intermediates, "int32") if operator.intermediates else None
    tflite.OperatorStart(builder)
    tflite.OperatorAddOpcodeIndex(builder, code)
    tflite.OperatorAddInputs(builder, inputs)
    tflite.OperatorAddOutputs(builder, outputs)
    if options is not None:
        kind = getattr(tflite.BuiltinOptions, OPTIONS[operator.op].table)
        tflite.OperatorAddBuiltinOptionsType(builder, kind)
        tflite.OperatorAddBuiltinOptions(builder, options)
    if own is not None:
        tflite.OperatorAddCustomOptions(builder, own)
    if between is not None:
        tflite.OperatorAddIntermediates(builder, between)
    return int(tflite.OperatorEnd(builder))


def _options(builder: Any, operator: Operator) -> int | None:
    known = OPTIONS.get(operator.op)
    if known is None:
        return None
    written: dict[str, Any] = {}
    for field, value in operator.options.items():
        kind = known.fields[field]
        if kind == "ints":
            written[field] = _numbers(builder, value, "int32")
        elif kind == "text":
            written[field] = builder.CreateString(str(value))
        else:
            written[field] = value if kind == "value" else members(getattr(tflite, kind))[str(value)]
    getattr(tflite, f"{known.table}Start")(builder)
    for field, value in written.items():
        getattr(tflite, f"{known.table}Add{accessor(field)}")(builder, value)
    return int(getattr(tflite, f"{known.table}End")(builder))


def _subgraph(builder: Any, graph: Graph, tensors: Sequence[int], codes: Sequence[Code]) -> int:
    operators = [
        _operator(builder, operator, codes.index(_code_key(operator))) for operator in graph.operators
    ]
    fields = {
        "Tensors": _vector(builder, tensors),
        "Inputs": _numbers(builder, graph.inputs, "int32"),
        "Outputs": _numbers(builder, graph.outputs, "int32"),
        "Operators": _vector(builder, operators),
        "Name": builder.CreateString(graph.name),
    }
    tflite.SubGraphStart(builder)
    for name, offset in fields.items():
        getattr(tflite, f"SubGraphAdd{name}")(builder, offset)
    return int(tflite.SubGraphEnd(builder))
