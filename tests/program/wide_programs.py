"""Sound programs of one instruction that reads or writes 16-bit codes, per instruction and profile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from example_programs import EXAMPLES, HALF, codes, curve, fixed, floats, plain, single, with_step

from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Program, Slot
from calib8.program.rules import PROFILES, Profile

SHARING = (op.MaxPool, op.Concat, op.ResizeNearest, op.Pad, op.Transpose, op.Reshape, op.Slice, op.Gather)
"""Instructions that copy codes."""

LAYERS = (
    *("Conv", "Conv of uint8", "Conv of two sides", "DepthwiseConv", "DepthwiseConv of a curve"),
    *("ConvTranspose", "FullyConnected"),
)
"""Examples of layers that write codes."""


def wide(name: str, *shape: int, scale: float = 0.05, zero_point: int = -1234) -> Slot:
    return codes(name, *shape, scale=scale, zero_point=zero_point, dtype="int16")


def widened(program: Program, *numbers: int) -> Program:
    """The program with 16-bit codes in some of its slots."""
    slots = list(program.slots)
    for number in numbers:
        slots[number] = replace(slots[number], dtype="int16", zero_point=-1234)
    return replace(program, slots=tuple(slots))


def wide_rescale(profile: Profile, count: int, exponent: int) -> rules.Rescale:
    """Of a layer that reads 16-bit codes: about 2^exponent."""
    if profile == "onnx":
        return rules.FloatRescale(floats(*[0.9 * 2.0**exponent] * count))
    return fixed(count, "single", multiplier=(1 << 22) - 1, shift=exponent + 9)


def layers(profile: Profile) -> dict[str, Program]:
    """From 16 to 8 bits, from 8 to 16, from 16 to 16."""
    found = {}
    for name in LAYERS:
        program = EXAMPLES[name, profile]
        layer: Any = program.instructions[0]
        for bits, exponent, numbers in (("16 to 8", -17, (0,)), ("16 to 16", -10, (0, 1))):
            rule: rules.LayerRescale = wide_rescale(profile, len(layer.bias), exponent)
            if name == "Conv of two sides":
                rule = rules.TwoSidedRescale(rule, wide_rescale(profile, 1, exponent - 1))
            elif name == "DepthwiseConv of a curve":
                steps = wide_rescale(profile, len(layer.bias), -12)
                rule = replace(curve(profile, len(layer.bias)), steps=steps)
            found[f"{name}, {bits}"] = with_step(widened(program, *numbers), rescale=rule)
        whole = with_step(found[f"{name}, 16 to 16"], low=-30000, high=32767)
        found[f"{name}, 16 to 16"] = whole
        found[f"{name}, 8 to 16"] = with_step(widened(program, 1), low=-3000, high=30000)
    found["FullyConnected to sums, 16 bits"] = widened(EXAMPLES["FullyConnected to sums", profile], 0)
    return found


def pairs(profile: Profile) -> dict[str, Program]:
    """Sums, differences and products: both operands wide, one of them, and the result alone."""
    found = {}
    whole = {"low": -32768, "high": 32767}
    reading: dict[str, Any] = {
        "Add": rules.FloatSum(1.0, 0.5, 3.0) if profile == "onnx" else rules.AlignedSum(1 << 29, 1 << 28, 29),
        "Sub": rules.DequantizedSum(HALF, HALF / 2, HALF)
        if profile == "onnx"
        else rules.AlignedSum(1 << 29, 1 << 28, 29),
        "Mul": rules.FloatProduct(0.25) if profile == "onnx" else fixed(1, "single", (1 << 30) - 1, -5),
    }
    for name, rule in reading.items():
        program = EXAMPLES[name, profile]
        field = {"rescale" if name == "Mul" else "rule": rule}
        found[f"{name}, 16 to 16"] = with_step(widened(program, 0, 1, 2), **field, **whole)
        found[f"{name}, 16 and 8 to 8"] = with_step(widened(program, 1), **field)
        found[f"{name}, 8 to 16"] = with_step(widened(program, 2), **whole)
    return found


def others(profile: Profile) -> dict[str, Program]:
    """Tables, borders, and what copies codes."""
    rng = np.random.default_rng(3)
    x, y = wide("x", 2, 3), wide("y", 2, 3)
    border: Any = "away" if profile == "tflite" else "even"
    tables = {
        "Lookup, 16 to 16": (x, y, rng.integers(-32768, 32768, 1 << 16).astype(np.int16)),
        "Lookup, 16 to 8": (x, codes("y", 2, 3), rng.integers(0, 256, 1 << 16).astype(np.uint8)),
        "Lookup, 8 to 16": (codes("x", 2, 3), y, rng.integers(-32768, 32768, (3, 256)).astype(np.int16)),
    }
    found = {
        name: single(op.Lookup, [source], target, profile, table=table, function="Tanh")
        for name, (source, target, table) in tables.items()
    }
    for (name, of), program in EXAMPLES.items():
        if of == profile and isinstance(program.instructions[0], SHARING):
            found[f"{name} of 16 bits"] = widened(program, *range(len(program.slots)))
    image = {"axes": (0, 2, 3, 1), "rounding": border}
    found["Quantize to 16 bits"] = single(
        op.Quantize, [plain("x", 1, 3, 5, 5)], wide("y", 1, 5, 5, 3), profile, **image
    )
    found["Dequantize of 16 bits"] = single(
        op.Dequantize, [wide("x", 1, 5, 3)], plain("y", 1, 3, 5), profile, axes=(0, 2, 1)
    )
    values = rng.integers(-32768, 32768, (2, 3)).astype(np.int16)
    found["IntegerGru"] = EXAMPLES["IntegerGru", profile]
    found["Constant of 16 bits"] = with_step(single(op.Constant, [x], y, profile, values=values), inputs=())
    found["TimeFilter, 16 to 8"] = EXAMPLES["TimeFilter", profile]
    return found


def rows(profile: Profile) -> dict[str, Program]:
    """Lengths, and norms, which are of float32 alone."""
    found = {}
    for name in ("ReduceL2", *(["LayerNorm"] if profile == "onnx" else [])):
        program = EXAMPLES[name, profile]
        for widths, numbers in (("16 to 8", (0,)), ("8 to 16", (1,)), ("16 to 16", (0, 1))):
            changed = widened(program, *numbers)
            found[f"{name}, {widths}"] = (
                with_step(changed, low=-30000, high=32767) if 1 in numbers else changed
            )
    return found


WIDE: dict[tuple[str, Profile], Program] = {
    (name, profile): program
    for profile in PROFILES
    for make in (layers, pairs, others, rows)
    for name, program in make(profile).items()
}
"""(What, profile) → a sound program of one instruction."""

NARROW = [
    *("AddSums", "ArgMax", "ArgMin", "AveragePool", "Div", "GroupNorm", "IntegerLstm", "MatMul", "Maximum"),
    *("Mean", "Minimum", "RealFunction", "RealPair", "RealRescale", "Recurrent", "ReduceMax", "ReduceMin"),
    "Requantize",
    "ResizeLinear",
    "Softmax",
]
"""Examples whose instructions have 8-bit codes alone."""


def fed(program: Program, seed: int) -> dict[str, Any]:
    """Random inputs, the ends of the codes more often than by chance."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, Any] = {}
    for port in program.inputs:
        slot = program.slots[port.slot]
        if not slot.is_codes:
            feeds[port.name] = rng.normal(0, 800, slot.shape).astype(slot.dtype)
            continue
        ends = np.iinfo(slot.dtype)
        values = rng.integers(ends.min, ends.max + 1, slot.shape)
        extreme = rng.choice([ends.min, ends.max, slot.zero_point], slot.shape)
        feeds[port.name] = np.where(rng.random(slot.shape) < 0.25, extreme, values).astype(slot.dtype)
    return feeds


def ends_of(slot: Slot) -> tuple[int, int]:
    """Smallest and largest code."""
    limits = np.iinfo(slot.dtype)
    return int(limits.min), int(limits.max)
