"""``benchmark``: how fast models run in calib8 and in other runtimes, in turns, and where the time goes.

A run is one call from Python whose inputs and outputs are bound beforehand: no arrays are copied in or out.
Every runtime gets the same arrays, the same number of threads and a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from calib8.analysis.benchmark import Opened, Timing, beside_float, measure, ratio, same_runtime_first
from calib8.analysis.benchmark_runtimes import OPENERS, installed_runtimes, open_subject, takes
from calib8.analysis.benchmark_words import conclusions
from calib8.analysis.breakdown import Breakdown, Part, break_down
from calib8.analysis.workloads import Shapes, Workload, open_workload
from calib8.engine.peak import machine_peak_gmacs
from calib8.errors import CrashError, ModelError, UnsupportedModelError, UsageError
from calib8.files import checked_path
from calib8.modules.given import FilePath, ModelFiles, Module, as_files, is_module
from calib8.notebook import grid, in_notebook, notes
from calib8.number_texts import percent
from calib8.parameters import one_of, parameter
from calib8.processors import MOST_THREADS, default_threads
from calib8.progress import Progress, ShownProgress, callback_of, check_positive, draws_progress
from calib8.requests import checks_types
from calib8.tensors import whole_number
from calib8.tflite.notes import notes_on_sizes

PROFILED_RUNS: Final = 30

Case: TypeAlias = tuple[Workload, Sequence[str]]
"""What is run, and the runtimes that run it."""


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What ``benchmark`` measured.

    Attributes:
        timings: one per model, number of threads and runtime.
        breakdowns: time of every part of the plan, one per quantized model and number of threads; empty
            unless asked for.
        failures: why a runtime that nobody named has no timing: it cannot load the model, or crashed on it.
        peaks: number of threads → multiply-accumulates per second, in 10⁹, that the cores of this machine do
            at most.
        notes: what to know, such as free sizes that were taken from a TFLite file.
    """

    timings: tuple[Timing, ...]
    breakdowns: tuple[Breakdown, ...]
    failures: tuple[ModelError, ...]
    peaks: Mapping[int, float]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: how much was measured, and the fastest of it."""
        best = min(self.timings, key=lambda one: one.median_ms)
        fastest = f"{best.subject.model!r} in {best.subject.runtime}, {best.median_ms:.3f} ms"
        return f"<Benchmark: {len(self.timings)} timings, fastest {fastest}>"

    def _repr_html_(self) -> str:
        """The timings, then the time of every part of the plans, for notebooks."""
        times = ("median ms", "min ms", "p95 ms")
        headers = ("model", "runtime", "threads", "batch", *times, "vs float", "vs others", "of peak")
        parts = [grid(headers, self.timings, self._row), *map(_part_grid, self.breakdowns)]
        told = [*self.conclusions(), *(str(failure) for failure in self.failures)]
        return in_notebook(repr(self), *parts, notes([*told, *self.notes]))

    def _row(self, t: Timing) -> tuple[object, ...]:
        of, told = t.subject, (self.of_float(t), self.ratio(t))
        times = (f"{t.median_ms:.3f}", f"{t.min_ms:.3f}", f"{t.p95_ms:.3f}")
        faster = (None if one is None else f"{one:.2f}" for one in told)
        return (of.model, of.runtime, of.threads, of.batch, *times, *faster, percent(self.of_peak(t)))

    def ratio(self, timing: Timing) -> float | None:
        """How many times faster than the fastest other runtime on the same work, by median; None without."""
        return ratio(timing, self.timings)

    def of_float(self, timing: Timing) -> float | None:
        """How many times as fast as the float model, by median; None without one.

        In the same runtime where that was measured with it (calib8's engine runs no float model), else in the
        fastest one.
        """
        plain = same_runtime_first(timing, beside_float(timing, self.timings))
        return None if plain is None else plain.median_ms / timing.median_ms

    def conclusions(self) -> tuple[str, ...]:
        """How fast the quantized models are, and how many times as fast as what, in lines."""
        return conclusions(self.timings)

    def of_peak(self, timing: Timing) -> float | None:
        """Share of what the machine does at most, 0 … 1, in the fastest run; None where MACs are unknown."""
        return None if timing.gmacs is None else timing.gmacs / self.peaks[timing.subject.threads]


def _part_grid(found: Breakdown) -> str:
    """The time of every part of a plan, for notebooks."""
    title = f"{found.model}, threads {found.threads}, {found.isa}: {1e3 * found.seconds:.3f} ms"

    def row(part: Part) -> tuple[object, ...]:
        share = percent(part.seconds / found.seconds)
        return (part.name, part.kind, part.steps, f"{1e6 * part.seconds:.1f}", share)

    return grid(("instructions", "kind", "steps", "µs", "of all"), found.parts, row, title)


class _Asked(NamedTuple):
    """What is measured, and how long, see ``benchmark``; ``named``: the user chose the runtimes."""

    runtimes: tuple[str, ...]
    threads: tuple[int, ...]
    rounds: int
    named: bool


@draws_progress
@checks_types
def benchmark(
    models: FilePath | Module | Sequence[FilePath | Module],
    *,
    runtimes: Sequence[str] | None = None,
    threads: int | Sequence[int] | None = None,
    batch: int | None = None,
    rounds: int = 10,
    shapes: Shapes | None = None,
    profile: bool = False,
    fix: Mapping[str, Any] | None = None,
    example_inputs: object = None,
    progress: ShownProgress = None,
) -> Benchmark:
    """Measures how fast models run, in turns, so that what else the machine does slows down all of them.

    Args:
        models: paths of .onnx, .tflite and .tmfile files, saved programs and plans, and torch modules; or
            one of them.
        runtimes: some of ``calib8``, ``onnxruntime``, ``openvino`` and ``litert``, all of which must load the
            models that they run; None: those that are installed, as far as they do.
        threads: numbers of threads to measure with, 1 … 256 each; None: 1 and all usable cores.
        batch: samples per run, for models that leave it free; None: 1.
        rounds: turns that every runtime gets, of about 0.1 s each.
        shapes: input name → sizes, where models leave other axes free.
        profile: tell the time of every part of the plan in calib8 too.
        fix: input name → the value that it always has; models have no such input any more.
        example_inputs: for all torch modules, see ``calib8.calibrate``; ``batch`` is the batch that is timed.
        progress: see ``calib8.calibrate``; it counts rounds.

    Raises:
        Calib8Error: what can be wrong with models or options, in one line each; a runtime that was named
            cannot load a model, or none can.
    """
    one = isinstance(models, str | os.PathLike) or is_module(models) or not isinstance(models, Iterable)
    listed: list[FilePath | Module] = [models] if one else list(models)  # type: ignore[list-item, arg-type]
    given = [model if is_module(model) else checked_path(model, "models") for model in listed]
    asked = _asked(runtimes, threads, rounds)
    if not given:
        raise UsageError("benchmark", "no model was given", "Give the paths of one or more models")
    if batch is not None:
        check_positive("batch", batch)
    if profile and "calib8" not in asked.runtimes:
        cure = f"Add calib8 to {parameter('runtimes')}"
        raise UsageError(parameter("profile", True), "shows the parts of a plan of calib8", cure)
    with as_files(given, example_inputs, fix) as files:
        return _named(_benchmarked(files.paths, asked, batch, shapes, profile, callback_of(progress)), files)


def _benchmarked(
    paths: Sequence[FilePath],
    asked: _Asked,
    batch: int | None,
    shapes: Shapes | None,
    profile: bool,
    progress: Progress,
) -> Benchmark:
    """Of files alone, see ``benchmark``."""
    workloads = [open_workload(path, batch, shapes) for path in paths]
    fitting = [_fitting(workload, asked.runtimes) for workload in workloads]
    if profile and not any("calib8" in names for names in fitting):
        problem = f"shows the parts of a plan, but {', '.join(map(str, paths))} runs in other runtimes only"
        raise UsageError(parameter("profile", True), problem, "Give a quantized model, a program or a plan")
    timings, breakdowns, failures = list[Timing](), list[Breakdown](), list[ModelError]()
    for network in _networks(list(zip(workloads, fitting, strict=True))):
        found, failed = _measured(network, asked, progress)
        timings += found
        failures += failed
        run_here = {one.subject.model for one in found if one.subject.runtime == "calib8"}
        for workload, _ in network if profile else ():
            if workload.path in run_here:
                breakdowns += [break_down(workload, count, PROFILED_RUNS) for count in asked.threads]
    order = {workload.path: place for place, workload in reversed(list(enumerate(workloads)))}
    timings.sort(key=lambda one: order[one.subject.model])
    notes = [note for path in paths for note in notes_on_sizes(path, shapes, batch)]
    peaks = {count: machine_peak_gmacs(count) for count in asked.threads}
    return Benchmark(tuple(timings), tuple(breakdowns), tuple(failures), peaks, tuple(notes))


def _named(found: Benchmark, files: ModelFiles) -> Benchmark:
    """What was measured, modules called by their classes."""
    if not files.names:
        return found
    subjects = (replace(one.subject, model=files.named(one.subject.model)) for one in found.timings)
    timings = (replace(one, subject=of) for one, of in zip(found.timings, subjects, strict=True))
    breakdowns = (replace(one, model=files.named(one.model)) for one in found.breakdowns)
    failures = tuple(map(files.named_error, found.failures))
    notes = tuple(map(files.named, found.notes))
    return Benchmark(tuple(timings), tuple(breakdowns), failures, found.peaks, notes)


def _asked(runtimes: Sequence[str] | None, threads: int | Sequence[int] | None, rounds: int) -> _Asked:
    numbers = _threads(threads)
    check_positive("rounds", rounds)
    return _Asked(_runtimes(runtimes), numbers, rounds, runtimes is not None)


def _threads(given: int | Sequence[int] | None) -> tuple[int, ...]:
    """Numbers of threads: 1 and all usable cores where nothing is given.

    Raises:
        UsageError: none, out of range, or a number twice.
    """
    if given is None:
        return tuple(sorted({1, default_threads()}))
    listed = list(given) if isinstance(given, Sequence) else [given]
    numbers = [number for one in listed if (number := whole_number(one)) is not None]
    if not numbers or len(numbers) < len(listed) or not all(1 <= one <= MOST_THREADS for one in numbers):
        cure = f"Give numbers from 1 to {MOST_THREADS}, such as {parameter('threads', [1, 2])}"
        raise UsageError(parameter("threads", given), "is not a list of numbers of threads", cure)
    if len(set(numbers)) < len(numbers):
        raise UsageError(parameter("threads", given), "names a number twice", "Give each once")
    return tuple(numbers)


def _runtimes(given: Sequence[str] | None) -> tuple[str, ...]:
    """Names of runtimes: all that are installed where nothing is given.

    Raises:
        UsageError: an unknown name, none, or one twice.
    """
    if given is None:
        return installed_runtimes()
    names = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    for name in names or ("",):
        if name not in OPENERS:
            cure = one_of(name, OPENERS, "Use some of")
            raise UsageError(parameter("runtimes", given), f"unknown runtime '{name}'", cure)
    if len(set(names)) < len(names):
        raise UsageError(parameter("runtimes", given), "names a runtime twice", "Give each once")
    return names


def _fitting(workload: Workload, runtimes: Sequence[str]) -> list[str]:
    """The runtimes that run what the file holds.

    Raises:
        UnsupportedModelError, UsageError: none of them does.
    """
    found = [runtime for runtime in runtimes if takes(runtime, workload)]
    if found:
        return found
    asked, problem = parameter("runtimes", list(runtimes)), f"{workload.path} is a {workload.form}"
    if workload.form == "TFLite model":
        raise UsageError(asked, problem, "Add the runtime calib8 or litert")
    if workload.form == "float TFLite model":
        raise UsageError(asked, problem, "Add the runtime litert")
    if workload.form == "float Tengine model":
        raise UsageError(asked, problem, "Add the runtime onnxruntime")
    if workload.form == "float":
        problem = "is a float model, which calib8 does not run"
        cure = f"Quantize it first, or add another {parameter('runtimes')}"
        raise UnsupportedModelError(workload.path, problem, cure)
    raise UsageError(asked, f"{problem}, which calib8 alone runs", "Add the runtime calib8")


def _networks(asked: Sequence[Case]) -> list[list[Case]]:
    """Models of one network together: as many multiply-accumulates and samples; others each alone."""
    found = dict[object, list[Case]]()
    for place, (workload, names) in enumerate(asked):
        known = place if workload.macs is None else (workload.macs, workload.batch)
        found.setdefault(known, []).append((workload, names))
    return list(found.values())


def _measured(
    network: Sequence[Case], asked: _Asked, progress: Progress
) -> tuple[list[Timing], list[ModelError]]:
    """Timings of the models of a network, all in turns, and what failed beside them.

    Where the user named the runtimes, none of them may refuse to load a model; one that crashes leaves the
    others their figures.
    """
    ready, failures = list[Opened](), list[ModelError]()
    for workload, runtimes in network:
        opened, failed = _opened(workload, runtimes, asked.threads)
        refused = [failure for failure in failed if not isinstance(failure, CrashError)]
        if (asked.named and refused) or not opened:
            raise (refused or failed)[0]
        ready += opened
        failures += failed
    stage, rounds = f"measuring {', '.join(workload.path for workload, _ in network)}", asked.rounds
    progress(stage, 0, rounds)
    timings = measure(ready, rounds, lambda done: progress(stage, done, rounds), failures.append)
    for workload, _ in network:
        if not any(timing.subject.model == workload.path for timing in timings):
            raise next(one for one in failures if one.subject == workload.path)
    return timings, failures


def _opened(
    workload: Workload, runtimes: Sequence[str], threads: Sequence[int]
) -> tuple[list[Opened], list[ModelError]]:
    """What can be measured, by number of threads, and why a runtime cannot load the model."""
    found: list[Opened] = []
    failures: list[ModelError] = []
    for runtime in runtimes:
        try:
            found += [open_subject(workload, runtime, count) for count in threads]
        except ModelError as error:
            failures.append(error)
    return sorted(found, key=lambda opened: threads.index(opened.subject.threads)), failures
