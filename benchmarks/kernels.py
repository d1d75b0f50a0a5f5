"""Times the convolutions of well-known networks one by one: µs, GMAC/s, share of the machine's peak.

    python benchmarks/kernels.py --networks ResNet-50 MobileNetV2 --threads 1

Shapes are in kernels.json: ``size`` is that of the input image, padding keeps it unless ``pad`` says
otherwise, ``residual`` adds a tensor in the same step. Every layer runs alone and warm: its weights lie in
the cache that holds them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.engine.compile import compile_program
from calib8.engine.peak import peak_gmacs
from calib8.engine.run import Engine, default_isa
from calib8.fixedpoint import encode_multiplier
from calib8.program import instructions as op
from calib8.program import rules
from calib8.program.program import Port, Program, Slot
from calib8.program.rules import PROFILES, Profile

SHAPES = Path(__file__).with_suffix(".json")


@dataclass
class Timed:
    """A layer ready to run and the least time that its convolution has taken so far.

    Attributes:
        title: of its row in the table.
        engine: a plan with this layer alone.
        feeds: codes over their whole range.
        macs: products per run.
        best: ns.
    """

    title: str
    engine: Engine
    feeds: Mapping[str, npt.NDArray[Any]]
    macs: int
    best: float = float("inf")

    def visit(self, repeats: int) -> None:
        """Runs it a few times."""
        rows = self.engine.plan.rows
        for _ in range(repeats):
            times = np.zeros(len(rows), np.int64)
            self.engine.run(self.feeds, times)
            taken = sum(int(time) for time, row in zip(times, rows, strict=True) if row.opcode == "conv")
            self.best = min(self.best, taken)


def codes(name: str, *shape: int, zero_point: int = 128) -> Slot:
    """uint8 codes."""
    return Slot(name, shape, "uint8", np.array([0.05], np.float32), zero_point)


def rescale(profile: Profile, factor: float, channels: int) -> rules.Rescale:
    """One factor per channel."""
    if profile == "onnx":
        return rules.FloatRescale(np.full(channels, factor, np.float32))
    multiplier, shift = (np.full(channels, value, np.int32) for value in encode_multiplier(factor))
    return rules.FixedRescale(multiplier, shift, "double" if profile == "tflite" else "single")


def sum_rule(profile: Profile) -> rules.SumRule:
    """Both operands halved."""
    if profile == "onnx":
        return rules.FloatSum(0.5, 0.5, 0.0)
    if profile == "single":
        return rules.AlignedSum(1 << 20, 1 << 20, 21)
    return rules.ScaledSum(20, (1 << 30, 0), (1 << 30, 0), encode_multiplier(2.0**-20))


def program_of(shape: Mapping[str, Any], profile: Profile) -> Program:
    """A Conv, and an Add where the shape has a residual."""
    (rows, columns), (inputs, outputs) = shape["size"], shape["channels"]
    kernel, stride, groups = shape["kernel"], shape.get("stride", 1), shape.get("groups", 1)
    top, left = shape.get("pad", [size // 2 for size in kernel])
    height = (rows + 2 * top - kernel[0]) // stride + 1
    width = (columns + 2 * left - kernel[1]) // stride + 1
    rng = np.random.default_rng(0)
    weight = rng.integers(-127, 128, (outputs, *kernel, inputs // groups)).astype(np.int8)
    factor = 40 / (74 * 74 * weight[0].size ** 0.5)
    zero_point = 128 if shape.get("residual") else 0  # a Relu follows where no sum does
    output = codes("y", 1, height, width, outputs, zero_point=zero_point)
    slots = [codes("x", 1, rows, columns, inputs), output]
    conv = op.Conv(
        "conv",
        (0,),
        (1,),
        weight,
        np.zeros(1, np.int32),
        np.zeros(outputs, np.int32),
        rescale(profile, factor, outputs),
        0,
        255,
        (stride, stride),
        (top, left, top, left),
        (1, 1),
        groups,
    )
    steps: tuple[op.Instruction, ...] = (conv,)
    inputs_of = [Port("x", 0)]
    if shape.get("residual"):
        slots += [codes("residual", *slots[1].shape), codes("sum", *slots[1].shape)]
        steps = (conv, op.Add("add", (1, 2), (3,), sum_rule(profile), 128, 255))
        inputs_of.append(Port("residual", 2))
    return Program(profile, tuple(slots), steps, tuple(inputs_of), (Port("out", len(slots) - 1),), "layer")


def title_of(network: str, shape: Mapping[str, Any]) -> str:
    """For example ``ResNet-50  1×1 64→256 @56 + residual``."""
    kernel, (inputs, outputs) = shape["kernel"], shape["channels"]
    stride = f" /{shape['stride']}" if "stride" in shape else ""
    groups = f" in {shape['groups']} groups" if "groups" in shape else ""
    residual = " + residual" if shape.get("residual") else ""
    layer = f"{kernel[0]}×{kernel[1]}{stride} {inputs}→{outputs}{groups}"
    return f"{network:19} {layer} @{shape['size'][0]}{residual}"


def prepare(network: str, shape: Mapping[str, Any], arguments: argparse.Namespace) -> Timed:
    """Compiles a layer."""
    program = program_of(shape, arguments.profile)
    plan = compile_program(program)
    rng = np.random.default_rng(1)
    feeds = {port.name: rng.integers(0, 256, port.shape).astype(np.uint8) for port in plan.inputs}
    engine = Engine(plan, threads=arguments.threads, isa=arguments.isa)
    return Timed(title_of(network, shape), engine, feeds, sum(plan.step_macs))


def main() -> None:
    """Prints the table."""
    shapes = json.loads(SHAPES.read_text())
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", nargs="+", choices=sorted(shapes), default=list(shapes))
    parser.add_argument("--profile", choices=PROFILES, default="onnx")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    layers = [
        prepare(network, shape, arguments) for network in arguments.networks for shape in shapes[network]
    ]
    for _ in range(arguments.rounds):
        for layer in layers:
            layer.visit(10)
    peak = peak_gmacs(arguments.isa or default_isa(), arguments.threads)
    for layer in layers:
        speed = layer.macs / layer.best
        print(f"{layer.title:62} {layer.best / 1e3:9.1f} µs {speed:7.1f} GMAC/s {100 * speed / peak:6.1f} %")


if __name__ == "__main__":
    main()
