"""``calib8 evaluate``: accuracy, agreement and speed of models side by side on the same data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calib8.cli.cluster import JudgingClusterOptions, check_judging_cluster
from calib8.cli.commands import print_error
from calib8.cli.documents import evaluation_document
from calib8.cli.headings import DATA, option
from calib8.cli.meaning_options import MeaningOptions
from calib8.cli.options import (
    DataOption,
    PreprocessOptions,
    ReadingOptions,
    ReportOptions,
    RuntimeOptions,
    TaskLabelsOption,
)
from calib8.cli.outputs import check_outputs, model_bytes_on_disk, write_json
from calib8.cli.preprocessing import chosen_preprocess, stored_in_file
from calib8.cli.progress import shown_progress
from calib8.cli.render import evaluation_table, say_branches, say_missing, task_tables
from calib8.cli.run_report import PageOption, check_report, diagnose_command, write_run_report
from calib8.cli.terminal import Terminal, open_terminal
from calib8.cli.tracking import LogOptions
from calib8.cli.verdict import say_next, say_verdicts
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.analysis.evaluation import Evaluation

ModelsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help="Models of one network; the first float one is what the others are compared with.",
    ),
]

_OFFSET_HELP = (
    "Added to every label, such as 1 where the model has a background class at 0 and the labels have none. "
    "Default: 0."
)
LabelOffsetOption = Annotated[int, option(DATA, "--label-offset", "N", _OFFSET_HELP)]


def evaluate(
    models: ModelsArgument,
    data: DataOption,
    *,
    labels: TaskLabelsOption = None,
    label_offset: LabelOffsetOption = 0,
    running: RuntimeOptions,
    meaning: MeaningOptions,
    reading: ReadingOptions,
    cluster: JudgingClusterOptions,
    preprocessing: PreprocessOptions,
    page: PageOption = None,
    logging: LogOptions,
    report: ReportOptions,
) -> None:
    """Compare accuracy, speed and size of models.

    Agreement is the share of images with the same best class as the float model, SQNR the ratio of its
    outputs to the difference from them.

    With --task the figures of the task follow, with FP32 as the truth and with labels where there are some.

    Without preprocessing flags the images are treated as a quantized model of the list was calibrated.

    TFLite models take and give real numbers here: images are quantized with the scale of their input.

    With --ray the machines of a cluster run the models; the figures are the same, but no speed is told.
    """
    terminal = open_terminal(report.quiet)
    check_report(page)
    check_outputs({"--json": report.json, "--report": page}, [*models, data, labels])
    check_judging_cluster(cluster, meaning.task)
    log = logging.opened(models)
    purpose, preprocess = meaning.purpose(), chosen_preprocess(preprocessing, stored_in_file(models))

    from calib8 import judge
    from calib8.run_report.stage_times import StageTimes

    reading_asked, times = reading.of(data, preprocess, labels), StageTimes()

    with (
        shown_progress(terminal, "opening the models") as progress,
        cluster.spread(reading_asked, reading.threads) as spread,
    ):
        results = judge.evaluate(
            models, spread, label_offset=label_offset,
            runtime=running.runtime, profile=running.profile, integer_only=running.integer_only,
            task=purpose, progress=times.watching(progress),
        )  # fmt: skip
    say_missing(terminal, progress.missing)
    terminal.show(evaluation_table(results, [model_bytes_on_disk(model) for model in models]))
    say_branches(terminal, results)
    for table in task_tables(results):
        terminal.show(table)
    say_verdicts(terminal, results)
    two = diagnose_command(models, data, reading, preprocess, purpose)
    say_next(terminal, models, results, two)
    _say_warnings(terminal, results)
    if report.json is not None:
        write_json(report.json, evaluation_document(results))
    write_run_report(
        terminal, page, results, times, fp32=None, int8=None, reading=reading_asked, purpose=purpose,
        cure=two, log=log,
    )  # fmt: skip
    if any(result.failure is not None for result in results):
        raise typer.Exit(1)
    log.end()


def _say_warnings(terminal: Terminal, results: Sequence[Evaluation]) -> None:
    """What is odd about each model, and which of them ended their runtime."""
    for result in results:
        for warning in result.warnings:
            terminal.say(f"warning: {result.model}: {on_command_line(warning)}", style="yellow")
        if result.failure is not None:
            print_error(on_command_line(result.failure))
