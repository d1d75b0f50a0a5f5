"""What is in a TFLite file: tensors and their codes, operators, and what to know before it is run.

An operator counts as ``codes`` if it reads or writes activations in codes, as ``hybrid`` if its weights alone
are codes, as ``float`` if it works on floats, and as ``numbers`` if it works on plain integers.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from calib8.analysis.tflite_caveats import caveats
from calib8.tensors import TensorSpec
from calib8.tflite.graph import Graph, Operator, Option, Tensor
from calib8.tflite.kinds import CODES, WITH_WEIGHTS, Kind, kind
from calib8.tflite.ports import port_specs
from calib8.tflite.read import read_tflite
from calib8.tflite.state_ports import state_specs

Works = Literal["codes", "hybrid", "float", "numbers"]

LSTM_MATRICES: Final = (*range(1, 9), 16)
"""Places of the weights of a UNIDIRECTIONAL_SEQUENCE_LSTM: of the input, of h, of the projection."""

LONGEST_TEXT: Final = 2000
"""Bytes of metadata that are shown; more, or what is no text, is told by its size."""


@dataclass(frozen=True)
class TensorInspection:
    """One tensor.

    Attributes:
        name: of the file.
        dtype: type of its elements.
        shape: sizes, None for one that is free.
        scales, zero_points: empty where it holds plain numbers.
        axis: that several scales run along, None for one scale or none.
        bytes: of a constant, else 0.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None
    bytes: int


@dataclass(frozen=True)
class OperatorInspection:
    """One operator.

    Attributes:
        op: of the schema, or what a custom operator calls itself.
        version: of the operator.
        inputs, outputs: names of its tensors; empty for one that is left out.
        options: as the file has them, defaults of the schema filled in.
        works_on: see above.
        macs: multiply-accumulates of one run; 0 for operators without weights.
    """

    op: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: Mapping[str, Option]
    works_on: Works
    macs: int


@dataclass(frozen=True)
class TfliteInspection:
    """What ``inspect_tflite`` found.

    Attributes:
        path: of the file.
        kind: of the model.
        description: what the file says of itself.
        inputs, outputs: their specs.
        states: what it keeps between runs, each by the name of its variable.
        tensors, operators: in the order of the file, without those that only keep states.
        ops: operator → how many, most frequent first.
        parameters: elements of the constants that layers multiply or add.
        macs: multiply-accumulates of one run.
        constant_bytes: of all constants.
        metadata: name → text, or size of what is none.
        caveats: sentences about what a runtime makes of it.
    """

    path: str
    kind: Kind
    description: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    states: tuple[TensorSpec, ...]
    tensors: tuple[TensorInspection, ...]
    operators: tuple[OperatorInspection, ...]
    ops: Mapping[str, int]
    parameters: int
    macs: int
    constant_bytes: int
    metadata: Mapping[str, str]
    caveats: tuple[str, ...]


def inspect_tflite(path: str | os.PathLike[str]) -> TfliteInspection:
    """Looks at a TFLite file; nothing is run.

    Raises:
        ModelError: the file is damaged.
        UnsupportedModelError: it has subgraphs that do more than to begin variables.
    """
    graph = read_tflite(path)
    tensors = tuple(map(_tensor, graph.tensors))
    operators = tuple(_operator(graph, operator) for operator in graph.operators)
    return TfliteInspection(
        path=os.fspath(path),
        kind=kind(graph),
        description=graph.description,
        inputs=port_specs(graph, graph.inputs),
        outputs=port_specs(graph, graph.outputs),
        states=state_specs(graph),
        tensors=tensors,
        operators=operators,
        ops=dict(Counter(operator.op for operator in operators).most_common()),
        parameters=sum(_elements(graph.tensors[place]) for place in _trained(graph)),
        macs=macs(graph),
        constant_bytes=sum(tensor.bytes for tensor in tensors),
        metadata={name: _text(data) for name, data in graph.metadata.items()},
        caveats=caveats(graph),
    )


def macs(graph: Graph) -> int:
    """Multiply-accumulates of one run, for the shapes that the graph has."""
    return sum(_macs(graph, operator) for operator in graph.operators)


def _tensor(tensor: Tensor) -> TensorInspection:
    quantization = tensor.quantization
    scales = () if quantization is None else tuple(quantization.scales.tolist())
    points = () if quantization is None else tuple(quantization.zero_points.tolist())
    sizes = tuple(
        None if tensor.signature[axis : axis + 1] == (-1,) else size for axis, size in enumerate(tensor.shape)
    )
    axis = quantization.axis if quantization is not None and len(scales) > 1 else None
    stored = 0 if tensor.data is None else tensor.data.nbytes
    return TensorInspection(tensor.name, tensor.dtype, sizes, scales, points, axis, stored)


def _operator(graph: Graph, operator: Operator) -> OperatorInspection:
    return OperatorInspection(
        operator.title,
        operator.version,
        _names(graph, operator.inputs),
        _names(graph, operator.outputs),
        operator.options,
        _works_on(graph, operator),
        _macs(graph, operator),
    )


def _names(graph: Graph, places: tuple[int, ...]) -> tuple[str, ...]:
    return tuple("" if place < 0 else graph.tensors[place].name for place in places)


def _works_on(graph: Graph, operator: Operator) -> Works:
    tensors = [graph.tensors[place] for place in (*operator.inputs, *operator.outputs) if place >= 0]
    live = [tensor for tensor in tensors if tensor.data is None]
    if any(_is_coded(tensor) for tensor in live):
        return "codes"
    if operator.op in WITH_WEIGHTS and any(_is_coded(tensor) for tensor in tensors):
        return "hybrid"
    return "float" if any(tensor.dtype.startswith("float") for tensor in live) else "numbers"


def _is_coded(tensor: Tensor) -> bool:
    return tensor.dtype in CODES and tensor.quantization is not None


def _macs(graph: Graph, operator: Operator) -> int:
    """Elements of the output (of the input, where that is scattered) times weights that meet each."""
    if operator.op == "UNIDIRECTIONAL_SEQUENCE_LSTM":
        steps: int = math.prod(graph.tensors[operator.inputs[0]].shape[:-1])
        matrices = [operator.inputs[place] for place in LSTM_MATRICES if place < len(operator.inputs)]
        weights: int = sum(math.prod(graph.tensors[place].shape) for place in matrices if place >= 0)
        return steps * weights
    if operator.op not in WITH_WEIGHTS or len(operator.inputs) < 2 or min(operator.inputs[:2]) < 0:
        return 0
    weight = graph.tensors[operator.inputs[1]].shape
    output = math.prod(graph.tensors[operator.outputs[0]].shape)
    if operator.op == "DEPTHWISE_CONV_2D":
        return output * math.prod(weight[1:3])
    if operator.op == "TRANSPOSE_CONV" and len(operator.inputs) > 2:
        return math.prod(graph.tensors[operator.inputs[2]].shape) * math.prod(weight[:3])
    if operator.op == "BATCH_MATMUL":
        return output * _shared_size(weight, bool(operator.options.get("adj_y")))
    return output * math.prod(weight[1:])


def _shared_size(right: tuple[int, ...], transposed: bool) -> int:
    """Length of the sums of a matrix product, told by its second matrix."""
    if len(right) < 2:
        return 0
    return right[-1] if transposed else right[-2]


def _trained(graph: Graph) -> set[int]:
    """Constants of layers, and factors and terms that are no integers for shapes."""
    return {
        place
        for operator in graph.operators
        for place in operator.inputs
        if place >= 0
        and graph.tensors[place].data is not None
        and (operator.op in WITH_WEIGHTS or graph.tensors[place].quantization is not None)
        and not (operator.op == "TRANSPOSE_CONV" and place == operator.inputs[0])
    }


def _elements(tensor: Tensor) -> int:
    return math.prod(tensor.shape)


def _text(data: bytes) -> str:
    """What is text up to its first zero byte; of anything else the size."""
    head = data.split(b"\0", 1)[0]
    if len(head) <= LONGEST_TEXT and (head or not data) and not data[len(head) :].strip(b"\0"):
        try:
            return head.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return f"{len(data)} bytes"
