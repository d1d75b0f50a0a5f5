"""Float ops without an integer form, written as ops that have one."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from calib8.model.graph import (
    add_constant,
    constant,
    input_at,
    int_attribute,
    ints_attribute,
    put_in_place,
    rank,
    reduced_axes,
    scalar_constant,
    unique_name,
    unique_node_name,
)
from calib8.model.padding import auto_pad
from calib8.ops.groups import FROM_ZERO
from calib8.ops.questions import clips, divides, normalizes, rectifies
from calib8.passes.fold_affine import batch_norm_affine
from calib8.passes.row_chains import row_chain


def batch_norm_to_conv(model: ir.Model) -> int:
    """``BatchNormalization(x) → Conv(x, k, d)``, depthwise 1×1, where no layer before it could take it.

    Exact up to float rounding. With one weight per channel the integer weights are ±127 and lose nothing,
    whereas a stand-alone scale would have to share one range over all channels.

    Returns:
        Number of nodes rewritten; BatchNormalizations on values of unknown or other rank than 3 … 5 stay.
    """
    rewritten = 0
    for node in list(model.graph):
        axes = rank(node.inputs[0]) if normalizes(node) else None
        affine = batch_norm_affine(node) if axes in (3, 4, 5) else None
        if affine is None or axes is None:
            continue
        channels = affine.k.size
        weight = affine.k.reshape(channels, 1, *[1] * (axes - 2))
        conv = ir.node(
            "Conv",
            [
                node.inputs[0],
                add_constant(model.graph, f"{node.name}.weight", weight.astype(np.float32)),
                add_constant(model.graph, f"{node.name}.bias", affine.d.astype(np.float32)),
            ],
            {"group": channels, "kernel_shape": [1] * (axes - 2)},
            name=node.name,
        )
        put_in_place(model.graph, node, conv)
        rewritten += 1
    return rewritten


def divide_to_multiply(model: ir.Model) -> int:
    """``x / c → x · (1/c)`` for a constant c without zeros.

    Returns:
        Number of nodes rewritten.
    """
    rewritten = 0
    for node in list(model.graph):
        divisor = constant(node.inputs[1]) if divides(node) else None
        if divisor is None or divisor.dtype != np.float32 or not np.all(divisor):
            continue
        reciprocal = (1.0 / divisor.astype(np.float64)).astype(np.float32)
        factor = add_constant(model.graph, f"{node.name}.reciprocal", reciprocal)
        put_in_place(model.graph, node, ir.node("Mul", [node.inputs[0], factor], name=node.name))
        rewritten += 1
    return rewritten


def sum_to_add(model: ir.Model) -> int:
    """``Sum(a, b, c) → Add(Add(a, b), c)``; Caffe2 and Caffe exporters write residual additions so.

    Returns:
        Number of nodes rewritten.
    """
    rewritten = 0
    for node in list(model.graph):
        terms = [value for value in node.inputs if value is not None]
        if node.op_type != "Sum" or len(terms) < 2:
            continue
        total = terms[0]
        for index, term in enumerate(terms[1:-1], start=1):
            partial = ir.node("Add", [total, term], name=f"{node.name}_{index}")
            partial.outputs[0].name = unique_name(model.graph, f"{node.outputs[0].name}_{index}")
            partial.outputs[0].type = node.outputs[0].type
            model.graph.insert_before(node, partial)
            total = partial.outputs[0]
        put_in_place(model.graph, node, ir.node("Add", [total, terms[-1]], name=node.name))
        rewritten += 1
    return rewritten


def mean_to_global_pool(model: ir.Model) -> int:
    """``ReduceMean(x, all spatial axes, keepdims) → GlobalAveragePool(x)``, which runtimes have in integers.

    Without ``keepdims`` a Flatten follows. Values of rank 3 … 5 only. Means of squares by which rows are
    divided stay what they are: a target may compute them together with what is around them.

    Returns:
        Number of nodes rewritten.
    """
    rewritten = 0
    for node in list(model.graph):
        axes = rank(node.inputs[0]) if node.op_type == "ReduceMean" else None
        if axes not in (3, 4, 5) or axes is None or reduced_axes(node, axes) != set(range(2, axes)):
            continue
        if _scales_rows(node):
            continue
        pool = ir.node("GlobalAveragePool", [node.inputs[0]], name=node.name)
        if int_attribute(node, "keepdims", 1):
            put_in_place(model.graph, node, pool)
        else:
            pool.outputs[0].name = unique_name(model.graph, f"{node.outputs[0].name}_pooled")
            pool.outputs[0].type = node.outputs[0].type
            model.graph.insert_before(node, pool)
            put_in_place(
                model.graph, node, ir.node("Flatten", [pool.outputs[0]], name=f"{node.name}_flatten")
            )
        rewritten += 1
    return rewritten


def pad_before_average_pool(model: ir.Model) -> int:
    """``AveragePool(x, pads, count_include_pad=1) → AveragePool(Pad(x))`` where x may be negative.

    OpenVINO pads codes with 0, which is the real 0 only if the zero point is 0; a Pad of its own is padded
    right by every runtime. Values that cannot be negative have the zero point 0 there, and the pool stays.

    Returns:
        Number of nodes rewritten; pools of unknown rank, with rounding up or automatic padding stay.
    """
    rewritten = 0
    for node in list(model.graph):
        axes = rank(node.inputs[0]) if node.op_type == "AveragePool" else None
        if axes is None or not int_attribute(node, "count_include_pad", 0):
            continue
        pads = ints_attribute(node, "pads", ())
        if (
            not any(pads)
            or auto_pad(node) != "NOTSET"
            or int_attribute(node, "ceil_mode", 0)
            or _not_negative(node.inputs[0])
        ):
            continue
        spatial = axes - 2
        amounts = np.array([0, 0, *pads[:spatial], 0, 0, *pads[spatial:]], np.int64)
        pad = ir.node(
            "Pad",
            [node.inputs[0], add_constant(model.graph, f"{node.name}.pads", amounts)],
            name=unique_node_name(model.graph, f"{node.name}_pad"),
        )
        pad.outputs[0].name = unique_name(model.graph, f"{node.outputs[0].name}_padded")
        pad.outputs[0].type = node.outputs[0].type
        model.graph.insert_before(node, pad)
        node.replace_input_with(0, pad.outputs[0])
        for name in ("pads", "count_include_pad"):
            node.attributes.pop(name, None)
        rewritten += 1
    return rewritten


def _scales_rows(mean: ir.Node) -> bool:
    """Whether a mean is part of an RMSNormalization spelled out."""
    square = None if mean.inputs[0] is None else mean.inputs[0].producer()
    chain = None if square is None else row_chain(square)
    return chain is not None and mean in chain.nodes


def _not_negative(value: ir.Value | None) -> bool:
    """A Relu, a Sigmoid or a Clip from 0 on, also behind pools and joined by Concat."""
    node = None if value is None else value.producer()
    if node is None:
        return False
    if clips(node):
        low = scalar_constant(input_at(node, 1))
        return low is not None and low >= 0.0
    if node.op_type in ("Concat", "MaxPool", "AveragePool"):
        return all(_not_negative(source) for source in node.inputs)
    return rectifies(node) or node.op_type in FROM_ZERO
