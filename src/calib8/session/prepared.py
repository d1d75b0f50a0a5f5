"""Programs and plans made ready to run, for the input shapes that they are made for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from calib8.engine.floats import FloatSessions
from calib8.engine.plan import Plan, PlanState
from calib8.engine.run import Engine, available_isas, default_isa
from calib8.errors import ModelError, UnsupportedModelError, UsageError
from calib8.forks import whole_imports
from calib8.parameters import one_of
from calib8.processors import MOST_THREADS, default_threads
from calib8.profiles import WITH_FLOATS, Profile
from calib8.session.bound import OneAtATime
from calib8.session.ports import Array, Shapes, plan_specs, program_specs
from calib8.session.reports import Memory, StepTime, step_times
from calib8.tensors import TensorSpec, whole_number

if TYPE_CHECKING:  # a plan is opened without the classes of programs
    from calib8.program.program import Program

NATIVE: Final = "calib8"
REFERENCE: Final = "reference"
PROGRAM_RUNTIMES: Final = (NATIVE, REFERENCE)
"""What runs programs: the native engine, and NumPy as the definition of every instruction."""


class RunSettings(NamedTuple):
    """How a session runs.

    Attributes:
        runtime: one of ``PROGRAM_RUNTIMES``.
        threads: that share each step, ≥ 1.
        isa: instruction set of the native engine; None for the reference.
        pin: keep each thread on a processor of its own.
    """

    runtime: str
    threads: int
    isa: str | None
    pin: bool


def run_settings(runtime: str, threads: int | None, isa: str | None, pin: bool) -> RunSettings:
    """Settings that hold on this machine.

    Raises:
        UsageError: unknown runtime or instruction set, or no number of threads.
    """
    if runtime not in PROGRAM_RUNTIMES:
        raise UsageError(f"runtime '{runtime}'", "does not run programs", one_of(runtime, PROGRAM_RUNTIMES))
    count = default_threads() if threads is None else whole_number(threads)
    cure = f"Give a whole number in 1 … {MOST_THREADS}, or None for as many as processors may be used"
    if count is None:
        raise UsageError(f"threads {threads!r}", "is not a whole number", cure)
    if not 1 <= count <= MOST_THREADS:
        raise UsageError(f"threads {threads}", f"is not in 1 … {MOST_THREADS}", cure)
    if isa is not None and runtime != NATIVE:
        problem = f"does not go with the runtime {runtime}, which has none"
        raise UsageError(f"isa '{isa}'", problem, f"Use the runtime {NATIVE}")
    if isa is not None and isa not in available_isas():
        problem = "is unknown, or this processor does not have it"
        raise UsageError(f"isa '{isa}'", problem, one_of(isa, available_isas()))
    if isa is None and runtime == NATIVE:
        isa = default_isa()
    return RunSettings(runtime, count, isa, pin)


class Prepared(Protocol):
    """What runs one program.

    Attributes:
        outputs: their specs, all sizes known.
        states: which inputs carry on what outputs gave.
    """

    outputs: tuple[TensorSpec, ...]
    states: tuple[PlanState, ...]

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """All outputs in their order, for arrays that fit the inputs."""

    def run_into(self, feeds: Mapping[str, Array], results: Sequence[Array]) -> None:
        """Writes all outputs into arrays that fit them."""

    def bound(self, feeds: Mapping[str, Array], results: Sequence[Array]) -> Callable[[], None]:
        """``run_into`` with these arrays; raises ValueError while another thread runs it."""


class NativePlan:
    """A plan in the native engine.

    Attributes:
        outputs: their specs.
        plan: what runs.
        states: those of the plan.
    """

    def __init__(self, plan: Plan, name: str, settings: RunSettings) -> None:
        """Decodes the steps; memory for a run is taken when the first one comes.

        Raises:
            ModelError: the engine cannot run such a plan; ``name`` is that of the model.
        """
        self.plan = plan
        self.outputs, self.states = plan_specs(plan.outputs), plan.states
        runner = FloatSessions(settings.threads)
        try:
            self._engine = Engine(
                plan, threads=settings.threads, isa=settings.isa, pin=settings.pin, float_runner=runner
            )
            self._engine.check_outputs()
        except ValueError as error:
            raise ModelError(name, f"cannot be run ({error})", "Compile it again from the model") from error

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """All outputs."""
        return self._engine.run(feeds)

    def run_into(self, feeds: Mapping[str, Array], results: Sequence[Array]) -> None:
        """Writes all outputs."""
        self._engine.run_into(feeds, results)

    def bound(self, feeds: Mapping[str, Array], results: Sequence[Array]) -> Callable[[], None]:
        """Writes all outputs, in memory that no other run uses unless there are parts in float."""
        run = self._engine.bound(feeds, results)
        return OneAtATime(partial(self.run_into, feeds, results)) if run is None else run

    def times(self, feeds: Mapping[str, Array], runs: int) -> list[StepTime]:
        """Time of every step in the fastest of some runs, after one that only warms up."""
        self.run(feeds)
        best: tuple[int, list[StepTime]] | None = None
        for _ in range(runs):
            steps = np.zeros(len(self.plan.rows), np.int64)
            floats = np.zeros(len(self.plan.floats), np.int64)
            start = time.perf_counter_ns()
            self._engine.run(feeds, steps, floats)
            took = time.perf_counter_ns() - start
            if best is None or took < best[0]:
                best = took, step_times(self.plan, (steps * 1e-9).tolist(), (floats * 1e-9).tolist())
        return [] if best is None else best[1]

    def memory(self) -> Memory:
        """Bytes that it holds now."""
        return Memory(
            constants=self.plan.constants.nbytes,
            arena=self.plan.arena_bytes,
            scratch=self._engine.scratch_bytes * self._engine.threads,
            contexts=self._engine.contexts,
        )


class ReferenceProgram:
    """A program in NumPy.

    Attributes:
        outputs: their specs.
        states: those of the program.
    """

    def __init__(self, program: Program) -> None:
        """Nothing needs to be made ready."""
        with whole_imports():
            from calib8.engine.plan_states import plan_states
            from calib8.program.reference.executor import run_program  # the native engine does without

        self._program, self._run = program, run_program
        self.outputs, self.states = program_specs(program, program.outputs), plan_states(program)

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """All outputs."""
        return self._run(self._program, {port.name: feeds[port.name] for port in self._program.inputs})

    def run_into(self, feeds: Mapping[str, Array], results: Sequence[Array]) -> None:
        """Writes all outputs."""
        for array, result in zip(results, self.run(feeds), strict=True):
            array[...] = result

    def bound(self, feeds: Mapping[str, Array], results: Sequence[Array]) -> Callable[[], None]:
        """Writes all outputs."""
        return OneAtATime(partial(self.run_into, feeds, results))


def prepared_program(program: Program, name: str, settings: RunSettings) -> Prepared:
    """A verified program made ready.

    Raises:
        ModelError: the engine cannot run it; ``name`` is that of the model.
    """
    if settings.runtime == REFERENCE:
        return ReferenceProgram(program)
    with whole_imports():
        from calib8.engine.compile import compile_program  # who opens a plan compiles nothing

    return NativePlan(compile_program(program), name, settings)


class Opened(NamedTuple):
    """What a session needs of a model, a program or a plan.

    Attributes:
        name: path or graph name, for messages.
        profile: the rounding profile.
        inputs, outputs: their specs; sizes may be free.
        lower: gives the program for shapes by input name; None for a plan.
        plan: None but for a plan.
        at_once: it is lowered when it is opened, for one sample where the batch axis is free.
        self_contained: no other file holds a part of it.
        states: input → output that feeds it in the next run.
    """

    name: str
    profile: Profile
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    lower: Callable[[Shapes], Program] | None = None
    plan: Plan | None = None
    at_once: bool = False
    self_contained: bool = True
    states: Mapping[str, str] = MappingProxyType({})


def opened_plan(plan: Plan, name: str, profile: str | None, integer_only: bool) -> Opened:
    """A plan, of which nothing can be chosen any more.

    Raises:
        UsageError: another profile than its own.
        UnsupportedModelError: ``integer_only`` although it is not.
    """
    steps = zip(plan.rows, plan.step_names, strict=True)
    own = dict.fromkeys(step for row, step in steps if row.opcode in (RECURRENT, REAL_FUNCTION))
    check_fixed(name, plan.profile, [*own, *plan.float_nodes], profile, integer_only)
    states = {state.input: state.output for state in plan.states}
    inputs, outputs = plan_specs(plan.inputs), plan_specs(plan.outputs)
    return Opened(name, plan.profile, inputs, outputs, plan=plan, states=states)


def refuse_outputs(outputs: Sequence[str] | None) -> None:
    """Refuses other outputs than those of the model.

    Raises:
        UsageError: some are given.
    """
    if outputs is not None:
        problem = "can be chosen of TFLite models only"
        raise UsageError("outputs", problem, "Leave them out; run() takes the names of those wanted")


RECURRENT: Final = "recurrent"
"""Opcode of the only step whose products are integers and whose gates are float32."""

REAL_FUNCTION: Final = "real_function"
"""Opcode of the only step that computes float32 of float32."""


def check_fixed(
    name: str, own: Profile, float_nodes: Sequence[str], profile: str | None, integer_only: bool
) -> None:
    """Holds what is asked of a program or plan against what it is.

    Raises:
        UsageError: another profile than its own.
        UnsupportedModelError: ``integer_only`` although it is not.
    """
    if profile is not None and profile != own:
        problem = f"{name} was lowered with the profile '{own}', which is fixed"
        raise UsageError(f"profile '{profile}'", problem, "Lower the ONNX model again")
    if integer_only and (float_nodes or own in WITH_FLOATS):
        nodes = ", ".join(float_nodes)
        what = f"nodes without an integer form: {nodes}" if float_nodes else "float32 multipliers"
        cure = "Lower the ONNX model again with integer_only, or run this without"
        raise UnsupportedModelError(name, f"is not integer only, it has {what}", cure)
