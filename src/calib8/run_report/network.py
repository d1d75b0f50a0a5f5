"""The network behind a QDQ graph: its nodes without what only codes, decodes or is constant.

t → QuantizeLinear → DequantizeLinear → Conv        Conv reads the tensor t, in codes
Conv → Relu → QuantizeLinear                        Relu is computed with the codes of Conv
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import onnx_ir as ir

from calib8.analysis.tensor_codes import TensorCode, tensor_code
from calib8.model.graph import constant
from calib8.model.layer import layer_of
from calib8.ops.questions import dequantizes, quantizes
from calib8.quantization.qdq import codes_of, label
from calib8.run_report.told import Precision

Called: TypeAlias = Callable[[ir.Value], str]
"""Name of a value in the float model."""

FUSED: Final = 8
"""So many nodes may stand between a layer and the codes of its result."""


@dataclass(frozen=True)
class Part:
    """A node of the network, or an input.

    Attributes:
        node: the node; None for an input.
        name, op: of it; the op of an input is empty.
        before: places of the parts that it reads from.
        reads, yields: names of tensors as the float model has them.
        precision: see ``calib8.run_report.told``.
    """

    node: ir.Node | None
    name: str
    op: str
    before: tuple[int, ...]
    reads: tuple[str, ...]
    yields: tuple[str, ...]
    precision: Precision


@dataclass
class Network:
    """The parts in graph order, and the codes of their tensors.

    Attributes:
        parts: inputs first.
        codes: tensor → what its codes stand for; tensors without codes are left out.
    """

    parts: list[Part] = field(default_factory=list)
    codes: dict[str, TensorCode] = field(default_factory=dict)


def network_of(model: ir.Model, decided: Mapping[str, bool] | None = None) -> Network:
    """The network of a quantized model.

    Args:
        model: a QDQ graph, see ``calib8.quantization.qdq.readable_copy``.
        decided: node → whether it was quantized, where that is known; None: the graph tells.
    """
    called = _called(model)
    found = Network(codes=dict(_codes(model, called)))
    of: dict[ir.Value, int] = {}
    for value in model.graph.inputs:
        name = value.name or ""
        of[value] = len(found.parts)
        found.parts.append(Part(None, name, "", (), (), (name,), "input"))
    for node in model.graph:
        sources = [_origin(value) for value in node.inputs if value is not None]
        read = list(dict.fromkeys(value for value in sources if value in of))
        if quantizes(node) or dequantizes(node) or not read:
            continue
        for value in node.outputs:
            of[value] = len(found.parts)
        found.parts.append(_part(node, read, of, found, decided, called))
    return found


def _part(
    node: ir.Node, read: list[ir.Value], of: Mapping[ir.Value, int], found: Network,
    decided: Mapping[str, bool] | None, called: Called,
) -> Part:  # fmt: skip
    name = label(node)
    reads, yields = tuple(map(called, read)), tuple(map(called, node.outputs))
    if decided is not None and name in decided:
        coded = decided[name]
    else:
        coded = _reads_codes(node, of) or _is_fused(node, of, found)
    wide = [t for t in (*reads, *yields) if t in found.codes and found.codes[t].spec.bits > 8]
    precision: Precision = "float" if not coded else "16 bit" if wide else "int8"
    before = tuple(sorted({of[value] for value in read}))
    return Part(node, name, node.op_type, before, reads, yields, precision)


def _called(model: ir.Model) -> Called:
    """What the float model calls a value: an output of the graph has its name behind its codes."""
    outputs = {_origin(value): value.name or "" for value in model.graph.outputs}
    outputs |= {value: value.name or "" for value in model.graph.outputs}
    return lambda value: outputs.get(value, value.name or "")


def _codes(model: ir.Model, called: Called) -> Iterator[tuple[str, TensorCode]]:
    """Of every activation that a QuantizeLinear reads; the first one counts."""
    seen = set[str]()
    for node in model.graph:
        value = node.inputs[0] if quantizes(node) else None
        if value is None or constant(value) is not None or called(value) in seen:
            continue
        code = tensor_code(codes_of(node))
        if code is not None:
            seen.add(called(value))
            yield called(value), code


def _origin(value: ir.Value) -> ir.Value:
    """The value before what only codes and decodes."""
    producer = value.producer()
    while producer is not None and (quantizes(producer) or dequantizes(producer)) and producer.inputs[0]:
        value = producer.inputs[0]
        producer = value.producer()
    return value


def _activations(node: ir.Node, of: Mapping[ir.Value, int]) -> list[ir.Value]:
    return [value for value in node.inputs if value is not None and _origin(value) in of]


def _reads_codes(node: ir.Node, of: Mapping[ir.Value, int]) -> bool:
    """All that it reads comes from codes: the weight of a layer too; what is no layer has to yield codes."""
    layer = layer_of(node)
    if layer is None and not _codes_follow(node, FUSED):
        return False
    weights = [] if layer is None or layer.weight is None else [layer.weight]
    values = [*_activations(node, of), *weights]
    return all(_is_decoded(value) for value in values)


def _is_decoded(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and dequantizes(producer)


def _is_fused(node: ir.Node, of: Mapping[ir.Value, int], found: Network) -> bool:
    """Computed with a layer before it: all that it reads is an int8 node's or in codes, and codes follow."""
    if layer_of(node) is not None:
        return False
    for value in _activations(node, of):
        if not _is_decoded(value) and found.parts[of[_origin(value)]].precision not in ("int8", "16 bit"):
            return False
    return _codes_follow(node, FUSED)


def _codes_follow(node: ir.Node, steps: int) -> bool:
    readers = [use.node for value in node.outputs for use in value.uses()]
    if not readers or steps == 0:
        return False
    return all(quantizes(one) or (layer_of(one) is None and _codes_follow(one, steps - 1)) for one in readers)
