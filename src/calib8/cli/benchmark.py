"""``calib8 benchmark``: how fast models run in calib8 and in other runtimes, measured in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from calib8.cli.choices import BENCHMARKED
from calib8.cli.headings import PROGRAM, RUNTIME, option
from calib8.cli.options import SHAPE_HELP, ReportOptions
from calib8.cli.outputs import check_outputs, write_json
from calib8.cli.program import read_shapes, say_sizes_taken
from calib8.cli.progress import shown_progress
from calib8.cli.speed import breakdown_document, say_breakdown, timing_document, timing_table
from calib8.cli.terminal import Terminal, open_terminal
from calib8.errors import CrashError, ModelError, UnsupportedModelError, UsageError
from calib8.parameters import on_command_line, one_of
from calib8.processors import MOST_THREADS, usable_cores

if TYPE_CHECKING:
    from calib8.analysis.benchmark import Opened, Timing
    from calib8.analysis.breakdown import Breakdown
    from calib8.analysis.workloads import Workload

ModelsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="MODEL", show_default=False, help="Models: .onnx, .tflite, programs or plans."),
]

PROFILED_RUNS: Final = 30

_THREADS_HELP: Final = "Numbers of threads to measure with. Default: 1 and all usable cores."
_BATCH_HELP: Final = "Samples per run, for models that leave it free. Default: 1."
_RUNTIMES_HELP: Final = (
    "Some of calib8, onnxruntime, openvino and litert, separated by commas. Default: all that are installed."
)
_ROUNDS_HELP: Final = "Turns that every runtime gets, of about 0.1 s each. Default: 10."
_PROFILE_HELP: Final = "Show the time of every part of the plan in calib8."


@dataclass(frozen=True, kw_only=True)
class BenchmarkOptions:
    """What is measured, and how long; None: not given."""

    threads: Annotated[str | None, option(RUNTIME, "--threads", "N,…", _THREADS_HELP)] = None
    batch: Annotated[int | None, option(RUNTIME, "--batch", "N", _BATCH_HELP)] = None
    runtime: Annotated[str | None, option(RUNTIME, "--runtime", "NAME,…", _RUNTIMES_HELP, BENCHMARKED)] = None
    rounds: Annotated[int, option(RUNTIME, "--rounds", "N", _ROUNDS_HELP)] = 10
    profile: Annotated[bool, option(RUNTIME, "--profile", None, _PROFILE_HELP)] = False
    shape: Annotated[list[str] | None, option(PROGRAM, "--shape", "NAME=A,B,…", SHAPE_HELP)] = None


def benchmark(models: ModelsArgument, *, options: BenchmarkOptions, report: ReportOptions) -> None:
    """Measure how fast models run.

    Every runtime gets the same inputs and the same number of threads. They are run in turns, so that what
    else the machine does slows down all of them.

    A run is one call from Python whose inputs and outputs are bound beforehand: no arrays are copied in or
    out. Every runtime has a process of its own, in which the clock is read.

    The ratio says how many times faster than the fastest other runtime, by the medians. GMAC/s and their
    share of what the cores of this machine can do at most are those of the fastest run.
    """
    terminal = open_terminal(report.quiet)
    check_outputs({"--json": report.json}, models)
    threads = read_threads(options.threads)
    shapes = read_shapes(options.shape or ())

    from calib8.analysis.workloads import open_workload
    from calib8.progress import check_positive

    check_positive("rounds", options.rounds)
    if options.batch is not None:
        check_positive("batch", options.batch)
    runtimes = read_runtimes(options.runtime)
    if options.profile and "calib8" not in runtimes:
        raise UsageError("--profile", "shows the parts of a plan of calib8", "Add calib8 to --runtime")
    workloads = [open_workload(model, options.batch, shapes) for model in models]
    fitting = [_fitting(workload, runtimes) for workload in workloads]
    if options.profile and not any("calib8" in names for names in fitting):
        problem = f"shows the parts of a plan, but {', '.join(map(str, models))} runs in other runtimes only"
        raise UsageError("--profile", problem, "Give a quantized model, a program or a plan")
    timings: list[Timing] = []
    breakdowns: list[Breakdown] = []
    failures: list[ModelError] = []
    named = options.runtime is not None
    for workload, names in zip(workloads, fitting, strict=True):
        found, failed = _measured(terminal, workload, names, threads, options.rounds, named=named)
        timings += found
        failures += failed
        if options.profile and any(_is_native(timing, workload) for timing in timings):
            breakdowns += _broken_down(workload, threads)
    for parts in breakdowns:
        say_breakdown(terminal, parts)
    terminal.show(timing_table(timings))
    for failure in failures:
        terminal.say(f"note: {on_command_line(failure.text)}")
    for model in models:
        say_sizes_taken(terminal, model, shapes, options.batch)
    if report.json is not None:
        write_json(report.json, _document(timings, breakdowns if options.profile else None))
    if failures and named:
        raise typer.Exit(failures[0].exit_code)


def _document(timings: Sequence[Timing], breakdowns: Sequence[Breakdown] | None) -> dict[str, Any]:
    document: dict[str, Any] = {"results": [timing_document(timing) for timing in timings]}
    if breakdowns is not None:
        document["profiles"] = [breakdown_document(parts) for parts in breakdowns]
    return document


def read_threads(text: str | None) -> tuple[int, ...]:
    """``1,2`` → (1, 2); 1 and all usable cores where nothing is given.

    Raises:
        UsageError: not of this form, out of range, or a number twice.
    """
    if text is None:
        return tuple(sorted({1, usable_cores()}))
    parts = [part.strip() for part in text.split(",")]
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit()]
    if len(numbers) < len(parts) or not all(1 <= number <= MOST_THREADS for number in numbers):
        cure = f"Give numbers from 1 to {MOST_THREADS}, such as --threads 1,2"
        raise UsageError(f"--threads {text}", "is not a list of numbers of threads", cure)
    if len(set(numbers)) < len(numbers):
        raise UsageError(f"--threads {text}", "names a number twice", "Give each once")
    return tuple(numbers)


def read_runtimes(text: str | None) -> tuple[str, ...]:
    """``calib8,openvino`` → its names; all that are installed where nothing is given.

    Raises:
        UsageError: an unknown name, or one twice.
    """
    from calib8.analysis.benchmark_runtimes import OPENERS, installed_runtimes

    if text is None:
        return installed_runtimes()
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in OPENERS:
            cure = one_of(name, OPENERS, "Use some of")
            raise UsageError(f"--runtime {text}", f"unknown runtime '{name}'", cure)
    if len(set(names)) < len(names):
        raise UsageError(f"--runtime {text}", "names a runtime twice", "Give each once")
    return names


def _fitting(workload: Workload, runtimes: Sequence[str]) -> list[str]:
    """The runtimes that run what the file holds.

    Raises:
        UnsupportedModelError, UsageError: none of them does.
    """
    from calib8.analysis.benchmark_runtimes import takes

    found = [runtime for runtime in runtimes if takes(runtime, workload)]
    if found:
        return found
    if workload.form in ("TFLite model", "float TFLite model"):
        problem = f"{workload.path} is a {workload.form}"
        cure = (
            "Add the runtime calib8 or litert"
            if workload.form == "TFLite model"
            else "Add the runtime litert"
        )
        raise UsageError(f"--runtime {','.join(runtimes)}", problem, cure)
    if workload.form == "float":
        problem = "is a float model, which calib8 does not run"
        raise UnsupportedModelError(workload.path, problem, "Quantize it first, or add another --runtime")
    problem = f"{workload.path} is a {workload.form}, which calib8 alone runs"
    raise UsageError(f"--runtime {','.join(runtimes)}", problem, "Add the runtime calib8")


def _measured(
    terminal: Terminal,
    workload: Workload,
    runtimes: Sequence[str],
    threads: Sequence[int],
    rounds: int,
    *,
    named: bool,
) -> tuple[list[Timing], list[ModelError]]:
    """Timings of a workload, and what failed beside them.

    ``named``: the user chose the runtimes, so none of them may refuse to load it; one that crashes leaves
    the others their figures.
    """
    from calib8.analysis.benchmark import measure

    with shown_progress(terminal, f"opening {workload.path}") as progress:
        opened, failures = _opened(workload, runtimes, threads)
        refused = [failure for failure in failures if not isinstance(failure, CrashError)]
        if (named and refused) or not opened:
            raise (refused or failures)[0]
        stage = f"measuring {workload.path}"
        progress(stage, 0, rounds)
        timings = measure(opened, rounds, lambda done: progress(stage, done, rounds), failures.append)
    if not timings:
        raise failures[0]
    return timings, failures


def _is_native(timing: Timing, workload: Workload) -> bool:
    return (timing.subject.model, timing.subject.runtime) == (workload.path, "calib8")


def _opened(
    workload: Workload, runtimes: Sequence[str], threads: Sequence[int]
) -> tuple[list[Opened], list[ModelError]]:
    """What can be measured, by number of threads, and why a runtime cannot load the model."""
    from calib8.analysis.benchmark_runtimes import open_subject

    found: list[Opened] = []
    failures: list[ModelError] = []
    for runtime in runtimes:
        try:
            found += [open_subject(workload, runtime, count) for count in threads]
        except ModelError as error:
            failures.append(error)
    return sorted(found, key=lambda opened: threads.index(opened.subject.threads)), failures


def _broken_down(workload: Workload, threads: Sequence[int]) -> list[Breakdown]:
    from calib8.analysis.breakdown import break_down

    return [break_down(workload, count, PROFILED_RUNS) for count in threads]
