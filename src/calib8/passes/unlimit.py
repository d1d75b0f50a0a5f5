"""A ReLU6 becomes a Relu where calibration has shown that its upper limit does nothing.

Clip(x, 0, limit) → Relu(x)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from calib8.passes.place import clip_limits


def remove_unreached_limits(model: ir.Model, largest: Mapping[str, float]) -> tuple[str, ...]:
    """Turns Clips from 0 into Relus, in place, where their output was always below their limit.

    Args:
        model: a prepared float graph.
        largest: tensor → largest value seen; Clips whose output is not in it stay.

    Returns:
        Names of the outputs of the nodes that changed, in graph order.
    """
    return _replace(model, largest)


def remove_limits(model: ir.Model) -> tuple[str, ...]:
    """Turns every Clip from 0 into a Relu, in place: another function wherever a limit was reached.

    Returns:
        Names of the outputs of the nodes that changed, in graph order.
    """
    names = {node.outputs[0].name or "" for node in model.graph if node.op_type == "Clip"}
    return _replace(model, dict.fromkeys(names, -np.inf))


def _replace(model: ir.Model, largest: Mapping[str, float]) -> tuple[str, ...]:
    found = []
    for node in model.graph:
        name = node.outputs[0].name or ""
        if node.op_type != "Clip" or name not in largest:
            continue
        low, high = clip_limits(node)
        if low == 0.0 and largest[name] < high:
            node.op_type = "Relu"
            node.resize_inputs(1)
            found.append(name)
    return tuple(found)
