"""The scoring graph: the float model beside copies of all layers that read coded tensors.

    t ─────────────────────────────────► reader ────────► y        the model as it is
    ├─ Q(s₁,z₁) ─ DQ ─┐                                             errors   Σ (y₁ − y)²,  Σ (y₂ − y)² …
    └─ Q(s₂,z₂) ─ DQ ─┴─ Concat ─► reader (copy) ─► y₁, y₂ …        signal   Σ y²

One run of it scores all candidates of all tensors. Several candidates of a small tensor go through one copy
of the reader as its batch, those of a large one or of one of unknown size through a copy each: so the copies
stay in the cache and no tensor of the graph is large. A reader that may mix the entries of axis 0 gets a copy
per candidate too. A Relu or Clip that is fused behind the reader belongs to it: what it cuts off is no error.
So does any function that the target computes together with a layer. Where it computes functions of one tensor
as one, such a function is one reader.
A tensor that no op turns into floats (an output of the graph) is compared itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, constant, is_activation, rank
from calib8.model.layer import Layer, layer_of
from calib8.ops.groups import BINARY_OPS, FUNCTION_OPS, FUNCTIONS, POOL_OPS, POOLS, UNARY_OPS, WEIGHTED_OPS
from calib8.ops.questions import is_standard
from calib8.passes.functions import TensorFunction, activation_behind, computed_as_one, fused_layers
from calib8.qparams import QParams, QuantSpec
from calib8.scheme import QuantScheme

_BATCHED: Final = WEIGHTED_OPS | BINARY_OPS | FUNCTION_OPS | (UNARY_OPS & FUNCTIONS) | (POOL_OPS & POOLS)
"""Ops that compute every entry of axis 0 by itself."""

TOGETHER: Final = 1 << 18
"""Elements of the copies of a tensor, before or behind its reader, that are handled at once: 1 MiB."""


@dataclass(frozen=True)
class Reading:
    """One layer's output, with and without codes.

    Attributes:
        tensor: the coded tensor that the layer reads.
        first, last: its errors are ``errors[first:last]``, one per candidate.
    """

    tensor: str
    first: int
    last: int


@dataclass(frozen=True)
class Probe:
    """A scoring graph.

    Attributes:
        model: two outputs, float32: errors [all candidates of all readings] and signals [readings], each a
            sum over all elements of one run.
        readings: in the order of the signals.
    """

    model: ir.Model
    readings: tuple[Reading, ...]


def probe_model(
    prepared: ir.Model,
    candidates: Mapping[str, Sequence[QParams]],
    spec: QuantSpec,
    *,
    target: QuantScheme | None = None,
) -> Probe:
    """The scoring graph of a prepared model, which is not changed.

    Args:
        prepared: the float graph.
        candidates: float32 tensor, an input of the graph or computed → how it may be coded.
        spec: type of the codes, 8 bits.
        target: what it computes as one is one reader (``passes/functions``); None: every node is one.
    """
    model = prepared.clone()
    values = {value.name: value for value in model.graph.inputs}
    values |= {value.name: value for node in model.graph for value in node.outputs}
    functions = computed_as_one(model, target)
    fused = {} if target is None else fused_layers(functions, target)
    readers = {name: _readers(values[name], functions, fused) for name in candidates}
    builder = _Builder(model, spec)
    for name, qparams in candidates.items():
        coded = [builder.coded(values[name], q) for q in qparams]
        found = [pair for nodes in readers[name] for pair in builder.outcomes(nodes, values[name], coded)]
        for original, outcomes in found or [(values[name], [(copy, 1) for copy in coded])]:
            builder.measure(name, original, outcomes)
    return builder.finish()


def _readers(
    value: ir.Value, functions: Collection[TensorFunction], fused: Mapping[ir.Node, TensorFunction]
) -> list[tuple[ir.Node, ...]]:
    """What is computed from a tensor at a time: a function of it, or a node with what is fused behind it."""
    found = {node: one.nodes for one in functions if one.source is value for node in one.nodes}
    for use in value.uses():
        activation = activation_behind(use.node)
        behind = fused[use.node].nodes if use.node in fused else (activation,) if activation else ()
        found.setdefault(use.node, (use.node, *behind))
    return list(dict.fromkeys(found[use.node] for use in value.uses()))


class _Builder:
    """Adds nodes to the end of one graph."""

    def __init__(self, model: ir.Model, spec: QuantSpec) -> None:
        self.model, self.graph, self.spec = model, model.graph, spec
        self.names = Names(model.graph)
        self.shapes: dict[int, ir.Value] = {}
        self.flat = self._rows(1)
        self.last_axis = self.names.constant("calib8/axes", np.array([1], np.int64))
        self.errors: list[ir.Value] = []
        self.signals: list[ir.Value] = []
        self.found: list[Reading] = []

    def add(self, op: str, inputs: Sequence[ir.Value | None], **attributes: int | list[int]) -> ir.Value:
        """The output of a new node."""
        node = ir.node(op, list(inputs), attributes, name=self.names.node(f"calib8/{op}"))
        node.outputs[0].name = self.names.value(f"{node.name}/output")
        self.graph.append(node)
        return node.outputs[0]

    def coded(self, value: ir.Value, qparams: QParams) -> ir.Value:
        """What is left of a tensor behind its codes."""
        scale = self.names.constant("calib8/scale", np.asarray(qparams.scale, np.float32))
        point = self.names.constant("calib8/zero_point", np.asarray(qparams.zero_point, self.spec.dtype))
        codes = self.add("QuantizeLinear", [value, scale, point])
        return self.add("DequantizeLinear", [codes, scale, point])

    def outcomes(
        self, nodes: Sequence[ir.Node], value: ir.Value, coded: Sequence[ir.Value]
    ) -> list[tuple[ir.Value, list[tuple[ir.Value, int]]]]:
        """Float outputs of what reads a value, each with those of its copies and their candidates.

        Args:
            nodes: in graph order; the outputs are those of the last one.
            value: what they read.
            coded: the value behind the codes of each candidate.
        """
        last = nodes[-1]
        changed = {value} | {node.outputs[0] for node in nodes[:-1]}
        batched = all(
            _takes_batches(node, read) for node in nodes for read in node.inputs if read in changed and read
        )
        size = _together([value, *last.outputs]) if batched else 1
        parts = [coded[first : first + size] for first in range(0, len(coded), size)]
        copies = [self._copied(nodes, value, self._joined(part), len(part)) for part in parts]
        return [
            (output, [(copy[index], len(part)) for copy, part in zip(copies, parts, strict=True)])
            for index, output in enumerate(last.outputs)
            if output.name and output.dtype == ir.DataType.FLOAT
        ]

    def _joined(self, values: Sequence[ir.Value]) -> ir.Value:
        return values[0] if len(values) == 1 else self.add("Concat", values, axis=0)

    def _copied(
        self, nodes: Sequence[ir.Node], value: ir.Value, replacement: ir.Value, times: int
    ) -> Sequence[ir.Value]:
        """Outputs of the last of copies of nodes that read ``replacement`` in place of ``value``."""
        copies = {value: replacement}
        for node in nodes:
            inputs: list[ir.Value | None] = []
            for old in node.inputs:
                if old in copies:
                    inputs.append(copies[old])
                elif old is not None and times > 1 and is_activation(old):
                    inputs.append(self._joined([old] * times))
                else:
                    inputs.append(old)
            copy = self._copy(node, inputs)
            copies[node.outputs[0]] = copy.outputs[0]
        return copy.outputs

    def _copy(self, node: ir.Node, inputs: Sequence[ir.Value | None]) -> ir.Node:
        copy = ir.Node(
            node.domain,
            node.op_type,
            inputs,
            list(node.attributes.values()),
            num_outputs=len(node.outputs),
            name=self.names.node(f"calib8/{node.name}"),
        )
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name = self.names.value(f"calib8/{old.name}") if old.name else ""
        self.graph.append(copy)
        return copy

    def measure(self, name: str, original: ir.Value, outcomes: Sequence[tuple[ir.Value, int]]) -> None:
        """Adds the sums of one reading: outputs of the copies, each with its number of candidates."""
        flat = self.add("Reshape", [original, self.flat])
        self.signals.append(self._energies(flat))
        for outcome, count in outcomes:
            rows = self.add("Reshape", [outcome, self._rows(count)])
            self.errors.append(self._energies(self.add("Sub", [rows, flat])))
        first = self.found[-1].last if self.found else 0
        self.found.append(Reading(name, first, first + sum(count for _, count in outcomes)))

    def _energies(self, rows: ir.Value) -> ir.Value:
        """Σ x² of each row; in two steps, as ONNX Runtime has no fast ReduceSumSquare."""
        return self.add("ReduceSum", [self.add("Mul", [rows, rows]), self.last_axis], keepdims=0)

    def _rows(self, count: int) -> ir.Value:
        """The shape of ``count`` rows."""
        if count not in self.shapes:
            self.shapes[count] = self.names.constant("calib8/rows", np.array([count, -1], np.int64))
        return self.shapes[count]

    def finish(self) -> Probe:
        """Gathers the sums into two outputs."""
        self.graph.outputs.clear()
        for sums in (self.errors, self.signals):
            result = self.add("Concat", sums, axis=0)
            result.type, result.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([None])
            self.graph.outputs.append(result)
        return Probe(self.model, tuple(self.found))


def _takes_batches(reader: ir.Node, value: ir.Value) -> bool:
    """Whether several versions of ``value`` may go through one copy of the reader, as entries of axis 0."""
    axes = rank(value)
    if reader.op_type not in _BATCHED or not is_standard(reader) or not axes:
        return False
    layer = layer_of(reader)
    if layer is not None:
        return _weights_are_constant(layer, value)
    return all(old is None or _grows_along(old, value, axes) for old in reader.inputs)


def _together(values: Sequence[ir.Value]) -> int:
    """How many candidates go through one copy of a reader; 1 where a size is not known."""
    sizes = [_elements(value) for value in values]
    return max(1, TOGETHER // max(sizes)) if all(sizes) else 1


def _elements(value: ir.Value) -> int:
    """Elements of a tensor in a run of one sample, 0 where its shape does not tell."""
    if value.shape is None:
        return 0
    sizes = [size for axis, size in enumerate(value.shape) if axis or isinstance(size, int)]
    return math.prod(size if isinstance(size, int) else 0 for size in sizes)


def _weights_are_constant(layer: Layer, value: ir.Value) -> bool:
    weight, bias = constant(layer.weight), constant(layer.bias)
    if layer.input is not value or weight is None or (bias is None and layer.bias is not None):
        return False
    whole = bias is None or bias.ndim < 2 or bias.shape[0] == 1
    return whole and not layer.turned and layer.fits(weight.ndim) and (layer.windows or rank(value) != 1)


def _grows_along(operand: ir.Value, value: ir.Value, axes: int) -> bool:
    """Whether an operand of an elementwise op still fits when axis 0 of all activations gets longer."""
    array = constant(operand)
    if array is not None:
        return array.ndim < axes or (array.ndim == axes and array.shape[0] == 1)
    if operand.shape is None or value.shape is None or operand.shape.rank() != axes:
        return False
    return operand is value or bool(operand.shape[0] == value.shape[0])
