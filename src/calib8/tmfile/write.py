"""From a graph to the bytes of a tmfile: the same graph, the same bytes.

The parts come in the order in which Tengine's own writer puts them, so that its files and these differ only
in bytes without a meaning, which are zero here:

    header | for each node: name, inputs, outputs, options, operator, node | list of nodes
           | for each tensor: name, shape, scales, tensor | list of tensors
           | for each constant: weights, buffer | list of buffers | inputs | outputs
           | subgraph | list of subgraphs | model

Tables and lists start at a multiple of four bytes; texts and weights follow what is before them.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from calib8.errors import UnsupportedModelError
from calib8.files import atomic_output
from calib8.tmfile.bounds import WORD_BYTES
from calib8.tmfile.graph import Graph, Node, Option, Quantization, Tensor
from calib8.tmfile.magic import HEADER_BYTES, MAIN_VERSION
from calib8.tmfile.schema import DTYPE_CODES, LISTS, OPERATOR_VERSION, OPERATORS, ROLE_CODES
from calib8.tmfile.tables import (
    COUNT,
    EXTENT,
    HEADER,
    MODEL,
    NODE,
    OPERATOR,
    QUANTIZATION,
    SUBGRAPH,
    TENSOR,
)

LARGEST: Final = 2_000_000_000
"""Bytes of a file: Tengine holds its length in 31 bits."""

NO_BUFFER: Final = 0xFFFFFFFF
"""Buffer of a tensor before the first constant."""


def write_tmfile(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Writes the file.

    Raises:
        UnsupportedModelError: it would be too large.
        OutputError: it cannot be written; an old one stays intact.
    """
    data = serialize(graph)
    with atomic_output(path) as temporary:
        temporary.write_bytes(data)


def serialize(graph: Graph) -> bytes:
    """The bytes of the file.

    Raises:
        UnsupportedModelError: it is larger than Tengine can read.
        KeyError: a type, operator or option that the format does not have.
    """
    size = sum(0 if tensor.data is None else tensor.data.nbytes for tensor in graph.tensors)
    if size > LARGEST:
        problem = f"holds {size:,} bytes of constants, a tmfile at most {LARGEST:,}"
        raise UnsupportedModelError(graph.name or "model", problem, "Keep it as ONNX")
    writer = _Writer()
    root = writer.model(graph)
    HEADER.pack_into(writer.data, 0, MAIN_VERSION, 0, 0, root)
    return bytes(writer.data)


class _Writer:
    """The file while it grows; every method returns where it put what it wrote, 0 for nothing."""

    def __init__(self) -> None:
        self.data = bytearray(HEADER_BYTES)

    def put(self, content: bytes, align: int = WORD_BYTES) -> int:
        """Bytes, at a multiple of ``align``."""
        self.data.extend(bytes(-len(self.data) % align))
        self.data.extend(content)
        return len(self.data) - len(content)

    def words(self, values: Sequence[Any], kind: str = "I", count: int | None = None) -> int:
        """A list of words; ``count`` where its length is not their number."""
        content = struct.pack(f"<{len(values)}{kind}", *values)
        return self.put(COUNT.pack(len(values) if count is None else count) + content)

    def given(self, values: Sequence[Any], kind: str = "I", each: int = 1) -> int:
        """A list of words, or 0 for an empty one."""
        return self.words(values, kind, len(values) // each) if values else 0

    def text(self, value: str) -> int:
        """A text, or 0 for an empty one."""
        if not value:
            return 0
        content = value.encode() + b"\0"
        return self.put(EXTENT.pack(len(content), self.put(content, align=1)))

    def model(self, graph: Graph) -> int:
        """Everything."""
        subgraph = self.subgraph(graph)
        listed = self.words([subgraph])
        return self.put(MODEL.pack(graph.made_from, listed, self.text(graph.model_name)))

    def subgraph(self, graph: Graph) -> int:
        """The only subgraph and all that is in it."""
        nodes = self.words([self.node(number, node) for number, node in enumerate(graph.nodes)])
        tensors = self.words(self.tensors(graph.tensors))
        constants = [tensor for tensor in graph.tensors if tensor.role == "const"]
        buffers = self.words([self.buffer(tensor) for tensor in constants])
        inputs, outputs = self.words(graph.inputs), self.words(graph.outputs)
        layouts = (graph.graph_layout, graph.model_layout)
        places = (inputs, outputs, nodes, tensors, buffers, self.text(graph.name))
        return self.put(SUBGRAPH.pack(*layouts, *places))

    def node(self, number: int, node: Node) -> int:
        """A node and what it refers to."""
        name, inputs, outputs = self.text(node.name), self.given(node.inputs), self.given(node.outputs)
        options = self.options(node)
        code = OPERATORS[node.op].codes[0]
        operator = self.put(OPERATOR.pack(OPERATOR_VERSION, code, options))
        return self.put(NODE.pack(number, inputs, outputs, operator, name, node.dynamic_shape))

    def options(self, node: Node) -> int:
        """The table of options of a node."""
        operator = OPERATORS[node.op]
        if not operator.fields:
            return 0
        words = [self.option(kind, node.options[name]) for name, kind in operator.options]
        return self.put(operator.layout.pack(*words))

    def option(self, kind: str, value: Option) -> Option:
        """The word of an option."""
        if kind == "text":
            return self.text(str(value))
        if kind in LISTS:
            assert isinstance(value, tuple)
            return self.given(value, "i" if kind == "ints" else "f", WORD_BYTES if kind == "anchors" else 1)
        return value

    def tensors(self, tensors: Sequence[Tensor]) -> list[int]:
        """All tensors; one that is no constant has the number of the last buffer before it."""
        places, buffer = [], NO_BUFFER
        for number, tensor in enumerate(tensors):
            buffer = (buffer + (tensor.role == "const")) & NO_BUFFER
            places.append(self.tensor(number, tensor, buffer))
        return places

    def tensor(self, number: int, tensor: Tensor, buffer: int) -> int:
        """A tensor and what it refers to."""
        name, shape = self.text(tensor.name), self.given(tensor.shape, "i")
        scales = 0 if tensor.quantization is None else self.quantization(tensor.quantization)
        kinds = (tensor.layout, ROLE_CODES[tensor.role], DTYPE_CODES[tensor.dtype])
        return self.put(TENSOR.pack(number, buffer, shape, name, scales, *kinds))

    def quantization(self, quantization: Quantization) -> int:
        """Scales and zero points."""
        pairs = zip(quantization.zero_points.tolist(), quantization.scales.tolist(), strict=True)
        return self.words([self.put(QUANTIZATION.pack(point, scale)) for point, scale in pairs])

    def buffer(self, tensor: Tensor) -> int:
        """The weights of a constant; a buffer without any where they are left out."""
        kind = np.dtype(tensor.dtype).newbyteorder("<")
        if tensor.data is None:
            return self.put(EXTENT.pack(tensor.elements * kind.itemsize, 0))
        content = np.ascontiguousarray(tensor.data, kind).tobytes()
        place = self.put(content, align=1)
        return self.put(EXTENT.pack(len(content), place))
