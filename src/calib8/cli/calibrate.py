"""``calib8 calibrate``: from a float model and data, or saved statistics, to a calibration table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calib8.cli.cluster import ClusterOptions, check_cluster
from calib8.cli.documents import calibration_document, preflight_document
from calib8.cli.headings import DATA, RESULTS
from calib8.cli.options import (
    KeepFloatOption,
    LabelsOption,
    ModelArgument,
    OptionalDataOption,
    PreprocessOptions,
    RangeOptions,
    ReadingOptions,
    ReportOptions,
    StatisticsOptions,
)
from calib8.cli.outputs import CHECKPOINT, SAVED_STATISTICS, TABLE, check_kind, check_outputs, write_json
from calib8.cli.pairs import fixed_values
from calib8.cli.plot import PlotOption, check_page, write_plot
from calib8.cli.preprocessing import chosen_preprocess
from calib8.cli.program import read_shapes
from calib8.cli.progress import SamplesSeen, shown_progress
from calib8.cli.steps import (
    check_ranges,
    look_at_data,
    reading_options,
    refuse_together,
    say_calibration,
)
from calib8.cli.terminal import Terminal, open_terminal
from calib8.errors import UsageError
from calib8.files import output_file
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.data.preprocess import Preprocess
    from calib8.data.reading import Reading
    from calib8.judge import Preflight
    from calib8.model.load import ModelSource
    from calib8.pipeline import Calibration, Collection
    from calib8.table import CalibrationTable

TableOutput = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="TABLE.json",
        show_default=False,
        help="The table to write.",
        rich_help_panel=RESULTS,
    ),
]

ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=A,B,…",
        help="Sizes of an input that the model leaves open, such as image=1,3,224,224, for --from-stats; may "
        "be given several times. Default: a free batch is 1, other sizes are those of the preprocessing.",
        rich_help_panel=DATA,
    ),
]


@dataclass(frozen=True)
class _Request:
    """What was asked for, flags and files checked."""

    model: Path
    output: Path | None
    page: Path | None
    labels: Path | None
    reading: ReadingOptions
    saved: StatisticsOptions
    cluster: ClusterOptions
    ranges: RangeOptions
    keep_float: list[str]
    preprocess: Preprocess | None
    shapes: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class _Outcome:
    """What was found, and what was seen on the way to it where there were data."""

    found: Calibration | Collection
    seen: Preflight | None
    table: CalibrationTable | None = None
    notes: tuple[str, ...] = ()


def calibrate(
    model: ModelArgument,
    *,
    data: OptionalDataOption = None,
    output: TableOutput = None,
    labels: LabelsOption = None,
    reading: ReadingOptions,
    saved: StatisticsOptions,
    cluster: ClusterOptions,
    ranges: RangeOptions,
    keep_float: KeepFloatOption = None,
    plot: PlotOption = None,
    shape: ShapeOption = None,
    preprocessing: PreprocessOptions,
    report: ReportOptions,
) -> None:
    """Find the ranges of all activations, write a table.

    With --stats the statistics are written as well or instead; --from-stats chooses ranges from such a file,
    without data.
    """
    terminal = open_terminal(report.quiet)
    outputs = {
        "--output": output,
        "--stats": saved.stats,
        "--checkpoint": saved.checkpoint,
        "--json": report.json,
    }
    inputs = [model, data, labels, saved.from_stats]
    check_outputs(outputs, inputs)
    for option, kind in (("--output", TABLE), ("--stats", SAVED_STATISTICS), ("--checkpoint", CHECKPOINT)):
        check_kind(option, outputs[option], kind)
    page = None if plot is None else check_page("--plot", plot, outputs, inputs)
    preprocess = chosen_preprocess(preprocessing)
    request = _Request(
        model, output, page, labels, reading, saved, cluster, ranges, keep_float or [], preprocess,
        read_shapes(shape or ()),
    )  # fmt: skip
    _check(request, data)
    outcome = _from_statistics(terminal, request) if data is None else _from_data(terminal, request, data)
    if output is not None and outcome.table is not None:
        outcome.table.save(output)
    if saved.stats is not None:
        outcome.found.statistics.save(saved.stats)
    say_calibration(terminal, outcome.found, outcome.table)
    for note in outcome.notes:
        terminal.say(f"note: {on_command_line(note)}")
    for what, path in (("statistics", saved.stats), ("table", output)):
        if path is not None:
            terminal.say(f"{what} {path}")
    if page is not None and outcome.table is not None:
        activations = ranges.activations or "uint8"
        write_plot(terminal, page, outcome.found.statistics, outcome.table, activations, str(model))
    if report.json is not None:
        write_json(report.json, _document(request, outcome))
    if saved.checkpoint is not None:
        output_file(saved.checkpoint).unlink(missing_ok=True)


def checkpoint_of(arguments: Mapping[str, Any]) -> Path | None:
    """The checkpoint that the arguments of ``calibrate`` name."""
    saved: StatisticsOptions = arguments["saved"]
    return saved.checkpoint


def _check(request: _Request, data: str | None) -> None:
    """Refuses what contradicts itself before any work is done."""
    saved, ranges = request.saved, request.ranges
    beside = {
        "--from-stats": saved.from_stats, "--shard": saved.shard, "--checkpoint": saved.checkpoint,
        "--checkpoint-every": saved.checkpoint_every, "--labels": request.labels,
    }  # fmt: skip
    check_cluster(request.cluster, beside, ranges.method, data)
    if data is None and saved.from_stats is None:
        raise UsageError("calibrate", "neither data nor statistics were given", "Give --data or --from-stats")
    if request.shapes and data is not None:
        raise UsageError("--shape", "is given beside --data, which has sizes of its own", "Leave it out")
    if saved.from_stats is not None:
        refuse_together(
            "--from-stats",
            {
                "--data": data,
                **reading_options(request.reading, request.labels),
                "--stats": saved.stats,
                "--shard": saved.shard,
                "--checkpoint": saved.checkpoint,
                "--checkpoint-every": saved.checkpoint_every,
                "preprocessing": request.preprocess,
            },
            "Leave it out, or give --data alone",
        )
    choices = {"--method": ranges.method, "--percent": ranges.percent, "--decay": ranges.decay,
               "--activations": ranges.activations, "--power-of-two": ranges.power_of_two,
               "--range": ranges.range, "--plot": request.page}  # fmt: skip
    if saved.shard is not None:
        cure = "Merge all shards with 'stats merge', then choose ranges with --from-stats"
        refuse_together("--shard", {"--output": request.output, **choices}, cure)
    if request.output is None:
        if saved.stats is None:
            cure = (
                "Give --stats FILE" if saved.shard else "Give --output TABLE.json, or --stats FILE, or both"
            )
            raise UsageError("calibrate", "nothing is to be written", cure)
        refuse_together("statistics alone", choices, "Give --output TABLE.json as well")
    check_ranges(ranges, from_statistics=saved.from_stats is not None)


def _from_data(terminal: Terminal, request: _Request, data: str) -> _Outcome:
    reading = request.reading.of(data, request.preprocess, request.labels)
    model, seen = look_at_data(terminal, request.model, reading)
    with (
        shown_progress(terminal, "preparing the model", "choosing ranges") as progress,
        request.cluster.spread(reading, request.reading.threads) as spread,
    ):
        if request.output is None:
            gathered = _collected(request, model, spread, progress)
            return _Outcome(gathered, seen)
        found = _calibrated(request, model, spread, progress)
    return _Outcome(found, seen, found.table, found.notes)


def _collected(request: _Request, model: ModelSource, reading: Reading, progress: SamplesSeen) -> Collection:
    from calib8 import pipeline
    from calib8.data.shards import Shard

    saved = request.saved
    shard = None if saved.shard is None else Shard.from_text(saved.shard)
    return pipeline.collect_statistics(
        model, reading, keep_float=request.keep_float,
        shard=None if shard is None else (shard.index, shard.total),
        checkpoint=saved.checkpoint, checkpoint_every=saved.checkpoint_every, progress=progress,
    )  # fmt: skip


def _calibrated(
    request: _Request, model: ModelSource, reading: Reading, progress: SamplesSeen
) -> Calibration:
    from calib8 import pipeline

    ranges, saved = request.ranges, request.saved
    return pipeline.calibrate(
        model, reading, ranges=ranges.choice(), activations=ranges.activations, keep_float=request.keep_float,
        checkpoint=saved.checkpoint, checkpoint_every=saved.checkpoint_every,
        keep_statistics=saved.stats is not None or request.page is not None, progress=progress,
    )  # fmt: skip


def _from_statistics(terminal: Terminal, request: _Request) -> _Outcome:
    from calib8 import pipeline

    ranges = request.ranges
    with shown_progress(terminal, "choosing ranges"):
        found = pipeline.calibrate(
            request.model, statistics=request.saved.from_stats, ranges=ranges.choice(),
            activations=ranges.activations, keep_float=request.keep_float, shapes=request.shapes,
            threads=request.reading.thread_count, fix=fixed_values(request.reading.fix),
        )  # fmt: skip
    return _Outcome(found, None, found.table, found.notes)


def _document(request: _Request, outcome: _Outcome) -> dict[str, object]:
    table, stats = request.output, request.saved.stats or request.saved.from_stats
    return {
        "model": str(request.model),
        "table": None if table is None else str(table),
        "page": None if request.page is None else str(request.page),
        "statistics": None if stats is None else str(stats),
        "preflight": None if outcome.seen is None else preflight_document(outcome.seen),
        "calibration": calibration_document(outcome.found, outcome.table),
    }
