"""Two variants of an int8 graph that show what it computes: as it is, and every layer alone.

    as it is     … → layer → Q → DQ → next layer          the codes behind Q become outputs of the graph
    alone        float t → Q → DQ → next layer            t of the float model is fed in place of the
                 … → layer → Q (an output)                computed one, for every tensor t at once

Codes, not dequantized values, are the outputs: ONNX Runtime then fuses Q, DQ and layer as in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.analysis.counterparts import Tap
from calib8.model.graph import Names
from calib8.ops.questions import quantizes
from calib8.quantization.qdq import code_type, dequantizer


@dataclass(frozen=True)
class LocalModel:
    """An int8 graph in which every layer reads what it is fed.

    Attributes:
        model: its outputs are those of ``tap_names``.
        feeds: new input → tensor of the float model that belongs there; the inputs of the graph stay.
    """

    model: ir.Model
    feeds: dict[str, str]


def tap_names(taps: Sequence[Tap]) -> list[str]:
    """What both variants give for the taps, each name once."""
    return list(dict.fromkeys(tap.output for tap in taps))


def tapped_int8(model: ir.Model, taps: Sequence[Tap]) -> ir.Model:
    """A copy whose outputs are the graph's own and, behind them, the taps that are none of these."""
    copy = model.clone()
    own = {value.name for value in copy.graph.outputs}
    values = _values(copy)
    for name in tap_names(taps):
        if name not in own:
            copy.graph.outputs.append(_typed(values[name]))
    return copy


def local_model(model: ir.Model, taps: Sequence[Tap]) -> LocalModel:
    """A copy in which the tensors that are compared are inputs for all that read them.

    Their readers get codes made with the int8 model's own scale and zero point. A reader without Q and DQ
    in between (a layer that stayed float) gets the float tensor itself.
    """
    copy = model.clone()
    values, names = _values(copy), Names(copy.graph)
    feeds: dict[str, str] = {}
    for tap in taps:
        value = values[tap.value]
        computed = value.producer() is not None and not _is_dequantized(value)
        if tap.code is None or not computed or tap.value in feeds:
            continue
        fed = ir.Value(name=names.value(f"{tap.value}/fp32"), shape=value.shape, type=value.type)
        fed.dtype = ir.DataType.FLOAT
        _cut(names, value, fed)
        feeds[tap.value] = fed.name or ""
        copy.graph.inputs.append(fed)
    outputs = [_typed(values[name]) for name in tap_names(taps)]
    copy.graph.outputs.clear()
    copy.graph.outputs.extend(outputs)
    ir_passes.RemoveUnusedNodesPass()(copy)
    references = {tap.value: tap.reference for tap in taps}
    return LocalModel(copy, {fed: references[value] for value, fed in feeds.items()})


def _cut(names: Names, value: ir.Value, fed: ir.Value) -> None:
    """All that reads ``value`` reads ``fed`` instead; what its quantizers give is left to be looked at."""
    for use in list(value.uses()):
        node = use.node
        if not quantizes(node):
            node.replace_input_with(use.idx, fed)
            continue
        twin = ir.Node(
            node.domain,
            "QuantizeLinear",
            [fed, *node.inputs[1:]],
            list(node.attributes.values()),
            name=names.node(f"{node.name}/fp32"),
        )
        codes = node.outputs[0]
        twin.outputs[0].name = names.value(f"{codes.name}/fp32")
        twin.outputs[0].type, twin.outputs[0].shape = codes.type, codes.shape
        names.graph.insert_before(node, twin)
        for reader in list(codes.uses()):
            reader.node.replace_input_with(reader.idx, twin.outputs[0])


def _is_dequantized(value: ir.Value) -> bool:
    return dequantizer(value) is not None


def _values(model: ir.Model) -> dict[str, ir.Value]:
    values = {value.name or "": value for value in model.graph.inputs}
    return values | {value.name or "": value for node in model.graph for value in node.outputs}


def _typed(value: ir.Value) -> ir.Value:
    """The value with the type that an output of a graph must state."""
    stated = code_type(value)
    if value.dtype is None and stated is not None:
        value.dtype = stated
    return value
