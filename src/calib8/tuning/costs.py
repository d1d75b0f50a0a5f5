"""What a model costs that is not all int8.

cost    share of the multiply-accumulates that are not computed from codes, 0 … 1
wide    share of those that are computed from 16-bit codes, each in two steps; of equal costs it decides
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from calib8.model.graph import activation_inputs
from calib8.ops.groups import ADDENDS
from calib8.passes.place import Placement
from calib8.repair.spots import read_by


def float_share(counted: Mapping[str, int], placement: Placement) -> float:
    """The cost: the share of the multiply-accumulates outside of the quantized nodes, 0 … 1."""
    quantized = placement.quantized_nodes()
    total = sum(counted.values())
    return sum(count for node, count in counted.items() if node not in quantized) / total if total else 0.0


def wide_share(
    counted: Mapping[str, int], placement: Placement, model: ir.Model, spots: Collection[str]
) -> float:
    """The share of the multiply-accumulates of the quantized nodes that read 16-bit codes, 0 … 1.

    Args:
        counted: node → its multiply-accumulates.
        placement: which nodes are quantized.
        model: the prepared float graph that was quantized.
        spots: names of its tensors with 16-bit codes.
    """
    quantized, total = placement.quantized_nodes(), sum(counted.values())
    inside = {node: count for node, count in counted.items() if node in quantized}
    return read_by(model, spots, inside) / total if total and spots else 0.0


def additions_of(model: ir.Model, quantized: frozenset[str]) -> tuple[str, ...]:
    """Names of the quantized nodes that add or subtract two activations, in graph order."""
    found = (node for node in model.graph if node.op_type in ADDENDS and node.name in quantized)
    return tuple(node.name or "" for node in found if len(list(activation_inputs(node))) == 2)
