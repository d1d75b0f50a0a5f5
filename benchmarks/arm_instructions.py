"""Instructions of the engine's kernels on Arm, by kind of layer, counted by qemu: no board is needed.

    cmake -S tests/native -B FOLDER -DSANITIZER=none -DCMAKE_BUILD_TYPE=Release \\
        -DCMAKE_TOOLCHAIN_FILE=aarch64.cmake && cmake --build FOLDER --target plan_runs
    python benchmarks/arm_instructions.py FOLDER [--before OTHER] [--sets reference neon neondot neoni8mm]
        [--only "depthwise"]

A layer runs alone, on one thread; what two processes with one and with two runs take apart is one run, so
that loading counts for nothing. qemu in user mode logs every block of instructions that it goes through.
``--before`` names a build of another commit, whose sets come in front. Counts are a model: they tell nothing
of caches, of how many instructions a processor does at once, or of what one of them costs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "program")]

from example_programs import codes, floats, plain, rescale, single  # noqa: E402

from bits import random_feeds, record  # noqa: E402
from calib8.engine.compile import compile_program  # noqa: E402
from calib8.program import instructions as op  # noqa: E402
from calib8.program import rules  # noqa: E402
from calib8.program.program import Program, Slot  # noqa: E402
from calib8.program.reference.executor import run_program  # noqa: E402
from calib8.program.rules import PROFILES, Profile  # noqa: E402

SETS: Final = ("reference", "neon", "neondot", "neoni8mm")
STEPS: Final = re.compile(r"Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/")


@dataclass(frozen=True)
class Layer:
    """A layer alone.

    Attributes:
        kind: its title.
        program: what computes it.
        units: how many products, or elements of the output, it has.
        unit: which of them.
    """

    kind: str
    program: Program
    units: int
    unit: str = "MAC"


def _factors(profile: Profile, count: int) -> rules.Rescale:
    """So small that codes spread."""
    if profile == "onnx":
        return rules.FloatRescale(np.full(count, 2e-3, np.float32))
    shift = np.full(count, -9, np.int32)
    return rules.FixedRescale(
        np.full(count, 1100000000, np.int32), shift, "double" if profile == "tflite" else "single"
    )


def _layer_fields(profile: Profile, weight: Any, outputs: int) -> dict[str, Any]:
    return {
        "weight": weight,
        "weight_zero_point": np.zeros(1, np.int32),
        "bias": np.arange(outputs, dtype=np.int32),
        "rescale": _factors(profile, outputs),
        "low": 0,
        "high": 255,
    }


def _weights(*shape: int) -> Any:
    return np.random.default_rng(shape).integers(-127, 128, shape).astype(np.int8)


def _window(kernel: int, stride: int) -> dict[str, Any]:
    pad = kernel // 2
    return {"strides": (stride, stride), "pads": (pad,) * 4, "dilations": (1, 1)}


def _conv(profile: Profile, size: int, channels: tuple[int, int], kernel: int, stride: int = 1) -> Layer:
    inputs, outputs = channels
    after = (size + stride - 1) // stride
    program = single(
        op.Conv,
        [codes("x", 1, size, size, inputs)],
        codes("y", 1, after, after, outputs, zero_point=0),
        profile,
        **_layer_fields(profile, _weights(outputs, kernel, kernel, inputs), outputs),
        **_window(kernel, stride),
        groups=1,
    )
    macs = after * after * outputs * inputs * kernel * kernel
    step = f", stride {stride}" if stride > 1 else ""
    return Layer(f"Conv {kernel}×{kernel}{step}, {inputs} → {outputs} channels", program, macs)


def _depthwise(profile: Profile, size: int, channels: int, kernel: int, stride: int) -> Layer:
    after = (size + stride - 1) // stride
    program = single(
        op.DepthwiseConv,
        [codes("x", 1, size, size, channels)],
        codes("y", 1, after, after, channels, zero_point=0),
        profile,
        **_layer_fields(profile, _weights(kernel, kernel, channels), channels),
        **_window(kernel, stride),
    )
    kind = f"depthwise {kernel}×{kernel}, stride {stride}"
    return Layer(kind, program, after * after * channels * kernel * kernel)


def products(profile: Profile) -> Iterator[Layer]:
    """Layers that multiply."""
    yield _conv(profile, 14, (64, 64), 1)
    yield _conv(profile, 14, (32, 32), 3)
    yield _conv(profile, 28, (3, 16), 3, 2)
    connected = single(
        op.FullyConnected,
        [codes("x", 1, 256)],
        codes("y", 1, 128, zero_point=0),
        profile,
        **_layer_fields(profile, _weights(128, 256), 128),
    )
    yield Layer("fully connected, 256 → 128", connected, 256 * 128)
    for kernel in (3, 5):
        for stride in (1, 2):
            yield _depthwise(profile, 20, 64, kernel, stride)


def elements(profile: Profile) -> Iterator[Layer]:
    """Layers that count by the elements of their output."""
    image = (1, 14, 14, 64)
    x, y, count = codes("x", *image), codes("y", *image, zero_point=0), 14 * 14 * 64
    sums: Mapping[Profile, rules.SumRule] = {
        "onnx": rules.FloatSum(0.5, 0.25, 3.0),
        "tflite": rules.ScaledSum(20, (1 << 30, 0), (1 << 30, -1), (1 << 30, -18)),
        "single": rules.AlignedSum(1 << 20, 1 << 19, 20),
    }
    clamp = {"low": 0, "high": 255}
    b = codes("b", *image, scale=0.025)

    def of(kind: str, program: Program, units: int = count) -> Layer:
        return Layer(kind, program, units, "element")

    yield of("Add", single(op.Add, [x, b], y, profile, rule=sums[profile], **clamp))
    product = rules.FloatProduct(0.005) if profile == "onnx" else _factors(profile, 1)
    yield of("Mul", single(op.Mul, [x, b], y, profile, rescale=product, **clamp))
    table = np.random.default_rng(1).integers(0, 256, 256).astype(np.uint8)
    yield of("table", single(op.Lookup, [x], y, profile, table=table, function="Sigmoid"))
    yield from _pools(profile, x, of)
    big = codes("x", 8, 1000)
    steps = np.exp(0.05 * (np.arange(256) - 255))
    rule: Mapping[Profile, rules.SoftmaxRule] = {
        "onnx": rules.TableSoftmax(steps.astype(np.float32), 256.0),
        "tflite": rules.FixedSoftmax(1717986944, 22, -496),
        "single": rules.TableSoftmax(np.rint(steps * (1 << 24)).astype(np.int32), 256 << 16, 16),
    }
    shares = codes("y", 8, 1000, scale=1 / 256, zero_point=0)
    yield of("Softmax, 1000 classes", single(op.Softmax, [big], shares, profile, rule=rule[profile]), 8000)
    yield of("Resize ×2, linear", _resized(profile), 20 * 20 * 32)
    turned = single(op.Transpose, [x], codes("y", 1, 64, 14, 14), profile, axes=(0, 3, 1, 2))
    yield of("Transpose", turned)
    border: Any = "away" if profile == "tflite" else "even"
    planes = plain("x", 1, 3, 56, 56)
    pixels = codes("y", 1, 56, 56, 3)
    quantize = single(op.Quantize, [planes], pixels, profile, axes=(0, 2, 3, 1), rounding=border)
    yield of("Quantize, planes to pixels", quantize, 56 * 56 * 3)
    back = single(op.Dequantize, [x], plain("y", 1, 64, 14, 14), profile, axes=(0, 3, 1, 2))
    yield of("Dequantize, pixels to planes", back)


def _pools(profile: Profile, x: Slot, of: Any) -> Iterator[Layer]:
    window: dict[str, Any] = {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 0, 0)}
    pooled, clamp = codes("y", 1, 7, 7, 64), {"low": 0, "high": 255}
    largest = single(op.MaxPool, [x], pooled, profile, **window, dilations=(1, 1))
    yield of("MaxPool 3×3, stride 2", largest, 7 * 7 * 64)
    scale = float(np.float32(0.05))
    average: Mapping[Profile, rules.AverageRule] = {
        "onnx": rules.FloatAverage(scale, scale),
        "tflite": rules.CodeAverage(),
        "single": rules.FixedRescale(
            np.full(9, 1 << 30, np.int32), np.arange(0, -9, -1).clip(-3).astype(np.int32), "single"
        ),
    }
    same = {"rule": average[profile], **clamp}
    mean = single(op.AveragePool, [x], pooled, profile, **window, count_pads=False, **same)
    yield of("AveragePool 3×3, stride 2", mean, 7 * 7 * 64)
    factor = rescale(profile) if profile != "onnx" else rules.FloatRescale(floats(1 / 196))
    whole = single(op.Mean, [x], codes("y", 1, 64), profile, axes=(1, 2), rescale=factor, **clamp)
    yield of("mean of 14×14", whole, 64)


def _resized(profile: Profile) -> Program:
    place = (np.arange(20) + 0.5) / 2 - 0.5
    low = np.floor(place).clip(0, 9).astype(np.int32)
    high = np.minimum(low + 1, 9).astype(np.int32)
    share = (place - low).clip(0, 1)
    fraction = share.astype(np.float32) if profile == "onnx" else (share * 1024).astype(np.int32)
    rounding: Any = {"onnx": "even", "tflite": "away", "single": "up"}[profile]
    axis = rules.LinearAxis(low, high, fraction, rounding)
    x, y = codes("x", 1, 10, 10, 32), codes("y", 1, 20, 20, 32)
    return single(op.ResizeLinear, [x], y, profile, rows=axis, columns=axis)


def recorded(program: Program, folder: Path) -> Path:
    """A file with the plan of a layer."""
    feeds = random_feeds(program, np.random.default_rng(0))
    record(str(folder), compile_program(program), feeds, run_program(program, feeds))
    [path] = folder.iterdir()
    return path.rename(folder.with_suffix(".plan"))


def counted(program: Path, plan: Path, isa: str, runs: int) -> int | None:
    """Instructions of a process that runs a plan so many times; None where the set is none of the build."""
    log = ["-d", "in_asm,exec,nochain", "-D", "/dev/stderr"]
    command = ["qemu-aarch64-static", "-cpu", "max", *log, str(program), str(plan), isa, str(runs)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        total = count_lines(process.stderr or ())
    return None if process.returncode else total


def count_lines(lines: Any) -> int:
    """Instructions that a log of qemu tells of: every block when it is translated, then its address whenever
    it runs."""
    sizes: dict[int, int] = {}
    total = first = size = 0
    for line in lines:
        if line.startswith("Trace"):
            if size:
                sizes[first], size = size, 0
            found = STEPS.match(line)
            total += sizes[int(found[1], 16)] if found else 0
        elif line.startswith("IN:"):
            if size:
                sizes[first] = size
            size = 0
        elif line.startswith("0x"):
            if not size:
                first = int(line[2 : line.index(":")], 16)
            size += 1
    return total


def per_unit(program: Path, plan: Path, isa: str, units: int) -> str:
    """Instructions of one run per product or element."""
    one, two = (counted(program, plan, isa, runs) for runs in (1, 2))
    return "–" if one is None or two is None else f"{(two - one) / units:.2f}"


def layers(profile: Profile, only: Sequence[str]) -> list[Layer]:
    """Those whose kind has one of these words in it, or all."""
    drawn = [*products(profile), *elements(profile)]
    return [layer for layer in drawn if not only or any(word in layer.kind for word in only)]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--before-sets", nargs="+", default=["neondot"])
    parser.add_argument("--profile", choices=PROFILES, default="onnx")
    parser.add_argument("--only", nargs="+", default=[])
    arguments = parser.parse_args()
    builds = [(arguments.before, isa) for isa in arguments.before_sets] if arguments.before else []
    builds += [(arguments.folder, isa) for isa in arguments.sets]
    titles = [f"{isa} before" if build == arguments.before else isa for build, isa in builds]
    print(f"| instructions per MAC or element | {' | '.join(titles)} |")
    print("|---|" + "---:|" * len(titles))
    with tempfile.TemporaryDirectory() as name:
        for number, layer in enumerate(layers(arguments.profile, arguments.only)):
            plan = recorded(layer.program, Path(name) / str(number))
            found = [per_unit(build / "plan_runs", plan, isa, layer.units) for build, isa in builds]
            print(f"| {layer.kind}, per {layer.unit} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
