"""A workload in calib8's own engine: ready to run, and the time of every step of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from calib8.analysis.workloads import Workload
from calib8.engine.compile import compile_program
from calib8.engine.plan import FloatCall
from calib8.engine.run import Engine
from calib8.model.runtime import Session, open_session
from calib8.session import InferenceSession

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class StepTime:
    """One step of a plan.

    Attributes:
        name: of the instructions that it stands for.
        kind: what it does, such as ``conv``.
        seconds: median over the runs.
        macs: multiply-accumulates of one run.
    """

    name: str
    kind: str
    seconds: float
    macs: int

    @property
    def gmacs(self) -> float:
        """Multiply-accumulates per second, in 10⁹."""
        return self.macs / self.seconds * 1e-9 if self.seconds else 0.0


@dataclass(frozen=True)
class StepTimes:
    """All steps of a plan with so many threads.

    Attributes:
        model: path of the file.
        isa: instruction set of the kernels.
        threads: that shared each step.
        steps: in the order of execution.
        seconds: median of whole runs; what is not in the steps is spent in between and in ONNX Runtime.
    """

    model: str
    isa: str
    threads: int
    steps: tuple[StepTime, ...]
    seconds: float


def open_engine(workload: Workload, threads: int) -> Engine:
    """The engine with the plan of a quantized model or a program.

    Raises:
        ModelError: the model cannot be lowered.
    """
    shapes = None if workload.form == "program" else {n: a.shape for n, a in workload.feeds.items()}
    program = InferenceSession(workload.path, runtime="reference", shapes=shapes).program
    sessions: dict[str, Session] = {}

    def run_float(call: FloatCall, inputs: Sequence[Array]) -> Sequence[Array]:
        if call.name not in sessions:
            proto = onnx.ModelProto.FromString(call.model)
            sessions[call.name] = open_session(ir.from_proto(proto), threads=threads)
        names = (name for name, _ in call.inputs)
        return sessions[call.name].run(dict(zip(names, inputs, strict=True)))

    return Engine(compile_program(program), threads=threads, float_runner=run_float)


def time_steps(workload: Workload, threads: int, runs: int) -> StepTimes:
    """Runs a workload ``runs`` times, with a look at the clock after every step."""
    engine = open_engine(workload, threads)
    steps = engine.plan.steps
    inside = np.zeros((runs, len(steps)), np.int64)
    whole = np.zeros(runs)
    engine.run(workload.feeds)
    for row in range(runs):
        start = time.perf_counter()
        engine.run(workload.feeds, inside[row])
        whole[row] = time.perf_counter() - start
    medians = np.median(inside, axis=0) * 1e-9
    rows = zip(engine.plan.step_names, steps, medians.tolist(), engine.plan.step_macs, strict=True)
    times = tuple(StepTime(name, step.opcode, seconds, macs) for name, step, seconds, macs in rows)
    return StepTimes(workload.path, engine.isa, threads, times, float(np.median(whole)))
