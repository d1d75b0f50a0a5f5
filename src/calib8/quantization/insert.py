"""Writes the int8 form of a prepared model: Q/DQ on activations, integer weights and biases behind DQ.

    t → QuantizeLinear → DequantizeLinear → readers of t
    W int8,  s_c float32[C]     → DequantizeLinear(axis) → layer      one scale s without an axis where the
    b int32, s_x·s_c float32[C] → DequantizeLinear(axis) → layer      target takes no more

An output of the graph that carries Q/DQ keeps its name; the float value before it gets ``/float`` added.
Names that are taken get a number behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.coded_array import CodedArray
from calib8.errors import ModelError
from calib8.model.additions import addition_behind
from calib8.model.graph import (
    Names,
    constant,
    input_at,
    register_constant,
    sole_consumer,
)
from calib8.model.layer import Layer
from calib8.ops.questions import clips, is_weighted, joins
from calib8.passes.place import Placement, clip_limits
from calib8.qparams import QParams, QuantSpec, activation_qparams, quantize, within_upper_limit
from calib8.quantization.contrib_cells import replace_cells
from calib8.quantization.corrections import NO_CORRECTIONS, Corrections, LayerCorrection
from calib8.quantization.recurrent_states import code_states
from calib8.quantization.recurrent_weights import quantize_recurrent_weights
from calib8.quantization.second_codes import narrow_for_means, quantize_value, requantize_for_concat
from calib8.quantization.weights import AS_IT_IS, quantize_layer
from calib8.scheme import BINARY_OPS, QuantScheme
from calib8.table import Range


@dataclass(frozen=True)
class QuantizedModel:
    """The result of ``insert_quantizers``.

    Attributes:
        model: the QDQ graph.
        qparams: tensor name → scale and zero point of its activation codes.
        float_layers: weighted layer that had to stay float after all → reason.
        dropped: layer with a correction → number of channels of which not all codes could stay.
    """

    model: ir.Model
    qparams: dict[str, QParams]
    float_layers: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)


def insert_quantizers(
    prepared: ir.Model,
    placement: Placement,
    ranges: Mapping[str, Range],
    scheme: QuantScheme,
    corrections: Corrections = NO_CORRECTIONS,
    spots: frozenset[str] = frozenset(),
    narrow: Mapping[str, Range] = MappingProxyType({}),
    cell_powers: Mapping[str, int] = MappingProxyType({}),
) -> QuantizedModel:
    """The int8 form of ``prepared``, which is not changed.

    Args:
        prepared: the float graph.
        placement: which nodes and tensors.
        ranges: final range of every tensor of ``placement.readers``.
        scheme: types of the codes and rules of the target.
        corrections: what replaces the plain rounding of constants; of layers that stay float they are not
            used.
        spots: tensors of 16-bit codes, see ``calib8.passes.spots``.
        narrow: spot → range of its copy of 8 bits, for what averages it.
        cell_powers: LSTM in integers → power of two of its cell's scale.

    Raises:
        ModelError: a correction is for a layer that the graph does not have, or for one of another shape.
    """
    _check_corrections(prepared, corrections)
    model = prepared.clone()
    tensors = {value: value.name or "" for value in _values(model)}
    qparams = activation_codes(model, placement, ranges, scheme, spots)
    if "Concat" in scheme.shared_scale_ops:
        _pass_on_to_inner_concats(model, qparams)
    names = Names(model.graph)
    float_layers, dropped = _quantize_layers(names, placement, qparams, scheme, corrections)
    in_integers = scheme.recurrent == "integer"
    if scheme.contrib_cells:
        replace_cells(names, placement.quantized_nodes(), scheme.contrib_cells)
    quantize_recurrent_weights(names, placement.quantized_nodes(), per_gate=in_integers)
    if scheme.placement == "every-op":
        _quantize_operands(names, placement, qparams, scheme, spots)
    _quantize_stacks(names, placement.products, scheme.activations)
    for value in list(_values(model)):
        if value.name in qparams:
            spec, readers = scheme.code_of(value.name, spots), placement.readers[value.name]
            quantize_value(names, value, qparams[value.name], readers, spec)
    if in_integers:
        code_states(names, placement.quantized_nodes(), qparams, tensors, scheme, cell_powers)
    requantize_for_concat(names, qparams, tensors, scheme)
    narrow_for_means(names, placement, narrow, tensors, scheme)
    ir_passes.RemoveUnusedNodesPass()(model)
    ir_passes.TopologicalSortPass()(model)
    return QuantizedModel(model, qparams, float_layers, dropped)


def _check_corrections(model: ir.Model, corrections: Corrections) -> None:
    layers = {node.name: Layer(node) for node in model.graph if is_weighted(node)}
    for name, correction in corrections.items():
        layer = layers.get(name)
        weight = None if layer is None else constant(layer.weight)
        if layer is None or weight is None:
            problem = "has a correction, and is not a layer with constant weights"
        elif correction.weight is not None and correction.weight.shape != weight.shape:
            problem = f"has weights {list(weight.shape)}, its correction {list(correction.weight.shape)}"
        elif correction.weight_scale is not None and correction.weight_scale.shape != (
            entries := weight.shape[layer.output_axis(weight.ndim)],
        ):
            problem = f"takes {entries} scales, its correction has {correction.weight_scale.size}"
        elif correction.bias is not None and correction.bias.size != layer.channels(weight.shape):
            problem = f"has {layer.channels(weight.shape)} channels, its correction {correction.bias.size}"
        else:
            continue
        raise ModelError(f"layer '{name}'", problem, "Repair the model that is to be quantized")


def activation_codes(
    model: ir.Model,
    placement: Placement,
    ranges: Mapping[str, Range],
    scheme: QuantScheme,
    spots: frozenset[str] = frozenset(),
) -> dict[str, QParams]:
    """Scale and zero point of every tensor that carries Q/DQ, those of ``spots`` of 16-bit codes.

    Behind a Clip(0, limit) the scale is rounded so that the top code does not exceed the limit: the
    quantizer then does the clipping and the runtime drops the node. Tensors that share a range keep
    sharing: the limit then holds for all of them. A range with
    negative values keeps its scale: no quantizer of it does what the Clip does, and they would be cut off.
    """
    limits: dict[Range, float] = {}
    for node in model.graph:
        name = node.outputs[0].name or ""
        if clips(node) and name in placement.readers and clip_limits(node)[1] > 0:
            limits[ranges[name]] = min(limits.get(ranges[name], np.inf), clip_limits(node)[1])
    result = {}
    for name in placement.readers:
        spec = scheme.code_of(name, spots)
        qparams = activation_qparams(ranges[name].min, ranges[name].max, spec)
        limit = limits.get(ranges[name], np.inf)
        reaches = ranges[name].min >= 0.0 and ranges[name].max <= limit < np.inf
        result[name] = within_upper_limit(qparams, spec, limit) if reaches else qparams
    return result


def _values(model: ir.Model) -> Iterable[ir.Value]:
    yield from model.graph.inputs
    for node in list(model.graph):
        yield from node.outputs


def _quantize_layers(
    names: Names,
    placement: Placement,
    qparams: Mapping[str, QParams],
    scheme: QuantScheme,
    corrections: Corrections,
) -> tuple[dict[str, str], dict[str, int]]:
    """Weights and biases of every quantized layer become integers behind DQ; what could not, see above."""
    quantized = placement.quantized_nodes()
    float_layers: dict[str, str] = {}
    dropped: dict[str, int] = {}
    for node in list(names.graph):
        if node.name not in quantized or not is_weighted(node):
            continue
        source = node.inputs[0]
        assert source is not None and source.name is not None
        try:
            correction = corrections.get(node.name or "", AS_IT_IS)
            added = added_to_sums(node, qparams) if scheme.quantize_bias else None
            channels = _quantize_layer(names, node, qparams[source.name].scale, scheme, correction, added)
        except OverflowError as error:
            float_layers[node.name or ""] = str(error)
            continue
        if channels:
            dropped[node.name or ""] = channels
    return float_layers, dropped


def added_to_sums(node: ir.Node, qparams: Mapping[str, QParams]) -> npt.NDArray[np.float32] | None:
    """What an Add adds to the sums of a layer, [output channels] or [1]: there are no codes between them."""
    value = node.outputs[0]
    if value.name in qparams or value.shape is None:
        return None
    found = addition_behind(value, Layer(node).channel_axis(len(value.shape)))
    return None if found is None or not np.all(np.isfinite(found.values)) else found.values.astype(np.float32)


def _quantize_layer(
    names: Names,
    node: ir.Node,
    input_scale: float,
    scheme: QuantScheme,
    correction: LayerCorrection,
    added: npt.NDArray[np.float32] | None,
) -> int:
    """Returns the number of channels of which not all codes of the correction could stay."""
    of, bias = Layer(node), correction.bias
    weight = of.array
    if bias is None:
        bias = _bias_vector(of, of.channels(weight.shape))
    else:
        _make_room(node)
    coded = bias if scheme.quantize_bias else None
    layer = quantize_layer(of, weight.astype(np.float32), coded, input_scale, scheme, correction, added)
    _dequantized_constant(names, node, 1, _constant_name(names, node, 1), layer.weight)
    if layer.bias is not None:
        _dequantized_constant(names, node, 2, _constant_name(names, node, 2), layer.bias)
    elif correction.bias is not None:
        node.replace_input_with(2, names.constant(_constant_name(names, node, 2), correction.bias))
    return layer.dropped


def _make_room(node: ir.Node) -> None:
    """An input for a bias where the layer has none."""
    if len(node.inputs) < 3:
        node.resize_inputs(3)


def _bias_vector(layer: Layer, channels: int) -> npt.NDArray[np.float32] | None:
    array = constant(layer.bias)
    return None if array is None else np.broadcast_to(array.astype(np.float32).reshape(-1), channels)


def _constant_name(names: Names, node: ir.Node, index: int) -> str:
    """Stem of the names for the integer form of an input: that of its float constant, numbered if shared."""
    value = input_at(node, index)
    return names.value(f"{value.name if value is not None else f'{node.name}/bias'}/codes")


def _dequantized_constant(names: Names, node: ir.Node, index: int, name: str, coded: CodedArray) -> None:
    """Input ``index`` of ``node`` becomes a DequantizeLinear of integer codes called ``name``."""
    graph = names.graph
    points = np.full(coded.scale.shape, coded.zero_point, coded.values.dtype)
    inputs = [
        register_constant(graph, name, coded.values),
        names.constant(f"{name}/scale", coded.scale),
        names.constant(f"{name}/zero_point", points),
    ]
    attributes = {} if coded.axis is None else {"axis": coded.axis}
    node_name = names.node(f"{name}/DequantizeLinear")
    dequantize = ir.node("DequantizeLinear", inputs, attributes, name=node_name)
    result = dequantize.outputs[0]
    result.name = names.value(f"{name}/dequantized")
    result.dtype, result.shape = ir.DataType.FLOAT, ir.Shape(coded.values.shape)
    graph.insert_before(node, dequantize)
    old = node.inputs[index]
    node.replace_input_with(index, result)
    if old is not None and not list(old.uses()):
        graph.initializers.pop(old.name or "", None)


def _quantize_operands(
    names: Names,
    placement: Placement,
    activations: Mapping[str, QParams],
    scheme: QuantScheme,
    spots: frozenset[str],
) -> None:
    """Constant sides of Add, Sub, Mul and Concat get codes of the activations' type from their own range.

    That is the type of the widest activation around the node. Where Concat needs one scale, they take that of
    its output. Those of chains stay float, as what they are computed with is.
    """
    quantized = placement.quantized_nodes()
    apart = quantized - {name for chain in placement.chains for name in chain}
    for node in list(names.graph):
        if node.name not in apart or node.op_type not in BINARY_OPS | {"Concat"}:
            continue
        around = {value.name or "" for value in (*node.inputs, *node.outputs) if value is not None}
        spec = scheme.code_of(next(iter(around & spots), ""), spots)
        for index, value in enumerate(node.inputs):
            array = constant(value)
            if array is None or array.dtype != np.float32:
                continue
            qparams = activation_qparams(float(array.min()), float(array.max()), spec)
            if joins(node) and "Concat" in scheme.shared_scale_ops:
                qparams = activations.get(node.outputs[0].name or "", qparams)
            codes = quantize(array.astype(np.float32), qparams.scale, qparams.zero_point, spec)
            name = _constant_name(names, node, index)
            scale = np.asarray(qparams.scale, np.float32)
            _dequantized_constant(names, node, index, name, CodedArray(codes, scale, qparams.zero_point))


def _quantize_stacks(names: Names, products: frozenset[str], spec: QuantSpec) -> None:
    """Constants that are multiplied as activations are get codes as they have, all of one scale."""
    for node in [node for node in names.graph if node.name in products]:
        for index, value in enumerate(node.inputs):
            array = constant(value)
            if array is not None:
                qparams = activation_qparams(float(array.min()), float(array.max()), spec)
                codes = quantize(array.astype(np.float32), qparams.scale, qparams.zero_point, spec)
                coded = CodedArray(codes, np.asarray(qparams.scale, np.float32), qparams.zero_point)
                _dequantized_constant(names, node, index, _constant_name(names, node, index), coded)


def _pass_on_to_inner_concats(model: ir.Model, qparams: dict[str, QParams]) -> None:
    """A Concat that another one alone reads takes the codes of that one: they are what is left of its own.

    Its own would be a second pair directly behind the first, ``Concat → Q(s_1) → DQ → Q(s) → DQ → Concat``.
    That rounds twice for nothing, and OpenVINO crashes on it.
    """
    for node in reversed(list(model.graph)):
        outer = sole_consumer(node.outputs[0]) if joins(node) else None
        inner = node.outputs[0].name or ""
        if outer is not None and joins(outer) and inner in qparams:
            qparams[inner] = qparams.get(outer.outputs[0].name or "", qparams[inner])


def keep_layers_float(placement: Placement, layers: Mapping[str, str]) -> Placement:
    """The placement with some layers turned float after all, with their reasons."""
    decisions = tuple(
        replace(d, quantized=False, reason=layers[d.node]) if d.node in layers else d
        for d in placement.decisions
    )
    return replace(placement, decisions=decisions)
