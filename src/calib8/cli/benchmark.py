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
from calib8.cli.pairs import fixed_values
from calib8.cli.program import read_shapes
from calib8.cli.progress import shown_progress
from calib8.cli.speed import breakdown_document, say_breakdown, timing_document, timing_table
from calib8.cli.stream_options import FixOption
from calib8.cli.terminal import open_terminal
from calib8.cli.tracking import LogOptions
from calib8.errors import UsageError
from calib8.parameters import on_command_line
from calib8.processors import MOST_THREADS

if TYPE_CHECKING:
    from calib8.analysis.benchmark import Timing
    from calib8.analysis.breakdown import Breakdown

ModelsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="MODEL", show_default=False, help="Models: .onnx, .tflite, .tmfile, programs or plans."
    ),
]

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
    fix: FixOption = None


def benchmark(
    models: ModelsArgument, *, options: BenchmarkOptions, logging: LogOptions, report: ReportOptions
) -> None:
    """Measure how fast models run.

    Every runtime gets the same inputs and the same number of threads. They are run in turns, so that what
    else the machine does slows down all of them.

    A run is one call from Python whose inputs and outputs are bound beforehand: no arrays are copied in or
    out. Every runtime has a process of its own, in which the clock is read.

    Give the float model too: 'vs float' says how many times as fast as the float model in the same
    runtime (where that does not run it: in its fastest), 'vs others' as the same model in the fastest
    other runtime, by the medians. The last lines say the same in words. GMAC/s and their share of what
    the cores of this machine can do at most are those of the fastest run.
    """
    terminal = open_terminal(report.quiet)
    check_outputs({"--json": report.json}, models)
    log = logging.opened(models)
    threads, runtimes = read_threads(options.threads), read_names(options.runtime)
    shapes = read_shapes(options.shape or ())

    from calib8.analysis.speed import benchmark as measured

    with shown_progress(terminal, "opening the models") as progress:
        found = measured(
            models, runtimes=runtimes, threads=threads, batch=options.batch, rounds=options.rounds,
            shapes=shapes, profile=options.profile, fix=fixed_values(options.fix), progress=progress,
        )  # fmt: skip
    for parts in found.breakdowns:
        say_breakdown(terminal, parts)
    terminal.show(timing_table(found))
    for line in found.conclusions():
        terminal.say(line)
    for failure in found.failures:
        terminal.say(f"note: {on_command_line(failure.text)}")
    for note in found.notes:
        terminal.say(f"note: {on_command_line(note)}")
    if report.json is not None:
        write_json(report.json, _document(found.timings, found.breakdowns if options.profile else None))
    log.tell_benchmark(terminal, found)
    if found.failures and runtimes is not None:
        raise typer.Exit(found.failures[0].exit_code)
    log.end()


def _document(timings: Sequence[Timing], breakdowns: Sequence[Breakdown] | None) -> dict[str, Any]:
    document: dict[str, Any] = {"results": [timing_document(timing) for timing in timings]}
    if breakdowns is not None:
        document["profiles"] = [breakdown_document(parts) for parts in breakdowns]
    return document


def read_threads(text: str | None) -> tuple[int, ...] | None:
    """``1,2`` → (1, 2); None where nothing is given.

    Raises:
        UsageError: not of this form.
    """
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit()]
    if len(numbers) < len(parts):
        cure = f"Give numbers from 1 to {MOST_THREADS}, such as --threads 1,2"
        raise UsageError(f"--threads {text}", "is not a list of numbers of threads", cure)
    return tuple(numbers)


def read_names(text: str | None) -> tuple[str, ...] | None:
    """``calib8,openvino`` → its names; None where nothing is given."""
    return None if text is None else tuple(name.strip() for name in text.split(","))
