"""Times layers with a function behind them: a clamp, a table behind their codes, a curve, two-sided factors.

    python benchmarks/functions.py --isa avx2 --profile single [--earlier TREE]

The four forms of every layer run in turns, and the medians of their times are compared: SiLU as a table (the
form of a graph with Q and DQ between layer and function) and as a curve of the sums, Relu as the clamp,
LeakyReLU as factors of either side. × is the time of a form by that of the table. TREE is a checkout of an
earlier commit with its native core in ``src/calib8``, in a process of its own: its table runs in turns with
the forms of this one, and × is then the time by that table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program.program import Port, Program, Slot
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify
from kernels import codes, rescale


@dataclass(frozen=True)
class Shape:
    """A layer of a network; ``depthwise`` has one filter per channel."""

    size: int
    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    depthwise: bool = False

    def __str__(self) -> str:
        kind = "depthwise " if self.depthwise else ""
        stride = f" /{self.stride}" if self.stride > 1 else ""
        return f"{kind}{self.kernel}×{self.kernel}{stride} {self.inputs}→{self.outputs} @{self.size}"


SHAPES: Final = (
    Shape(112, 16, 96),
    Shape(56, 24, 144),
    Shape(320, 3, 16, 3, 2),
    Shape(56, 144, 144, 3, depthwise=True),
    Shape(28, 240, 240, 5, depthwise=True),
    Shape(20, 256, 256),
    Shape(40, 64, 64, 3),
    Shape(1, 512, 512),
)
FORMS: Final = ("clamp", "table", "curve", "two-sided")
TURNS: Final = 9
"""Turns that an earlier state and this one take."""

SCALE: Final = 0.05
MOVES: Final = ("copy", "fill_halo", "wide_fill_halo")
"""Steps that the borders of a program need, and no layer."""


def layer(shape: Shape, profile: Profile) -> Program:
    """The layer with a Relu."""
    rng, taps = (
        np.random.default_rng(0),
        shape.kernel * shape.kernel * (1 if shape.depthwise else shape.inputs),
    )
    pad = shape.kernel // 2
    target = (shape.size + 2 * pad - shape.kernel) // shape.stride + 1
    sides = (shape.kernel, shape.kernel)
    sizes = (*sides, shape.outputs) if shape.depthwise else (shape.outputs, *sides, shape.inputs)
    fields: dict[str, Any] = {
        "weight": rng.integers(-127, 128, sizes).astype(np.int8),
        "weight_zero_point": np.zeros(1, np.int32),
        "bias": np.zeros(shape.outputs, np.int32),
        "rescale": rescale(profile, 40 / (74 * 74 * taps**0.5), shape.outputs),
        "low": 0,
        "high": 255,
        "strides": (shape.stride, shape.stride),
        "pads": (pad,) * 4,
        "dilations": (1, 1),
    }
    make = op.DepthwiseConv if shape.depthwise else op.Conv
    step = make("layer", (0,), (1,), **fields, **({} if shape.depthwise else {"groups": 1}))
    x = codes("x", 1, shape.size, shape.size, shape.inputs)
    y = codes("y", 1, target, target, shape.outputs, zero_point=0)
    return Program(profile, (x, y), (step,), (Port("x", 0),), (Port("out", 1),), "layer")


def with_function(program: Program, form: str) -> Program:
    """The layer with a function behind it."""
    (step,), (x, y) = program.instructions, program.slots
    assert isinstance(step, op.Conv | op.DepthwiseConv)
    taps = step.weight.size // y.shape[-1]
    scales = np.full(y.shape[-1], 40 / (74 * 74 * taps**0.5), np.float32)
    output = replace(y, scales=np.array([SCALE], np.float32), zero_point=6)
    if form == "clamp":
        return program
    if form == "table":
        between = replace(y, zero_point=100)
        table = np.clip(np.rint(silu((np.arange(256) - 100) * SCALE) / SCALE) + 6, 0, 255).astype(np.uint8)
        lookup = op.Lookup("table", (1,), (2,), table, "SiLU")
        return replace(
            program,
            slots=(x, between, replace(output, name="z")),
            instructions=(step, lookup),
            outputs=(Port("out", 2),),
        )
    rule = _rule(form, program.profile, scales, output)
    return replace(program, slots=(x, output), instructions=(replace(step, rescale=rule),))


def _rule(form: str, profile: Profile, scales: Any, output: Slot) -> Any:
    """What rescales the sums and applies the function; an earlier state may have no such rules."""
    if form == "two-sided":
        from calib8.program.rounding.two_sided import two_sided_rescale

        return two_sided_rescale(profile, SCALE, scales, np.array([0.1], np.float32), SCALE)
    from calib8.program.rounding.segments import LayerSums, curve_rescale

    rule = curve_rescale(profile, silu, LayerSums(SCALE, scales, 1000.0), output, 0, 255)
    assert rule is not None
    return rule


def silu(x: Any) -> Any:
    """x · sigmoid(x)."""
    return x / (1 + np.exp(-np.maximum(x, -700.0)))


def medians(engines: Sequence[Engine], feeds: Sequence[Any], rounds: int) -> list[float]:
    """Median µs of the steps of the layer in every engine, run in turns."""
    times: list[list[int]] = [[] for _ in engines]
    for _ in range(rounds):
        for engine, feed, taken in zip(engines, feeds, times, strict=True):
            each = np.zeros(len(engine.plan.rows), np.int64)
            engine.run(feed, each)
            rows = zip(each, engine.plan.rows, strict=True)
            taken.append(sum(int(time) for time, row in rows if row.opcode not in MOVES))
    return [float(np.median(taken)) / 1e3 for taken in times]


def timed(
    shape: Shape, forms: Sequence[str], profile: Profile, isa: str | None
) -> Callable[[int], list[float]]:
    """What runs the forms of a layer so many rounds and gives their medians, in µs."""
    programs = [with_function(layer(shape, profile), form) for form in forms]
    for program in programs:
        verify(program)
    engines = [Engine(compile_program(program), threads=1, isa=isa) for program in programs]
    port = programs[0].slots[0]
    feeds = {"x": np.random.default_rng(1).integers(0, 256, port.shape).astype(np.uint8)}
    medians(engines, [feeds] * len(engines), 5)
    return partial(medians, engines, [feeds] * len(engines))


def earlier_table(server: subprocess.Popen[str], rounds: int) -> float:
    """The median of the table in an earlier state, of the layer that its process has come to."""
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(f"{rounds}\n")
    server.stdin.flush()
    return float(json.loads(server.stdout.readline()))


def serve(profile: Profile, isa: str | None) -> None:
    """The earlier state: times the table for every line that holds a number of rounds; 0: the next layer."""
    shapes = iter(SHAPES)
    rounds_of = timed(next(shapes), ("table",), profile, isa)
    for line in sys.stdin:
        if int(line) == 0:
            rounds_of = timed(next(shapes), ("table",), profile, isa)
        print(rounds_of(max(int(line), 1))[0], flush=True)


def beside(
    shape: Shape, server: subprocess.Popen[str], profile: Profile, isa: str | None, rounds: int
) -> tuple[float, list[float]]:
    """Medians of the earlier table and of all forms, in turns."""
    rounds_of = timed(shape, FORMS, profile, isa)
    each = max(1, rounds // TURNS)
    turns = [(earlier_table(server, each), rounds_of(each)) for _ in range(TURNS)]
    before, now = zip(*turns, strict=True)
    return float(np.median(before)), [float(time) for time in np.median(now, axis=0)]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profile", choices=PROFILES, default="onnx")
    parser.add_argument("--isa")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--earlier", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.profile, chosen.isa)
        return
    server = None if chosen.earlier is None else started(chosen.earlier, chosen.profile, chosen.isa)
    first = [] if server is None else ["earlier"]
    print(f"{'layer':32}" + "".join(f"{form:>12}    × " for form in (*first, *FORMS)))
    for place, shape in enumerate(SHAPES):
        if server is None:
            taken = timed(shape, FORMS, chosen.profile, chosen.isa)(chosen.rounds)
            table, shown = taken[FORMS.index("table")], taken
        else:
            if place:
                earlier_table(server, 0)
            table, taken = beside(shape, server, chosen.profile, chosen.isa, chosen.rounds)
            shown = [table, *taken]
        print(f"{shape!s:32}" + "".join(f"{time:9.1f} µs {time / table:5.2f}" for time in shown))


def started(tree: Path, profile: str, isa: str | None) -> subprocess.Popen[str]:
    """The process of an earlier state."""
    path = os.pathsep.join([str(tree / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, __file__, "--serve", "--profile", profile]
    command += [] if isa is None else ["--isa", isa]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


if __name__ == "__main__":
    main()
