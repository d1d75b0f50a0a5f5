"""Which activations may have 16-bit codes: spots, single tensors that lose too much in 8 bits.

    x ─► Q(int16) ─► DQ ─► readers of x

Weights keep 8 bits. Tensors that share a scale share the width of their codes, so one spot makes its whole
class one. Whatever yields or reads one of them must have an integer form for such codes: layers with constant
weights, sums and products, functions, maxima of windows, lengths and norms of rows, and what moves codes. Any
other op has 8-bit codes alone, or none; beside it there is no spot. One reader is no hindrance, where there
are others: means of many values read a copy of 8 bits, whose rounding they average away.

    x ─► Q(int16) ─► DQ ─┬─► Mul
                         └─► Q(uint8) ─► DQ ─► GlobalAveragePool
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import activation_inputs, constant
from calib8.model.layer import layer_of
from calib8.ops.groups import (
    AVERAGE_POOLS,
    BINARY_OPS,
    FUNCTION_OPS,
    NORMS_OF_ROWS,
    QUANTIZABLE_OPS,
    SOFTMAX,
    UNARY_OPS,
)
from calib8.ops.questions import resizes
from calib8.passes.place import Placement
from calib8.passes.resolve_ranges import shared_with
from calib8.qparams import FLOAT32_TINY
from calib8.scheme import QuantScheme
from calib8.table import CalibrationTable

AVERAGING: Final = AVERAGE_POOLS | {"ReduceMean"}
"""Ops that may read a copy of 8 bits."""

WIDE_OPS: Final = (QUANTIZABLE_OPS | FUNCTION_OPS | NORMS_OF_ROWS) - SOFTMAX - AVERAGING - {"GlobalMaxPool"}
"""Ops with an integer form for 16-bit codes, those of functions of one tensor included."""

LOOKED_UP: Final = UNARY_OPS | FUNCTION_OPS | BINARY_OPS
"""Ops that a table computes where they read one tensor alone."""


@dataclass(frozen=True)
class Spots:
    """What was made of tensors that were asked for.

    Attributes:
        taken: all tensors that get 16-bit codes, those that share a scale with one included.
        refused: tensor asked for → why its codes keep 8 bits.
    """

    taken: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)


NO_SPOTS: Final = Spots()


def find_spots(
    model: ir.Model,
    placement: Placement,
    table: CalibrationTable,
    scheme: QuantScheme,
    asked: Collection[str],
) -> Spots:
    """Which of the tensors asked for can have 16-bit codes.

    Args:
        model: a prepared float graph.
        placement: which nodes and tensors of it have codes.
        table: their ranges.
        scheme: the target's rules.
        asked: names of tensors.

    Raises:
        TableError: the table lacks a tensor that has codes.
    """
    if not asked:
        return NO_SPOTS
    if scheme.spots is None:
        return Spots(
            refused=dict.fromkeys(sorted(asked), f"the target '{scheme.name}' has 8-bit codes alone")
        )
    refused = {name: _NO_CODES for name in sorted(asked) if name not in placement.readers}
    classes = shared_with(model, placement, table, scheme, frozenset(asked) - refused.keys())
    around = _Surroundings.of(model, placement)
    for name, members in sorted(classes.items()):
        reason = next((reason for member in sorted(members) for reason in around.reasons(member)), "")
        if reason:
            refused[name] = reason
    taken = frozenset().union(*(members for name, members in classes.items() if name not in refused))
    return Spots(taken, refused)


WIDE_STEP: Final = (1 << 16) - 1
"""The largest |code − zero_point| of 16 bits."""

INT32_HALF: Final = 1 << 30
_NO_CODES: Final = "no tensor of this name has codes"


@dataclass(frozen=True)
class _Surroundings:
    """What yields and what reads every tensor that has codes.

    Attributes:
        values: name → the tensor.
        quantized: names of the nodes that compute from codes.
        chains: name of a node → names of all nodes that are computed as one with it.
        nodes: name → the node.
        coded: names of the tensors that have codes.
    """

    values: Mapping[str, ir.Value]
    quantized: frozenset[str]
    chains: Mapping[str, tuple[str, ...]]
    nodes: Mapping[str, ir.Node]
    coded: Collection[str]

    @classmethod
    def of(cls, model: ir.Model, placement: Placement) -> _Surroundings:
        values = {value.name or "": value for value in model.graph.inputs}
        values |= {value.name or "": value for node in model.graph for value in node.outputs}
        chains = {name: chain for chain in placement.chains for name in chain}
        nodes = {node.name or "": node for node in model.graph}
        return cls(values, placement.quantized_nodes(), chains, nodes, placement.readers)

    def reasons(self, name: str) -> Iterator[str]:
        """Why the codes of a tensor cannot have 16 bits."""
        value = self.values[name]
        producer = value.producer()
        if producer is not None and producer.name in self.quantized:
            reason = self._why_narrow(producer)
            if reason:
                yield f"'{producer.name}' ({producer.op_type}) yields '{name}' and {reason}"
        readers = dict.fromkeys(use.node for use in value.uses())
        others = value.is_graph_output() or not all(self._averages(node) for node in readers)
        for node in readers:
            if node.name in self.quantized and not (others and self._averages(node)):
                reason = self._why_narrow(node) or self._why_no_table(node) or self._why_no_sums(node)
                if reason:
                    yield f"'{node.name}' ({node.op_type}) reads '{name}' and {reason}"

    def _averages(self, node: ir.Node) -> bool:
        """Whether a node may read a copy of 8 bits."""
        return node.op_type in AVERAGING and node.name in self.quantized

    def _why_narrow(self, node: ir.Node) -> str:
        """Why an op has no form for 16-bit codes, wherever they are."""
        if resizes(node) and _mode(node) != "nearest":
            return f"interpolates ({_mode(node)}), which 8-bit codes alone can do"
        if node.op_type in NORMS_OF_ROWS and node.name in self.chains:
            return "is computed as one with others, which 8-bit codes alone can do"
        return "" if node.op_type in WIDE_OPS else "has 8-bit codes alone"

    def _why_no_table(self, node: ir.Node) -> str:
        """A function of 16-bit codes is one table of 65536 entries, and not one per channel."""
        own = node.op_type in LOOKED_UP and len(list(activation_inputs(node))) == 1
        chain = self.chains.get(node.name or "", (node.name or "",) if own else ())
        for part in (self.nodes[name] for name in chain):
            arrays = (constant(value) for value in part.inputs)
            places = max((math.prod(array.shape) for array in arrays if array is not None), default=1)
            if places > 1:
                return (
                    f"has a constant of {places} numbers, each of which would need a table of 65536 entries"
                )
        return ""

    def _why_no_sums(self, node: ir.Node) -> str:
        """Sums that nobody turns into codes are int32, with half of it for the bias."""
        layer = layer_of(node)
        if (
            layer is None
            or layer.windows
            or any(use.node.name in self.quantized for use in node.outputs[0].uses())
        ):
            return ""
        weight = constant(layer.weight)
        if weight is None or node.outputs[0].name in self.coded:
            return ""
        rows = np.abs(layer.by_channel(weight)[0, :, :, 0].astype(np.float64))
        steps = 127.0 * rows.sum(axis=1) / np.maximum(rows.max(axis=1), FLOAT32_TINY) + rows.shape[1]
        fits = float(steps.max()) * WIDE_STEP < INT32_HALF
        return "" if fits else "gives its sums as they are, which fit int32 with 8-bit codes alone"


def _mode(node: ir.Node) -> str:
    attribute = node.attributes.get("mode")
    return "nearest" if attribute is None else attribute.as_string()
