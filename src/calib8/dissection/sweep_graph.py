"""The sweep graph: one run of it computes the outputs for many choices of what has codes.

Row 0 of every tensor is the model without codes. A part (layers and tensors that keep their codes) gets a
row of its own at the first node where it differs from row 0; before, row 0 stands for it:

    x [rows 0]      → layer, float constants  → y [0]    ┐
      [rows 0]      → layer, coded constants  → y [1]    ┴ Concat → y [0, 1]
    t [rows 0, 1]   → Q → DQ on what a part codes        → t [0, 1, 2]
    Add of a [0, 1] and b [0, 2]                         a → Gather → [0, 1, 2] ← Gather ← b

At the end, for every output of the graph, Σ y₀² and Σ (y_r − y₀)² of each row r, summed in the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.dissection.batch_axis import with_rows
from calib8.dissection.float_constants import FloatConstants
from calib8.errors import UnsupportedModelError
from calib8.model.graph import Names, input_at, opset_version
from calib8.ops.questions import dequantizes, quantizes
from calib8.quantization.qdq import dequantizer, label, weight_is_coded

OPSET: Final = 13
"""The oldest operator set in which sums take their axes as the sweep gives them."""


@dataclass(frozen=True)
class Part:
    """What keeps its codes together.

    Attributes:
        layers: labels of layers whose weights are codes.
        tensors: names of tensors that pass Q and DQ.
    """

    layers: tuple[str, ...]
    tensors: tuple[str, ...]

    def __add__(self, other: Part) -> Part:
        """Both."""
        return Part(self.layers + other.layers, self.tensors + other.tensors)


@dataclass(frozen=True)
class SweepGraph:
    """A graph that judges parts.

    Attributes:
        model: its outputs: row 0 of every float output of the graph it was made from; then for each of
            these energies, float32 [1 + rows]: Σ y₀², then Σ (y_r − y₀)² of every row r.
        rows: for each of these outputs the numbers of the parts that its rows are of, 0 for row 0; a part
            that is not among them changes nothing there.
    """

    model: ir.Model
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class _Rows:
    """A tensor in several versions.

    Attributes:
        value: the versions one behind the other along axis 0.
        ids: whose they are: 0 without codes, n of part n.
        size: entries of axis 0 that each version has.
    """

    value: ir.Value
    ids: tuple[int, ...]
    size: int


def sweep_graph(
    model: ir.Model,
    constants: Mapping[str, FloatConstants],
    parts: Mapping[int, Part],
    origins: Mapping[ir.Value, str],
) -> SweepGraph:
    """The graph that judges some parts of a QDQ graph, which is not changed.

    Args:
        model: a QDQ graph with the shapes of a run, constants as initializers.
        constants: label of a layer → what it computes with without codes; other layers keep their codes.
        parts: number from 1 on → part.
        origins: dequantized value of ``model`` → name of the float tensor before all its codes.

    Raises:
        UnsupportedModelError: a node may mix the rows, codes go elsewhere than into DequantizeLinear, or the
            operator set is older than 13.
    """
    if opset_version(model) < OPSET:
        problem = f"has operator set {opset_version(model)}"
        raise UnsupportedModelError(model.graph.name or "model", problem, f"Convert it to {OPSET} or later")
    found = {value.name: name for value, name in origins.items()}
    copy = model.clone()
    builder = _Builder(copy, constants, parts, found)
    for node in list(copy.graph):
        builder.add(node)
    return builder.finish()


class _Builder:
    """Adds the nodes of the sweep behind those of the graph, which then go away."""

    def __init__(
        self,
        model: ir.Model,
        constants: Mapping[str, FloatConstants],
        parts: Mapping[int, Part],
        origins: Mapping[str | None, str],
    ) -> None:
        self.model, self.graph, self.constants, self.origins = model, model.graph, constants, origins
        self.names = Names(model.graph)
        self.layers = _users({number: part.layers for number, part in parts.items()})
        self.tensors = _users({number: part.tensors for number, part in parts.items()})
        fed = (value for value in model.graph.inputs if value.name not in model.graph.initializers)
        self.found = {value: _Rows(value, (0,), _size(value) or 0) for value in fed}
        self.gathered: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = {}

    def add(self, node: ir.Node) -> None:
        """The versions of what a node of the graph yields."""
        if not any(value in self.found for value in node.inputs):
            if any(attribute.type == ir.AttributeType.GRAPH for attribute in node.attributes.values()):
                raise _mixes(node)
            return
        if quantizes(node):
            self._check_codes(node)
        elif dequantizes(node):
            self._dequantized(node)
        elif label(node) in self.constants and weight_is_coded(node):
            self._layer(node)
        else:
            self._plain(node, self._union(node))

    def _check_codes(self, node: ir.Node) -> None:
        readers = [use.node.op_type for use in node.outputs[0].uses()]
        if node.outputs[0].is_graph_output() or any(op != "DequantizeLinear" for op in readers):
            raise UnsupportedModelError(
                label(node), "its codes are read as such", "Compare it layer by layer"
            )
        self.found[node.outputs[0]] = self.found[_first(node)]

    def _dequantized(self, node: ir.Node) -> None:
        """The rows of parts that code this tensor pass Q and DQ, others do not."""
        quantizer = dequantizer(node.outputs[0])
        source = None if quantizer is None else _first(quantizer).producer()
        before = self.found[_first(node)]
        name = self.origins.get(node.outputs[0].name)
        if source is None or name is None:
            raise UnsupportedModelError(label(node), "its codes are computed", "Compare it layer by layer")
        coded = self.tensors.get(name, ())
        if not coded:
            self.found[node.outputs[0]] = before
            return
        rows = self._copy(source, [self._rows(before, coded), *source.inputs[1:]])
        rows = self._copy(node, [rows, *node.inputs[1:]])
        others = tuple(number for number in before.ids if number not in coded)
        kept = self._rows(before, others)
        value = self._new("Concat", [kept, rows], axis=0)
        self.found[node.outputs[0]] = _Rows(value, (*others, *coded), before.size)

    def _layer(self, node: ir.Node) -> None:
        """Rows of parts that code this layer go through it as it is, others through its float form."""
        coded, before = self.layers.get(label(node), ()), self.found[_first(node)]
        others = tuple(number for number in before.ids if number not in coded)
        found = self.constants[label(node)]
        float_inputs = [self.names.constant(f"{label(node)}/float_weight", found.weight)]
        if found.bias is not None:
            float_inputs.append(self.names.constant(f"{label(node)}/float_bias", found.bias))
        rows = [self._checked(node, self._rows(before, others), len(others), float_inputs)]
        if coded:
            rows.append(self._checked(node, self._rows(before, coded), len(coded), node.inputs[1:]))
        value = rows[0] if len(rows) == 1 else self._new("Concat", rows, axis=0)
        self.found[node.outputs[0]] = _Rows(value, (*others, *coded), before.size)

    def _checked(
        self, node: ir.Node, value: ir.Value, count: int, constants: Sequence[ir.Value | None]
    ) -> ir.Value:
        """A copy of a layer that works on ``count`` rows of its input."""
        if with_rows(node, count, {_first(node)}) is None:
            raise _mixes(node)
        return self._copy(node, [value, *constants])

    def _union(self, node: ir.Node) -> tuple[int, ...]:
        """All rows that the inputs of a node have, in the order of the first of them that has most."""
        rows = [self.found[value].ids for value in node.inputs if value in self.found]
        most = max(rows, key=len)
        rest = sorted({number for ids in rows for number in ids} - set(most))
        return (*most, *rest)

    def _plain(self, node: ir.Node, ids: tuple[int, ...]) -> None:
        """All rows go through a node that has no codes of its own."""
        changing = {value for value in node.inputs if value in self.found}
        stated, sizes = with_rows(node, len(ids), changing), {_size(value) for value in node.outputs}
        size = sizes.pop() if len(sizes) == 1 else None
        before = {self.found[value].size for value in changing}
        if stated is None or not size or len(before) != 1 or 0 in before:
            raise _mixes(node)
        if node.op_type not in ("Reshape", "Flatten") and size not in before:
            raise _mixes(node)
        inputs = [
            self._rows(self.found[value], ids) if value in self.found else value for value in node.inputs
        ]
        for index, array in stated.items():
            inputs[index] = self.names.constant(f"calib8/{node.name}/rows", array)
        for value, copy in zip(node.outputs, self._copies(node, inputs), strict=True):
            self.found[value] = _Rows(copy, ids, size)

    def _rows(self, versions: _Rows, ids: tuple[int, ...]) -> ir.Value:
        """The rows ``ids`` of a tensor, row 0 for parts that do not differ from it there."""
        if versions.ids == ids:
            return versions.value
        key = (versions.value, ids)
        if key not in self.gathered:
            places = [versions.ids.index(number if number in versions.ids else 0) for number in ids]
            entries = np.array(places)[:, None] * versions.size + np.arange(versions.size)
            indices = self.names.constant("calib8/rows", entries.reshape(-1).astype(np.int64))
            self.gathered[key] = self._new("Gather", [versions.value, indices], axis=0)
        return self.gathered[key]

    def _new(self, op: str, inputs: Sequence[ir.Value | None], **attributes: int | list[int]) -> ir.Value:
        """The output of a new node."""
        node = ir.node(op, list(inputs), attributes, name=self.names.node(f"calib8/{op}"))
        node.outputs[0].name = self.names.value(f"{node.name}/output")
        self.graph.append(node)
        return node.outputs[0]

    def _copy(self, node: ir.Node, inputs: Sequence[ir.Value | None]) -> ir.Value:
        """The only output of a copy of a node."""
        return self._copies(node, inputs)[0]

    def _copies(self, node: ir.Node, inputs: Sequence[ir.Value | None]) -> Sequence[ir.Value]:
        """The outputs of a copy of a node."""
        copy = ir.Node(
            node.domain,
            node.op_type,
            inputs,
            list(node.attributes.values()),
            num_outputs=len(node.outputs),
            name=self.names.node(f"calib8/{node.name}"),
        )
        for value, old in zip(copy.outputs, node.outputs, strict=True):
            value.name = self.names.value(f"calib8/{old.name}")
        self.graph.append(copy)
        return copy.outputs

    def finish(self) -> SweepGraph:
        """Outputs of row 0, then the energies; the nodes of the graph itself go away."""
        flat, axes = (self.names.constant(f"calib8/{n}", np.array([v], np.int64)) for n, v in
                      (("flat", -1), ("axes", 1)))  # fmt: skip
        plain, energies, rows = list[ir.Value](), list[ir.Value](), list[tuple[int, ...]]()
        for output in list(self.graph.outputs):
            if output.dtype != ir.DataType.FLOAT:
                continue
            if output not in self.found:
                raise UnsupportedModelError(
                    output.name or "output", "is constant", "Compare it layer by layer"
                )
            found = self.found[output]
            first = self._rows(found, (0,))
            plain.append(self._new("Identity", [first]))
            shape = self.names.constant("calib8/shape", np.array([len(found.ids), -1], np.int64))
            both = self._new("Reshape", [found.value, shape])
            difference = self._new("Sub", [both, self._new("Reshape", [first, self._row()])])
            parts = [self._energy(self._new("Reshape", [first, self._row()]), axes)]
            parts.append(self._energy(difference, axes))
            energies.append(self._new("Reshape", [self._new("Concat", parts, axis=0), flat]))
            rows.append(found.ids)
        self.graph.outputs.clear()
        for value in (*plain, *energies):
            value.type = ir.TensorType(ir.DataType.FLOAT)
            self.graph.outputs.append(value)
        ir_passes.RemoveUnusedNodesPass()(self.model)
        return SweepGraph(self.model, tuple(rows))

    def _row(self) -> ir.Value:
        return self.names.constant("calib8/row", np.array([1, -1], np.int64))

    def _energy(self, rows: ir.Value, axes: ir.Value) -> ir.Value:
        """Σ x² of each row."""
        return self._new("ReduceSum", [self._new("Mul", [rows, rows]), axes], keepdims=0)


def _users(named: Mapping[int, Collection[str]]) -> dict[str, tuple[int, ...]]:
    """Name → the numbers that name it, ascending."""
    found: dict[str, list[int]] = {}
    for number in sorted(named):
        for name in dict.fromkeys(named[number]):
            found.setdefault(name, []).append(number)
    return {name: tuple(numbers) for name, numbers in found.items()}


def _first(node: ir.Node) -> ir.Value:
    value = input_at(node, 0)
    assert value is not None
    return value


def _size(value: ir.Value) -> int | None:
    """Entries of axis 0, None where that is not known."""
    first = value.shape[0] if value.shape is not None and value.shape.rank() else None
    return first if isinstance(first, int) else None


def _mixes(node: ir.Node) -> UnsupportedModelError:
    problem = f"a {node.op_type} may mix what is computed together"
    return UnsupportedModelError(label(node), problem, "Compare it layer by layer")
