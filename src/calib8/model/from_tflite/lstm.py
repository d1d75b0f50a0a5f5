"""LSTMs of float files as ONNX's LSTM: forward, or both ways at once.

    TFLite [N, T, I] (time first: [T, N, I]), gates i, f, g, o      ONNX [T, N, I], gates i, o, f, g

Coupled gates (no input gate): i = 1 − f = Sigmoid(−a_f), so the input gate has the weights of the forget gate
with the other sign. Every run begins with states of 0, as with LiteRT's ``reset_all_variables``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.errors import NoFormError
from calib8.model.from_tflite.builder import Builder
from calib8.tflite.graph import Operator

F32 = npt.NDArray[np.float32]

ONNX_GATES: Final = (0, 3, 1, 2)
"""Places of i, o, f and g among TFLite's gates."""

ACTIVATIONS: Final = {"TANH": "Tanh", "RELU": "Relu"}
"""Of g and of what o multiplies."""


@dataclass(frozen=True)
class _Places:
    """Inputs of one direction: gates i, f, g, o, peepholes i, f, o.

    Attributes:
        weights, recurrent, peepholes, biases: one place per gate.
        unknown: inputs that ONNX has no place for, and what they are.
    """

    weights: tuple[int, ...]
    recurrent: tuple[int, ...]
    peepholes: tuple[int, ...]
    biases: tuple[int, ...]
    unknown: tuple[tuple[int, str], ...]


def _direction(first: int, projection: int) -> _Places:
    gates = range(first, first + 4)
    return _Places(
        tuple(gates),
        tuple(place + 4 for place in gates),
        (first + 8, first + 9, first + 10),
        tuple(place + 11 for place in gates),
        ((projection, "a projection"), (projection + 1, "a projection")),
    )


FORWARD: Final = _direction(1, 16)
BACKWARD: Final = _direction(18, 33)
NORMS: Final = tuple((place, "norms") for place in range(20, 24))
SECOND_INPUT: Final = tuple((place, "a second input") for place in range(39, 48))


def sequence_lstm(builder: Builder, operator: Operator) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM.

    Raises:
        NoFormError: what ONNX's LSTM does not have, or weights that do not fit each other.
    """
    _refuse(builder, operator, (*FORWARD.unknown, *NORMS))
    result = _lstm(builder, operator, [FORWARD])
    title, y = builder.name(operator.outputs[0]), operator.outputs[0]
    axis = builder.numbers(f"{title}/direction", [1])
    if operator.options.get("time_major", False):
        builder.write(y, builder.filed(y), "Squeeze", [result, axis])
        return
    steps = builder.emit(f"{title}/steps", "Squeeze", [result, axis])
    builder.write(y, builder.filed(y), "Transpose", [steps], perm=[1, 0, 2])


def bidirectional_lstm(builder: Builder, operator: Operator) -> None:
    """BIDIRECTIONAL_SEQUENCE_LSTM; both results next to each other, or as two outputs.

    Raises:
        NoFormError: as ``sequence_lstm``.
    """
    _refuse(builder, operator, (*FORWARD.unknown, *BACKWARD.unknown, *SECOND_INPUT))
    merged = bool(operator.options.get("merge_outputs", False))
    if len(operator.outputs) != 2 - merged:
        raise NoFormError(f"it has {len(operator.outputs)} outputs, merged: {merged}")
    result = _lstm(builder, operator, [FORWARD, BACKWARD])
    title = builder.name(operator.outputs[0])
    parts = builder.emit_several(f"{title}/directions", "Split", [result], 2, axis=1)
    axis = builder.numbers(f"{title}/direction", [1])
    ways = [builder.emit(f"{title}/way", "Squeeze", [part, axis]) for part in parts]
    if not operator.options.get("time_major", False):
        ways = [builder.emit(f"{title}/steps", "Transpose", [way], perm=[1, 0, 2]) for way in ways]
    if merged:
        y = operator.outputs[0]
        builder.write(y, builder.filed(y), "Concat", ways, axis=2)
        return
    for y, way in zip(operator.outputs, ways, strict=True):
        builder.write(y, builder.filed(y), "Identity", [way])


def _refuse(builder: Builder, operator: Operator, unknown: Sequence[tuple[int, str]]) -> None:
    for place, what in unknown:
        if _given(operator, place):
            raise NoFormError(f"it has {what}, which ONNX's LSTM does not have")
    for option in ("cell_clip", "proj_clip"):
        if operator.options.get(option, 0.0):
            raise NoFormError(f"its {option} is {operator.options[option]}; ONNX's LSTM bounds no cell")
    if operator.options.get("diagonal_recurrent_tensors", False):
        raise NoFormError("its recurrent weights are diagonals")
    x = operator.inputs[0]
    if len(builder.sizes(x)) != 3 or builder.tensor(x).dtype != "float32":
        raise NoFormError(f"it reads {builder.tensor(x).dtype} of {len(builder.sizes(x))} axes")


def _given(operator: Operator, place: int) -> bool:
    return place < len(operator.inputs) and operator.inputs[place] >= 0


def _lstm(builder: Builder, operator: Operator, ways: Sequence[_Places]) -> ir.Value:
    """The node, and its result [T, D, N, H]."""
    activation = str(operator.options.get("fused_activation_function", "NONE"))
    if activation not in ACTIVATIONS:
        raise NoFormError(f"its activation is {activation}")
    title, x = builder.name(operator.outputs[0]), operator.inputs[0]
    arrays = [_arrays(builder, operator, way) for way in ways]
    names = ("weight", "recurrent", "bias", "peephole")
    stacked = [np.stack([each[at] for each in arrays]) for at in range(len(names))]
    if len({each.shape for each in stacked[1]}) > 1:
        raise NoFormError("its two directions differ in size")
    values = [
        builder.numbers(f"{title}/{name}", array, "float32")
        for name, array in zip(names, stacked, strict=True)
    ]
    sequence = builder.read(x, builder.filed(x))
    if not operator.options.get("time_major", False):
        sequence = builder.emit(f"{title}/time_first", "Transpose", [sequence], perm=[1, 0, 2])
    weight, recurrent, bias, peephole = values
    inputs = [sequence, weight, recurrent, bias, None, None, None]
    if stacked[3].any():
        inputs.append(peephole)
    functions = ["Sigmoid", ACTIVATIONS[activation], ACTIVATIONS[activation]] * len(ways)
    return builder.emit(
        f"{title}/states",
        "LSTM",
        inputs,
        hidden_size=stacked[1].shape[2],
        direction="forward" if len(ways) == 1 else "bidirectional",
        activations=functions,
    )


def _arrays(builder: Builder, operator: Operator, way: _Places) -> tuple[F32, F32, F32, F32]:
    """W [4H, I], R [4H, H], biases [8H] and peepholes [3H] of one direction, in ONNX's order."""
    weights, recurrent = (_gates(builder, operator, places, 2) for places in (way.weights, way.recurrent))
    units = len(weights[0])
    biases = _gates(builder, operator, way.biases, 1)
    peepholes = _peepholes(builder, operator, way, units)
    for gate in range(4):
        shapes = weights[gate].shape, recurrent[gate].shape, biases[gate].shape
        if shapes != (weights[0].shape, (units, units), (units,)):
            listed = " and ".join(str(list(shape)) for shape in shapes)
            raise NoFormError(f"its gates have weights and biases of shapes {listed}")
    return (
        np.concatenate([weights[gate] for gate in ONNX_GATES]),
        np.concatenate([recurrent[gate] for gate in ONNX_GATES]),
        np.concatenate([*(biases[gate] for gate in ONNX_GATES), np.zeros(4 * units, np.float32)]),
        peepholes,
    )


def _gates(builder: Builder, operator: Operator, places: Sequence[int], rank: int) -> list[F32]:
    """Arrays of the gates i, f, g, o; of coupled ones i is −f."""
    found = [_constant(builder, operator, place, rank) for place in places[1:]]
    first = _constant(builder, operator, places[0], rank) if _given(operator, places[0]) else -found[0]
    return [first, *found]


def _peepholes(builder: Builder, operator: Operator, way: _Places, units: int) -> F32:
    """[3H] in the order i, o, f; zeros where there are none."""
    if not _given(operator, way.peepholes[2]):
        return np.zeros(3 * units, np.float32)
    forget, output = (_constant(builder, operator, place, 1) for place in way.peepholes[1:])
    first = (
        _constant(builder, operator, way.peepholes[0], 1) if _given(operator, way.peepholes[0]) else -forget
    )
    if not first.shape == forget.shape == output.shape == (units,):
        raise NoFormError(f"it has peepholes of shape {list(forget.shape)} for {units} units")
    return np.concatenate([first, output, forget])


def _constant(builder: Builder, operator: Operator, place: int, rank: int) -> F32:
    """float32 numbers of a rank.

    Raises:
        NoFormError: they are left out, computed, or something else.
    """
    if not _given(operator, place):
        raise NoFormError(f"its input {place} is left out")
    array = builder.constant(operator.inputs[place])
    if array.dtype.kind != "f" or array.ndim != rank or not array.size:
        raise NoFormError(f"'{builder.name(operator.inputs[place])}' is {array.dtype} {list(array.shape)}")
    return array.astype(np.float32)
