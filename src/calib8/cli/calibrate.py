"""``calib8 calibrate``: from a float model and data to a calibration table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
from calib8.cli.plot import PlotOption, check_page, write_plot
from calib8.cli.preprocessing import chosen_preprocess
from calib8.cli.progress import shown_progress
from calib8.cli.steps import check_ranges, look_at_data, say_calibration
from calib8.cli.terminal import open_terminal

TableOutput = Annotated[
    Path, typer.Option("--output", "-o", metavar="TABLE.json", show_default=False, help="The table to write.")
]


def calibrate(
    model: ModelArgument,
    data: DataOption,
    output: TableOutput,
    *,
    labels: LabelsOption = None,
    reading: ReadingOptions,
    ranges: RangeOptions,
    keep_float: KeepFloatOption = None,
    plot: PlotOption = None,
    preprocessing: PreprocessOptions,
    report: ReportOptions,
) -> None:
    """Find the ranges of all activations, write a table."""
    terminal = open_terminal(report.quiet)
    outputs, inputs = {"--output": output, "--json": report.json}, [model, data, labels]
    check_outputs(outputs, inputs)
    page = None if plot is None else check_page("--plot", plot, outputs, inputs)
    check_ranges(ranges)
    preprocess = chosen_preprocess(preprocessing)
    seen = look_at_data(terminal, model, data, preprocess, labels, reading)

    from calib8 import pipeline

    with shown_progress(terminal, "preparing the model", "choosing ranges") as progress:
        found = pipeline.calibrate(
            model, data, preprocess=preprocess, labels=labels,
            method=ranges.method or pipeline.DEFAULT_METHOD,
            activations=ranges.activations or "uint8", percent=ranges.percent, samples=reading.samples,
            batch=reading.batch_size, threads=reading.thread_count, skip_bad=reading.skip_bad,
            keep_float=keep_float or (), progress=progress,
        )  # fmt: skip
    found.table.save(output)
    say_calibration(terminal, found, progress.done)
    terminal.say(f"table {output}")
    if page is not None:
        write_plot(terminal, page, found.statistics, found.table, ranges.activations or "uint8", str(model))
    if report.json is not None:
        document = {
            "model": str(model),
            "table": str(output),
            "page": None if page is None else str(page),
            "preflight": preflight_document(seen),
            "calibration": calibration_document(found, progress.done),
        }
        write_json(report.json, document)
