"""Mean per channel of what a layer makes of its input with other weights and without a bias, as ONNX nodes.

    x → layer(W') → mean over pixels           a 1×1 layer:   x → mean over pixels → layer(W')

The layer keeps its attributes: padding, stride, groups and transposition are those of the model. With a
plain 1×1 layer the mean goes first, which is the same and costs next to nothing.

Behind some functions most values are settled, such as those of a Sigmoid far from 0: what is added to them
changes nothing. There places count by the square of the slope, g = (f(y + 1/2) − f(y − 1/2))², y in FP32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import Names, ints_attribute, sole_consumer
from calib8.ops.groups import FUNCTIONS, LIMITED, UNARY_OPS
from calib8.ops.questions import is_convolution
from calib8.repair.coded_layers import CodedLayer, Doubles, Floats

SETTLING: Final = LIMITED.keys() & UNARY_OPS & FUNCTIONS
"""Functions that end at a limit on either side."""


def append_mean(names: Names, layer: ir.Node, source: ir.Value, weight: Floats) -> ir.Value:
    """Adds a copy of ``layer`` with other weights, and the mean of its output over pixels.

    Args:
        names: of the graph to add to.
        layer: Conv, ConvTranspose or Gemm; it need not be of that graph.
        source: the input of the copy.
        weight: in the layer's own layout.

    Returns:
        float32 [N, channels, 1, …], of a Gemm [N, channels].
    """
    constant = names.constant("calib8/weight", weight)
    attributes = list(layer.attributes.values())
    if not is_convolution(layer):
        return append(names, layer.op_type, [source, constant], attributes)
    if _passes_means(layer, weight):
        mean = append(names, "GlobalAveragePool", [source])
        return append(names, layer.op_type, [mean, constant], attributes)
    output = append(names, layer.op_type, [source, constant], attributes)
    return append(names, "GlobalAveragePool", [output])


def append(
    names: Names, op_type: str, inputs: Sequence[ir.Value], attributes: Sequence[ir.Attr] = ()
) -> ir.Value:
    """The float32 output of a new node at the end of a graph."""
    node = ir.Node("", op_type, inputs, attributes, name=names.node(f"calib8/{op_type}"))
    node.outputs[0].name = names.value(f"{node.name}/output")
    node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    names.graph.append(node)
    return node.outputs[0]


def _passes_means(layer: ir.Node, weight: Floats) -> bool:
    """Whether every pixel goes through the layer once, by itself."""
    return (
        all(size == 1 for size in weight.shape[2:])
        and all(stride == 1 for stride in ints_attribute(layer, "strides", ()))
        and not any(ints_attribute(layer, "pads", ()))
        and not any(ints_attribute(layer, "output_padding", ()))
        and "output_shape" not in layer.attributes
    )


def settling_function(layer: ir.Node) -> ir.Node | None:
    """The function of ``SETTLING`` that alone reads what a layer yields; None where there is none."""
    reader = sole_consumer(layer.outputs[0])
    return reader if reader is not None and reader.op_type in SETTLING else None


def weight_error_model(prepared: ir.Model, layers: Sequence[CodedLayer]) -> ir.Model:
    """A copy of the float model with outputs per layer: the mean of ``(W_q − W) ∗ x``, of a layer before a
    settling function that of ``g · ((W_q − W) ∗ x)`` and behind it that of g."""
    model = prepared.clone()
    names = Names(model.graph)
    nodes = {node.name: node for node in model.graph}
    outputs = []
    for layer in layers:
        source, function = nodes[layer.name].inputs[0], settling_function(nodes[layer.name])
        assert source is not None
        if function is None:
            outputs.append(append_mean(names, layer.node, source, layer.weight_error))
        else:
            outputs += _weighed_means(names, nodes[layer.name], function, layer.weight_error)
    return with_outputs(model, outputs)


def _weighed_means(names: Names, layer: ir.Node, function: ir.Node, error: Floats) -> list[ir.Value]:
    """Means of g times the error, and of g."""
    result = layer.outputs[0]
    half = names.constant("calib8/half", np.asarray(0.5, np.float32))
    ends = [append(names, op, [result, half]) for op in ("Add", "Sub")]
    above, below = (
        append(names, function.op_type, [end], list(function.attributes.values())) for end in ends
    )
    slope = append(names, "Sub", [above, below])
    weights = append(names, "Mul", [slope, slope])
    source = layer.inputs[0]
    assert source is not None
    constant = names.constant("calib8/weight", error)
    errors = append(names, layer.op_type, [source, constant], list(layer.attributes.values()))
    weighed = append(names, "Mul", [weights, errors])
    if not is_convolution(layer):
        return [weighed, weights]
    return [append(names, "GlobalAveragePool", [value]) for value in (weighed, weights)]


def output_model(prepared: ir.Model, layers: Sequence[CodedLayer]) -> ir.Model:
    """A copy of the float model with one output per layer: the mean of what the layer yields."""
    model = prepared.clone()
    names = Names(model.graph)
    nodes = {node.name: node for node in model.graph}
    outputs = []
    for layer in layers:
        value = nodes[layer.name].outputs[0]
        pooled = layer.layer.windows
        outputs.append(append(names, "GlobalAveragePool", [value]) if pooled else value)
    return with_outputs(model, outputs)


def with_outputs(model: ir.Model, outputs: Sequence[ir.Value]) -> ir.Model:
    """``model`` itself with other outputs, and without what none of them needs."""
    model.graph.outputs.clear()
    model.graph.outputs.extend(outputs)
    ir_passes.RemoveUnusedNodesPass()(model)
    return model


def layer_model(layer: CodedLayer, weight: Floats) -> ir.Model:
    """A layer alone: input ``x`` of any size, output the mean of what it makes of it with ``weight``."""
    source = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([None] * weight.ndim))
    graph = ir.Graph([source], [], nodes=[], opset_imports={"": 17}, name=layer.name)
    result = append_mean(Names(graph), layer.node, source, weight)
    graph.outputs.append(result)
    return ir.Model(graph, ir_version=8)


def channel_means(array: npt.NDArray[Any]) -> Doubles:
    """Mean over all axes but axis 1, the channels': float64 [channels]."""
    axes = tuple(axis for axis in range(array.ndim) if axis != 1)
    return np.asarray(array.astype(np.float64).mean(axis=axes))
