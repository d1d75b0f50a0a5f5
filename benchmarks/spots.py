"""Times layers with 16-bit codes (spots) beside the same layers in 8 bits.

    python benchmarks/spots.py --isa avx2

All forms of a layer run in turns: 8 bits, 16 bits read, 16 bits written, both. × is the median time of a form
by that of 8 bits; that of a form with several steps is their sum. Sums, products, tables and pools follow.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Program
from calib8.program.rules import PROFILES
from calib8.program.verify import verify
from functions import SHAPES, layer, medians
from spots_others import others

FORMS: Final = ("8 → 8", "16 → 8", "8 → 16", "16 → 16")
BITS: Final = 22
"""Of the multipliers behind sums of 41 bits."""


def with_widths(program: Program, form: str) -> Program:
    """The layer with 16-bit codes before and behind it, as the form says."""
    (step,), (x, y) = program.instructions, program.slots
    assert isinstance(step, op.Conv | op.DepthwiseConv)
    reads, writes = form.startswith("16"), form.endswith("16")
    slots = tuple(
        replace(slot, dtype="int16", zero_point=0) if wide else slot
        for slot, wide in ((x, reads), (y, writes))
    )
    clamp = {"low": -32768, "high": 32767} if writes else {}
    rule: Any = step.rescale
    by = (-8 if reads else 0) + (8 if writes else 0)
    if isinstance(rule, rules.FloatRescale):
        rule = rules.FloatRescale((rule.factor * np.float32(2.0**by)).astype(np.float32))
    elif reads:
        less = 31 - BITS
        rule = rules.FixedRescale(rule.multiplier >> less, rule.shift + less + by, "single")
    else:
        rule = replace(rule, shift=rule.shift + by)
    return replace(program, slots=slots, instructions=(replace(step, rescale=rule, **clamp),))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profile", choices=PROFILES, default="onnx")
    parser.add_argument("--isa")
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    print(f"{'layer':32}" + "".join(f"{form:>12}    × " for form in FORMS))
    for shape in SHAPES:
        plain = layer(shape, arguments.profile)
        print(line(str(shape), {form: with_widths(plain, form) for form in FORMS}, arguments))
    for name, programs in others(arguments.profile):
        print(line(name, programs, arguments))


def line(name: str, programs: Mapping[str, Program], arguments: argparse.Namespace) -> str:
    """One layer in all forms that it has."""
    for program in programs.values():
        verify(program)
    engines = [
        Engine(compile_program(program), threads=1, isa=arguments.isa) for program in programs.values()
    ]
    feeds = [codes_of(program) for program in programs.values()]
    medians(engines, feeds, 5)
    taken = dict(zip(programs, medians(engines, feeds, arguments.rounds), strict=True))
    found = (taken.get(form) for form in FORMS)
    fields = (" " * 18 if time is None else f"{time:9.1f} µs {time / taken[FORMS[0]]:5.2f}" for time in found)
    return f"{name:32}" + "".join(fields)


def codes_of(program: Program) -> dict[str, np.ndarray[Any, Any]]:
    """Codes over the whole range of every input."""
    feeds, rng = {}, np.random.default_rng(1)
    for port in program.inputs:
        slot = program.slots[port.slot]
        ends = np.iinfo(slot.dtype)
        feeds[port.name] = rng.integers(ends.min, ends.max + 1, slot.shape).astype(slot.dtype)
    return feeds


if __name__ == "__main__":
    main()
