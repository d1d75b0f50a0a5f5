"""Q and DQ on a tensor, and a second pair behind the first for readers that need other codes.

x → Q(s_1) → DQ → Q(s) → DQ → Concat                         one scale around a Concat
x → Q(int16) → DQ → Q(uint8) → DQ → GlobalAveragePool        what averages a spot reads it in 8 bits
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from calib8.model.graph import Names, is_activation, known_sizes
from calib8.ops.questions import dequantizes, joins
from calib8.passes.place import Placement
from calib8.passes.spots import AVERAGING
from calib8.qparams import QParams, QuantSpec, activation_qparams
from calib8.scheme import QuantScheme
from calib8.table import Range


def quantizer_pair(
    names: Names, name: str, source: ir.Value, qparams: QParams, spec: QuantSpec, tag: str = ""
) -> tuple[ir.Node, ir.Node]:
    """QuantizeLinear and DequantizeLinear with one scale and zero point."""
    scale = names.constant(f"{name}{tag}/scale", np.asarray(qparams.scale, np.float32))
    point = names.constant(f"{name}{tag}/zero_point", np.asarray(qparams.zero_point, spec.dtype))
    node_name = names.node(f"{name}{tag}/QuantizeLinear")
    first = ir.node("QuantizeLinear", [source, scale, point], name=node_name)
    first.outputs[0].name = names.value(f"{name}{tag}/quantized")
    first.outputs[0].dtype = ir.DataType.from_numpy(spec.dtype)
    node_name = names.node(f"{name}{tag}/DequantizeLinear")
    second = ir.node("DequantizeLinear", [first.outputs[0], scale, point], name=node_name)
    second.outputs[0].name = names.value(f"{name}{tag}/dequantized")
    second.outputs[0].dtype = ir.DataType.FLOAT
    for output in (first.outputs[0], second.outputs[0]):
        output.shape = known_sizes(source.shape)
    return first, second


def quantize_value(
    names: Names,
    value: ir.Value,
    qparams: QParams,
    readers: frozenset[str] | None,
    spec: QuantSpec,
) -> None:
    """Q/DQ behind ``value`` for the given readers (all of them, outputs included, where None)."""
    graph, name = names.graph, value.name or ""
    uses = [use for use in value.uses() if readers is None or use.node.name in readers]
    becomes_output = readers is None and value.is_graph_output() and not value.is_graph_input()
    quantize_node, dequantize_node = quantizer_pair(names, name, value, qparams, spec)
    result = dequantize_node.outputs[0]
    anchor = value.producer()
    if anchor is None:
        first = next(iter(graph))
        graph.insert_before(first, [quantize_node, dequantize_node])
    else:
        graph.insert_after(anchor, [quantize_node, dequantize_node])
    for use in uses:
        use.node.replace_input_with(use.idx, result)
    if becomes_output:
        value.name = names.value(f"{name}/float")
        result.name, result.shape = name, value.shape
        value.shape = known_sizes(value.shape)
        for index, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[index] = result


def requantize_for_concat(
    names: Names, qparams: dict[str, QParams], tensors: Mapping[ir.Value, str], scheme: QuantScheme
) -> None:
    """Where a target wants one scale around Concat, an input that cannot share it is coded once more.

    ``x → Q(s_1) → DQ → Concat``   becomes   ``x → Q(s_1) → DQ → Q(s) → DQ → Concat``

    ``tensors`` has the name that every value of the prepared graph had there; other Concats join weights.
    """
    if "Concat" not in scheme.shared_scale_ops:
        return
    for node in [node for node in names.graph if joins(node) and node.outputs[0] in tensors]:
        wanted = qparams.get(tensors[node.outputs[0]])
        for index, value in enumerate(node.inputs):
            if wanted is None or value is None or not is_activation(value):
                continue
            own = tensors.get(_before_codes(value), "")
            if own in qparams and qparams[own] != wanted:
                pair = quantizer_pair(
                    names, own, value, wanted, scheme.activations, f"/to_{node.name}_{index}"
                )
                names.graph.insert_before(node, pair)
                node.replace_input_with(index, pair[1].outputs[0])


def narrow_for_means(
    names: Names,
    placement: Placement,
    narrow: Mapping[str, Range],
    tensors: Mapping[ir.Value, str],
    scheme: QuantScheme,
) -> None:
    """What averages a spot reads it in 8 bits: ``x → Q(int16) → DQ → Q(uint8) → DQ → GlobalAveragePool``."""
    quantized = placement.quantized_nodes() if narrow else frozenset()
    for node in [node for node in names.graph if node.name in quantized and node.op_type in AVERAGING]:
        value = node.inputs[0]
        own = "" if value is None else tensors.get(_before_codes(value), "")
        if value is not None and own in narrow:
            qparams = activation_qparams(narrow[own].min, narrow[own].max, scheme.activations)
            pair = quantizer_pair(names, own, value, qparams, scheme.activations, f"/to_{node.name}")
            names.graph.insert_before(node, pair)
            node.replace_input_with(0, pair[1].outputs[0])


def _before_codes(value: ir.Value) -> ir.Value:
    """The value that a dequantized one was before Q and DQ, any other value itself."""
    producer = value.producer()
    if producer is None or not dequantizes(producer):
        return value
    source = producer.inputs[0]
    origin = None if source is None else source.producer()
    return value if origin is None or origin.inputs[0] is None else origin.inputs[0]
