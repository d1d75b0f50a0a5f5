"""From the bytes of a tmfile to a graph; a damaged file is an error, whatever it holds.

Offsets and counts go through ``bounds``; every number that names something else in the file is looked at
before it is used. Constants stay where they are: their arrays are views of the bytes that were read, or
copies where the file does not align them.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import ModelError, UnsupportedModelError
from calib8.files import check_model_file
from calib8.tmfile.bounds import WORD_BYTES, Bytes, DamageError
from calib8.tmfile.check import check, shape_problem
from calib8.tmfile.graph import Graph, Node, Option, Quantization, Tensor
from calib8.tmfile.magic import HEADER_BYTES, MAIN_VERSION
from calib8.tmfile.schema import BY_CODE, DTYPES, LISTS, OPERATOR_VERSION, ROLES
from calib8.tmfile.tables import (
    EXTENT,
    HEADER,
    MODEL,
    NODE,
    OPERATOR,
    QUANTIZATION,
    SUBGRAPH,
    TENSOR,
)

CURE: Final = "Convert or download the model again"

UNKNOWN_OPERATOR: Final = "?"
"""Stands for operators that the format does not have until all of them are known."""


def read_tmfile(path: str | os.PathLike[str]) -> Graph:
    """The graph of a file, checked.

    Raises:
        ModelError: the file cannot be read, it is damaged, or it contradicts itself.
        UnsupportedModelError: another version, several subgraphs, or unknown operators.
    """
    name = os.fspath(path)
    check_model_file(path, "Give the path of a .tmfile")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ModelError(name, f"cannot be read ({error.strerror})", "Give the path of a .tmfile") from error
    return parse(data, name)


def parse(data: bytes, name: str = "model") -> Graph:
    """The graph of the bytes of a file, checked; ``name`` is for messages.

    Raises:
        ModelError: the bytes are damaged, or the model contradicts itself.
        UnsupportedModelError: another version, several subgraphs, or unknown operators.
    """
    if len(data) < HEADER_BYTES:
        raise ModelError(name, f"is damaged: {len(data)} bytes are no Tengine model", CURE)
    version, *_, root = HEADER.unpack_from(data)
    if version != MAIN_VERSION:
        problem = f"is no Tengine model of version {MAIN_VERSION}: its first bytes say {version}"
        raise UnsupportedModelError(name, problem, "Convert the model with Tengine's convert_tool")
    try:
        graph, strangers = _Reader(Bytes(data)).graph(root)
    except DamageError as error:
        raise ModelError(name, f"is damaged ({error})", CURE) from error
    if strangers:
        listed = ", ".join(strangers)
        problem = f"{len(strangers)} of its operators are unknown: {listed}"
        raise UnsupportedModelError(name, problem, "Convert the model without them")
    check(graph, name)
    return graph


class _Reader:
    """Reads one file."""

    def __init__(self, data: Bytes) -> None:
        self.bytes = data
        self.strangers: dict[str, None] = {}

    def graph(self, root: int) -> tuple[Graph, tuple[str, ...]]:
        """The graph, and operators that the format does not have."""
        made_from, subgraphs_at, name_at = self.bytes.table(MODEL, root, "model")
        subgraphs = self.bytes.words(subgraphs_at, "list of subgraphs")
        if len(subgraphs) != 1:
            raise DamageError(f"it has {len(subgraphs)} subgraphs, not 1")
        words = self.bytes.table(SUBGRAPH, subgraphs[0], "subgraph")
        graph_layout, model_layout, inputs, outputs, nodes, tensors, buffers, title = words
        weights = [self.bytes.table(EXTENT, at, "buffer") for at in self.bytes.entries(buffers, "buffers")]
        graph = Graph(
            tensors=tuple(self.tensor(at, weights) for at in self.bytes.entries(tensors, "tensors")),
            nodes=tuple(self.node(at) for at in self.bytes.entries(nodes, "nodes")),
            inputs=self.bytes.words(inputs, "list of inputs"),
            outputs=self.bytes.words(outputs, "list of outputs"),
            made_from=made_from,
            graph_layout=graph_layout,
            model_layout=model_layout,
            name=self.bytes.text(title),
            model_name=self.bytes.text(name_at),
        )
        self.bytes.check_overlaps()
        return graph, tuple(self.strangers)

    def tensor(self, start: int, weights: list[tuple[int, ...]]) -> Tensor:
        """One tensor; ``weights`` has size and offset of every buffer."""
        words = self.bytes.table(TENSOR, start, "tensor")
        _, buffer, shape_at, name_at, quantization_at, layout, role, dtype = words
        name, shape = self.bytes.text(name_at), self.bytes.words(shape_at, "shape", "i")
        if dtype not in DTYPES or role not in ROLES:
            raise DamageError(f"tensor '{name}' is of type {dtype} and kind {role}")
        data = None
        if ROLES[role] == "const":
            if buffer >= len(weights):
                raise DamageError(f"tensor '{name}' has buffer {buffer} of {len(weights)}")
            data = self.constant(name, shape, DTYPES[dtype], weights[buffer])
        quantization = self.quantization(quantization_at)
        return Tensor(name, shape, DTYPES[dtype], ROLES[role], data, quantization, layout)

    def constant(
        self, name: str, shape: tuple[int, ...], dtype: str, buffer: tuple[int, ...]
    ) -> npt.NDArray[Any] | None:
        """The elements of a constant, None in a file without weights."""
        size, start = buffer
        problem = shape_problem(shape)
        if problem is not None:
            raise DamageError(f"the constant '{name}' has {problem}")
        if not start:
            return None
        kind, elements = np.dtype(dtype).newbyteorder("<"), math.prod(shape)
        if elements * kind.itemsize > size:
            raise DamageError(
                f"the constant '{name}' has {size} bytes; {dtype} of shape {list(shape)} needs "
                f"{elements * kind.itemsize}"
            )
        self.bytes.part(start, size, "buffer of weights")
        found = np.frombuffer(self.bytes.data, kind, elements, start).reshape(shape)
        native = found.astype(dtype, copy=False)
        return native if native.flags.aligned else native.copy()

    def quantization(self, start: int) -> Quantization | None:
        """Scales and zero points."""
        places = self.bytes.words(start, "list of scales")
        if not places:
            return None
        pairs = [self.bytes.table(QUANTIZATION, place, "scale") for place in places]
        points, scales = zip(*pairs, strict=True)
        return Quantization(np.asarray(scales, np.float32), np.asarray(points, np.int32))

    def node(self, start: int) -> Node:
        """One node."""
        words = self.bytes.table(NODE, start, "node")
        _, inputs_at, outputs_at, operator_at, name_at, dynamic = words
        name = self.bytes.text(name_at)
        version, code, options_at = self.bytes.table(OPERATOR, operator_at, "operator")
        inputs = self.bytes.words(inputs_at, "list of inputs")
        outputs = self.bytes.words(outputs_at, "list of outputs")
        if code not in BY_CODE or version != OPERATOR_VERSION:
            told = f"type {code}" if version == OPERATOR_VERSION else f"type {code} of version {version}"
            self.strangers[told] = None
            return Node(name, UNKNOWN_OPERATOR, inputs, outputs)
        op = BY_CODE[code].name
        return Node(name, op, inputs, outputs, self.options(code, options_at), bool(dynamic))

    def options(self, code: int, start: int) -> dict[str, Option]:
        """The options of an operator, all that it has."""
        operator = BY_CODE[code]
        if not operator.fields:
            return {}
        words = self.bytes.table(operator.layout, start, f"table of options of {operator.name}")
        return {
            title: self.option(kind, word)
            for (title, kind), word in zip(operator.options, words, strict=True)
        }

    def option(self, kind: str, word: Any) -> Option:
        """One option."""
        if kind == "text":
            return self.bytes.text(word)
        if kind == "bool":
            return bool(word)
        if kind in LISTS:
            each = WORD_BYTES if kind == "anchors" else 1
            return self.bytes.words(word, "list", "i" if kind == "ints" else "f", each)
        return word  # type: ignore[no-any-return]
