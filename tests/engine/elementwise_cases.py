"""Programs of one elementwise instruction: shapes that broadcast, realistic scales, extreme zero points."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from example_programs import codes, single, sums

from calib8.program import instructions as op
from calib8.program.program import Program, Slot
from calib8.program.rounding.linear import product_rule, sum_rule, sums_rescale, sums_rule
from calib8.program.rounding.quotient import quotient_rule
from calib8.program.rules import PROFILES, FixedRescale, Profile
from calib8.program.verify import verify
from calib8.qparams import QParams

Shape = tuple[int, ...]
KINDS = ("Add", "Sub", "AddSums", "Mul", "Div", "Maximum", "Minimum", "Lookup", "Requantize")
CHANNELS = (1, 2, 3, 5, 8, 16, 17, 24, 63, 64, 65, 96, 130)

SHAPES: tuple[tuple[Shape, Shape], ...] = (
    ((), ()),
    ((1,), (1,)),
    ((1, 1, 1, 1), (1,)),
    ((7,), (1,)),
    ((2, 3, 4), (3, 1)),
    ((4, 1), (1, 5)),
    ((1, 256, 1), (1, 1, 256)),
    ((2, 9, 7, 24), (2, 1, 1, 24)),
    ((1, 1, 1, 65), (1, 6, 5, 65)),
    ((1, 9, 9, 40), (1, 9, 9, 1)),
    ((1, 9, 9, 130), (1, 9, 9, 1)),
    ((3, 5, 5, 3), (3, 1, 1, 3)),
    ((1, 40, 40, 64), (1, 40, 40, 64)),
    ((1, 28, 28, 96), (1, 1, 1, 96)),
    ((2, 1, 3, 1, 2, 1), (1, 4, 1, 5, 1, 6)),
    ((2, 3, 2, 2, 3, 7), (3, 1, 1, 3, 1)),
    ((1, 1, 3000), (1, 2, 1)),
    ((5000,), (5000,)),
)
"""Left and right operand: one element, none, rows, columns, gates of an SE block, six axes, long rows."""


def random_program(rng: np.random.Generator) -> Program:
    """A sound program of any elementwise instruction and profile."""
    kind, profile = str(rng.choice(KINDS)), PROFILES[rng.integers(3)]
    program = make_program(kind, profile, random_shapes(rng), rng)
    verify(program)
    return program


def random_shapes(rng: np.random.Generator) -> tuple[Shape, Shape]:
    """A listed pair, or an image and something that broadcasts to it; either side may be the large one."""
    if rng.random() < 0.3:
        pair = SHAPES[rng.integers(len(SHAPES))]
    else:
        rank = int(rng.integers(1, 7))
        full = [int(rng.integers(1, 2 + 24 // rank)) for _ in range(rank - 1)] + [int(rng.choice(CHANNELS))]
        other = [1 if rng.random() < 0.4 else size for size in full][int(rng.integers(rank)) :]
        pair = (tuple(full), tuple(other))
    return pair if rng.random() < 0.5 else (pair[1], pair[0])


def make_program(
    kind: str, profile: Profile, shapes: tuple[Shape, Shape], rng: np.random.Generator
) -> Program:
    """One instruction over operands of these shapes; unary ones have the shape of the result."""
    shape = np.broadcast_shapes(*shapes)
    output = random_codes("y", shape, rng)
    if kind == "Requantize":
        return _requantize(profile, output, rng)
    if kind == "Lookup":
        return _lookup(profile, output, rng)
    if kind in ("Maximum", "Minimum"):
        inputs = [codes(name, *part, dtype=output.dtype) for name, part in zip("ab", shapes, strict=True)]
        return single(getattr(op, kind), inputs, codes("y", *shape, dtype=output.dtype), profile)
    a, b = (random_codes(name, part, rng) for name, part in zip("ab", shapes, strict=True))
    if kind == "AddSums":
        return _add_sums(profile, a, b, output, rng)
    if kind == "Mul":
        y = codes("y", *shape, scale=a.scale * b.scale * 40, zero_point=output.zero_point, dtype=output.dtype)
        rule: Any = product_rule(profile, a.scale, b.scale, y.scale)
        return single(op.Mul, [a, b], y, profile, rescale=rule, **random_clamp(y, rng))
    if kind == "Div":
        rule = quotient_rule(profile, a.scale, random_divisors(b, rng), output.scale)
        return single(op.Div, [a, b], output, profile, rule=rule, **random_clamp(output, rng))
    how: Any = kind.lower()
    rule = sum_rule(profile, how, qparams(a), qparams(b), qparams(output))
    return single(getattr(op, kind), [a, b], output, profile, rule=rule, **random_clamp(output, rng))


def _add_sums(profile: Profile, a: Slot, b: Slot, output: Slot, rng: np.random.Generator) -> Program:
    """One operand or both become sums of about the range of the codes, with a scale per channel or one."""
    sides = [a, b]
    for side in ([0], [1], [0, 1])[rng.integers(3)]:
        slot = sides[side]
        channels = slot.shape[-1] if slot.shape and rng.random() < 0.7 else 1
        scales = rng.uniform(0.2, 1.5, channels) * output.scale * 200 / 9000
        sides[side] = sums(slot.name, *slot.shape, scales=scales.tolist())
    rule = sums_rule(profile, sides[0].scales, sides[1].scales, output.scale)
    return single(op.AddSums, sides, output, profile, rule=rule, **random_clamp(output, rng))


def _requantize(profile: Profile, output: Slot, rng: np.random.Generator) -> Program:
    channels = output.shape[-1] if output.shape and rng.random() < 0.7 else 1
    scales = rng.uniform(0.2, 1.5, channels) * output.scale * 200 / 9000
    x = sums("x", *output.shape, scales=scales.tolist())
    rule = sums_rescale(profile, x.scales, output.scale)
    if isinstance(rule, FixedRescale) and profile == "tflite" and rng.random() < 0.3:
        rule = FixedRescale(rule.multiplier, rule.shift, "away")
    return single(op.Requantize, [x], output, profile, rescale=rule, **random_clamp(output, rng))


def _lookup(profile: Profile, output: Slot, rng: np.random.Generator) -> Program:
    x = random_codes("x", output.shape, rng)
    rows = (output.shape[-1],) if output.shape and rng.random() < 0.5 else ()
    info = np.iinfo(output.dtype)
    table = rng.integers(info.min, info.max + 1, (*rows, 256)).astype(output.dtype)
    return single(op.Lookup, [x], output, profile, table=table, function="any")


def random_codes(name: str, shape: Shape, rng: np.random.Generator) -> Slot:
    """Scale around 0.05; zero point anywhere, often at an end."""
    dtype = str(rng.choice(["uint8", "int8"]))
    info = np.iinfo(dtype)
    zero = int(rng.choice([info.min, info.max, int(rng.integers(info.min, info.max + 1)), 0, 3]))
    return codes(name, *shape, scale=float(rng.uniform(0.02, 0.12)), zero_point=zero, dtype=dtype)


def random_divisors(slot: Slot, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """What codes stand for, often with a number added; infinite ones and zeros of both signs among them."""
    info = np.iinfo(slot.dtype)
    numbers = (np.arange(info.min, info.max + 1) - slot.zero_point) * np.float32(slot.scale)
    numbers = (numbers + rng.choice([0.0, 1e-6, 0.01, 3.0])).astype(np.float32)
    if rng.random() < 0.3:
        numbers[rng.integers(0, 256, 6)] = np.array([0, -0.0, np.inf, -np.inf, 1e-38, -3e38], np.float32)
    return numbers


def random_clamp(output: Slot, rng: np.random.Generator) -> dict[str, int]:
    """The type's range, or less of it."""
    info = np.iinfo(output.dtype)
    below, above = rng.integers(0, 100, 2) if rng.random() < 0.4 else (0, 0)
    return {"low": int(info.min + below), "high": int(info.max - above)}


def qparams(slot: Slot) -> QParams:
    return QParams(slot.scale, slot.zero_point)


def every_pair(program: Program) -> dict[str, npt.NDArray[Any]]:
    """Feeds [256, 1] and [1, 256] with all codes."""
    feeds = {}
    for port in program.inputs:
        slot = program.slots[port.slot]
        info = np.iinfo(slot.dtype)
        feeds[port.name] = np.arange(info.min, info.max + 1).astype(slot.dtype).reshape(slot.shape)
    return feeds
