"""Random layers with weights whose outputs spread over the codes, and steps fused behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from generated import pick

from calib8.engine.fuse import Work
from calib8.fixedpoint import encode_multiplier
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Port, Program, Slot
from calib8.program.rules import Profile

DTYPES: Final = ("uint8", "int8")
CHANNELS: Final = (1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 33, 48, 63, 64, 65, 96, 130)
SIZES: Final = (1, 2, 3, 5, 7, 8, 11, 14)
Rng = np.random.Generator


def code_slot(rng: Rng, name: str, shape: Sequence[int]) -> Slot:
    """Codes of a random type; every fourth zero point is an extreme one."""
    dtype = pick(rng, *DTYPES)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    zero_point = pick(rng, low, high) if rng.random() < 0.25 else int(rng.integers(low, high + 1))
    return Slot(name, tuple(shape), dtype, np.array([0.05], np.float32), zero_point)


def rescale(rng: Rng, profile: Profile, size: npt.NDArray[Any], *, away: bool = False) -> rules.Rescale:
    """Factors that bring sums of this size (per channel) to about 40 codes; at times one for all, or huge."""
    factors = 40 / size * np.exp2(rng.uniform(-1, 1, size.shape))
    if rng.random() < 0.08:
        factors *= 1000
    if rng.random() < 0.3:
        factors = factors.min(keepdims=True)
    if profile == "onnx":
        return rules.FloatRescale(factors.astype(np.float32))
    pairs = [encode_multiplier(float(factor)) for factor in factors]
    multiplier, shift = (np.array(part, np.int32) for part in zip(*pairs, strict=True))
    rounding = "single" if profile == "single" else "away" if away else "double"
    return rules.FixedRescale(multiplier, shift, rounding)  # type: ignore[arg-type]


def layer(
    rng: Rng, profile: Profile, x: Slot, output: Slot, shape: tuple[int, ...], *, away: bool = False
) -> dict[str, Any]:
    """Fields of a layer with weights of this shape, output channels first."""
    dtype = pick(rng, "int8", "int8", "int8", "uint8")
    limits = np.iinfo(dtype)
    weight = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    points = np.zeros(1, np.int32)
    if dtype == "uint8" or rng.random() < 0.2:
        points = rng.integers(limits.min, limits.max, shape[0], endpoint=True).astype(np.int32)
    centred = weight.astype(np.int64) - points.reshape(-1, *(1,) * (len(shape) - 1))
    norm = np.sqrt((centred**2).sum(axis=tuple(range(1, len(shape)))) + 1.0)
    centre = 0.0 if x.dtype == "int8" else 127.5
    mean = np.abs(centred.sum(axis=tuple(range(1, len(shape))))) * abs(centre - x.zero_point)
    size = 74.0 * norm + mean
    info = np.iinfo(output.dtype)
    low, high = info.min, info.max
    if rng.random() < 0.5:
        low = max(low, min(output.zero_point, high - 40))
        high = min(high, low + int(rng.integers(30, 256)))
    return {
        "weight": weight,
        "weight_zero_point": points,
        "bias": (rng.standard_normal(shape[0]) * size / 2).astype(np.int32),
        "rescale": rescale(rng, profile, size, away=away),
        "low": low,
        "high": high,
    }


def random_conv(rng: Rng, profile: Profile) -> Program:
    """One Conv of any geometry, with at most a few million products."""
    groups = pick(rng, 1, 1, 1, 1, 2, 3, 8, 12)
    inputs, outputs = int(pick(rng, *CHANNELS)), int(pick(rng, *CHANNELS))
    if groups > 1:
        inputs, outputs = min(inputs, 24), min(outputs, 70)
    point = rng.random() < 0.4
    kernel = (1, 1) if point else (int(rng.integers(1, 5)), int(rng.integers(1, 5)))
    strides = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    dilations = (1, 1) if rng.random() < 0.6 else (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    pads = (0, 0, 0, 0)
    if not point and rng.random() < 0.8:
        top, left, bottom, right = (int(rng.integers(0, kernel[axis % 2])) for axis in range(4))
        pads = (top, left, bottom, right)
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    spatial = [max(int(pick(rng, *SIZES)), reach[axis] - pads[axis] - pads[axis + 2]) for axis in (0, 1)]
    target = [
        (spatial[axis] + pads[axis] + pads[axis + 2] - reach[axis]) // strides[axis] + 1 for axis in (0, 1)
    ]
    images = int(pick(rng, 1, 1, 2))
    x = code_slot(rng, "x", (images, *spatial, inputs * groups))
    y = code_slot(rng, "y", (images, *target, outputs * groups))
    fields = layer(rng, profile, x, y, (outputs * groups, *kernel, inputs))
    geometry = {"strides": strides, "pads": pads, "dilations": dilations, "groups": groups}
    return one_step(profile, x, y, op.Conv("conv", (0,), (1,), **fields, **geometry))


def pointwise(rng: Rng, profile: Profile, rows: int, columns: int, depth: int, outputs: int) -> Program:
    """One Conv of 1×1."""
    x, y = code_slot(rng, "x", (1, rows, columns, depth)), code_slot(rng, "y", (1, rows, columns, outputs))
    fields = layer(rng, profile, x, y, (outputs, 1, 1, depth))
    geometry = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "groups": 1}
    return one_step(profile, x, y, op.Conv("conv", (0,), (1,), **fields, **geometry))


def random_connected(rng: Rng, profile: Profile) -> Program:
    """One FullyConnected, often of a single row; sometimes to sums."""
    rows = int(pick(rng, 1, 1, 2, 7, 13))
    inputs, outputs = int(rng.integers(1, 400)), int(rng.integers(1, 200))
    x, y = code_slot(rng, "x", (rows, inputs)), code_slot(rng, "y", (rows, outputs))
    fields = layer(rng, profile, x, y, (outputs, inputs), away=True)
    if rng.random() < 0.3:
        y = Slot("y", y.shape, "int32", np.array([0.01], np.float32))
        fields["rescale"] = None
    return one_step(profile, x, y, op.FullyConnected("fc", (0,), (1,), **fields))


def one_step(profile: Profile, x: Slot, y: Slot, step: op.Instruction) -> Program:
    return Program(profile, (x, y), (step,), (Port("x", 0),), (Port("y", 1),), "net")


def sum_rule(rng: Rng, profile: Profile, kind: type[op.Add] | type[op.Sub]) -> rules.SumRule:
    lhs, rhs = float(np.float32(rng.uniform(0.2, 0.8))), float(np.float32(rng.uniform(0.2, 0.8)))
    if profile == "onnx" and kind is op.Sub:
        return rules.DequantizedSum(lhs, rhs, float(np.float32(0.7)))
    if profile == "onnx":
        return rules.FloatSum(lhs, rhs, float(np.float32(rng.uniform(-40, 40))))
    if profile == "single":
        return rules.AlignedSum(int(lhs * 2**20), int(rhs * 2**20), 20)
    output = encode_multiplier(2.0**-20 * float(rng.uniform(0.5, 2)))
    return rules.ScaledSum(20, encode_multiplier(lhs), encode_multiplier(rhs), output)


def with_tail(rng: Rng, program: Program, *, add: bool, lookup: bool) -> Program:
    """The layer followed by a sum with a residual and a table."""
    slots, steps = list(program.slots), list(program.instructions)
    inputs, last = list(program.inputs), 1
    if add:
        kind = pick(rng, op.Add, op.Add, op.Sub)
        slots.append(code_slot(rng, "residual", slots[1].shape))
        inputs.append(Port("residual", len(slots) - 1))
        slots.append(code_slot(rng, "sum", slots[1].shape))
        residual, target = len(slots) - 2, len(slots) - 1
        operands = (last, residual) if rng.random() < 0.5 else (residual, last)
        info = np.iinfo(slots[target].dtype)
        rule = sum_rule(rng, program.profile, kind)
        steps.append(kind("add", operands, (target,), rule, info.min + 3, info.max - 20))
        last = target
    if lookup:
        slots.append(code_slot(rng, "table", slots[1].shape))
        info = np.iinfo(slots[-1].dtype)
        table = rng.integers(info.min, info.max, 256, dtype=slots[-1].dtype, endpoint=True)
        steps.append(op.Lookup("lookup", (last,), (len(slots) - 1,), table, "Sigmoid"))
        last = len(slots) - 1
    output = (Port("y", last),)
    return replace(
        program, slots=tuple(slots), instructions=tuple(steps), inputs=tuple(inputs), outputs=output
    )


def keep_fixed_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums in fixed point stay what they are, so that kernels for those are run too."""
    monkeypatch.setattr("calib8.engine.emit.rescale.float_form", lambda *_: None)


def fused_tail(program: Program) -> list[Work]:
    """The works of such a program with everything behind the layer fused into it."""
    before = [step for step in program.instructions if isinstance(step, op.Transpose)]
    layer_step, *tail = program.instructions[len(before) :]
    add = next((step for step in tail if isinstance(step, op.Add | op.Sub)), None)
    lookup = next((step for step in tail if isinstance(step, op.Lookup)), None)
    residual = -1 if add is None else next(n for n in add.inputs if n not in layer_step.outputs)
    inputs = layer_step.inputs if add is None else (*layer_step.inputs, residual)
    alone = [Work(step, step.inputs, step.outputs[0]) for step in before]
    output = program.instructions[-1].outputs[0]
    return [*alone, Work(layer_step, inputs, output, add, residual, lookup)]
