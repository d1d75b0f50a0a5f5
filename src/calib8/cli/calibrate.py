"""``calib8 calibrate``: from a float model and data to a calibration table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calib8.cli.documents import calibration_document, preflight_document
from calib8.cli.options import (
    DataOption,
    KeepFloatOption,
    LabelsOption,
    ModelArgument,
    PreprocessOptions,
    RangeOptions,
    ReadingOptions,
    ReportOptions,
)
from calib8.cli.outputs import check_outputs, write_json
from calib8.cli.preprocessing import chosen_preprocess
from calib8.cli.progress import shown_progress
from calib8.cli.render import count, say_preflight, say_skipped
from calib8.cli.terminal import Terminal, open_terminal

if TYPE_CHECKING:
    from calib8.data.preprocess import Preprocess
    from calib8.pipeline import Calibration, Preflight


def calibrate(
    model: ModelArgument,
    data: DataOption,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="TABLE.json", show_default=False, help="The table to write.")
    ],
    labels: LabelsOption,
    reading: ReadingOptions,
    ranges: RangeOptions,
    keep_float: KeepFloatOption,
    preprocessing: PreprocessOptions,
    report: ReportOptions,
) -> None:
    """Run the float model over images and write the range of every activation as a table."""
    terminal = open_terminal(report.quiet)
    check_outputs({"--output": output, "--json": report.json}, [model, data, labels])
    check_ranges(ranges)
    preprocess = chosen_preprocess(preprocessing)
    seen = look_at_data(terminal, model, data, preprocess, labels, reading)

    from calib8.pipeline import DEFAULT_METHOD
    from calib8.pipeline import calibrate as calibrate_model

    with shown_progress(terminal, "preparing the model", "choosing ranges") as progress:
        found = calibrate_model(
            model,
            data,
            preprocess=preprocess,
            method=ranges.method or DEFAULT_METHOD,
            activations=ranges.activations or "uint8",
            percent=ranges.percent,
            samples=reading.samples,
            batch=reading.batch_size,
            threads=reading.thread_count,
            skip_bad=reading.skip_bad,
            keep_float=keep_float or (),
            progress=progress,
        )
    found.table.save(output)
    say_calibration(terminal, found, progress.done, preprocess)
    terminal.say(f"table {output}")
    if report.json is not None:
        write_json(report.json, _document(model, output, seen, found, progress.done))


def _document(
    model: Path, output: Path, seen: Preflight, found: Calibration, samples: int
) -> dict[str, Any]:
    return {
        "model": str(model),
        "table": str(output),
        "preflight": preflight_document(seen),
        "calibration": calibration_document(found, samples),
    }


def check_ranges(ranges: RangeOptions) -> None:
    """Refuses unknown or contradicting choices before any work is done.

    Raises:
        UsageError: unknown method or activation type, or a percent that does not fit.
    """
    from calib8.calibration.choose import range_method
    from calib8.pipeline import DEFAULT_METHOD
    from calib8.scheme import activation_type

    range_method(ranges.method or DEFAULT_METHOD, ranges.percent)
    if ranges.activations is not None:
        activation_type(ranges.activations)


def look_at_data(
    terminal: Terminal,
    model: Path,
    data: Path,
    preprocess: Preprocess | None,
    labels: Path | None,
    reading: ReadingOptions,
) -> Preflight:
    """Shows what the model is fed, against what the preprocessing implies, and its top-1 where there are labels.

    Raises:
        Calib8Error: what can be wrong with model, data or options.
    """
    from calib8.pipeline import PREFLIGHT_SAMPLES, check_positive, preflight

    check_positive("--batch", reading.batch_size)
    check_positive("--threads", reading.thread_count)
    samples = PREFLIGHT_SAMPLES if reading.samples is None else min(PREFLIGHT_SAMPLES, reading.samples)
    with shown_progress(terminal, "looking at the data"):
        seen = preflight(
            model,
            data,
            preprocess=preprocess,
            labels=labels,
            samples=samples,
            threads=reading.thread_count,
            skip_bad=reading.skip_bad,
        )
    say_preflight(terminal, seen)
    return seen


def say_calibration(terminal: Terminal, found: Calibration, samples: int, preprocess: Preprocess | None) -> None:
    """How much was calibrated, what was skipped, and flags that had nothing to act on."""
    if preprocess is not None and found.dataset.preprocess is None:
        terminal.say(
            "warning: the data are arrays, not images: the preprocessing flags changed nothing", style="yellow"
        )
    say_skipped(terminal, found.dataset.skipped)
    terminal.say(f"{count(samples, 'sample')} calibrated, {count(len(found.table.entries), 'tensor')}")
