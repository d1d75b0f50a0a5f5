"""The same graph with inner tensors as outputs, to be looked at while the model runs."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from calib8.errors import ModelError


def tapped_model(model: ir.Model, tensors: Iterable[str]) -> ir.Model:
    """A copy of ``model`` whose outputs are the named computed tensors, in that order.

    Raises:
        ModelError: the graph computes no such tensor.
    """
    copy = model.clone()
    values = {value.name: value for node in copy.graph for value in node.outputs}
    copy.graph.outputs.clear()
    for name in tensors:
        if name not in values:
            raise ModelError(
                name, "the graph computes no such tensor", "Name a tensor that `calib8 inspect` lists"
            )
        copy.graph.outputs.append(values[name])
    return copy
