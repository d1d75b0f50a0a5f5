"""LSTM, GRU and RNN whose weights are 8-bit codes: one instruction, then the parts of its result.

Profiles of integers compute LSTM and GRU in integers throughout where the model has codes for it
(``emit_integer_recurrent``).

    W int8 [1, G·H, I] ─► DequantizeLinear(axis 1) ─►                    one direction
    two of them ─► Concat(axis 0) ─►                                     both directions

A float32 sequence is read as it is, one in codes is dequantized; with layout 1 axes are moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.coded_array import CodedArray
from calib8.errors import NoFormError
from calib8.model.graph import float_attribute, input_at, int_attribute
from calib8.ops.questions import is_standard, joins
from calib8.passes.integer_cells import why_no_integer_cell
from calib8.passes.recurrent_nodes import LONGEST_SUM, activations_of, why_cell_float
from calib8.program.instructions import Constant, Recurrent, Reshape, Slice, Transpose
from calib8.program.lower.builder import Builder, step_name
from calib8.program.lower.constants import coded_constant, fixed, is_fixed
from calib8.program.lower.emit_integer_recurrent import (
    GATE_ORDER,
    PEEPHOLE_ORDER,
    Layer,
    emit_integer,
    per_gate,
)
from calib8.program.lower.floats import real_slot
from calib8.program.lower.forms import Real
from calib8.program.ops.cells import GATES, Cell, Extra
from calib8.program.rules import F32, I8, CellFunction
from calib8.program.slot import Slot

DIRECTIONS: Final[dict[str, tuple[Literal["forward", "reverse"], ...]]] = {
    "forward": ("forward",),
    "reverse": ("reverse",),
    "bidirectional": ("forward", "reverse"),
}
EXTRAS: Final[dict[Extra, int]] = {"h": 5, "c": 6, "lengths": 4}
"""Place of what may be given beside the sequence."""

PEEPHOLE: Final = 7
UNCODED: Final = "its weights are not quantized"


@dataclass(frozen=True, eq=False)
class _Rows:
    """Codes of W or R: int8 [D, G·H, K] and float32 [D, G·H]."""

    codes: I8
    scales: F32


def recurrent(builder: Builder, node: ir.Node) -> None:
    """The layer and the parts of its result that are read."""
    cell, late = cast("Cell", node.op_type), int_attribute(node, "linear_before_reset", 0) != 0
    weight, states = _weights(builder, node)
    directions = _directions(node)
    bias, inner_bias = _biases(node, weight.scales.shape, late=late and cell == "GRU")
    peephole = fixed(input_at(node, PEEPHOLE))
    if builder.profile != "onnx" and _in_integers(builder, node, weight, states, (bias, inner_bias)):
        return
    turned = int_attribute(node, "layout", 0) != 0
    given, inputs = _inputs(builder, node, turned=turned)
    steps, samples, depth = builder.slots[inputs[0]].shape
    if max(depth, states.codes.shape[2]) > LONGEST_SUM:
        raise NoFormError(f"it adds {max(depth, states.codes.shape[2])} products")
    rows = steps + (2 if cell == "LSTM" else 1)
    result = _states(builder, node, (rows, len(directions), samples, states.codes.shape[2]))
    layer = Recurrent(
        step_name(node),
        tuple(inputs),
        (result,),
        cell=cell,
        directions=directions,
        weight=weight.codes,
        weight_scale=weight.scales,
        recurrent=states.codes,
        recurrent_scale=states.scales,
        bias=bias,
        inner_bias=inner_bias,
        peephole=np.zeros(0, np.float32) if peephole is None else peephole.astype(np.float32),
        functions=tuple(CellFunction(*cast("Any", one)) for one in activations_of(node)),
        clip=float(np.float32(float_attribute(node, "clip", 0.0))),
        coupled=cell == "LSTM" and int_attribute(node, "input_forget", 0) != 0,
        reset_after=late and cell == "GRU",
        extras=given,
    )
    builder.steps.append(layer)
    _deliver(builder, node, result, steps, turned=turned)


def _weights(builder: Builder, node: ir.Node) -> tuple[_Rows, _Rows]:
    """Codes of W and R.

    Raises:
        NoFormError: the node, or else its weights, are none of which there could be some.
    """
    reason = why_cell_float(node)
    if reason:
        raise NoFormError(reason)
    try:
        return _rows(input_at(node, 1)), _rows(input_at(node, 2))
    except NoFormError as error:
        deeper = _why_no_integers(node) if builder.profile != "onnx" else ""
        raise NoFormError(deeper or str(error)) from error


def _why_no_integers(node: ir.Node) -> str:
    """Why no codes of its weights would make a node one of integers throughout."""
    if node.op_type not in GATE_ORDER:
        return f"{node.op_type} has no form of integers throughout"
    return why_no_integer_cell(node)


def _in_integers(
    builder: Builder, node: ir.Node, weight: _Rows, states: _Rows, biases: tuple[F32, F32]
) -> bool:
    """Emits the form of integers throughout where there is one; the reason why not is kept."""
    mark = builder.mark()
    try:
        reason = _why_no_integers(node)
        if reason:
            raise NoFormError(reason)
        emit_integer(builder, _integer_layer(node, weight, states, biases))
    except NoFormError as error:
        builder.back_to(mark)
        builder.reasons[node] = str(error)
        return False
    return True


def _integer_layer(node: ir.Node, weight: _Rows, states: _Rows, biases: tuple[F32, F32]) -> Layer:
    """The node with gates apart, in the order of the instructions.

    Raises:
        NoFormError: units of a gate have different scales.
    """
    gates, order = GATES[cast("Cell", node.op_type)], GATE_ORDER[node.op_type]

    def apart(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return rows.reshape(len(rows), gates, -1, *rows.shape[2:])[:, list(order)]

    peephole, given = np.zeros(0, np.float32), fixed(input_at(node, PEEPHOLE))
    if given is not None:
        peephole = given.astype(np.float32).reshape(len(given), 3, -1)[:, list(PEEPHOLE_ORDER)]
    return Layer(
        node,
        _directions(node),
        apart(weight.codes),
        per_gate(weight.scales, gates, order),
        apart(states.codes),
        per_gate(states.scales, gates, order),
        apart(biases[0]),
        biases[1],
        peephole,
        int_attribute(node, "layout", 0) == 0,
    )


def _directions(node: ir.Node) -> tuple[Literal["forward", "reverse"], ...]:
    attribute = node.attributes.get("direction")
    return DIRECTIONS["forward" if attribute is None else attribute.as_string()]


def _inputs(builder: Builder, node: ir.Node, *, turned: bool) -> tuple[tuple[Extra, ...], list[int]]:
    """What is given beside the sequence, and the slots of all."""
    inputs, given = [_read(builder, node.inputs[0], turned=turned)], list[Extra]()
    for name, place in EXTRAS.items():
        value, swapped = input_at(node, place), turned and name != "lengths"
        if value is None:
            continue
        if is_fixed(value):
            slot = _constant(builder, value, builder.slots[inputs[0]].shape[0], swapped=swapped)
        else:
            slot = _read(builder, value, turned=swapped)
        if slot is not None:
            given.append(name)
            inputs.append(slot)
    return tuple(given), inputs


def _constant(builder: Builder, value: ir.Value, steps: int, *, swapped: bool) -> int | None:
    """Slot of first states or lengths that never change; None where they say what holds without them."""
    array = fixed(value)
    assert array is not None
    usual = steps if array.dtype == np.int32 else 0
    if np.all(array == usual):
        return None
    array = np.ascontiguousarray(array.swapaxes(0, 1) if swapped else array)
    slot = builder.slot(Slot(value.name or "", array.shape, array.dtype.name))
    builder.steps.append(Constant(value.name or "", (), (slot,), array))
    return slot


def _rows(value: ir.Value | None) -> _Rows:
    """Codes and scales of all directions.

    Raises:
        NoFormError: there are none, or they are not symmetric.
    """
    producer = None if value is None else value.producer()
    if producer is not None and is_standard(producer) and joins(producer):
        if int_attribute(producer, "axis", 0) not in (0, -3):
            raise NoFormError(UNCODED)
        parts = [_rows(one) for one in producer.inputs]
        codes = np.concatenate([part.codes for part in parts])
        return _Rows(codes, np.concatenate([part.scales for part in parts]))
    found = coded_constant(value)
    if found is None:
        raise NoFormError("its weights are computed" if fixed(value) is None else UNCODED)
    if found.values.dtype != np.int8 or np.any(found.zero_point) or found.values.min(initial=0) < -127:
        raise NoFormError("its weights are not int8 codes -127 … 127 with the zero point 0")
    return _Rows(found.values, _scales(found))


def _scales(found: CodedArray) -> F32:
    """One scale for every gate of every unit."""
    count, rows, _ = found.values.shape
    if found.axis is None:
        return np.full((count, rows), found.scale, np.float32)
    if found.axis == 1 and count == 1:
        return found.scale.astype(np.float32).reshape(1, rows)
    raise NoFormError("its weights do not have one scale per gate and unit")


def _biases(node: ir.Node, shape: tuple[int, ...], *, late: bool) -> tuple[F32, F32]:
    """What is added to the products of x; what stays with those of h, nothing unless ``late``."""
    given, (count, rows) = fixed(input_at(node, 3)), shape
    both = np.zeros((count, 2, rows), np.float32)
    if given is not None:
        both = given.astype(np.float32).reshape(both.shape)
    bias = both[:, 0] + both[:, 1]
    if not late:
        return bias, np.zeros(0, np.float32)
    last = rows - rows // GATES["GRU"]
    bias[:, last:] = both[:, 0, last:]
    return bias, both[:, 1, last:].copy()


def _read(builder: Builder, value: ir.Value | None, *, turned: bool) -> int:
    """Slot of an input; where it is turned, samples are its second axis from then on."""
    assert value is not None
    source = real_slot(builder, value)
    return _transposed(builder, source, (1, 0, 2)) if turned else source


def _transposed(builder: Builder, source: int, axes: tuple[int, ...], value: ir.Value | None = None) -> int:
    old = builder.slots[source]
    name = f"{old.name}/turned" if value is None else value.name or ""
    slot = Slot(name, tuple(old.shape[axis] for axis in axes), old.dtype)
    result = builder.slot(slot, value)
    builder.steps.append(Transpose(slot.name, (source,), (result,), axes))
    return result


def _states(builder: Builder, node: ir.Node, shape: tuple[int, ...]) -> int:
    return builder.slot(Slot(f"{step_name(node)}/states", shape, "float32"))


def _deliver(builder: Builder, node: ir.Node, result: int, steps: int, *, turned: bool) -> None:
    """Y, Y_h and Y_c: rows of the result."""
    shape = builder.slots[result].shape
    for place, value in enumerate(node.outputs):
        if not value.name or not (value.is_graph_output() or builder.readers.get(value)):
            continue
        first, count = (0, steps) if place == 0 else (steps + place - 1, 1)
        part = builder.slot(Slot(f"{value.name}/rows", (count, *shape[1:]), "float32"))
        builder.steps.append(Slice(f"{value.name}", (result,), (part,), (first, 0, 0, 0), (1, 1, 1, 1)))
        if place > 0:
            flat = builder.slot(Slot(f"{value.name}/state", shape[1:], "float32"), None if turned else value)
            builder.steps.append(Reshape(f"{value.name}", (part,), (flat,)))
            part = _transposed(builder, flat, (1, 0, 2), value) if turned else flat
        elif turned:
            part = _transposed(builder, part, (2, 0, 1, 3), value)
        builder.forms[value] = Real(part, own=True)
