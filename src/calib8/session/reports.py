"""What a session tells of itself: where the time goes, and the memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from calib8.engine.plan import Plan


class StepTime(NamedTuple):
    """One step of a plan.

    Attributes:
        name: the instructions that it stands for; borders and copies that only the plan has say so.
        step: what kind of step it is, ``float`` for a part that ONNX Runtime runs.
        seconds: per run, of the fastest run.
        macs: multiply-accumulates per run; 0 for a step without any and for ``float``, uncounted.
        share: of the sum of all steps, 0 … 1.
    """

    name: str
    step: str
    seconds: float
    macs: int
    share: float

    @property
    def gmacs(self) -> float:
        """10^9 multiply-accumulates per second; 0 for a step without any."""
        return self.macs / self.seconds * 1e-9 if self.seconds > 0 else 0.0


class Memory(NamedTuple):
    """Bytes that a session holds, of the shapes that it ran last.

    Attributes:
        constants: packed weights, biases and tables; of a plan file they are pages of the file.
        arena: all tensors of one run.
        scratch: what the threads of one run need beside it.
        contexts: arenas with their scratch; as many as runs were under way at the same time.
    """

    constants: int
    arena: int
    scratch: int
    contexts: int

    @property
    def total(self) -> int:
        """Constants and all contexts."""
        return self.constants + self.contexts * (self.arena + self.scratch)


def step_times(plan: Plan, seconds: Sequence[float], floats: Sequence[float]) -> list[StepTime]:
    """A line per step and Float call, in the order of execution.

    Args:
        plan: what ran.
        seconds: of its steps.
        floats: seconds of its Float calls.
    """
    total = sum(seconds) + sum(floats)
    calls = [
        (call.before, call.name, "float", took, 0) for call, took in zip(plan.floats, floats, strict=True)
    ]
    steps = [
        (place, name, row.opcode, took, macs)
        for place, (row, name, macs, took) in enumerate(
            zip(plan.rows, plan.step_names, plan.step_macs, seconds, strict=True)
        )
    ]
    lines = sorted([*calls, *steps], key=lambda line: line[0])  # a call comes before the step of its number
    return [
        StepTime(
            name=name,
            step=kind,
            seconds=took,
            macs=macs,
            share=took / total if total > 0 else 0.0,
        )
        for _, name, kind, took, macs in lines
    ]
