"""Times layers whose products of two bytes fit 16 bits beside the same layers with weights of 8 bits.

    python benchmarks/pairs.py

Both run in turns, on one thread, with AVX2. × is the median time of the layer with weights of 8 bits by that
of the layer with weights of 7 bits, for which AVX2 takes vpmaddubsw (csrc/engine/pair_sums.h).
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.rules import PROFILES
from functions import SHAPES, layer, medians
from spots import codes_of


def halved(program: Program) -> Program:
    """The layer with weights of 7 bits."""
    (step,) = program.instructions
    assert isinstance(step, op.Conv | op.FullyConnected)
    weight = (step.weight.astype(np.int16) // 2).astype(np.int8)
    return replace(program, instructions=(replace(step, weight=weight),))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profile", choices=PROFILES, default="onnx")
    parser.add_argument("--isa", default="avx2")
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    print(f"{'layer':32}{'8 bits':>12}{'7 bits':>12}    ×")
    for shape in SHAPES:
        program = layer(shape, arguments.profile)
        if not isinstance(program.instructions[0], op.Conv | op.FullyConnected):
            continue
        programs = (program, halved(program))
        engines = [Engine(compile_program(one), threads=1, isa=arguments.isa) for one in programs]
        feeds = [codes_of(one) for one in programs]
        medians(engines, feeds, 5)
        wide, narrow = medians(engines, feeds, arguments.rounds)
        print(f"{shape!s:32}{wide:9.1f} µs{narrow:9.1f} µs {wide / narrow:5.2f}")


if __name__ == "__main__":
    main()
