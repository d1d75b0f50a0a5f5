"""UNIDIRECTIONAL_SEQUENCE_LSTM of 8-bit codes, with the multipliers that LiteRT makes of its scales.

    W x     fl(fl(s_W·s_x)/s_a)          s_a: 2^−12, of a norm the scale of the gate's intermediate tensor
    R h     fl(fl(s_R·s_h)/s_a)
    P c     fl(2^b·s_P/s_a)              c has the scale 2^b, b = −15 … −9
    o·Tanh  fl(2^−30/s_r)                s_r: the scale of the fifth intermediate tensor
    Q y     fl(fl(s_Q·s_r)/s_h)

fl rounds to float32. What an earlier run left in the states is not carried on: every run begins with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import NoFormError
from calib8.fixedpoint import encode_multiplier
from calib8.program.instructions import IntegerLstm
from calib8.program.lower_tflite.builder import Builder
from calib8.program.program import Slot
from calib8.program.rules import I8, I16, I32, Multipliers
from calib8.tflite.graph import Operator, Quantization, Tensor

X: Final = 0
WEIGHTS, RECURRENT, PEEPHOLES, BIASES = (1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11), (12, 13, 14, 15)
PROJECTION, PROJECTION_BIAS, STATE, CELL = 16, 17, 18, 19
NORMS: Final = (20, 21, 22, 23)
"""Places of the inputs; gates in the order i, f, g, o, peepholes i, f, o."""

GATE_SCALE: Final = np.float32(2.0**-12)
LEAST_CELL_POWER, MOST_CELL_POWER = -15, -9
INTERMEDIATES: Final = 5
GUARD: Final = np.float32(10000.0)
"""Times the scale of a norm's coefficients: what stands for a variance below 1."""


def sequence_lstm(builder: Builder, operator: Operator) -> None:
    """An IntegerLstm.

    Raises:
        NoFormError: other types than 8-bit codes of x and of weights, or what LiteRT's kernel has no
            meaning for.
    """
    x, y = builder.codes(operator.inputs[X]), builder.codes(operator.outputs[0])
    read = _Parts(builder, operator, x, y)
    coupled = not builder.given(operator, WEIGHTS[0])
    weight, recurrent = read.matrices(WEIGHTS[coupled:]), read.matrices(RECURRENT[coupled:])
    normed = builder.given(operator, NORMS[1])
    steps = read.gate_scales(coupled, normed)
    time_first = bool(operator.options.get("time_major", False))
    hidden = read.between(INTERMEDIATES - 1)
    peephole, peephole_multipliers = read.peepholes(coupled, steps, recurrent, time_first=time_first)
    norm, norm_multipliers, norm_guard = read.norms(NORMS[coupled:] if normed else (), len(weight[0]))
    projection, projection_bias, projection_multipliers = read.projection(recurrent, hidden)
    builder.steps.append(
        IntegerLstm(
            builder.name(operator),
            (builder.number(operator.inputs[X]),),
            (builder.number(operator.outputs[0]),),
            time_first,
            coupled,
            weight,
            read.multipliers(WEIGHTS[coupled:], x.scale, steps),
            recurrent,
            read.multipliers(RECURRENT[coupled:], y.scale, steps),
            read.biases(BIASES[coupled:], len(weight[0])),
            peephole,
            peephole_multipliers,
            norm,
            norm_multipliers,
            norm_guard,
            15 + read.cell_power(),
            read.clip("cell_clip", read.scale(CELL), 32767),
            _encoded([2.0**-15 / np.float32(hidden.scales[0]) * 2.0**-15]),
            int(hidden.zero_points[0]),
            projection,
            projection_bias,
            projection_multipliers,
            read.clip("proj_clip", y.scale, 127),
        )
    )


def _check_types(operator: Operator, x: Slot, y: Slot) -> None:
    if not x.dtype == y.dtype == "int8":
        raise NoFormError(f"it reads {x.dtype} and writes {y.dtype}")
    if operator.options.get("diagonal_recurrent_tensors", False):
        raise NoFormError("its recurrent weights are diagonals")


def _encoded(factors: Sequence[Any]) -> Multipliers:
    """Of float32 factors.

    Raises:
        NoFormError: one is too large.
    """
    try:
        pairs = [encode_multiplier(float(np.float32(factor))) for factor in factors]
    except ValueError as error:
        raise NoFormError(str(error)) from error
    columns = np.array(pairs, np.int32).reshape(-1, 2)
    return Multipliers(columns[:, 0].copy(), columns[:, 1].copy())


class _Parts:
    """What the operator reads, as arrays of the instruction."""

    def __init__(self, builder: Builder, operator: Operator, x: Slot, y: Slot) -> None:
        self._builder, self._operator, self._x, self._y = builder, operator, x, y
        _check_types(operator, x, y)
        state = self._quantization(self._tensor(STATE))
        if (float(state.scales[0]), int(state.zero_points[0])) != (y.scale, y.zero_point):
            raise NoFormError(f"its state and '{y.name}' differ in scale or zero point")

    def matrices(self, places: Sequence[int]) -> I8:
        """[places, …] of int8 weights."""
        each = [self._constant(place, "int8", 2) for place in places]
        self._check_alike(each)
        stacked: I8 = np.stack(each)
        return stacked

    def multipliers(self, places: Sequence[int], scale: float, steps: Sequence[np.float32]) -> Multipliers:
        """Of products of weights and codes."""
        pairs = zip(places, steps, strict=True)
        return _encoded([self.scale(place) * np.float32(scale) / step for place, step in pairs])

    def biases(self, places: Sequence[int], units: int) -> I32:
        """int32 [places, C]."""
        each = [self._constant(place, "int32", 1, scaled=False) for place in places]
        self._check_alike([*each, np.zeros(units, np.int32)])
        stacked: I32 = np.stack(each)
        return stacked

    def peepholes(
        self, coupled: bool, steps: Sequence[np.float32], recurrent: I8, *, time_first: bool
    ) -> tuple[I16, Multipliers]:
        """Weights of c and their multipliers.

        LiteRT takes as many of them as h is wide, so that the units behind those have none.
        """
        units, width = recurrent.shape[1:]
        if not self._builder.given(self._operator, PEEPHOLES[2]):
            return np.zeros((0, units), np.int16), _encoded(())
        samples = self._x.shape[1 if time_first else 0]
        if width > units or (width < units and time_first and samples > 1):
            raise NoFormError(f"it has peepholes of {units} units and a projection to {width}")
        places = PEEPHOLES[coupled:]
        each = [self._constant(place, "int16", 1) for place in places]
        self._check_alike([*each, np.zeros(units, np.int16)])
        stacked: I16 = np.stack(each)
        stacked[:, width:] = 0
        power = 2.0 ** self.cell_power()
        factors = [
            power * float(self.scale(place)) / float(step)
            for place, step in zip(places, (*steps[:-2], steps[-1]), strict=True)
        ]
        return stacked, _encoded(factors)

    def norms(self, places: Sequence[int], units: int) -> tuple[I16, Multipliers, I32]:
        """Coefficients, multipliers and guards."""
        if not places:
            return np.zeros((0, units), np.int16), _encoded(()), np.zeros(0, np.int32)
        each = [self._constant(place, "int16", 1) for place in places]
        self._check_alike([*each, np.zeros(units, np.int16)])
        scales = [self.scale(place) for place in places]
        guards = np.array([max(1, int(GUARD * scale)) for scale in scales], np.int32)
        stacked: I16 = np.stack(each)
        return stacked, _encoded(scales), guards

    def projection(self, recurrent: I8, hidden: Quantization) -> tuple[I8, I32, Multipliers]:
        """Weights [H, C], bias and multiplier."""
        units, width = recurrent.shape[1:]
        if not self._builder.given(self._operator, PROJECTION):
            if width != units:
                raise NoFormError(f"its h has {width} codes and its cell {units}, without a projection")
            return np.zeros((0, units), np.int8), np.zeros(0, np.int32), _encoded(())
        weight: I8 = self._constant(PROJECTION, "int8", 2)
        if weight.shape != (width, units):
            raise NoFormError(f"its projection has shape {list(weight.shape)}, not {[width, units]}")
        bias: I32 = np.zeros(width, np.int32)
        if self._builder.given(self._operator, PROJECTION_BIAS):
            bias = self._constant(PROJECTION_BIAS, "int32", 1, scaled=False)
            self._check_alike([bias, np.zeros(width, np.int32)])
        factor = self.scale(PROJECTION) * np.float32(hidden.scales[0]) / np.float32(self._y.scale)
        return weight, bias, _encoded([factor])

    def gate_scales(self, coupled: bool, normed: bool) -> list[np.float32]:
        """The scale of what each gate reads before its norm."""
        if not normed:
            return [GATE_SCALE] * (4 - coupled)
        return [np.float32(self.between(place).scales[0]) for place in range(coupled, 4)]

    def between(self, place: int) -> Quantization:
        """Scale and zero point of an intermediate tensor."""
        places = self._operator.intermediates
        if len(places) != INTERMEDIATES or places[place] < 0:
            raise NoFormError(f"it has {len(places)} intermediate tensors, not {INTERMEDIATES}")
        return self._quantization(self._builder.tensor(places[place]))

    def cell_power(self) -> int:
        """b of the scale 2^b of c."""
        exact = math.log2(float(self.scale(CELL)))
        if abs(exact - round(exact)) >= 1e-3:
            raise NoFormError(f"its cell has the scale 2^{exact:.4g}, no power of two")
        if not LEAST_CELL_POWER <= round(exact) <= MOST_CELL_POWER:
            limits = f"2^{LEAST_CELL_POWER} … 2^{MOST_CELL_POWER}"
            raise NoFormError(f"its cell has the scale 2^{round(exact)}; LiteRT has {limits}")
        return round(exact)

    def clip(self, option: str, scale: float | np.float32, most: int) -> int:
        """A bound in codes, 0 for none."""
        bound = np.float32(self._operator.options.get(option, 0.0))  # type: ignore[arg-type]
        if not (np.isfinite(bound) and bound >= 0):
            raise NoFormError(f"its {option} is {bound}")
        return min(int(bound / np.float32(scale)), most)

    def scale(self, place: int) -> np.float32:
        """The one scale of an input."""
        return np.float32(self._quantization(self._tensor(place)).scales[0])

    def _tensor(self, place: int) -> Tensor:
        if not self._builder.given(self._operator, place):
            raise NoFormError(f"its input {place} is left out")
        return self._builder.tensor(self._operator.inputs[place])

    def _quantization(self, tensor: Tensor) -> Quantization:
        found = tensor.quantization
        if found is None or found.scales.size != 1:
            raise NoFormError(f"'{tensor.name}' has no scale, or several")
        return found

    def _constant(self, place: int, dtype: str, rank: int, *, scaled: bool = True) -> npt.NDArray[Any]:
        """A constant of a type and rank, with one scale and the zero point 0."""
        tensor = self._tensor(place)
        data = self._builder.constant(self._operator.inputs[place])
        if data.dtype != dtype or data.ndim != rank or not data.size:
            raise NoFormError(f"'{tensor.name}' is {tensor.dtype} {list(tensor.shape)}, not {dtype}")
        if scaled and self._quantization(tensor).zero_points[0]:
            raise NoFormError(f"'{tensor.name}' has the zero point {tensor.quantization.zero_points[0]}")  # type: ignore[union-attr]
        return np.ascontiguousarray(data)

    def _check_alike(self, arrays: Sequence[npt.NDArray[Any]]) -> None:
        shapes = sorted({array.shape for array in arrays})
        if len(shapes) > 1:
            listed = " and ".join(str(list(shape)) for shape in shapes)
            raise NoFormError(f"its gates have weights or biases of shapes {listed}")
