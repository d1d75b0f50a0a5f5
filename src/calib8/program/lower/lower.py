"""Lowering: a quantized ONNX model of any tool becomes a program.

    canonical graph → one emit function per node → live instructions → verified Program

Nodes are visited in topological order. Those without an integer form gather in Float instructions; if there
are several, the nodes are visited once more in the order that needs the fewest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from calib8.errors import ModelError, NoFormError, UnsupportedModelError
from calib8.model.states import MOVES, stored_states
from calib8.ops.groups import CODED_CELLS, RECURRENT
from calib8.ops.questions import is_standard
from calib8.parameters import parameter
from calib8.program.instructions import (
    Add,
    AveragePool,
    Instruction,
    MatMul,
    Mean,
    Mul,
    RealFunction,
    Recurrent,
    Sub,
    Weighted,
)
from calib8.program.lower import emit_norms
from calib8.program.lower.builder import Builder, step_name, values_read
from calib8.program.lower.canonical import canonical_qdq
from calib8.program.lower.emit_integer_recurrent import GATE_ORDER
from calib8.program.lower.emit_recurrent import UNCODED
from calib8.program.lower.finish import Draft, finished, live_draft
from calib8.program.lower.floats import RUNTIME_DOMAINS, described, is_integer, real_slot
from calib8.program.lower.forms import Coded, CodeType, Real
from calib8.program.lower.layout import logical_order
from calib8.program.lower.operators import EMIT, INTEGER_MOVES, Emit
from calib8.program.lower.readers import code_kind
from calib8.program.program import Port, Program, Slot
from calib8.program.rules import Profile
from calib8.program.verify import verify
from calib8.program.verify.bounds import check_bounds
from calib8.program.verify.kinds import takes_wide
from calib8.quantization.qdq import label
from calib8.quantization.qdq import nodes as all_nodes
from calib8.tensors import shape_text

SUMMING = (Weighted, MatMul, Mul, Add, Sub, Mean, AveragePool)
"""Instructions whose accumulator depends on nothing but their own slots and constants."""


def lower(
    model: ir.Model,
    *,
    profile: Profile = "onnx",
    shapes: Mapping[str, Sequence[int]] | None = None,
    integer_only: bool = False,
) -> Program:
    """The program of a quantized model.

    Args:
        model: with QuantizeLinear and DequantizeLinear, or with QOperator nodes; not changed.
        profile: the rounding rules of all instructions.
        shapes: input name → sizes, where the model leaves them open. A symbolic first axis counts as 1.
        integer_only: refuse nodes without an integer form instead of running them in ONNX Runtime.

    Raises:
        ModelError: the quantization contradicts itself, or a dynamic axis has no given size.
        UnsupportedModelError: an operator that nothing can run, or ``integer_only`` and float nodes; all of
            them are listed.
    """
    _refuse_unknown_operators(model)
    canonical = canonical_qdq(model, shapes)
    streams = bool(stored_states(model, model.graph.name or "model"))
    draft = emit(canonical, profile, list(canonical.graph), streams=streams)
    if len(draft.floats) > 1:
        again = emit(canonical, profile, by_float_level(draft, list(canonical.graph)), streams=streams)
        draft = min(draft, again, key=lambda candidate: len(candidate.floats))
    if integer_only:
        _refuse_float(draft, canonical)
    program = finished(draft, canonical)
    _refuse_empty(program)
    verify(program)
    return program


def _refuse_empty(program: Program) -> None:
    empty = [f"'{slot.name}' ({shape_text(slot.shape)})" for slot in program.slots if 0 in slot.shape]
    if empty:
        problem = f"computes tensors that hold no value at these sizes: {', '.join(empty)}"
        cure = "Take them out of the graph, or give the inputs other sizes"
        raise UnsupportedModelError(program.name or "model", problem, cure)


def emit(model: ir.Model, profile: Profile, nodes: Sequence[ir.Node], *, streams: bool = False) -> Draft:
    """All instructions that the outputs need, visiting the nodes in the given topological order.

    With ``streams``, and on the way to recurrent layers, the program carries out what only moves its float32
    inputs, states above all: a frame is small, and to call ONNX Runtime takes longer than to move it.
    """
    builder = Builder(model.graph, profile)
    inputs = tuple(
        _input(builder, value, own=streams or _feeds_cells(builder, value)) for value in model.graph.inputs
    )
    for node in nodes:
        if node not in builder.fused:
            _emit_node(builder, node)
    outputs = tuple(Port(value.name or "", real_slot(builder, value)) for value in model.graph.outputs)
    return live_draft(builder, inputs, outputs)


def _input(builder: Builder, value: ir.Value, *, own: bool) -> Port:
    """Inputs of integers hold the codes of the DequantizeLinear that reads them; others plain values."""
    number = builder.plain(value)
    slot = builder.slots[number]
    builder.forms[value] = Real(number, own=own and slot.dtype == "float32")
    kinds = (code_kind(node) for node in builder.readers.get(value, ()))
    kind = next((kind for kind in kinds if kind is not None and kind.dtype == slot.dtype), None)
    if slot.is_codes or kind is not None:
        kind = CodeType(slot.dtype, 1.0, 0) if kind is None else kind
        builder.slots[number] = Slot(slot.name, slot.shape, slot.dtype, kind.scales, kind.zero_point)
        builder.forms[value] = Coded(number, logical_order(len(slot.shape)))
    return Port(value.name or "", number)


def _feeds_cells(builder: Builder, value: ir.Value) -> bool:
    """Whether a recurrent layer reads a value, with nothing but moves between."""
    return any(
        reader.op_type in RECURRENT
        or (reader.op_type in MOVES and any(_feeds_cells(builder, one) for one in reader.outputs))
        for reader in builder.readers.get(value, ())
    )


def _emit_node(builder: Builder, node: ir.Node) -> None:
    """Emits a node, or puts it among those that wait for a Float instruction.

    An integer form whose sums could leave int32 is none, nor is one whose instructions have 8-bit codes alone
    where the graph has 16-bit ones.
    """
    mark = builder.mark()
    try:
        _emitter(builder, node)(builder, node)
        emitted = builder.steps[mark.steps :]
        _check_wide(builder, emitted)
        sums = (step for step in emitted if isinstance(step, SUMMING))
        check_bounds(Program(builder.profile, tuple(builder.slots), tuple(sums), (), ()))
    except (NoFormError, ModelError) as error:
        builder.back_to(mark)
        builder.pending.append(node)
        builder.reasons[node] = error.problem if isinstance(error, ModelError) else str(error)


def _check_wide(builder: Builder, emitted: Sequence[Instruction]) -> None:
    """Raises NoFormError of an instruction with 16-bit codes that it cannot compute with."""
    for step in emitted:
        slots = [builder.slots[slot] for slot in (*step.inputs, *step.outputs)]
        if any(slot.is_wide for slot in slots) and not takes_wide(step, slots):
            raise NoFormError(f"{type(step).__name__} has 8-bit codes alone")


def _emitter(builder: Builder, node: ir.Node) -> Emit:
    """What emits the operator of a node.

    Raises:
        NoFormError: nothing does, or not from such inputs.
    """
    if emit_norms.begins_rows(builder, node):
        return emit_norms.rows_spelled_out
    if node.op_type in CODED_CELLS:
        raise NoFormError("it is an op of ONNX Runtime; the target calib8 has such layers")
    if not is_standard(node) or node.op_type not in EMIT:
        raise NoFormError("the op has no integer form")
    read = [value for value in node.inputs if value is not None and value in builder.forms]
    if node.op_type not in INTEGER_MOVES and any(is_integer(value) for value in read):
        raise NoFormError("it computes with 8-bit integers as such")
    return EMIT[node.op_type]


def by_float_level(draft: Draft, nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """The nodes in an order in which float nodes that can run together follow each other.

    The level of a node counts how often a path to it enters float nodes from integer ones; as many Float
    instructions as there are levels are needed in any order.
    """
    floats = {node for step in draft.floats for node in step.nodes}
    level: dict[ir.Node, int] = {}
    for node in nodes:
        level[node] = int(node in floats)
        for value in values_read(node):
            producer = value.producer()
            if producer is not None:
                enters = node in floats and producer not in floats
                level[node] = max(level[node], level[producer] + int(enters))
    return sorted(nodes, key=lambda node: (level[node], node not in floats))


def _refuse_unknown_operators(model: ir.Model) -> None:
    known = {identifier[:2] for identifier in model.functions}
    foreign = [
        f"{label(node)} ({node.domain}.{node.op_type})"
        for node in all_nodes(model)
        if node.domain not in RUNTIME_DOMAINS and (node.domain, node.op_type) not in known
    ]
    if foreign:
        raise UnsupportedModelError(
            model.graph.name or "model",
            f"holds operators that nothing can run: {', '.join(dict.fromkeys(foreign))}",
            "Export the model with standard ONNX operators",
        )


def _refuse_float(draft: Draft, model: ir.Model) -> None:
    listed = [text for step in draft.floats for text in described(draft.builder, step)]
    reasons = {step_name(node): why for node, why in draft.builder.reasons.items()}
    cells = [step for step in draft.steps if isinstance(step, Recurrent)]
    for step in cells:
        why = f", as {reasons[step.name]}" if step.name in reasons else ""
        listed.append(f"'{step.name}' ({step.cell}: its gates and states are float32{why})")
    functions = [step for step in draft.steps if isinstance(step, RealFunction)]
    listed += [f"'{step.name}' ({step.function.name}: computed in float32)" for step in functions]
    if listed:
        uncoded = [node for node, why in draft.builder.reasons.items() if why == UNCODED]
        able = cells or any(node.op_type in GATE_ORDER for node in uncoded)
        hint = f", LSTM and GRU with {parameter('recurrent', 'integer')}" if able else ""
        raise UnsupportedModelError(
            model.graph.name or "model",
            f"{len(listed)} nodes have no integer form: {'; '.join(listed)}",
            f"Quantize their inputs and results{hint}, or allow float nodes",
        )
