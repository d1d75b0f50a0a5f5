"""Float ops without an integer form, written as ops that have one."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.model.graph import constant, rank
from calib8.passes.fold_affine import batch_norm_affine, unique_name


def batch_norm_to_conv(model: ir.Model) -> int:
    """``BatchNormalization(x) → Conv(x, k, d)``, depthwise 1×1, where no layer before it could take it.

    Exact up to float rounding. With one weight per channel the integer weights are ±127 and lose nothing,
    whereas a stand-alone scale would have to share one range over all channels.

    Returns:
        Number of nodes rewritten; BatchNormalizations on values of unknown or other rank than 3 … 5 stay.
    """
    rewritten = 0
    for node in list(model.graph):
        axes = rank(node.inputs[0]) if node.op_type == "BatchNormalization" else None
        affine = batch_norm_affine(node) if axes in (3, 4, 5) else None
        if affine is None or axes is None:
            continue
        channels = affine.k.size
        weight = affine.k.reshape(channels, 1, *[1] * (axes - 2))
        conv = ir.node(
            "Conv",
            [node.inputs[0], _new(model.graph, f"{node.name}.weight", weight), _new(model.graph, f"{node.name}.bias", affine.d)],
            {"group": channels, "kernel_shape": [1] * (axes - 2)},
            name=node.name,
        )
        _replace(model.graph, node, conv)
        rewritten += 1
    return rewritten


def divide_to_multiply(model: ir.Model) -> int:
    """``x / c → x · (1/c)`` for a constant c without zeros.

    Returns:
        Number of nodes rewritten.
    """
    rewritten = 0
    for node in list(model.graph):
        divisor = constant(node.inputs[1]) if node.op_type == "Div" else None
        if divisor is None or divisor.dtype != np.float32 or not np.all(divisor):
            continue
        factor = _new(model.graph, f"{node.name}.reciprocal", 1.0 / divisor.astype(np.float64))
        _replace(model.graph, node, ir.node("Mul", [node.inputs[0], factor], name=node.name))
        rewritten += 1
    return rewritten


def _new(graph: ir.Graph, base: str, array: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> ir.Value:
    """A new float32 initializer."""
    name = unique_name(graph, base)
    tensor = ir.tensor(np.ascontiguousarray(array, dtype=np.float32), name=name)
    value = ir.Value(name=name, shape=tensor.shape, type=ir.TensorType(ir.DataType.FLOAT), const_value=tensor)
    graph.register_initializer(value)
    return value


def _replace(graph: ir.Graph, old: ir.Node, new: ir.Node) -> None:
    """``new`` stands where ``old`` stood and yields its value under its name."""
    kept, gone = new.outputs[0], old.outputs[0]
    name = gone.name
    kept.shape, kept.type = gone.shape, gone.type
    graph.insert_before(old, new)
    gone.replace_all_uses_with(kept, replace_graph_outputs=True)
    graph.remove(old, safe=True)
    kept.name = name
