"""Small programs of several instructions, written step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.instructions import Instruction
from calib8.program.program import Port, Program, Slot
from calib8.program.rounding.linear import sum_rule
from calib8.program.rounding.pools import mean_rule
from calib8.program.rules import Profile
from calib8.qparams import QParams


class Net:
    """Collects slots and instructions; methods return the number of the slot that they add."""

    def __init__(self, profile: Profile = "onnx", seed: int = 0) -> None:
        self.profile = profile
        self.rng = np.random.default_rng(seed)
        self.slots: list[Slot] = []
        self.steps: list[Instruction] = []
        self.inputs: list[int] = []

    def codes(self, *shape: int, scale: float = 0.05, zero_point: int = 7, dtype: str = "uint8") -> int:
        name = f"t{len(self.slots)}"
        self.slots.append(Slot(name, shape, dtype, np.array([scale], np.float32), zero_point))
        return len(self.slots) - 1

    def input(self, *shape: int, **slot: Any) -> int:
        self.inputs.append(self.codes(*shape, **slot))
        return self.inputs[-1]

    def step(self, kind: Any, inputs: tuple[int, ...], output: int, **fields: Any) -> int:
        self.steps.append(kind(f"{kind.__name__}{len(self.steps)}", inputs, (output,), **fields))
        return output

    def conv(self, x: int, outputs: int, kernel: int = 3, stride: int = 1, pad: int | None = None) -> int:
        depth, padding = self.slots[x].shape[3], kernel // 2 if pad is None else pad
        shape, slot = self.slots[x].shape, self.slots[x]
        sizes = [(n + 2 * padding - kernel) // stride + 1 for n in shape[1:3]]
        y = self.codes(shape[0], *sizes, outputs, zero_point=slot.zero_point, dtype=slot.dtype)
        fields = self.layer(outputs, self.random((outputs, kernel, kernel, depth)), kernel * kernel * depth)
        window = {"strides": (stride, stride), "pads": (padding,) * 4, "dilations": (1, 1), "groups": 1}
        return self.step(op.Conv, (x,), y, **fields, **window)

    def depthwise(self, x: int, stride: int = 1) -> int:
        images, rows, columns, channels = self.slots[x].shape
        y = self.codes(images, -(-rows // stride), -(-columns // stride), channels)
        fields = self.layer(channels, self.random((3, 3, channels)), 9)
        window = {"strides": (stride, stride), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
        return self.step(op.DepthwiseConv, (x,), y, **fields, **window)

    def upsample(self, x: int, outputs: int) -> int:
        """A transposed convolution of stride 2 with a 2×2 kernel."""
        images, rows, columns, depth = self.slots[x].shape
        y = self.codes(images, 2 * rows, 2 * columns, outputs, zero_point=self.slots[x].zero_point)
        fields = self.layer(outputs, self.random((outputs, 2, 2, depth)), depth)
        window = {"strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1}
        return self.step(op.ConvTranspose, (x,), y, **fields, **window)

    def mean(self, x: int) -> int:
        """Over rows and columns, which stay as axes of size 1."""
        images, rows, columns, channels = self.slots[x].shape
        slot = self.slots[x]
        y = self.codes(images, 1, 1, channels, scale=slot.scale, zero_point=slot.zero_point)
        rule = mean_rule(self.profile, slot.scale, slot.scale, rows * columns, "mean")
        return self.step(op.Mean, (x,), y, axes=(1, 2), rescale=rule, low=0, high=255)

    def layer(self, outputs: int, weight: npt.NDArray[np.int8], depth: int) -> dict[str, Any]:
        """A rescale that spreads the sums over the codes."""
        factor = self.rng.uniform(0.5, 1.5, outputs) / (73 * 64 * depth**0.5) * 100
        rescale: rules.Rescale = rules.FloatRescale(factor.astype(np.float32))
        if self.profile != "onnx":
            rounding: Any = "double" if self.profile == "tflite" else "single"
            shift = np.floor(np.log2(factor)).astype(np.int32) + 1
            multiplier = np.round(factor / 2.0**shift * 2**31).astype(np.int64)
            rescale = rules.FixedRescale(
                np.clip(multiplier, 1 << 30, (1 << 31) - 1).astype(np.int32), shift, rounding
            )
        bias = self.rng.integers(-4000, 4000, outputs).astype(np.int32)
        return {
            "weight": weight,
            "weight_zero_point": np.zeros(1, np.int32),
            "bias": bias,
            "rescale": rescale,
            "low": 0,
            "high": 127,
        }

    def random(self, shape: tuple[int, ...]) -> npt.NDArray[np.int8]:
        return self.rng.integers(-128, 128, shape).astype(np.int8)

    def add(self, a: int, b: int, kind: Any = op.Add) -> int:
        shape = np.broadcast_shapes(self.slots[a].shape, self.slots[b].shape)
        y = self.codes(*shape, scale=0.07, zero_point=11, dtype=self.slots[a].dtype)
        points = [QParams(self.slots[n].scale, self.slots[n].zero_point) for n in (a, b, y)]
        rule = sum_rule(self.profile, "add" if kind is op.Add else "sub", *points)
        low = -128 if self.slots[y].dtype == "int8" else 0
        return self.step(kind, (a, b), y, rule=rule, low=low, high=low + 240)

    def lookup(self, x: int) -> int:
        slot = self.slots[x]
        info = np.iinfo(slot.dtype)
        table = self.rng.integers(info.min, info.max + 1, 256).astype(slot.dtype)
        y = self.codes(*slot.shape, zero_point=3, dtype=slot.dtype)
        return self.step(op.Lookup, (x,), y, table=table, function="Random")

    def concat(self, *parts: int) -> int:
        first = self.slots[parts[0]]
        channels = sum(self.slots[part].shape[-1] for part in parts)
        y = self.codes(*first.shape[:-1], channels, zero_point=first.zero_point, dtype=first.dtype)
        return self.step(op.Concat, parts, y, axis=len(first.shape) - 1)

    def slice(self, x: int, start: int, channels: int) -> int:
        slot = self.slots[x]
        y = self.codes(*slot.shape[:-1], channels, zero_point=slot.zero_point, dtype=slot.dtype)
        starts = (*(0,) * (len(slot.shape) - 1), start)
        return self.step(op.Slice, (x,), y, starts=starts, steps=(1,) * len(slot.shape))

    def reshape(self, x: int, *shape: int) -> int:
        slot = self.slots[x]
        return self.step(op.Reshape, (x,), self.codes(*shape, zero_point=slot.zero_point, dtype=slot.dtype))

    def program(self, *outputs: int) -> Program:
        ports = [tuple(Port(self.slots[n].name, n) for n in numbers) for numbers in (self.inputs, outputs)]
        return Program(self.profile, tuple(self.slots), tuple(self.steps), ports[0], ports[1], "net")
