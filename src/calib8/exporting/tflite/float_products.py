"""Float nodes that multiply matrices, reduce axes or choose parts: Gemm, MatMul, means, Split, Gather."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from calib8.errors import NoFormError
from calib8.exporting.tflite.float_node import ACTIVATION, Node, Write


def gemm(node: Node) -> None:
    """FULLY_CONNECTED: weights [outputs, inputs], factors in them."""
    weight = node.constant(1, "the weights of a Gemm")
    bias = node.constant(2, "the biases of a Gemm")
    if node.attributes.get("transA", 0) or len(node.shape(0)) != 2:
        raise NoFormError("a Gemm whose input is turned")
    if not node.attributes.get("transB", 0):
        weight = weight.T
    rows = np.zeros(weight.shape[0]) if bias is None else np.asarray(bias).reshape(-1)
    rows = np.broadcast_to(rows, weight.shape[:1]) if rows.size == 1 else rows
    if rows.shape != weight.shape[:1]:
        raise NoFormError(f"a Gemm with a bias of {list(np.shape(bias))}")
    weight = weight * np.float32(node.attributes.get("alpha", 1.0))
    _dense(node, weight, rows * np.float32(node.attributes.get("beta", 1.0)))


def mat_mul(node: Node) -> None:
    """FULLY_CONNECTED of a constant matrix on the right, else BATCH_MATMUL."""
    weight = node.constants[1]
    if weight is not None and weight.ndim == 2 and len(node.shape(0)) > 1:
        _dense(node, weight.T, np.zeros(weight.shape[1]))
        return
    if min(len(node.shape(place)) for place in (0, 1)) < 2:
        raise NoFormError("a MatMul of a list")
    broadcast = node.shape(0)[:-2] != node.shape(1)[:-2]
    version = 3 if broadcast else 1
    node.builder.operator("BATCH_MATMUL", node.given(), node.outputs, version, adj_x=False, adj_y=False)


def _dense(node: Node, weight: Any, bias: Any) -> None:
    keeps = len(node.out()) != 2
    inputs = [node.given()[0], node.fixed("weight", weight), node.fixed("bias", bias)]
    node.builder.operator(
        "FULLY_CONNECTED", inputs, node.outputs, 5 if keeps else 1, keep_num_dims=keeps, **ACTIVATION
    )


def _reduced_axes(node: Node) -> list[int]:
    """Constant axes of a reduction: an input, or the attribute of older operator sets."""
    listed = node.constant(1, "the axes of a reduction")
    axes = node.attributes.get("axes") if listed is None else np.asarray(listed).reshape(-1).tolist()
    rank = len(node.shape(0))
    if axes is None or len(axes) == 0:
        if node.attributes.get("noop_with_empty_axes", 0):
            raise NoFormError("a reduction over no axes")
        axes = range(rank)
    return sorted(axis % rank for axis in axes)


def reduction(op: str) -> Write:
    """Over constant axes."""

    def write(node: Node) -> None:
        places = node.builder.ints("axes", _reduced_axes(node))
        keeps = bool(node.attributes.get("keepdims", 1))
        node.builder.operator(op, [node.given()[0], places], node.outputs, 1, keep_dims=keeps)

    return write


def length(node: Node) -> None:
    """ReduceL2: the root of the sum of squares."""
    given, builder = node.given()[0], node.builder
    places, keeps = builder.ints("axes", _reduced_axes(node)), bool(node.attributes.get("keepdims", 1))
    square, total = node.between("square", node.shape(0)), node.between("sum", tuple(node.out()))
    builder.operator("MUL", [given, given], [square], 1, **ACTIVATION)
    builder.operator("SUM", [square, places], [total], 1, keep_dims=keeps)
    builder.operator("SQRT", [total], node.outputs, 1)


def split(node: Node) -> None:
    """SPLIT_V: the sizes of the parts are those of the outputs."""
    axis = int(node.attributes.get("axis", 0)) % len(node.shape(0))
    sizes = [node.builder.tensors[place].shape[axis] for place in node.outputs]
    lists = [node.builder.ints("sizes", sizes), node.builder.constant("axis", np.array(axis, np.int32))]
    node.builder.operator("SPLIT_V", [node.given()[0], *lists], node.outputs, 1, num_splits=len(sizes))


def gather(node: Node) -> None:
    """GATHER with constant indices."""
    rank = len(node.shape(0))
    axis = int(node.attributes.get("axis", 0)) % rank
    indices = np.asarray(node.constant(1, "the indices of a Gather")) % node.shape(0)[axis]
    places = node.builder.constant("indices", indices.astype(np.int32))
    node.builder.operator("GATHER", [node.given()[0], places], node.outputs, 1, axis=axis, batch_dims=0)


def several(op: str) -> Write:
    """An operator of two inputs, one after the other."""

    def write(node: Node) -> None:
        total, *others = node.given()
        if not others:
            raise NoFormError(f"a {op} of one tensor")
        for number, place in enumerate(others):
            shapes = (node.builder.tensors[each].shape for each in (total, place))
            last = number == len(others) - 1
            target = node.outputs[0] if last else node.between("larger", np.broadcast_shapes(*shapes))
            node.builder.operator(op, [total, place], [target], 1)
            total = target

    return write


def layer_norm(node: Node) -> None:
    """Mean and spread over the last axes, then factors and offsets."""
    if len(node.outputs) > 1:
        raise NoFormError("a LayerNormalization that gives its mean or spread")
    shape = node.shape(0)
    first = int(node.attributes.get("axis", -1)) % len(shape)
    axes, short = (
        node.builder.ints("axes", range(first, len(shape))),
        (*shape[:first], *[1] * (len(shape) - first)),
    )
    x, builder = node.given()[0], node.builder
    mean, centred, square, spread, eased, inverse = (
        node.between(tag, sizes)
        for tag, sizes in (("mean", short), ("centred", shape), ("square", shape), ("spread", short),
                           ("eased", short), ("inverse", short))
    )  # fmt: skip
    builder.operator("MEAN", [x, axes], [mean], 1, keep_dims=True)
    builder.operator("SUB", [x, mean], [centred], 1, pot_scale_int16=False, **ACTIVATION)
    builder.operator("MUL", [centred, centred], [square], 1, **ACTIVATION)
    builder.operator("MEAN", [square, axes], [spread], 1, keep_dims=True)
    least = node.fixed("epsilon", [node.attributes.get("epsilon", 1e-5)])
    builder.operator("ADD", [spread, least], [eased], 1, pot_scale_int16=False, **ACTIVATION)
    builder.operator("RSQRT", [eased], [inverse], 1)
    factors, offsets = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    result = node.outputs[0] if factors is None else node.between("even", shape)
    builder.operator("MUL", [centred, inverse], [result], 1, **ACTIVATION)
    if factors is not None:
        scaled = node.outputs[0] if offsets is None else node.between("scaled", shape)
        builder.operator("MUL", [result, factors], [scaled], 1, **ACTIVATION)
        if offsets is not None:
            builder.operator("ADD", [scaled, offsets], node.outputs, 1, pot_scale_int16=False, **ACTIVATION)


WRITE: Final[Mapping[str, Write]] = {
    "Gather": gather,
    "Gemm": gemm,
    "LayerNormalization": layer_norm,
    "MatMul": mat_mul,
    "Max": several("MAXIMUM"),
    "Min": several("MINIMUM"),
    "ReduceL2": length,
    "ReduceMax": reduction("REDUCE_MAX"),
    "ReduceMean": reduction("MEAN"),
    "ReduceMin": reduction("REDUCE_MIN"),
    "ReduceSum": reduction("SUM"),
    "Split": split,
}
"""ONNX operator → what adds its float32 operators."""
