"""Where the time of a model goes in calib8: every instruction of it, with the fastest time of each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calib8.analysis.bound_calls import open_native
from calib8.analysis.workloads import Workload
from calib8.engine.run import default_isa
from calib8.session import StepTime


@dataclass(frozen=True)
class Part:
    """The steps of one kind that stand for the same instructions: a transposed layer has one per phase.

    Attributes:
        name: of the instructions; borders and copies that only the plan has say so.
        kind: what the steps do, ``float`` for a part that ONNX Runtime runs.
        steps: how many there are.
        seconds: of all of them, each in its fastest run.
        macs: multiply-accumulates of all of them.
    """

    name: str
    kind: str
    steps: int
    seconds: float
    macs: int

    @property
    def gmacs(self) -> float:
        """Multiply-accumulates per second, in 10⁹."""
        return self.macs / self.seconds * 1e-9 if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Breakdown:
    """A model with so many threads.

    Attributes:
        model: path of the file.
        isa: instruction set of the kernels.
        threads: that shared each step.
        parts: in the order in which they begin.
    """

    model: str
    isa: str
    threads: int
    parts: tuple[Part, ...]

    @property
    def seconds(self) -> float:
        """All parts together."""
        return sum(part.seconds for part in self.parts)


def break_down(workload: Workload, threads: int, runs: int) -> Breakdown:
    """Runs a quantized model, program or plan so often, with a look at the clock after every step."""
    session = open_native(workload, threads)
    measured = [session.profile(workload.feeds, runs=1) for _ in range(runs)]
    return Breakdown(workload.path, default_isa(), threads, joined(measured))


def joined(runs: Sequence[Sequence[StepTime]]) -> tuple[Part, ...]:
    """The parts of a plan, from the steps of several runs of it."""
    parts: dict[tuple[str, str], Part] = {}
    for steps in zip(*runs, strict=True):
        fastest = min(steps, key=lambda step: step.seconds)
        key = fastest.name, fastest.step
        before = parts.get(key, Part(*key, 0, 0.0, 0))
        parts[key] = Part(
            *key,
            before.steps + 1,
            before.seconds + fastest.seconds,
            before.macs + fastest.macs,
        )
    return tuple(parts.values())
