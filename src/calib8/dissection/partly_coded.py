"""An int8 graph of which only some parts still compute from codes; all else is as in the float model.

tensor without codes     … → layer ─(Q → DQ left out)─► readers
layer without codes      weight and bias are the float model's
node in float            reads without codes what is given or what other float nodes yield

What an int8 node yields has codes for all its readers, but in a model for a target whose codes are those of
single readers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.dissection.float_constants import FloatConstants
from calib8.dissection.float_nodes import scheme_of
from calib8.model.graph import Names, input_at
from calib8.ops.groups import QUANTIZABLE_OPS, WEIGHTED_OPS
from calib8.ops.questions import quantizes
from calib8.quantization.qdq import (
    ACTIVATIONS,
    dequantizer,
    float_origin,
    label,
    weight_is_coded,
    weighted_layers,
)
from calib8.quantization.seal import is_seal, seal_float_layers


def coded_tensors(model: ir.Model) -> tuple[str, ...]:
    """Names of the float tensors that pass Q and DQ, in graph order, each once."""
    found = (value.name or "" for _, value in coded_pairs(model))
    return tuple(dict.fromkeys(found))


def coded_layer_names(model: ir.Model) -> tuple[str, ...]:
    """Labels of the layers whose weights are codes, in graph order."""
    return tuple(one.name for one in weighted_layers(model) if weight_is_coded(one.node))


def partly_coded(
    model: ir.Model,
    constants: Mapping[str, FloatConstants],
    *,
    tensors: Collection[str],
    layers: Collection[str],
    floats: Collection[str] = (),
) -> ir.Model:
    """A copy in which only the named parts keep their codes.

    Args:
        model: a QDQ graph.
        constants: label of a layer → what it computes with when it loses its codes. Layers that are not
            here keep theirs.
        tensors: names of the tensors that keep their codes.
        layers: labels of the layers that keep their codes.
        floats: labels of nodes that are in float, whatever the others say; the outputs that they yield too.
            ``calib8.dissection.float_nodes`` says which are in float together.
    """
    copy = model.clone()
    kept = set(layers) - set(floats)
    _free_layers(copy, {name: found for name, found in constants.items() if name not in kept})
    _free_readers(copy, floats)
    for dequantized, origin in coded_pairs(copy):
        if origin.name not in tensors:
            _bypass(copy.graph, dequantized, origin)
    seal_float_layers(copy, floats)
    ir_passes.RemoveUnusedNodesPass()(copy)
    return copy


def coded_pairs(model: ir.Model) -> list[tuple[ir.Value, ir.Value]]:
    """Dequantized activations, each with the float tensor before all its codes, in graph order."""
    found = []
    for node in model.graph:
        value = node.outputs[0]
        if dequantizer(value) is None:
            continue
        origin = float_origin(value)
        if origin is not value and origin.const_value is None:
            while float_origin(origin) is not origin:  # codes of codes: a second pair behind the first
                origin = float_origin(origin)
            found.append((value, origin))
    return found


def code_readers(model: ir.Model, tensor: str) -> tuple[str, ...]:
    """Labels of the nodes that compute from the codes of a float tensor, in graph order.

    What only hands them on is none of them: a QuantizeLinear that gives them another scale, the Sum before a
    float layer. Those behind it are.

    Args:
        model: a QDQ graph.
        tensor: name of the tensor before all its codes.
    """
    sources = {value for value, origin in coded_pairs(model) if origin.name == tensor}
    return tuple(
        label(node)
        for node in model.graph
        if not quantizes(node)
        and not is_seal(node)
        and any(sealed(value) in sources for value in node.inputs)
    )


def sealed(value: ir.Value | None) -> ir.Value | None:
    """What a Sum of one tensor hands on, any other value itself."""
    node = None if value is None else value.producer()
    return node.inputs[0] if node is not None and is_seal(node) else value


def _bypass(graph: ir.Graph, dequantized: ir.Value, origin: ir.Value) -> None:
    """All that reads the dequantized values reads the float tensor."""
    for use in list(dequantized.uses()):
        use.node.replace_input_with(use.idx, origin)
    for index, output in enumerate(graph.outputs):
        if output is dequantized:
            graph.outputs[index] = origin


def _free_readers(model: ir.Model, floats: Collection[str]) -> None:
    """The named nodes read what there is before Q and DQ; outputs that they yield have no codes.

    A target whose placement is that of single readers gives each its own codes or none, whoever yields them.
    """
    scheme = scheme_of(model)
    for_each_reader = scheme is not None and scheme.placement == "weighted-inputs"
    computed = QUANTIZABLE_OPS if scheme is None else QUANTIZABLE_OPS | scheme.computes
    origins: dict[ir.Value | None, ir.Value] = dict(coded_pairs(model))
    for index, output in enumerate(model.graph.outputs):
        if output in origins and _maker(origins[output]) in floats:
            model.graph.outputs[index] = origins[output]
    for node in model.graph:
        if label(node) in floats:
            for index, value in enumerate(node.inputs):
                origin = origins.get(sealed(value))
                if origin is not None and (for_each_reader or not _is_int8(origin, computed, floats)):
                    node.replace_input_with(index, origin)


def _is_int8(value: ir.Value, computed: Collection[str], floats: Collection[str]) -> bool:
    """Whether a node of an op that is computed from codes yields a value, and none of the named ones."""
    node = value.producer()
    if node is None or node.op_type not in computed or _maker(value) in floats:
        return False
    return node.op_type not in WEIGHTED_OPS or weight_is_coded(node)


def _maker(value: ir.Value) -> str | None:
    """Label of the node that yields a value, or the value before a Relu or Clip."""
    node = value.producer()
    if node is not None and node.op_type in ACTIVATIONS and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return None if node is None else label(node)


def _free_layers(model: ir.Model, constants: Mapping[str, FloatConstants]) -> None:
    """Weights and biases of the named layers become the float ones."""
    names = Names(model.graph)
    for node in list(model.graph):
        found = constants.get(label(node))
        if found is None:
            continue
        node.replace_input_with(1, names.constant(f"{label(node)}/float_weight", found.weight))
        if found.bias is not None:
            if len(node.inputs) < 3:
                node.resize_inputs(3)
            node.replace_input_with(2, names.constant(f"{label(node)}/float_bias", found.bias))
        elif input_at(node, 2) is not None:
            node.replace_input_with(2, None)
