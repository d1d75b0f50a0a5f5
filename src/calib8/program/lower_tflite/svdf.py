"""SVDF of 8-bit codes: filters of the input, whose last M results a second filter sums up.

    v[f]    sat16(double(Σ (x − z_x)·w[f] · fl(fl(s_x·s_w)/s_v)))
    s[f]    what is left of the state without its oldest value, and v[f] behind it
    y       TimeFilter of s, factor fl(fl(s_v·s_t)/s_y)

fl rounds to float32. LiteRT keeps v in the same places of its state, moved by one only where they are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.fixedpoint import encode_multiplier
from calib8.program.instructions import Concat, FullyConnected, Reshape, Slice, TimeFilter
from calib8.program.lower_tflite.builder import Builder
from calib8.program.lower_tflite.layers import bias, weight_codes
from calib8.program.program import Slot
from calib8.program.rules import FixedRescale, Multipliers
from calib8.tflite.graph import Operator, Quantization

X, WEIGHT, TIME, BIAS, STATE = range(5)
"""Places of the inputs."""


def svdf(builder: Builder, operator: Operator) -> None:
    """A FullyConnected of 16-bit codes, the state moved on, and a TimeFilter.

    Raises:
        NoFormError: other types than LiteRT's kernel has, or a state that is no variable.
    """
    x, y = builder.codes(operator.inputs[X]), builder.codes(operator.outputs[0])
    state, rank = _state(builder, operator), operator.options.get("rank", 0)
    weight, time = weight_codes(builder, operator.inputs[WEIGHT], 2), _time(builder, operator)
    filters, taps = time.shape
    _check(operator, (x, y), weight.dtype.name)
    if not isinstance(rank, int) or rank < 1 or filters % rank or len(weight) != filters:
        raise NoFormError(f"it has {len(weight)} and {filters} filters of rank {rank}")
    if state.shape != (x.shape[0], filters * taps):
        raise NoFormError(f"its state has shape {list(state.shape)}, not {[x.shape[0], filters * taps]}")
    scales = [_scale(builder, operator, place) for place in (WEIGHT, TIME)]
    first = np.float32(x.scale) * scales[0] / np.float32(state.scale)
    second = np.float32(state.scale) * scales[1] / np.float32(y.scale)
    latest = builder.between(state, (x.shape[0], filters), "latest")
    builder.steps.append(_features(builder, operator, weight, float(first), latest))
    _move_on(builder, operator, latest, taps)
    builder.steps.append(
        TimeFilter(
            builder.name(operator),
            (builder.number(operator.outputs[1]),),
            (builder.number(operator.outputs[0]),),
            time,
            bias(builder, operator, BIAS, filters // rank, wide=False),
            Multipliers(*_encoded(float(second))),
            -128,
            127,
        )
    )


def _features(
    builder: Builder, operator: Operator, weight: npt.NDArray[Any], factor: float, latest: int
) -> FullyConnected:
    """16-bit codes of all filters."""
    return FullyConnected(
        builder.name(operator),
        (builder.number(operator.inputs[X]),),
        (latest,),
        weight,
        np.zeros(1, np.int32),
        np.zeros(len(weight), np.int32),
        FixedRescale(*_encoded(factor), "double"),
        -32768,
        32767,
    )


def _move_on(builder: Builder, operator: Operator, latest: int, taps: int) -> None:
    """The state without its oldest values, and the latest ones behind them."""
    name, target = builder.name(operator), builder.number(operator.outputs[1])
    slot = builder.slots[latest]
    samples, filters = slot.shape
    if taps == 1:
        builder.steps.append(Reshape(name, (latest,), (target,)))
        return
    old = builder.between(slot, (samples, filters, taps), "old")
    kept = builder.between(slot, (samples, filters, taps - 1), "kept")
    new = builder.between(slot, (samples, filters, 1), "new")
    joined = builder.between(slot, (samples, filters, taps), "joined")
    builder.steps += [
        Reshape(name, (builder.number(operator.inputs[STATE]),), (old,)),
        Slice(name, (old,), (kept,), (0, 0, 1), (1, 1, 1)),
        Reshape(name, (latest,), (new,)),
        Concat(name, (kept, new), (joined,), 2),
        Reshape(name, (joined,), (target,)),
    ]


def _state(builder: Builder, operator: Operator) -> Slot:
    """The slot of a state that the operator moves on."""
    states = {(state.read, state.written) for state in builder.graph.states}
    if (operator.inputs[STATE], *operator.outputs[1:]) not in states:
        raise NoFormError("its state is no variable of its own")
    state = builder.slots[builder.number(operator.inputs[STATE])]
    if not state.is_wide:
        raise NoFormError(f"its state is {state.dtype}, not int16 with a scale")
    return state


def _time(builder: Builder, operator: Operator) -> npt.NDArray[np.int16]:
    """int16 [F, M]."""
    values = builder.constant(operator.inputs[TIME])
    if values.dtype != np.int16 or values.ndim != 2 or not values.size:
        raise NoFormError(f"its weights over time are {values.dtype} {list(values.shape)}, not int16 [F, M]")
    return np.ascontiguousarray(values)


def _check(operator: Operator, slots: tuple[Slot, Slot], weight: str) -> None:
    types = (slots[0].dtype, weight, slots[1].dtype)
    if types != ("int8", "int8", "int8"):
        raise NoFormError(f"it reads {types[0]}, weighs with {types[1]} and writes {types[2]}")
    activation = operator.options.get("fused_activation_function", "NONE")
    if activation != "RELU":
        raise NoFormError(f"its activation is {activation}, where LiteRT's kernel takes RELU alone")


def _scale(builder: Builder, operator: Operator, place: int) -> np.float32:
    """The one scale of weights with the zero point 0."""
    tensor = builder.tensor(operator.inputs[place])
    found: Quantization | None = tensor.quantization
    if found is None or found.scales.size != 1 or found.zero_points.any():
        raise NoFormError(f"'{tensor.name}' has not one scale and the zero point 0")
    return np.float32(found.scales[0])


def _encoded(factor: float) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Multiplier and shift.

    Raises:
        NoFormError: it is too large.
    """
    try:
        multiplier, shift = encode_multiplier(factor)
    except ValueError as error:
        raise NoFormError(str(error)) from error
    return np.array([multiplier], np.int32), np.array([shift], np.int32)
