"""Random UNIDIRECTIONAL_SEQUENCE_LSTM of 8-bit codes with all that it may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from single_op import Net, quantized, random_zero_point

from calib8.tflite.graph import Graph, Operator, Tensor

GATES = 4


@dataclass(frozen=True)
class Sizes:
    """Of a layer; ``width`` of h differs from ``units`` with a projection only."""

    steps: int
    samples: int
    inputs: int
    units: int
    width: int


@dataclass(frozen=True)
class Traits:
    """What a layer has."""

    time_major: bool = False
    coupled: bool = False
    peephole: bool = False
    norm: bool = False
    projection: bool = False
    projection_bias: bool = True
    cell_clip: float = 0.0
    proj_clip: float = 0.0


@dataclass
class Layer:
    """The operator while it is put together.

    Attributes:
        net: its tensors.
        rng: of everything random.
        inputs: place of an input of the operator → tensor.
    """

    net: Net
    rng: np.random.Generator
    inputs: list[int] = field(default_factory=lambda: [-1] * 24)

    def weights(self, places: Sequence[int], shape: Sequence[int], dtype: str, spread: float) -> None:
        """Constants of random codes whose real values lie within about ``spread``."""
        for place in places:
            top = 127 if dtype == "int8" else 32767
            codes = self.rng.integers(-top, top + 1, tuple(shape)).astype(dtype)
            scale = float(np.float32(spread * self.rng.uniform(0.5, 1.5) / top))
            self.inputs[place] = self.net.constant(codes, quantized(scale, 0))

    def biases(self, places: Sequence[int], size: int, reach: float) -> None:
        for place in places:
            values = np.rint(self.rng.normal(0, reach, size)).astype(np.int32)
            self.inputs[place] = self.net.constant(values)

    def state(self, place: int, shape: Sequence[int], dtype: str, scale: float, zero_point: int) -> None:
        tensor = Tensor("state", tuple(shape), dtype, None, quantized(scale, zero_point), is_variable=True)
        self.inputs[place] = self.net._add(tensor)

    def between(self, scale: float, zero_point: int) -> int:
        return self.net._add(Tensor("between", (), "int8", None, quantized(scale, zero_point)))


def lstm(rng: np.random.Generator, sizes: Sizes, traits: Traits = Traits()) -> Graph:
    """A model of one layer; scales near what calibration gives, so that gates are neither all 0 nor all 1."""
    net = Net()
    layer = Layer(net, rng)
    steps, samples, inputs, units = sizes.steps, sizes.samples, sizes.inputs, sizes.units
    width = sizes.width if traits.projection else units
    x_scale, x_zero = float(np.float32(rng.uniform(0.005, 0.03))), random_zero_point(rng, "int8")
    h_scale, h_zero = float(np.float32(rng.uniform(0.004, 0.009))), int(rng.integers(-30, 31))
    order = (steps, samples) if traits.time_major else (samples, steps)
    layer.inputs[0] = net.codes((*order, inputs), "int8", x_scale, x_zero)
    gates = range(traits.coupled, GATES)
    loud = float(rng.choice([1.0, 1.0, 6.0]))  # of some layers most gates are shut or open
    layer.weights([1 + k for k in gates], (units, inputs), "int8", 1.5 * loud / np.sqrt(inputs))
    layer.weights([5 + k for k in gates], (units, width), "int8", 3.0 * loud / np.sqrt(width))
    if traits.peephole:
        layer.weights([9 + k for k in range(traits.coupled, 3)], (units,), "int16", 1.0)
    layer.biases([12 + k for k in gates], units, 1500.0 if not traits.norm else 3e6)
    cell = 2.0 ** -float(rng.integers(9, 16))
    hidden_scale, hidden_zero = h_scale, h_zero
    if traits.projection:
        layer.weights([16], (width, units), "int8", 1.5 / np.sqrt(units))
        hidden_scale, hidden_zero = float(np.float32(rng.uniform(0.004, 0.009))), int(rng.integers(-30, 31))
        if traits.projection_bias:
            layer.biases([17], width, 300.0)
    layer.state(18, (samples, width), "int8", h_scale, h_zero)
    layer.state(19, (samples, units), "int16", cell, 0)
    if traits.norm:
        layer.weights([20 + k for k in gates], (units,), "int16", 1.5)
    between = [layer.between(float(np.float32(rng.uniform(1e-4, 1e-3))), 0) for _ in range(GATES)]
    between.append(layer.between(hidden_scale, hidden_zero))
    y = net.output((*order, width), "int8", quantized(h_scale, h_zero))
    options: dict[str, Any] = {
        "fused_activation_function": "TANH",
        "cell_clip": traits.cell_clip,
        "proj_clip": traits.proj_clip,
        "time_major": traits.time_major,
    }
    count = 24 if traits.norm or rng.random() < 0.5 else 20
    operator = Operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        tuple(layer.inputs[:count]),
        (y,),
        options,
        3,
        intermediates=tuple(between),
    )
    return Graph(tuple(net.tensors), (operator,), tuple(net.inputs), (y,), "net")


def random_traits(rng: np.random.Generator) -> Traits:
    """Half of the layers plain, the others with some of everything."""
    if rng.random() < 0.3:
        return Traits(time_major=bool(rng.integers(2)))
    flags = rng.integers(0, 2, 6).astype(bool).tolist()
    clips: npt.NDArray[Any] = np.where(rng.random(2) < 0.5, rng.uniform(0.1, 0.9, 2), 0.0)
    return Traits(*flags, float(clips[0]) if rng.random() < 0.7 else 1e-9, float(clips[1]))


def random_lstm(rng: np.random.Generator, steps: int) -> Graph:
    """A layer of random sizes."""
    traits = random_traits(rng)
    units = int(rng.choice([1, 2, 3, 5, 8, 13, 16, 17, 31, 33]))
    width = int(rng.integers(1, 40)) if traits.projection else units
    samples = int(rng.integers(1, 4))
    if traits.peephole and traits.projection:  # LiteRT takes as many peepholes as h is wide
        width = units if traits.time_major and samples > 1 else min(units, width)
    return lstm(rng, Sizes(steps, samples, int(rng.integers(1, 40)), units, width), traits)
