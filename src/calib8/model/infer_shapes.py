"""Types and sizes of all tensors: as onnx infers them, and as they follow from inputs where it does not.

onnx knows nothing of the operators of other domains, and little of some of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.errors import Calib8Error
from calib8.model.graph import CONTRIB, constant, input_at
from calib8.model.runtime import open_session
from calib8.ops.groups import QUANTIZERS
from calib8.ops.questions import is_standard
from calib8.tensors import TensorSpec


def infer_shapes(model: ir.Model) -> None:
    """Types and shapes of all tensors; what a file states where they contradict each other or itself."""
    _as_onnx_does(model)
    if sum(_forget_untrue_axes(node) for node in model.graph):
        _as_onnx_does(model)
    while sum(_complete(model, node) for node in model.graph):
        _as_onnx_does(model)


def _forget_untrue_axes(node: ir.Node) -> bool:
    """A Reshape yields as many axes as it is given sizes, whatever a file states; whether that was untrue."""
    if node.op_type != "Reshape" or not is_standard(node):
        return False
    sizes, result = input_at(node, 1), node.outputs[0]
    known = None if sizes is None or sizes.shape is None or len(sizes.shape) != 1 else sizes.shape[0]
    if not isinstance(known, int) or result.shape is None or len(result.shape) == known:
        return False
    result.shape = None
    return True


def _as_onnx_does(model: ir.Model) -> None:
    """The pass reports a contradiction as a logged warning with a traceback; here it is no news.

    Quantizers of ONNX Runtime's domain, which codes of 16 bits have in older operator sets, count as the
    standard's: each of them would end the inference, and the next one begin with it.
    """
    quantizers = [node for node in model.graph if node.domain == CONTRIB and node.op_type in QUANTIZERS]
    logger = logging.getLogger(ir_passes.ShapeInferencePass.__module__)
    level = logger.level
    logger.setLevel(logging.ERROR)
    for node in quantizers:
        node.domain = ""
    try:
        ir_passes.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    finally:
        logger.setLevel(level)
        for node in quantizers:
            node.domain = CONTRIB


def _complete(model: ir.Model, node: ir.Node) -> bool:
    """Fills in what is missing of a node's results; whether something was found."""
    if all(_is_concrete(value) for value in node.outputs if value.name):
        return False
    if any(value is not None and (value.shape is None or value.dtype is None) for value in node.inputs):
        return False
    if node.domain == CONTRIB:
        found = _as_the_runtime_does(model, node)
    elif is_standard(node) and node.op_type in SIZES:
        found = [(_known_input(node).dtype, SIZES[node.op_type](node))]
    else:
        return False
    both = zip(node.outputs, found, strict=False)
    return sum(_take(value, dtype, shape) for value, (dtype, shape) in both) > 0


def _is_concrete(value: ir.Value) -> bool:
    return value.dtype is not None and value.shape is not None and value.shape.is_static()


def _take(value: ir.Value, dtype: ir.DataType | None, shape: ir.Shape | None) -> bool:
    """The value learns what it lacks; whether there was something."""
    before = value.dtype, value.shape
    if value.dtype is None and dtype is not None:
        value.dtype = dtype
    if value.shape is None:
        value.shape = shape
    elif shape is not None and len(shape) == len(value.shape):
        sizes = zip(value.shape, shape, strict=True)
        value.shape = ir.Shape([new if isinstance(new, int) else old for old, new in sizes])
    return before != (value.dtype, value.shape)


def _known_input(node: ir.Node) -> ir.Value:
    value = node.inputs[0]
    assert value is not None
    return value


def _as_its_input(node: ir.Node) -> ir.Shape | None:
    return _known_input(node).shape


def _unpooled(node: ir.Node) -> ir.Shape | None:
    """MaxUnpool(x, indices, sizes) has these sizes."""
    sizes = constant(input_at(node, 2))
    return None if sizes is None else ir.Shape([int(size) for size in sizes])


def _compressed(node: ir.Node) -> ir.Shape | None:
    """Compress(x, condition) keeps as many entries of its axis as the condition says."""
    condition, shape = constant(input_at(node, 1)), _as_its_input(node)
    if condition is None or shape is None:
        return None
    kept, axis = int(np.count_nonzero(condition)), node.attributes.get("axis")
    if axis is None:
        return ir.Shape([kept])
    place = axis.as_int() % len(shape)
    return ir.Shape([kept if at == place else size for at, size in enumerate(shape)])


SIZES: Final[Mapping[str, Callable[[ir.Node], ir.Shape | None]]] = {
    "GroupNormalization": _as_its_input,
    "MeanVarianceNormalization": _as_its_input,
    "RMSNormalization": _as_its_input,
    "MaxUnpool": _unpooled,
    "Compress": _compressed,
}
"""Ops that onnx does not infer → sizes of the first result."""


def _as_the_runtime_does(model: ir.Model, node: ir.Node) -> list[tuple[ir.DataType | None, ir.Shape | None]]:
    """Type and shape of every result, as ONNX Runtime infers them for a model of this node alone."""
    try:
        specs = open_session(_alone(model, node), threads=1).outputs
    except Calib8Error:
        return []
    found = {spec.name: spec for spec in specs}
    return [_told(found.get(value.name or "")) for value in node.outputs]


def _told(spec: TensorSpec | None) -> tuple[ir.DataType | None, ir.Shape | None]:
    if spec is None or spec.dtype == np.dtype(object):
        return None, None
    return ir.DataType.from_numpy(spec.dtype), None if spec.shape is None else ir.Shape(spec.shape)


def _alone(model: ir.Model, node: ir.Node) -> ir.Model:
    """A model of one node; it is fed what the node reads, but for constants."""
    read = {
        value: ir.Value(name=value.name, type=value.type, shape=value.shape, const_value=value.const_value)
        for value in node.inputs
        if value is not None
    }
    constants = [own for value, own in read.items() if constant(value) is not None]
    own_node = ir.Node(
        node.domain,
        node.op_type,
        [None if value is None else read[value] for value in node.inputs],
        list(node.attributes.values()),
        outputs=[ir.Value(name=value.name) for value in node.outputs],
        name="alone",
    )
    graph = ir.Graph(
        [value for value in read.values() if value not in constants],
        [value for value in own_node.outputs if value.name],
        nodes=[own_node],
        initializers=constants,
        opset_imports={**model.opset_imports, node.domain: 1},
        name="alone",
    )
    return ir.Model(graph, ir_version=model.ir_version)


def with_input_shapes(model: ir.Model, shapes: Mapping[str, Sequence[int | ir.SymbolicDim]]) -> ir.Model:
    """A copy whose inputs have these shapes, by name, and all other shapes inferred from them."""
    copy = model.clone()
    for value in copy.graph.inputs:
        if value.name in shapes:
            value.shape = ir.Shape(shapes[value.name or ""])
    for node in copy.graph:
        for value in node.outputs:
            value.shape = None
    infer_shapes(copy)
    return copy
