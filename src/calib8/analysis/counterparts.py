"""Which tensor of the float model stands behind which codes of the int8 one, and which layer made it.

    t → QuantizeLinear → codes          tap at the codes, reference: tensor t of the float model
    layer → output of the graph         tap at the float output, reference: the output at the same place

Tensors are matched by name: calib8 keeps those of the float graph (before and after its passes), other
quantizers those of the model they got. An output of the graph is matched by its place, whatever it is
called and whether or not Q and DQ stand before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from calib8.analysis.tensor_codes import SPECS, TensorCode, tensor_code
from calib8.errors import ModelError
from calib8.ops.questions import quantizes
from calib8.qparams import FLOAT32_MAX
from calib8.quantization.qdq import ACTIVATIONS, QUANTIZERS, codes_of, float_origin, label, weighted_layers

CHANGED: Final = "a repair made it another one"
"""Why what repairs changed on purpose is left out."""


@dataclass(frozen=True)
class Counterpart:
    """What computes a tensor from those that are compared before it.

    Attributes:
        node: the last one with weights among ``nodes``, else the last that is no Relu or Clip, else the
            last; where there are none the QuantizeLinear; None for an input of the graph.
        op_type: of that node, empty for an input.
        nodes: names of all nodes between, Q and DQ left out, in graph order.
        output: name of what ``node`` yields in the int8 graph, None for an input.
        reference: the tensor of the float model that this output approximates, None if none is known.
    """

    node: str | None
    op_type: str
    nodes: tuple[str, ...]
    output: str | None
    reference: str | None


@dataclass(frozen=True)
class Tap:
    """A place where both models are compared.

    Attributes:
        reference: name of the tensor in the float model.
        value: name of the float value in the int8 graph.
        output: what the int8 graph gives there: the codes of ``value``, or ``value`` itself.
        code: what the codes stand for; None for a float output.
        layer: what computes it.
    """

    reference: str
    value: str
    output: str
    code: TensorCode | None
    layer: Counterpart


@dataclass(frozen=True)
class LeftOut:
    """A quantized tensor of the int8 model that is not compared, and why; it belongs to the layer behind."""

    tensor: str
    reason: str


@dataclass(frozen=True)
class Counterparts:
    """The taps in graph order, and what has none."""

    taps: tuple[Tap, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True)
class _Found:
    """A tap whose layer is not known yet."""

    reference: str
    value: ir.Value
    quantizer: ir.Node | None
    code: TensorCode | None


def find_counterparts(
    int8: ir.Model,
    references: Mapping[str, ir.Value],
    outputs: tuple[str, ...],
    changed: frozenset[str] = frozenset(),
) -> Counterparts:
    """Every quantized activation and every float output of a QDQ graph, with its tensor in the float model.

    Several QuantizeLinear of one tensor with equal parameters are one tap.

    Args:
        int8: the QDQ graph, constants as initializers, types inferred.
        references: the tensors of the float model by name.
        outputs: names of the float model's outputs, as many as ``int8`` has.
        changed: tensors that repairs made others on purpose: they have no counterpart.

    Raises:
        ModelError: a scale that is no positive number.
    """
    places = output_places(int8, outputs, references)
    found: dict[tuple[str, TensorCode], _Found] = {}
    left_out: list[LeftOut] = []
    tapped: set[ir.Node] = set()
    for node in _activation_quantizers(int8):
        value = node.inputs[0]
        assert value is not None
        reference = reference_tensor(value, places, references)
        code = _checked_code(node, value)
        reason = _reason_to_leave_out(node, value, code, reference, references)
        if reference is None or code is None or reason:
            left_out.append(LeftOut(value.name or "", CHANGED if value.name in changed else reason))
            continue
        found.setdefault((reference, code), _Found(reference, value, node, code))
        tapped.add(node)
    taps = [*found.values(), *_float_outputs(int8, outputs, references, tapped)]
    layers = _layers(int8, taps)
    return Counterparts(
        tuple(_tap(tap, layer, places, references) for tap, layer in zip(taps, layers, strict=True)),
        tuple(left_out),
    )


def _activation_quantizers(model: ir.Model) -> list[ir.Node]:
    """The QuantizeLinear nodes whose input depends on an input of the graph, in graph order."""
    changing = {value for value in model.graph.inputs if value.name not in model.graph.initializers}
    quantizers = []
    for node in model.graph:
        if any(value in changing for value in _all_inputs(node)):
            changing.update(node.outputs)
            if quantizes(node):
                quantizers.append(node)
    return quantizers


def _all_inputs(node: ir.Node) -> list[ir.Value | None]:
    """Inputs of a node and of the nodes in its branches and bodies."""
    values = list(node.inputs)
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            values += [value for inner in attribute.as_graph() for value in _all_inputs(inner)]
    return values


def output_places(
    model: ir.Model, outputs: tuple[str, ...], references: Mapping[str, ir.Value]
) -> dict[ir.Value, str]:
    """Outputs of the int8 graph, and the floats whose Q and DQ yield them → the float model's output.

    Args:
        model: the QDQ graph.
        outputs: names of the float model's outputs, as many as ``model`` has.
        references: the tensors of the float model by name.
    """
    places: dict[ir.Value, str] = {}
    for value, name in zip(model.graph.outputs, outputs, strict=True):
        if name in references:  # a constant output is no tensor to compare
            places.setdefault(value, name)
            if float_origin(value).producer() is not None:
                places.setdefault(float_origin(value), name)
    return places


def reference_tensor(
    value: ir.Value, places: Mapping[ir.Value, str], references: Mapping[str, ir.Value]
) -> str | None:
    """The tensor of the float model that a value of the int8 graph approximates, None if none is known."""
    if value in places:
        return places[value]
    if value.name in references:
        return value.name
    origin = float_origin(value)
    return None if origin is value else reference_tensor(origin, places, references)


def _checked_code(node: ir.Node, value: ir.Value) -> TensorCode | None:
    code = tensor_code(codes_of(node))
    wrong = [scale for scale in code.scale if not 0.0 < scale <= FLOAT32_MAX] if code is not None else []
    if wrong:
        raise ModelError(
            f"tensor '{value.name}'",
            f"its scale is {wrong[0]}",
            "Quantize the model again: scales are positive",
        )
    return code


def _reason_to_leave_out(
    node: ir.Node,
    value: ir.Value,
    code: TensorCode | None,
    reference: str | None,
    references: Mapping[str, ir.Value],
) -> str:
    """Empty if the quantizer can be compared."""
    if reference is None:
        return "the float model has no tensor of this name"
    other = references[reference]
    if _conflict(value.shape, other.shape):
        return f"its shape is {value.shape}, in the float model {other.shape}"
    for dtype in (value.dtype, other.dtype):
        if dtype not in (None, ir.DataType.FLOAT):
            return f"it is {dtype}"
    if code is None:
        codes = codes_of(node)
        known = codes.scale is not None and codes.zero_point is not None
        return f"its codes are {codes.dtype}, {codes}" if known else "its scale or zero point is computed"
    return ""


def _conflict(left: ir.Shape | None, right: ir.Shape | None) -> bool:
    """Two shapes that cannot be of one tensor."""
    if left is None or right is None:
        return False
    known = [(a, b) for a, b in zip(left, right, strict=False) if isinstance(a, int) and isinstance(b, int)]
    return left.rank() != right.rank() or any(a != b for a, b in known)


def _float_outputs(
    model: ir.Model, outputs: tuple[str, ...], references: Mapping[str, ir.Value], tapped: set[ir.Node]
) -> list[_Found]:
    """Computed float outputs of the graph whose codes are not compared already."""
    found = {}
    for value, name in zip(model.graph.outputs, outputs, strict=True):
        if name not in references or value.producer() is None:
            continue
        origin = float_origin(value)
        covered = origin is not value and any(use.node in tapped for use in origin.uses())
        if not covered and value.dtype == references[name].dtype == ir.DataType.FLOAT:
            found[value] = _Found(name, value, None, None)
    return list(found.values())


def _tap(
    tap: _Found,
    layer: tuple[ir.Node | None, list[ir.Node]],
    places: Mapping[ir.Value, str],
    references: Mapping[str, ir.Value],
) -> Tap:
    main, nodes = layer
    output = tap.value if tap.quantizer is None else tap.quantizer.outputs[0]
    return Tap(
        tap.reference,
        tap.value.name or "",
        output.name or "",
        tap.code,
        Counterpart(
            None if main is None else label(main),
            "" if main is None else main.op_type,
            tuple(label(node) for node in nodes),
            None if main is None else main.outputs[0].name,
            None if main is None else reference_tensor(main.outputs[0], places, references),
        ),
    )


def _layers(model: ir.Model, found: list[_Found]) -> list[tuple[ir.Node | None, list[ir.Node]]]:
    """For every tap the node that stands for its layer and all nodes of it, in graph order."""
    order = {node: index for index, node in enumerate(model.graph)}
    weighted = {layer.node for layer in weighted_layers(model)}
    known = {tap.value for tap in found if tap.quantizer is not None}
    layers = []
    for tap in found:
        nodes = sorted(_nodes_behind(tap.value, known), key=lambda node: order[node])
        computing = [node for node in nodes if node.op_type not in ACTIVATIONS]
        main = next((node for node in reversed(nodes) if node in weighted), None)
        if main is None and tap.value.producer() is not None:
            main = computing[-1] if computing else nodes[-1] if nodes else tap.quantizer
        layers.append((main, nodes))
    return layers


def _nodes_behind(value: ir.Value, known: set[ir.Value]) -> set[ir.Node]:
    """The nodes that compute ``value`` from values in ``known``, without Q and DQ."""
    behind: set[ir.Node] = set()
    seen: set[ir.Node] = set()
    waiting = [value]
    while waiting:
        producer = waiting.pop().producer()
        if producer is None or producer in seen:
            continue
        seen.add(producer)
        if producer.op_type not in QUANTIZERS:
            behind.add(producer)
        first = producer.inputs[:1] if producer.op_type in QUANTIZERS else producer.inputs
        for source in first:
            if source is not None and source not in known and _carries_values(source):
                waiting.append(source)
    return behind


def _carries_values(value: ir.Value) -> bool:
    """A float tensor or codes, no shape or index."""
    return value.dtype in (None, ir.DataType.FLOAT) or value.dtype in SPECS
