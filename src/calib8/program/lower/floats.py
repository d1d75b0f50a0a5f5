"""What has no integer form: nodes wait in a group, which becomes one Float instruction when it is needed.

    codes → Dequantize → Float(all waiting nodes) → Quantize → codes

A value that only exists as a curve, as clamped sums or inside a fused layer is computed once more by the
float nodes that read it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import onnx_ir as ir

from calib8.errors import UnsupportedModelError
from calib8.model.graph import CONTRIB
from calib8.model.save import model_bytes
from calib8.program.instructions import Float, Instruction
from calib8.program.lower.builder import Builder, shape_of, values_read
from calib8.program.lower.constants import is_fixed
from calib8.program.lower.convert import dequantized
from calib8.program.lower.forms import Coded, Real, Sums
from calib8.program.lower.layout import logical_order
from calib8.program.lower.readers import CODE_TYPES
from calib8.quantization.own_quantizers import restore_own_quantizers
from calib8.quantization.qdq import label

UNQUANTIZED_RESULT = "float nodes or outputs read its result"
RUNTIME_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", CONTRIB)
"""Operator sets that ONNX Runtime brings along."""


@dataclass(frozen=True, eq=False)
class FloatDraft(Instruction):
    """A Float instruction whose model is not built yet; exists only while a program is being lowered.

    Attributes:
        sources, results: the values of the graph that lie in its inputs and outputs.
        nodes: its nodes.
    """

    sources: tuple[ir.Value, ...]
    results: tuple[ir.Value, ...]
    nodes: tuple[ir.Node, ...]


@dataclass(frozen=True)
class Region:
    """Part of a graph: the nodes that lead from some values to others.

    Attributes:
        nodes: in graph order.
        sources: values that the nodes read and others provide, constants excluded.
    """

    nodes: tuple[ir.Node, ...]
    sources: tuple[ir.Value, ...]


def real_slot(builder: Builder, value: ir.Value) -> int:
    """Slot of a tensor's float values (or codes, where the tensor holds integers) in logical order."""
    if value not in builder.reals:
        form = builder.forms.get(value)
        if isinstance(form, Real):
            return form.slot
        if isinstance(form, Coded) and is_integer(value):
            return builder.in_logical_order(form).slot
        if isinstance(form, Coded) or (isinstance(form, Sums) and form.unbounded):
            return dequantized(builder, value, form)
        flush(builder, value)
        return real_slot(builder, value)
    return builder.reals[value]


def is_integer(value: ir.Value) -> bool:
    """A tensor of codes as such, not of what they stand for."""
    return value.dtype in CODE_TYPES


def _exists(builder: Builder, value: ir.Value) -> bool:
    """Float nodes can read the value without computing it."""
    form = builder.forms.get(value)
    sums = isinstance(form, Sums) and form.unbounded
    return value in builder.reals or isinstance(form, Coded | Real) or sums


def flush(builder: Builder, wanted: ir.Value) -> None:
    """One Float instruction for all waiting nodes and what leads to ``wanted``."""
    goals = [wanted, *(value for node in builder.pending for value in node.outputs)]
    region = region_before(builder, goals, lambda value: _exists(builder, value))
    builder.pending.clear()
    if not region.nodes:
        raise UnsupportedModelError(
            f"tensor '{wanted.name}'", "it is constant", "Take it out of the graph's outputs"
        )
    members = set(region.nodes)
    inputs = tuple(real_slot(builder, value) for value in region.sources)
    computed = (value for node in region.nodes for value in node.outputs)
    results = tuple(value for value in computed if _leaves(builder, value, members))
    outputs = tuple(builder.plain(value) for value in results)
    for value, slot in zip(results, outputs, strict=True):
        codes = builder.slots[slot].is_codes
        builder.forms[value] = Coded(slot, logical_order(len(shape_of(value)))) if codes else Real(slot)
    ends = dict.fromkeys((label(region.nodes[0]), label(region.nodes[-1])))
    name = " … ".join(ends)
    builder.steps.append(FloatDraft(name, inputs, outputs, region.sources, results, region.nodes))


def _leaves(builder: Builder, value: ir.Value, members: Collection[ir.Node]) -> bool:
    """Somebody outside a group of nodes reads the value."""
    readers = builder.readers.get(value, ())
    return value.is_graph_output() or any(reader not in members for reader in readers)


def region_before(builder: Builder, goals: Iterable[ir.Value], exists: Callable[[ir.Value], bool]) -> Region:
    """The nodes that compute ``goals`` from values that exist, those that dequantize constants included."""
    nodes: set[ir.Node] = set()
    sources: dict[ir.Value, None] = {}
    waiting = list(goals)
    while waiting:
        value = waiting.pop()
        producer = value.producer()
        if exists(value):
            sources[value] = None
        elif producer is not None and producer not in nodes:
            nodes.add(producer)
            waiting.extend(values_read(producer))
    in_order = sorted(nodes, key=builder.places.__getitem__)
    read = [value for node in in_order for value in values_read(node)]
    return Region(tuple(in_order), tuple(dict.fromkeys(value for value in read if value in sources)))


def narrowed(builder: Builder, draft: FloatDraft, live: Collection[int]) -> FloatDraft:
    """The draft without the outputs that nobody reads and what only they need."""
    kept = [(slot, value) for slot, value in zip(draft.outputs, draft.results, strict=True) if slot in live]
    results = tuple(value for _, value in kept)
    region = region_before(builder, results, set(draft.sources).__contains__)
    slots = dict(zip(draft.sources, draft.inputs, strict=True))
    return FloatDraft(
        draft.name,
        tuple(slots[value] for value in region.sources),
        tuple(slot for slot, _ in kept),
        region.sources,
        results,
        region.nodes,
    )


def built(builder: Builder, draft: FloatDraft, model: ir.Model) -> Float:
    """The instruction with its sub-model, cut out of the canonical model."""
    graph = ir.convenience.extract(model.graph, draft.sources, draft.results)
    _sort_initializers(graph, model.graph)
    for values, slots in ((graph.inputs, draft.inputs), (graph.outputs, draft.outputs)):
        for value, slot in zip(values, slots, strict=True):
            value.name = builder.slots[slot].name
            value.shape = ir.Shape(builder.slots[slot].shape)
    part = ir.Model(graph, ir_version=model.ir_version, functions=list(model.functions.values()))
    restore_own_quantizers(part)
    nodes = computing_nodes(draft)
    reasons = tuple(builder.reasons.get(node, UNQUANTIZED_RESULT) for node in nodes)
    names = tuple(label(node) for node in nodes)
    return Float(draft.name, draft.inputs, draft.outputs, model_bytes(part), names, reasons)


def _sort_initializers(graph: ir.Graph, whole: ir.Graph) -> None:
    """Gives a part the order of the whole: ``extract`` leaves the order to the addresses of the values."""
    values = dict(graph.initializers)
    graph.initializers.clear()
    for name in whole.initializers:
        if name in values:
            graph.register_initializer(values[name])


def computing_nodes(draft: FloatDraft) -> list[ir.Node]:
    """The nodes of a draft that do not merely dequantize constants; all, where an output is constant."""
    computing = [node for node in draft.nodes if not all(is_fixed(value) for value in node.outputs)]
    return computing or list(draft.nodes)


def described(builder: Builder, draft: FloatDraft) -> list[str]:
    """``name (op): reason`` of every node of a draft."""
    return [
        f"{label(node)} ({node.op_type}): {builder.reasons.get(node, UNQUANTIZED_RESULT)}"
        for node in computing_nodes(draft)
    ]
