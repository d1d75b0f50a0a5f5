"""LSTM and GRU whose sequence, result and weights are codes: IntegerLstm and IntegerGru, one per direction.

    x ─► IntegerLstm ─► h [T, N, H] ─► Reshape [T, 1, N, H] ─► Concat of both directions ─► Y
             ▲   └────► c [N, H]                                                       └─► Y_c
             first h, first c                                  Y_h: h of the last step of each direction

Gates come in another order, and ``input_forget`` (f = 1 − i) is i = 1 − f with the signs of i's weights
turned: 1 − Sigmoid(a) = Sigmoid(−a).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.fixedpoint import INT32_MAX
from calib8.model.graph import input_at, int_attribute
from calib8.passes.integer_cells import stored_power, unread_hidden, why_no_integer_cell
from calib8.program.instructions import Concat, Instruction, IntegerGru, IntegerLstm, Reshape, Slice
from calib8.program.lower.builder import Builder, step_name
from calib8.program.lower.constants import is_fixed
from calib8.program.lower.convert import coded, codes_at
from calib8.program.lower.forms import Coded, CodeType
from calib8.program.lower.layout import logical_order
from calib8.program.lower.readers import tail_of
from calib8.program.ops.integer_gru_cells import STATE_SCALE
from calib8.program.ops.integer_states import signed_point
from calib8.program.rounding import cells
from calib8.program.rules import F32, I8, I16, I32
from calib8.program.slot import Slot
from calib8.qparams import INT8, UINT8

GATE_ORDER: Final = {"LSTM": (0, 2, 3, 1), "GRU": (0, 1, 2)}
"""Places of i, f, g, o and of z, r, n among those of ONNX."""

PEEPHOLE_ORDER: Final = (0, 2, 1)
"""Of i, f, o."""

HIDDEN, CELL, PEEPHOLE = 5, 6, 7
WORD: Final = (1 << 15) - 1
NO_WORDS: Final = np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class Layer:
    """What is known of a node before its directions are emitted.

    Attributes:
        node: the LSTM or GRU.
        ways: ``forward`` or ``reverse`` of each direction.
        weight, recurrent: int8 [D, G, H, K] in the order of the instruction.
        weight_scale, recurrent_scale: float32 [D, G].
        bias: float32 [D, G, H].
        inner_bias: float32 [D, H] or [0].
        peephole: float32 [D, 3, H] of i, f, o, or [0].
        time_first: layout 0.
    """

    node: ir.Node
    ways: tuple[str, ...]
    weight: I8
    weight_scale: F32
    recurrent: I8
    recurrent_scale: F32
    bias: F32
    inner_bias: F32
    peephole: F32
    time_first: bool

    @property
    def is_lstm(self) -> bool:
        """Whether there is a cell."""
        return self.node.op_type == "LSTM"

    @property
    def units(self) -> int:
        """H."""
        return int(self.recurrent.shape[-1])


@dataclass(frozen=True)
class _Codes:
    """Slots and kinds of the sequence, of h, and of the 16-bit state."""

    x: int
    x_kind: CodeType
    h_kind: CodeType
    state_kind: CodeType


def emit_integer(builder: Builder, layer: Layer) -> None:
    """All directions, and the parts of their results that are read.

    Raises:
        NoFormError: why there is none of integers throughout.
    """
    codes = _codes(builder, layer)
    wanted = [_is_wanted(builder, value) for value in layer.node.outputs]
    last_state = 2 if layer.is_lstm else 1
    sequences, lasts = [], []
    for d, way in enumerate(layer.ways):
        keeps = len(wanted) > last_state and wanted[last_state]
        sequence, last = _direction(builder, layer, codes, d, way == "reverse", keeps=keeps)
        sequences.append(sequence)
        lasts += [last] if keeps else []
    outputs = list(layer.node.outputs)
    if wanted[0]:
        _deliver(builder, outputs[0], sequences, _axis_of_directions(layer))
    if lasts:
        _deliver(builder, outputs[last_state], lasts, 0 if layer.time_first else 1)
    if layer.is_lstm and len(wanted) > 1 and wanted[1]:
        ends = [_end(builder, layer, slot, way) for slot, way in zip(sequences, layer.ways, strict=True)]
        _deliver(builder, outputs[1], ends, 0 if layer.time_first else 1)


def per_gate(scales: F32, gates: int, order: tuple[int, ...]) -> F32:
    """Scales of units [D, G·H] as those of gates [D, G].

    Raises:
        NoFormError: units of a gate differ.
    """
    each = scales.reshape(len(scales), gates, -1)
    if np.any(each != each[:, :, :1]):
        raise NoFormError("its weights do not have one scale per gate")
    found: F32 = each[:, list(order), 0]
    return found


def _is_wanted(builder: Builder, value: ir.Value) -> bool:
    return bool(value.name) and (value.is_graph_output() or bool(builder.readers.get(value)))


def _codes(builder: Builder, layer: Layer) -> _Codes:
    """What the layer reads and writes.

    Raises:
        NoFormError: something is not in codes.
    """
    node = layer.node
    reason = why_no_integer_cell(node)
    source = None if reason else coded(builder, node.inputs[0])
    if reason or source is None:
        raise NoFormError(reason or "its sequence is not in codes")
    x = builder.in_logical_order(source)
    if builder.kind(x).dtype == "int16":
        raise NoFormError("its sequence has 16-bit codes")
    hidden = _hidden_kind(builder, layer, builder.kind(x).dtype)
    scale = STATE_SCALE
    if layer.is_lstm:
        power = stored_power(node.metadata_props)
        if power is None:
            raise NoFormError("nothing states the scale of its cell")
        scale = 2.0**power
    return _Codes(x.slot, builder.kind(x), hidden, CodeType("int16", scale, 0))


def _hidden_kind(builder: Builder, layer: Layer, dtype: str) -> CodeType:
    """Codes of h of all steps; where nobody reads them, those of ±1, as the first h has them.

    Raises:
        NoFormError: who reads them reads no codes.
    """
    results = layer.node.outputs[:2] if layer.is_lstm else layer.node.outputs[:1]
    for value in layer.node.outputs[:2]:
        for kind in tail_of(value).kinds:
            if kind.dtype != "int16":
                return kind
    if any(_is_wanted(builder, value) for value in results):
        raise NoFormError("its result is not in codes")
    qparams = unread_hidden(INT8 if dtype == "int8" else UINT8)
    return CodeType(dtype, qparams.scale, qparams.zero_point)


def _axis_of_directions(layer: Layer) -> int:
    return 1 if layer.time_first else 2


def _direction(
    builder: Builder, layer: Layer, codes: _Codes, d: int, reverse: bool, *, keeps: bool
) -> tuple[int, int]:
    """Slots of h of all steps, and of the last state where it is kept."""
    sizes = builder.slots[codes.x].shape
    name = f"{step_name(layer.node)}/{'reverse' if reverse else 'forward'}"
    kind = codes.h_kind
    shape = (*sizes[:2], layer.units)
    result = builder.slot(Slot(name, shape, kind.dtype, kind.scales, kind.zero_point))
    outputs, samples = [result], sizes[1 if layer.time_first else 0]
    if keeps:
        state = Slot(f"{name}/last", (samples, layer.units), "int16", codes.state_kind.scales)
        outputs.append(builder.slot(state))
    first = _first_states(builder, layer, codes, d)
    make = _lstm if layer.is_lstm else _gru
    try:
        step = make(layer, d, codes)(
            name=step_name(layer.node),
            inputs=(codes.x, *(slot for _, slot in first)),
            outputs=tuple(outputs),
            time_first=layer.time_first,
            reverse=reverse,
            first=tuple(which for which, _ in first),
        )
    except ValueError as error:
        raise NoFormError(str(error)) from error
    builder.steps.append(step)
    return outputs[0], outputs[-1]


def _first_states(builder: Builder, layer: Layer, codes: _Codes, d: int) -> list[tuple[str, int]]:
    """Names and slots of the first states of a direction, [N, H]; none where they are 0."""
    found = []
    for name, place in (("h", HIDDEN), ("c", CELL)) if layer.is_lstm else (("h", HIDDEN),):
        value = input_at(layer.node, place)
        if value is None or is_fixed(value):
            continue
        wide = name == "c" or not layer.is_lstm
        made = codes_at(builder, value, codes.state_kind if wide else codes.h_kind)
        if made is None:
            raise NoFormError("its first states are computed in float")
        found.append((name, _part(builder, layer, builder.in_logical_order(made).slot, d)))
    return found


def _part(builder: Builder, layer: Layer, source: int, d: int) -> int:
    """A direction of states [D, N, H], [N, D, H] where samples come first, as [N, H]."""
    old, axis = builder.slots[source], 0 if layer.time_first else 1
    if len(layer.ways) > 1:
        shape = tuple(1 if place == axis else size for place, size in enumerate(old.shape))
        starts = tuple(d if place == axis else 0 for place in range(3))
        source = _moved(
            builder, source, shape, lambda name, read, written: Slice(name, read, written, starts, (1, 1, 1))
        )
    sizes = [size for place, size in enumerate(old.shape) if place != axis]
    return _moved(builder, source, tuple(sizes), Reshape)


def _moved(
    builder: Builder,
    source: int,
    shape: tuple[int, ...],
    make: Callable[[str, tuple[int, ...], tuple[int, ...]], Instruction],
) -> int:
    old = builder.slots[source]
    result = builder.slot(Slot(f"{old.name}/part", shape, old.dtype, old.scales, old.zero_point))
    builder.steps.append(make(builder.slots[result].name, (source,), (result,)))
    return result


def _end(builder: Builder, layer: Layer, sequence: int, way: str) -> int:
    """h of the step that a direction ends with, [N, H]."""
    shape, axis = builder.slots[sequence].shape, 0 if layer.time_first else 1
    start = 0 if way == "reverse" else shape[axis] - 1
    cut = tuple(1 if place == axis else size for place, size in enumerate(shape))
    starts = tuple(start if place == axis else 0 for place in range(3))
    found = _moved(
        builder, sequence, cut, lambda name, read, written: Slice(name, read, written, starts, (1, 1, 1))
    )
    return _moved(builder, found, tuple(size for place, size in enumerate(cut) if place != axis), Reshape)


def _deliver(builder: Builder, value: ir.Value, slots: list[int], axis: int) -> None:
    """Directions side by side along an axis that they get for it."""
    parts = []
    for slot in slots:
        shape = builder.slots[slot].shape
        parts.append(_moved(builder, slot, (*shape[:axis], 1, *shape[axis:]), Reshape))
    whole = parts[0]
    if len(parts) > 1:
        sizes = builder.slots[parts[0]].shape
        joined = (*sizes[:axis], len(parts), *sizes[axis + 1 :])
        old = builder.slots[parts[0]]
        whole = builder.slot(Slot(value.name or "", joined, old.dtype, old.scales, old.zero_point), value)
        builder.steps.append(Concat(value.name or "", tuple(parts), (whole,), axis))
    builder.forms[value] = Coded(whole, logical_order(len(builder.slots[whole].shape)))


def _lstm(layer: Layer, d: int, codes: _Codes) -> Callable[..., IntegerLstm]:
    coupled = int_attribute(layer.node, "input_forget", 0) != 0
    gates = [1, 2, 3] if coupled else [0, 1, 2, 3]
    weight, recurrent, bias = layer.weight[d], layer.recurrent[d], layer.bias[d]
    scales, inner_scales = layer.weight_scale[d], layer.recurrent_scale[d]
    peephole = layer.peephole[d] if layer.peephole.size else None
    if coupled:
        weight, recurrent, bias = (_turned(one) for one in (weight, recurrent, bias))
        scales, inner_scales = (one[[0, 0, 2, 3]] for one in (scales, inner_scales))
        peephole = None if peephole is None else np.stack([-peephole[0], peephole[2]])
    power = int(np.log2(codes.state_kind.scale))
    words, word_scales = _words(peephole, layer.units)
    none = cells.encoded(())

    def made(**fields: Any) -> IntegerLstm:
        return IntegerLstm(
            **fields,
            coupled=coupled,
            weight=weight[gates],
            weight_multipliers=cells.product_multipliers(scales[gates], codes.x_kind.scale),
            recurrent=recurrent[gates],
            recurrent_multipliers=cells.product_multipliers(inner_scales[gates], codes.h_kind.scale),
            bias=_rounded(bias[gates], scales[gates], codes.x_kind.scale),
            peephole=words,
            peephole_multipliers=cells.peephole_multipliers(word_scales, power),
            norm=np.zeros((0, layer.units), np.int16),
            norm_multipliers=none,
            norm_guard=NO_WORDS,
            cell_bits=15 + power,
            cell_clip=0,
            hidden=cells.output_multiplier(codes.h_kind.scale),
            hidden_zero_point=_point(codes.h_kind),
            projection=np.zeros((0, layer.units), np.int8),
            projection_bias=NO_WORDS,
            projection_multipliers=none,
            projection_clip=0,
        )

    return made


def _turned(each: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """f of coupled gates in place of its own: that of i with the other sign."""
    return np.concatenate([each[:1], -each[:1], each[2:]])


def _point(kind: CodeType) -> int:
    return signed_point(Slot("", (), kind.dtype, kind.scales, kind.zero_point))


def _gru(layer: Layer, d: int, codes: _Codes) -> Callable[..., IntegerGru]:
    late = bool(layer.inner_bias.size)
    inner = NO_WORDS
    if late:
        scales = layer.recurrent_scale[d, 2:]
        inner = _rounded(layer.inner_bias[d : d + 1], scales, codes.h_kind.scale)[0]

    def made(**fields: Any) -> IntegerGru:
        return IntegerGru(
            **fields,
            reset_after=late,
            weight=layer.weight[d],
            weight_multipliers=cells.product_multipliers(layer.weight_scale[d], codes.x_kind.scale),
            recurrent=layer.recurrent[d],
            recurrent_multipliers=cells.product_multipliers(layer.recurrent_scale[d], codes.h_kind.scale),
            bias=_rounded(layer.bias[d], layer.weight_scale[d], codes.x_kind.scale),
            inner_bias=inner,
            hidden=cells.state_multiplier(codes.h_kind.scale),
        )

    return made


def _rounded(bias: F32, scales: F32, scale: float) -> I32:
    """Biases [G, H] in units of the sums of their gates.

    Raises:
        ValueError: one does not fit 32 bits.
    """
    steps = scales.astype(np.float64)[:, None] * float(np.float32(scale))
    codes = np.rint(bias.astype(np.float64) / steps)
    if np.abs(codes).max(initial=0) > INT32_MAX // 2:
        raise ValueError("its biases are too large for the sums that they are added to")
    return codes.astype(np.int32)


def _words(weights: F32 | None, units: int) -> tuple[I16, F32]:
    """Peepholes as 16-bit codes around 0, and their scales."""
    if weights is None:
        return np.zeros((0, units), np.int16), np.zeros(0, np.float32)
    largest = np.abs(weights).max(axis=1).astype(np.float64)
    scales = np.where(largest > 0, largest / WORD, 1.0)
    codes = np.clip(np.rint(weights / scales[:, None]), -WORD, WORD)
    return codes.astype(np.int16), scales.astype(np.float32)
