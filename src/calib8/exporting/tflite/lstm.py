"""LSTMs of integers as UNIDIRECTIONAL_SEQUENCE_LSTM: scales of which LiteRT makes the same multipliers again.

    multiplier of fl(fl(s_W·s_x)/2^−12)   →   s_W near multiplier·2^(shift − 31)·2^−12/s_x, tried one by one

An instruction keeps the multipliers, a file the scales. Neighbouring float32 numbers are tried until one
gives the multiplier; the scale that it was made of is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.exporting.tflite.builder import Builder, slot_codes
from calib8.fixedpoint import encode_multiplier
from calib8.program.instructions import IntegerLstm
from calib8.program.rules import Multipliers
from calib8.program.slot import Slot
from calib8.tflite.graph import Quantization, Tensor

GATES: Final = 4
INPUTS: Final = 20
WEIGHT, RECURRENT, PEEPHOLE, BIAS, STATE, CELL = 1, 5, 9, 12, 18, 19
"""Places of the inputs; gates in the order i, f, g, o, peepholes i, f, o."""

GATE_SCALE: Final = np.float32(2.0**-12)
NEIGHBOURS: Final = 16
VERSION: Final = 3


def integer_lstm(builder: Builder, step: IntegerLstm) -> None:
    """An operator whose states begin with zeros.

    Raises:
        NoFormError: it goes backwards, has states of its own, norms or a projection; no scale gives its
            multipliers.
    """
    reason = _why_not(step)
    if reason:
        raise NoFormError(reason)
    source, target = builder.slot(step.inputs[0]), builder.slot(step.outputs[0])
    inputs = [-1] * INPUTS
    inputs[0] = builder.tensor(step.inputs[0])
    gates = range(step.coupled, GATES)
    _weights(builder, step, inputs, WEIGHT, source)
    _weights(builder, step, inputs, RECURRENT, target)
    for row, gate in enumerate(gates):
        inputs[BIAS + gate] = builder.constant(f"{step.name}/bias", step.bias[row].copy())
    _peepholes(builder, step, inputs)
    _states(builder, step, inputs, source, target)
    between = [_between(builder, 1.0, 0) for _ in range(GATES)]
    between.append(_between(builder, target.scale, step.hidden_zero_point))
    builder.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [builder.tensor(step.outputs[0])], VERSION,
        fused_activation_function="TANH", cell_clip=step.cell_clip * 2.0 ** (step.cell_bits - 15),
        proj_clip=0.0, time_major=step.time_first,
    )  # fmt: skip
    builder.operators[-1] = replace(builder.operators[-1], intermediates=tuple(between))


def _why_not(step: IntegerLstm) -> str:
    if step.reverse:
        return "TFLite's LSTM of integers goes forward alone"
    if step.first or len(step.outputs) > 1:
        return "TFLite's LSTM keeps its states to itself"
    if step.norm.size or step.projection.size or step.cell_clip:
        return "what it has beside gates has no scale any more: keep the TFLite file that it was read from"
    return ""


def _weights(builder: Builder, step: IntegerLstm, inputs: list[int], first: int, codes: Slot) -> None:
    """Of x or of h, each gate with a scale of its own."""
    of_x = first == WEIGHT
    weight = step.weight if of_x else step.recurrent
    by = step.weight_multipliers if of_x else step.recurrent_multipliers
    other = np.float32(codes.scale)
    for row, gate in enumerate(range(step.coupled, GATES)):
        scale = _scale(by, row, float(GATE_SCALE) / float(other), lambda s: s * other / GATE_SCALE)
        quantization = _quantization(scale)
        inputs[first + gate] = builder.constant(f"{step.name}/weight", weight[row].copy(), quantization)


def _peepholes(builder: Builder, step: IntegerLstm, inputs: list[int]) -> None:
    if not step.peephole.size:
        return
    power = 2.0 ** (step.cell_bits - 15)
    for row, place in enumerate(range(step.coupled, 3)):
        scale = _scale(
            step.peephole_multipliers, row, float(GATE_SCALE) / power,
            lambda s: np.float32(power * float(s) / float(GATE_SCALE)),
        )  # fmt: skip
        words = builder.constant(f"{step.name}/peephole", step.peephole[row].copy(), _quantization(scale))
        inputs[PEEPHOLE + place] = words


def _scale(by: Multipliers, row: int, unit: float, factor: Callable[[np.float32], np.float32]) -> np.float32:
    """A scale whose factor has this multiplier and shift.

    Raises:
        NoFormError: there is none.
    """
    wanted = int(by.multiplier[row]), int(by.shift[row])
    near = np.float32(wanted[0] * 2.0 ** (wanted[1] - 31) * unit)
    for scale in _around(near):
        if scale > 0 and encode_multiplier(float(factor(scale))) == wanted:
            return scale
    raise NoFormError("no scale of its weights gives its multipliers")


def _around(scale: np.float32) -> Iterator[np.float32]:
    """float32 numbers, nearest first."""
    yield scale
    up = down = scale
    for _ in range(NEIGHBOURS):
        up, down = np.nextafter(up, np.float32(np.inf)), np.nextafter(down, np.float32(0))
        yield up
        yield down


def _quantization(scale: float | np.float32, zero_point: int = 0) -> Quantization:
    points: npt.NDArray[Any] = np.array([zero_point], np.int64)
    return Quantization(np.array([scale], np.float32), points)


def _states(builder: Builder, step: IntegerLstm, inputs: list[int], source: Slot, target: Slot) -> None:
    """Variables that begin with zeros: h in the codes of the result, c."""
    samples = source.shape[1 if step.time_first else 0]
    cell = _quantization(2.0 ** (step.cell_bits - 15))
    for place, width, dtype, quantization in (
        (STATE, step.width, "int8", slot_codes(target)),
        (CELL, step.units, "int16", cell),
    ):
        name = f"{step.name}/{'h' if place == STATE else 'c'}"
        tensor = Tensor(name, (samples, width), dtype, None, quantization, is_variable=True)
        builder.tensors.append(tensor)
        inputs[place] = len(builder.tensors) - 1


def _between(builder: Builder, scale: float, zero_point: int) -> int:
    builder.tensors.append(Tensor("between", (), "int8", None, _quantization(scale, zero_point)))
    return len(builder.tensors) - 1
