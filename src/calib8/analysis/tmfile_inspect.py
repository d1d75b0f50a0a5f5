"""What is in a Tengine model: tensors and their codes, nodes, and what to know before it is used."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from calib8.tensors import TensorSpec
from calib8.tmfile.graph import CONST, INPUT, NHWC, Graph, Node, Option, Tensor
from calib8.tmfile.kinds import LAYERS, Kind, kind
from calib8.tmfile.ports import port_specs
from calib8.tmfile.read import read_tmfile

MADE_FROM: Final[Mapping[int, str]] = {
    1: "Tengine", 2: "Caffe", 3: "ONNX", 4: "MXNet", 5: "TensorFlow", 6: "TFLite",
    7: "an accelerator's format", 8: "Darknet",
}  # fmt: skip
"""Number of a format → its name; Tengine gives 1 to what its own tools wrote from a tmfile."""


@dataclass(frozen=True)
class TmfileTensor:
    """One tensor.

    Attributes:
        name: of the file.
        role: ``var``, ``const``, ``input`` or ``dep``.
        dtype: type of its elements.
        shape: sizes.
        scales, zero_points: empty where it holds plain numbers; several run along axis 0.
        bytes: of a constant, else 0.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class TmfileNode:
    """One node.

    Attributes:
        name: of the file.
        op: its operator.
        inputs, outputs: names of its tensors.
        options: as the file has them.
        macs: multiply-accumulates of one run; 0 for operators without weights.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: Mapping[str, Option]
    macs: int


@dataclass(frozen=True)
class TmfileInspection:
    """What ``inspect_tmfile`` found.

    Attributes:
        path: of the file.
        kind: ``float``, ``quantized`` or ``half`` (float16).
        made_from: the format that it was converted from, empty where the file does not say.
        layout: ``NCHW`` or ``NHWC``, the order of the axes in the file.
        inputs, outputs: their specs.
        tensors: in the order of the file.
        nodes: likewise, without those of constants and inputs.
        ops: operator → how many, most frequent first.
        parameters: elements of the constants that layers multiply or add.
        macs: multiply-accumulates of one run.
        constant_bytes: of all constants.
        caveats: sentences on what does not fit.
    """

    path: str
    kind: Kind
    made_from: str
    layout: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    tensors: tuple[TmfileTensor, ...]
    nodes: tuple[TmfileNode, ...]
    ops: Mapping[str, int]
    parameters: int
    macs: int
    constant_bytes: int
    caveats: tuple[str, ...]


def inspect_tmfile(path: str | os.PathLike[str]) -> TmfileInspection:
    """Looks at a tmfile; nothing is run.

    Raises:
        ModelError: the file is damaged.
        UnsupportedModelError: another version, or operators that the format does not have.
    """
    graph = read_tmfile(path)
    tensors = tuple(map(_tensor, graph.tensors))
    nodes = tuple(_node(graph, node) for node in graph.nodes if node.op not in (CONST, INPUT))
    return TmfileInspection(
        path=os.fspath(path),
        kind=kind(graph),
        made_from=MADE_FROM.get(graph.made_from, ""),
        layout="NHWC" if graph.model_layout == NHWC else "NCHW",
        inputs=port_specs(graph, graph.input_tensors()),
        outputs=port_specs(graph, graph.output_tensors()),
        tensors=tensors,
        nodes=nodes,
        ops=dict(Counter(node.op for node in nodes).most_common()),
        parameters=sum(graph.tensors[place].elements for place in _trained(graph)),
        macs=macs(graph),
        constant_bytes=sum(tensor.bytes for tensor in tensors),
        caveats=tuple(_caveats(graph)),
    )


def _tensor(tensor: Tensor) -> TmfileTensor:
    quantization = tensor.quantization
    scales = () if quantization is None else tuple(map(float, quantization.scales))
    points = () if quantization is None else tuple(map(int, quantization.zero_points))
    stored = 0 if tensor.data is None else tensor.data.nbytes
    return TmfileTensor(tensor.name, tensor.role, tensor.dtype, tensor.shape, scales, points, stored)


def _node(graph: Graph, node: Node) -> TmfileNode:
    inputs, outputs = _names(graph, node.inputs), _names(graph, node.outputs)
    return TmfileNode(node.name, node.op, inputs, outputs, node.options, _macs(graph, node))


def _names(graph: Graph, places: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(graph.tensors[place].name for place in places)


def macs(graph: Graph) -> int:
    """Multiply-accumulates of one run."""
    return sum(_macs(graph, node) for node in graph.nodes)


def _macs(graph: Graph, node: Node) -> int:
    """Elements of the output (of the input, where that is scattered) times weights that meet each."""
    if node.op not in LAYERS or len(node.inputs) < 2:
        return 0
    weight = graph.tensors[node.inputs[1]].shape
    scattered = node.op == "Deconvolution"
    elements = graph.tensors[node.inputs[0] if scattered else node.outputs[0]].elements
    return elements * math.prod(weight[1:])


def _trained(graph: Graph) -> set[int]:
    return {
        place
        for node in graph.nodes
        if node.op in LAYERS
        for place in node.inputs[1:]
        if graph.tensors[place].role == "const"
    }


def _caveats(graph: Graph) -> list[str]:
    told = []
    bare = [tensor for tensor in graph.tensors if tensor.role == "const" and tensor.data is None]
    if bare:
        told.append(f"{len(bare)} constants have no values: the file is made to measure times")
    live = [tensor for tensor in graph.tensors if tensor.role in ("var", "input")]
    lost = [t.name for t in live if t.quantization is not None and not t.quantization.scales.all()]
    if lost:
        told.append(
            f"{len(lost)} of {len(live)} tensors have the scale 0, '{lost[0]}' first: "
            "their table of scales named them otherwise, and every code there is lost"
        )
    return told
