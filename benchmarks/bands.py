"""What expand → depthwise → project would gain if it ran in bands of rows that stay in a near cache.

    python benchmarks/bands.py [--isa NAME] [--rounds 60] [--json FILE]

Each block runs whole, and as one inner band of a few rows of its result, on one thread in turns; the time
of a band is taken as often as the block has bands. A band of r rows reads (r - 1) · stride + kernel rows,
which are expanded anew in each band ("anew"); "kept" takes the share of these rows that the band before has
expanded already off the time of the expansion, as a ring of rows would. Both leave out what a ring and the
change from step to step cost: they are bounds of the gain. µs are medians of the steps alone; × is the whole
by the bands.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calib8.engine.compile import compile_program
from calib8.engine.run import Engine
from calib8.program import instructions as op
from calib8.program.program import Port, Program
from calib8.program.verify import verify
from functions import MOVES
from kernels import codes, rescale
from results import machine
from spots import codes_of

BANDS = (2, 4, 7, 14, 28)
STEPS = 3


@dataclass(frozen=True)
class Block:
    """Sizes of expand → depthwise → project on [1, size, size, channels]."""

    size: int
    channels: int
    expanded: int
    projected: int
    kernel: int = 3
    stride: int = 1

    def __str__(self) -> str:
        sides = f"{self.kernel}×{self.kernel}" + (f" /{self.stride}" if self.stride > 1 else "")
        return f"{self.channels}→{self.expanded}→{self.projected}, {sides} @{self.size}"

    def rows(self, band: int) -> int:
        """Rows that a band of rows of the result reads."""
        return (band - 1) * self.stride + self.kernel


BLOCKS = (
    Block(112, 16, 96, 24, stride=2),
    Block(56, 24, 144, 24),
    Block(56, 24, 144, 40, kernel=5, stride=2),
    Block(28, 32, 192, 32),
    Block(28, 40, 240, 40, kernel=5),
    Block(14, 64, 384, 64),
    Block(14, 96, 576, 96),
    Block(14, 112, 672, 112, kernel=5),
)
"""Of MobileNetV2 and EfficientNet."""


def program_of(block: Block, band: int | None) -> Program:
    """The whole block, or an inner band, whose depthwise layer has borders left and right alone."""
    side, height = block.kernel // 2, block.size if band is None else block.rows(band)
    result = block.size // block.stride if band is None else band
    columns = block.size // block.stride
    pads = (side if band is None else 0, side, side if band is None else 0, side)
    slots = (
        codes("x", 1, height, block.size, block.channels),
        codes("expanded", 1, height, block.size, block.expanded, zero_point=0),
        codes("filtered", 1, result, columns, block.expanded, zero_point=0),
        codes("y", 1, result, columns, block.projected),
    )
    sides = (block.kernel, block.kernel)
    steps = (
        op.Conv("expand", (0,), (1,), **fields((block.expanded, 1, 1, block.channels)), groups=1),
        op.DepthwiseConv("filter", (1,), (2,), **fields((*sides, block.expanded), block.stride, pads)),
        op.Conv("project", (2,), (3,), **fields((block.projected, 1, 1, block.expanded)), groups=1),
    )
    program = Program("onnx", slots, steps, (Port("x", 0),), (Port("out", 3),), "block")
    verify(program)
    return program


def fields(sizes: tuple[int, ...], stride: int = 1, pads: Sequence[int] = (0, 0, 0, 0)) -> dict[str, Any]:
    """Fields of a layer with random weights of such sizes, [outputs, rows, columns, inputs] or depthwise."""
    depthwise = len(sizes) == 3
    outputs, taps = (sizes[2], sizes[0] * sizes[1]) if depthwise else (sizes[0], int(np.prod(sizes[1:])))
    return {
        "weight": np.random.default_rng(0).integers(-127, 128, sizes).astype(np.int8),
        "weight_zero_point": np.zeros(1, np.int32),
        "bias": np.zeros(outputs, np.int32),
        "rescale": rescale("onnx", 40 / (74 * 74 * taps**0.5), outputs),
        "low": 0,
        "high": 255,
        "strides": (stride, stride),
        "pads": tuple(pads),
        "dilations": (1, 1),
    }


def layer_times(engines: Sequence[Engine], feeds: Sequence[Any], rounds: int) -> list[list[float]]:
    """Median µs of the three layers in every engine, run in turns; moves belong to the layer behind them."""
    times: list[list[list[int]]] = [[] for _ in engines]
    for _ in range(rounds):
        for engine, feed, taken in zip(engines, feeds, times, strict=True):
            each = np.zeros(len(engine.plan.rows), np.int64)
            engine.run(feed, each)
            sums, layer = [0] * STEPS, 0
            for time, row in zip(each, engine.plan.rows, strict=True):
                sums[min(layer, STEPS - 1)] += int(time)
                layer += row.opcode not in MOVES
            taken.append(sums)
    return [[float(x) / 1e3 for x in np.median(taken, axis=0)] for taken in times]


def measured(block: Block, isa: str | None, rounds: int) -> dict[str, Any]:
    """Times of the whole block, and bounds for every band that divides its rows."""
    height = block.size // block.stride
    bands = [band for band in BANDS if band < height and height % band == 0]
    programs = [program_of(block, band) for band in (None, *bands)]
    engines = [Engine(compile_program(one), threads=1, isa=isa) for one in programs]
    feeds = [codes_of(one) for one in programs]
    layer_times(engines, feeds, 5)
    whole, *others = layer_times(engines, feeds, rounds)
    found = []
    for band, (expand, *rest) in zip(bands, others, strict=True):
        kept = band * block.stride / block.rows(band)
        anew, ring = (height / band * (expand * share + sum(rest)) for share in (1.0, kept))
        found.append({"rows": band, "anew": anew, "kept": ring})
    return {"block": asdict(block), "what": str(block), "whole": whole, "bands": found}


def lines(record: dict[str, Any]) -> list[str]:
    """Rows of the table."""
    whole = sum(record["whole"])
    layers = " + ".join(f"{time:.1f}" for time in record["whole"])
    rows = [f"{record['what']:34} whole {whole:8.1f} = {layers}"]
    for band in record["bands"]:
        anew, kept = band["anew"], band["kept"]
        rows.append(
            f"{'':34} {band['rows']:5} {anew:8.1f} {whole / anew:5.2f} {kept:8.1f} {whole / kept:5.2f}"
        )
    return rows


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--isa")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(f"{'block':34} {'rows':>5} {'anew':>8}     × {'kept':>8}     ×")
    records = []
    for block in BLOCKS:
        records.append(measured(block, arguments.isa, arguments.rounds))
        print("\n".join(lines(records[-1])), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine([1]), "bands": records}, indent=1))


if __name__ == "__main__":
    main()
