"""Sums, products, tables and pools with 16-bit codes, for spots.py: one instruction in all its forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import numpy as np

from calib8.program import instructions as op
from calib8.program.program import Port, Program, Slot
from calib8.program.rounding.linear import product_rule, sum_rule
from calib8.program.rules import Profile
from calib8.qparams import QParams

SHAPE: Final = (1, 56, 56, 64)
REACH: Final = 6.4
"""Codes stand for numbers from its negative to it."""
POOLS: Final = ((3, 1), (3, 2), (2, 2), (5, 1))
"""Kernel and stride."""


def others(profile: Profile) -> Iterator[tuple[str, Mapping[str, Program]]]:
    """Names and programs by form."""
    forms = ("8 → 8", "16 → 8", "8 → 16", "16 → 16")
    for kind in ("Add", "Mul"):
        yield f"{kind} 64 @56", {form: pair(kind, profile, form) for form in forms}
    yield "Lookup 64 @56", {form: table(profile, form) for form in forms}
    for kernel, stride in POOLS:
        same = (forms[0], forms[-1])
        yield (
            f"MaxPool {kernel}×{kernel} /{stride} 64 @56",
            {form: pool(profile, form, kernel, stride) for form in same},
        )


def slot(name: str, wide: bool, shape: tuple[int, ...] = SHAPE) -> Slot:
    """Codes of a width."""
    scale = np.array([REACH / (32768 if wide else 128)], np.float32)
    return Slot(name, shape, "int16" if wide else "uint8", scale, 0 if wide else 128)


def ends(of: Slot) -> dict[str, int]:
    """A clamp that lets all codes pass."""
    info = np.iinfo(of.dtype)
    return {"low": int(info.min), "high": int(info.max)}


def pair(kind: Literal["Add", "Mul"] | str, profile: Profile, form: str) -> Program:
    """A sum or a product of two tensors."""
    reads, writes = form.startswith("16"), form.endswith("16")
    a, b, y = slot("a", reads), slot("b", reads), slot("y", writes)
    of_a, of_b, of_y = (QParams(each.scale, each.zero_point) for each in (a, b, y))
    step: op.Instruction
    if kind == "Add":
        rule: Any = sum_rule(profile, "add", of_a, of_b, of_y, wide=reads)
        step = op.Add("step", (0, 1), (2,), rule, **ends(y))
    else:
        rule = product_rule(profile, a.scale, b.scale, y.scale, wide=reads)
        step = op.Mul("step", (0, 1), (2,), rule, **ends(y))
    return Program(profile, (a, b, y), (step,), (Port("a", 0), Port("b", 1)), (Port("out", 2),), "step")


def table(profile: Profile, form: str) -> Program:
    """A function of one tensor."""
    x, y = slot("x", form.startswith("16")), slot("y", form.endswith("16"))
    codes, limits = np.arange(-32768, 32768) if x.dtype == "int16" else np.arange(256), ends(y)
    values = (codes - x.zero_point) * x.scale
    found = np.rint(values / (1 + np.exp(-values)) / y.scale) + y.zero_point
    entries = np.clip(found, limits["low"], limits["high"]).astype(y.dtype)
    step = op.Lookup("step", (0,), (1,), entries, "SiLU")
    return Program(profile, (x, y), (step,), (Port("x", 0),), (Port("out", 1),), "step")


def pool(profile: Profile, form: str, kernel: int, stride: int) -> Program:
    """The largest codes of windows."""
    wide, pad = form.startswith("16"), (kernel - 1) // 2
    rows = (SHAPE[1] + 2 * pad - kernel) // stride + 1
    x, y = slot("x", wide), slot("y", wide, (1, rows, rows, SHAPE[3]))
    sides = ((kernel, kernel), (stride, stride), (pad,) * 4, (1, 1))
    step = op.MaxPool("step", (0,), (1,), *sides)  # type: ignore[arg-type]
    return Program(profile, (x, y), (step,), (Port("x", 0),), (Port("out", 1),), "step")
