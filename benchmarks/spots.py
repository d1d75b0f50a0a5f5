"""Times layers with 16-bit codes (spots) beside the same layers in 8 bits.

    python benchmarks/spots.py --isa avx2

All forms of a layer run in turns: 8 bits, 16 bits read, 16 bits written, both. × is the median time of a form
by that of 8 bits; that of a form with several steps is their sum.
"""

from __future__ import annotations

import argparse
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
from functions import SHAPES, Shape, layer, medians

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
        print(line(shape, arguments))


def line(shape: Shape, arguments: argparse.Namespace) -> str:
    """One layer in all its forms."""
    programs = [with_widths(layer(shape, arguments.profile), form) for form in FORMS]
    for program in programs:
        verify(program)
    engines = [Engine(compile_program(program), threads=1, isa=arguments.isa) for program in programs]
    feeds = []
    for program in programs:
        port, ends = program.slots[0], np.iinfo(program.slots[0].dtype)
        codes = np.random.default_rng(1).integers(ends.min, ends.max + 1, port.shape)
        feeds.append({"x": codes.astype(port.dtype)})
    medians(engines, feeds, 5)
    taken = medians(engines, feeds, arguments.rounds)
    return f"{shape!s:32}" + "".join(f"{time:9.1f} µs {time / taken[0]:5.2f}" for time in taken)


if __name__ == "__main__":
    main()
