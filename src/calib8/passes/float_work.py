"""How much of the work of a quantized network is still done in float, and by which layers.

share of a layer = its multiply-accumulates / those of all layers        for the sizes of one sample
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calib8.passes.place import Placement


@dataclass(frozen=True)
class FloatLayer:
    """A layer in float.

    Attributes:
        node, op_type: its name and op.
        share: of the multiply-accumulates of the network, 0 … 1.
        reason: why it is in float.
    """

    node: str
    op_type: str
    share: float
    reason: str


@dataclass(frozen=True)
class FloatWork:
    """What is computed in float.

    Attributes:
        share: of the multiply-accumulates, 0 … 1; 0 where there are none.
        layers: those that have some, the largest first.
    """

    share: float
    layers: tuple[FloatLayer, ...]


def float_work(counted: Mapping[str, int], placement: Placement) -> FloatWork:
    """What is computed in float.

    Args:
        counted: node → multiply-accumulates, see ``calib8.model.work.node_macs``.
        placement: what was decided of every node.
    """
    total = sum(counted.values())
    floats = [
        FloatLayer(one.node, one.op_type, counted[one.node] / total, one.reason)
        for one in placement.decisions
        if not one.quantized and counted.get(one.node, 0)
    ]
    layers = tuple(sorted(floats, key=lambda one: (-one.share, one.node)))
    return FloatWork(sum(one.share for one in layers), layers)
