"""A ReLU6 becomes a Relu where calibration has shown that its upper limit does nothing.

Clip(x, 0, limit) → Relu(x)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx_ir as ir

from calib8.ops.questions import clips
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


def remove_limits(model: ir.Model, outputs: Collection[str]) -> tuple[str, ...]:
    """Turns Clips from 0 into Relus, in place: another function wherever a limit was reached.

    Args:
        model: a prepared float graph.
        outputs: names of the outputs of the Clips that are meant.

    Returns:
        Names of the outputs of the nodes that changed, in graph order.
    """
    return _replace(model, dict.fromkeys(outputs, -np.inf))


def _replace(model: ir.Model, largest: Mapping[str, float]) -> tuple[str, ...]:
    found = []
    for node in model.graph:
        name = node.outputs[0].name or ""
        if not clips(node) or name not in largest:
            continue
        low, high = clip_limits(node)
        if low == 0.0 and largest[name] < high:
            node.op_type = "Relu"
            node.resize_inputs(1)
            found.append(name)
    return tuple(found)
