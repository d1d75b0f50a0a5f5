"""What a model is made of: layers, parameters, multiplications, and what is or would be quantized.

A float model is prepared as for quantization (on a made-up input), so that its layers are those that
``quantize`` sees. In a quantized model a layer counts as quantized if a runtime can compute it from codes;
whether calib8's engine does so is told beside it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

import onnx_ir as ir

from calib8.analysis.batch_norms import BatchNormInspection, batch_norm_warning, inspect_batch_norms
from calib8.analysis.counts import (
    UNCOUNTED_OPS,
    parameters,
    samples_per_run,
    stored_values,
    with_batch_of_one,
)
from calib8.analysis.dead_channels import dead_channels
from calib8.analysis.sum_margins import SumMargin, sum_margins
from calib8.errors import Calib8Error
from calib8.model.fix_inputs import Fixed, with_fixed
from calib8.model.graph import (
    graph_inputs,
    graph_outputs,
    opset_version,
    sole_consumer,
    tensor_spec,
)
from calib8.model.load import load_model
from calib8.model.made_up import made_up_input
from calib8.model.metadata import read_metadata
from calib8.model.work import elements, macs
from calib8.ops.groups import ARRANGING_OPS, MOVE_OPS, OF_SHAPES, QUANTIZERS
from calib8.ops.questions import adds
from calib8.parameters import Text, with_both
from calib8.passes.functions import TensorFunction, is_chain, tensor_functions
from calib8.passes.place import place
from calib8.passes.prepare import prepare
from calib8.passes.recurrent_nodes import is_recurrent
from calib8.quantization.qdq import (
    ACTIVATIONS,
    activation_values,
    codes_behind,
    float_inputs,
    has_coded_weights,
    is_coded_cell,
    is_integer_op,
    label,
    nodes,
    readable_copy,
    result_quantizers,
    weight_is_coded,
)
from calib8.scheme import CODE_PRESERVING_OPS, TARGETS, WEIGHTED_OPS
from calib8.tensors import TensorSpec

REFERENCE_TARGET: Final = "onnxruntime"
"""Targets differ in where Q/DQ go; in what is quantized only at the outputs (a Softmax there) and in what one
alone computes from codes (normalizations)."""

CELL_OF_FLOATS: Final = "its weights alone are codes, its gates and states float32"

NO_LAYERS: Final = QUANTIZERS | OF_SHAPES
"""Ops that read activations but compute nothing from their values."""

Shape = tuple[int | str | None, ...]


@dataclass(frozen=True)
class LayerInspection:
    """One node that computes on activations.

    Attributes:
        name: of the node.
        op_type: its op.
        output_shape: of its first output for one sample, None where not even the rank is known.
        parameters: elements of its trained constants.
        macs: multiply-accumulates of one run; 0 for ops that have none, None where a size is unknown.
        quantized: it is computed from codes (in a float model: would be).
        reason: why it is not, empty if it is.
        engine: why calib8's engine computes it in float, empty where it computes integers; None where nobody
            knows: of a float model, or one without an integer program (of free sizes, say).
    """

    name: str
    op_type: str
    output_shape: Shape | None
    parameters: int
    macs: int | None
    quantized: bool
    reason: str
    engine: str | None = None


@dataclass(frozen=True)
class ModelInspection:
    """What ``inspect_model`` found.

    Attributes:
        path: of the file.
        inputs, outputs: as the file states them.
        opset: version of the standard operator set.
        kind: whether the file holds codes.
        parameters: elements of all trained constants in the file, shared ones counted once.
        macs: multiply-accumulates of one sample (Conv, ConvTranspose, Gemm, MatMul, LSTM, GRU, RNN); a free
            batch counts as 1, None where another size is unknown.
        ops: op → number of nodes in the file, branches and loop bodies included, most frequent first.
        layers: the nodes that compute on activations, of a float model as prepared for quantization.
        warnings: what stands in the way of a good int8 model, one line each.
        metadata: what calib8 stored in the file, see ``calib8.model.metadata``.
        batch_norms: every BatchNormalization of the file.
        margins: of a quantized model: room of the int32 sums of every layer with integer weights.
        dead_channels: layer → output channels whose weights are all 0.
    """

    path: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    opset: int
    kind: Literal["float", "quantized"]
    parameters: int
    macs: int | None
    ops: dict[str, int]
    layers: tuple[LayerInspection, ...]
    warnings: tuple[str, ...]
    metadata: dict[str, str]
    batch_norms: tuple[BatchNormInspection, ...]
    margins: tuple[SumMargin, ...]
    dead_channels: dict[str, tuple[int, ...]]

    @property
    def coded_share(self) -> float | None:
        """Share of the multiply-accumulates in layers that are or would be quantized; None if not counted."""
        if not self.macs:
            return None
        counted = [(layer.macs or 0, layer.quantized) for layer in self.layers]
        return sum(macs for macs, coded in counted if coded) / sum(macs for macs, _ in counted)


def inspect_model(path: str | os.PathLike[str], fix: Fixed | None = None) -> ModelInspection:
    """Looks at an ONNX file; nothing needs data.

    What keeps a float model from being quantized (control flow, half precision, an op unknown to the
    runtime) is told in ``warnings`` and as the reason of every layer, not raised.

    Args:
        path: of the file.
        fix: values of inputs that become constants, see ``calib8.model.fix_inputs``.

    Raises:
        ModelError: the file cannot be read or is no valid ONNX model.
        UnsupportedModelError: its operator set is older than 7 or newer than the installed onnx knows.
    """
    original = load_model(with_fixed(path, fix))
    lifted = readable_copy(original)
    quantized = any(node.op_type in QUANTIZERS or is_integer_op(node) for node in nodes(lifted))
    layers, warnings, total = _quantized_layers(lifted) if quantized else _float_layers(original, lifted)
    if quantized:
        layers = _as_the_engine_does(original, layers)
    batch_norms = inspect_batch_norms(lifted)
    margins = sum_margins(lifted)
    told = None if quantized else batch_norm_warning(batch_norms)
    warnings += [told] if told else []
    warnings += [text for margin in margins if (text := margin.warning())]
    return ModelInspection(
        path=os.fspath(path),
        inputs=graph_inputs(original),
        outputs=graph_outputs(original),
        opset=opset_version(original),
        kind="quantized" if quantized else "float",
        parameters=parameters(lifted),
        macs=total,
        ops=dict(Counter(node.op_type for node in nodes(original)).most_common()),
        layers=tuple(layers),
        warnings=tuple(warnings),
        metadata=read_metadata(path),
        batch_norms=batch_norms,
        margins=margins,
        dead_channels=dead_channels(lifted),
    )


def _refused(error: Calib8Error) -> str:
    return Text(f"Cannot be quantized as it is: {with_both(error.problem)}. {with_both(error.cure)}")


Found = tuple[list[LayerInspection], list[str], int | None]
"""Layers, warnings, multiply-accumulates of one sample."""


def _float_layers(original: ir.Model, lifted: ir.Model) -> Found:
    """What ``quantize`` would do; without a prepared graph, every layer with the reason for that."""
    try:
        sample = {spec.name: made_up_input(spec) for spec in graph_inputs(original)}
        prepared = prepare(original, sample).model
    except Calib8Error as error:
        reason = "the model cannot be prepared, see the warnings"
        layers, warnings, total = _layers(lifted, {label(node): reason for node in _computing(nodes(lifted))})
        return layers, [_refused(error), *warnings], total
    decisions = place(prepared, TARGETS[REFERENCE_TARGET]).decisions
    return _layers(prepared, {decision.node: decision.reason for decision in decisions})


def _quantized_layers(model: ir.Model) -> Found:
    reasons: dict[str, str] = {}
    coded: set[ir.Node] = set()
    functions = {node: one for one in tensor_functions(model) for node in one.nodes}
    for node in _computing(nodes(model)):
        one = functions.get(node)
        if one is not None and (is_chain(one) or one.layer in coded):
            reason = _what_function_misses(one, coded)
        else:
            reason = _what_is_missing(node, coded)
        reasons[label(node)] = reason
        if not reason:
            coded.add(node)
    for node in _idle_movers(model, coded):
        leaves = any(value.is_graph_output() for value in node.outputs)
        reasons[label(node)] = "it arranges what leaves the graph" if leaves else "only float nodes read it"
    return _layers(model, reasons)


def _idle_movers(model: ir.Model, coded: set[ir.Node]) -> Iterator[ir.Node]:
    """Movers of values that are dequantized before them and not quantized behind: ``quantize`` leaves them.

    Args:
        model: a quantized graph.
        coded: the nodes that run on codes as far as their inputs tell; without the movers afterwards.
    """
    for node in reversed(list(nodes(model))):
        idle = node in coded and node.op_type in MOVE_OPS | ARRANGING_OPS and not result_quantizers(node)[0]
        if idle and not any(use.node in coded for value in node.outputs for use in value.uses()):
            coded.discard(node)
            yield node


def _as_the_engine_does(model: ir.Model, layers: list[LayerInspection]) -> list[LayerInspection]:
    """The layers with what the integer program makes of them, where there is one."""
    from calib8.program.lower.lower import lower  # what float models do without

    named = model.clone()
    for node in nodes(named):
        node.name = label(node)
    try:
        floats = lower(named).float_reasons
    except Calib8Error:
        return layers
    return [replace(layer, engine=floats.get(layer.name, "")) for layer in layers]


def _layers(model: ir.Model, reasons: dict[str, str]) -> Found:
    """The nodes that ``reasons`` names; an empty reason means quantized."""
    sized = with_batch_of_one(model)
    layers = [_layer(node, reasons[label(node)]) for node in nodes(sized) if label(node) in reasons]
    warnings = []
    unknown = [layer.name for layer in layers if layer.macs is None]
    if unknown:
        warnings.append(
            f"Multiply-accumulates are not counted: '{unknown[0]}' has a size unknown until it runs"
        )
    uncounted = sorted({layer.op_type for layer in layers if layer.op_type in UNCOUNTED_OPS})
    if uncounted:
        warnings.append(f"Multiply-accumulates of {', '.join(uncounted)} are not counted")
    total = None if unknown else sum(layer.macs or 0 for layer in layers) // samples_per_run(sized)
    return layers, warnings, total


def _layer(node: ir.Node, reason: str) -> LayerInspection:
    size = sum(elements(value) or 0 for value in stored_values(node))
    shape = tensor_spec(node.outputs[0]).shape if node.outputs else None
    return LayerInspection(label(node), node.op_type, shape, size, macs(node), not reason, reason)


def _computing(candidates: Iterable[ir.Node]) -> Iterable[ir.Node]:
    """Nodes that compute from float activations or from codes."""
    for node in candidates:
        if is_integer_op(node) or (node.op_type not in NO_LAYERS and activation_values(node)):
            yield node


def _what_is_missing(node: ir.Node, coded: set[ir.Node]) -> str:
    """Reason for which a node of a quantized graph runs in float, empty if it runs on codes.

    Args:
        node: the node.
        coded: the nodes before it that run on codes.
    """
    if is_coded_cell(node):
        return CELL_OF_FLOATS
    if is_integer_op(node):
        return ""
    if node.op_type in WEIGHTED_OPS:
        return _what_layer_misses(node)
    if is_recurrent(node):
        return _what_cell_misses(node)
    values = activation_values(node)
    if node.op_type in ACTIVATIONS and values[0].producer() in coded:
        return ""
    if node.op_type in CODE_PRESERVING_OPS and result_quantizers(node)[0]:
        return ""
    for value in float_inputs(node):
        if codes_behind(value) is None and not _enters_unrounded(value, node, coded):
            return f"its input '{value.name}' does not come from DequantizeLinear"
    if node.op_type not in MOVE_OPS | ARRANGING_OPS and not result_quantizers(node)[0]:
        return f"no QuantizeLinear follows its result '{node.outputs[0].name}'"
    return ""


def _what_function_misses(function: TensorFunction, coded: set[ir.Node]) -> str:
    """Reason for which what is computed as one does not run from codes, or a layer's sums, to codes."""
    source, result = function.source, function.result
    if codes_behind(source) is None and function.layer not in coded:
        return f"its input '{source.name}' does not come from DequantizeLinear"
    if not result_quantizers(function.nodes[-1])[0]:
        return f"no QuantizeLinear follows its result '{result.name}'"
    return ""


def _what_layer_misses(layer: ir.Node) -> str:
    if codes_behind(layer.inputs[0]) is None:
        name = layer.inputs[0].name if layer.inputs[0] is not None else ""
        return f"its input '{name}' does not come from DequantizeLinear"
    if not weight_is_coded(layer) and codes_behind(layer.inputs[1]) is None:
        name = layer.inputs[1].name if layer.inputs[1] is not None else ""
        return f"its weight '{name}' does not come from DequantizeLinear"
    return ""


def _what_cell_misses(cell: ir.Node) -> str:
    return CELL_OF_FLOATS if has_coded_weights(cell) else "its weights do not come from DequantizeLinear"


def _enters_unrounded(value: ir.Value, node: ir.Node, coded: set[ir.Node]) -> bool:
    """The sums of a quantized layer to which TensorRT adds the other branch before rounding."""
    producer = value.producer()
    fused = adds(node) and producer in coded and sole_consumer(value) is node
    return fused and producer is not None and producer.op_type in WEIGHTED_OPS
