"""Random streaming models: variables in front of convolutions over time, as microWakeWord has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from single_op import quantized, random_codes, random_scale, random_zero_point

from calib8.tflite.graph import Graph, Operator, Quantization, State, Tensor


@dataclass
class Streaming:
    """A model while it is put together.

    Attributes:
        rng: of everything random.
        dtype: of its activations.
    """

    rng: np.random.Generator
    dtype: str
    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        quantization: Quantization | None,
        data: npt.NDArray[Any] | None = None,
    ) -> int:
        dtype = self.dtype if data is None else data.dtype.name
        self.tensors.append(Tensor(name, tuple(shape), dtype, data, quantization))
        return len(self.tensors) - 1

    def add(self, op: str, inputs: Sequence[int], output: int, version: int = 2, **options: Any) -> int:
        self.operators.append(Operator(op, tuple(inputs), (output,), options, version))
        return output

    def constant(self, data: npt.NDArray[Any], quantization: Quantization | None = None) -> int:
        return self.tensor(f"k{len(self.tensors)}", data.shape, quantization, data)

    def codes(self) -> Quantization | None:
        """A random scale and zero point; none for real numbers."""
        if self.dtype == "float32":
            return None
        return quantized(random_scale(self.rng, 0.02, 0.1), random_zero_point(self.rng, self.dtype))

    def remembered(self, x: int, frames: int, initial: str = "zeros") -> int:
        """x behind the last ``frames`` rows before it; those of the result stay for the next run."""
        [_, rows, columns, channels] = self.tensors[x].shape
        kept = self.tensors[x].quantization
        name = f"stream_{len(self.states)}/states"
        read = self.tensor(f"{name}/read", (1, frames, columns, channels), kept)
        joined = self.tensor(f"joined{len(self.tensors)}", (1, frames + rows, columns, channels), kept)
        self.add("CONCATENATION", (read, x), joined, axis=1, fused_activation_function="NONE")
        last = self.tensor(f"last{len(self.tensors)}", (1, frames, columns, channels), kept)
        ends = [self.constant(np.array(each, np.int32)) for each in ([0, rows, 0, 0], [0] * 4, [1] * 4)]
        self.add("STRIDED_SLICE", (joined, *ends), last, begin_mask=13, end_mask=15)
        shape = (1, frames, columns, channels)
        begun: npt.NDArray[Any] = np.full(shape, 0 if kept is None else kept.zero_points[0], self.dtype)
        if initial == "random":
            begun = random_codes(self.rng, shape, self.dtype)
        self.states.append(State(name, read, last, begun))
        return joined

    def conv(self, x: int, channels: int) -> int:
        """Over all rows, one row remains."""
        [_, rows, _, depth] = self.tensors[x].shape
        y = self.tensor(f"conv{len(self.tensors)}", (1, 1, 1, channels), self.codes())
        weight = self.rng.integers(-127, 128, (channels, rows, 1, depth)).astype(np.int8)
        if self.dtype == "float32":
            w, b = (
                self.constant(weight.astype(np.float32) / 400),
                self.constant(np.ones(channels, np.float32)),
            )
        else:
            kind = self.tensors[x].quantization
            assert kind is not None
            scale = 1 / (60 * np.sqrt(rows * depth))
            w = self.constant(weight, quantized(float(np.float32(scale)), 0))
            if self.dtype == "uint8":
                moved = (weight.astype(np.int16) + 128).astype(np.uint8)
                w = self.constant(moved, quantized(float(np.float32(scale)), 128))
            bias = self.rng.integers(-2000, 2000, channels).astype(np.int32)
            b = self.constant(bias, quantized(float(np.float32(scale) * kind.scales[0]), 0))
        options = {"padding": "VALID", "stride_w": 1, "stride_h": 1, "fused_activation_function": "RELU"}
        options |= {"dilation_w_factor": 1, "dilation_h_factor": 1}
        return self.add("CONV_2D", (x, w, b), y, 3, **options)

    def graph(self, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
        return Graph(
            tuple(self.tensors), tuple(self.operators), tuple(inputs), tuple(outputs), "stream",
            states=tuple(self.states),
        )  # fmt: skip


def streaming(rng: np.random.Generator, dtype: str = "int8", initial: str = "zeros") -> Graph:
    """Two convolutions over what was fed lately."""
    made = Streaming(rng, dtype)
    rows, depth = int(rng.integers(1, 4)), int(rng.integers(1, 9))
    x = made.tensor("x", (1, rows, 1, depth), made.codes())
    first = made.conv(made.remembered(x, int(rng.integers(1, 5)), initial), int(rng.integers(1, 9)))
    second = made.conv(made.remembered(first, int(rng.integers(1, 9)), initial), int(rng.integers(1, 5)))
    return made.graph((x,), (second,))


CASES_OF = {"variables": streaming}
"""For the fuzzer."""
