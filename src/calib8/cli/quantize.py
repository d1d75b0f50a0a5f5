"""``calib8 quantize``: from a float model, and data or a table, to an INT8 model."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calib8.cli.choices import completed
from calib8.cli.cluster import ClusterOptions, check_cluster
from calib8.cli.documents import (
    binding_document,
    calibration_document,
    placement_document,
    preflight_document,
    repairs_document,
    verdict_document,
)
from calib8.cli.finished_table import OldTable, check_new_table, in_place_of_data, old_table_of
from calib8.cli.headings import DATA, RANGES, RESULTS, TARGET
from calib8.cli.meaning_options import MeaningOptions
from calib8.cli.options import (
    FORMATS_HELP,
    TOLD,
    FromStatsOption,
    KeepFloatOption,
    LabelsOption,
    ModelArgument,
    OptionalDataOption,
    PreprocessOptions,
    RangeOptions,
    ReadingOptions,
    RepairOptions,
    ReportOptions,
    SpotOption,
)
from calib8.cli.outputs import check_outputs, model_bytes_on_disk, write_json
from calib8.cli.preprocessing import chosen_preprocess
from calib8.cli.program import read_shapes
from calib8.cli.progress import shown_progress
from calib8.cli.render import say_binding, say_repairs
from calib8.cli.run_report import PageOption, check_report, write_run_report
from calib8.cli.steps import (
    check_repairs,
    look_at_data,
    reading_options,
    refuse_together,
    say_calibration,
)
from calib8.cli.terminal import Terminal, open_terminal
from calib8.cli.tracking import LogOptions
from calib8.cli.verdict import Asked, Written, meaning_document, next_command, say_outcome
from calib8.errors import UsageError
from calib8.files import TMFILE, check_written_model, is_translated
from calib8.parameters import on_command_line
from calib8.tflite.magic import is_tflite_name
from calib8.tmfile.magic import is_tmfile_name

if TYPE_CHECKING:
    from calib8.calibration.range_choice import RangeChoice
    from calib8.data.reading import Reading
    from calib8.judge import Preflight
    from calib8.pipeline import Quantization
    from calib8.repair.wanted import RepairChoice
    from calib8.run_report.stage_times import StageTimes
    from calib8.scheme import TargetChoice
    from calib8.tasks.purpose import Purpose

ModelOutput = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT.onnx|OUT.tflite|OUT.tmfile",
        show_default=False,
        help="The INT8 model; with the suffix .tflite or .tmfile as 'export --to tflite' or '--to tmfile' "
        "writes it.",
        rich_help_panel=RESULTS,
    ),
]

TableOption = Annotated[
    Path | None,
    typer.Option(
        "--table",
        metavar="TABLE",
        help="The ranges to use, as calib8 or another tool wrote them. With --data or --from-stats: where to "
        "write them.",
        rich_help_panel=RANGES,
    ),
]

TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME",
        show_default=False,
        help="Runtime of the result: onnxruntime, onnxruntime-avx2, calib8, openvino, tflite, tensorrt, "
        "tengine or ncnn. Default: onnxruntime; tflite for a .tflite file, tengine for a .tmfile.",
        rich_help_panel=TARGET,
        autocompletion=completed("--target"),
    ),
]

WeightsOption = Annotated[
    str,
    typer.Option(
        "--weights",
        metavar="GRANULARITY",
        help="Scales of weights: per-channel, one per output channel, or per-tensor, one for each weight.",
        rich_help_panel=TARGET,
        autocompletion=completed("--weights"),
    ),
]

RecurrentOption = Annotated[
    str | None,
    typer.Option(
        "--recurrent",
        metavar="FORM",
        show_default=False,
        help="How LSTM and GRU are computed: hybrid, 8-bit products with float gates and states; or integer, "
        "in integers throughout, as --integer-only needs it. For --target calib8 (default: hybrid), "
        "onnxruntime (LSTM as hybrid; default: float) and tflite (LSTM as integer; default: float).",
        rich_help_panel=TARGET,
        autocompletion=completed("--recurrent"),
    ),
]

TableFormatOption = Annotated[
    str | None,
    typer.Option(
        "--table-format",
        metavar="NAME",
        help=f"What --table is: {FORMATS_HELP} Default: {TOLD}.",
        rich_help_panel=RANGES,
        autocompletion=completed("--table-format"),
    ),
]

ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=A,B,…",
        help="Sizes of an input that the model leaves open, such as image=1,3,224,224, for --table or "
        "--from-stats without data and for OUT.tflite or OUT.tmfile; may be given several times. Default: a "
        "free batch is 1, other sizes are those of the run that the table is from, or of --preprocess; for "
        "OUT.tflite and OUT.tmfile those of the first sample of --data.",
        rich_help_panel=DATA,
    ),
]

PartialOption = Annotated[
    bool,
    typer.Option(
        "--partial",
        help="Pass over names of --table that the model does not have; where it lacks a tensor, stay float.",
        rich_help_panel=RANGES,
    ),
]


@dataclass(frozen=True)
class _Request:
    """What was asked for, flags and files checked."""

    model: Path
    table: OldTable | None
    from_stats: Path | None
    target: TargetChoice
    reading: Reading
    ranges: RangeChoice
    repair: RepairChoice
    purpose: Purpose
    spread: Callable[[Reading], AbstractContextManager[Reading]]
    times: StageTimes


@dataclass(frozen=True)
class _Outcome:
    """A quantization, and what was seen on the way to it where there were data."""

    result: Quantization
    seen: Preflight | None


def quantize(
    model: ModelArgument,
    output: ModelOutput,
    *,
    data: OptionalDataOption = None,
    labels: LabelsOption = None,
    reading: ReadingOptions,
    cluster: ClusterOptions,
    ranges: RangeOptions,
    keep_float: KeepFloatOption = None,
    table: TableOption = None,
    table_format: TableFormatOption = None,
    partial: PartialOption = False,
    from_stats: FromStatsOption = None,
    repairs: RepairOptions,
    meaning: MeaningOptions,
    target: TargetOption = None,
    weights: WeightsOption = "per-channel",
    recurrent: RecurrentOption = None,
    spot: SpotOption = None,
    shape: ShapeOption = None,
    preprocessing: PreprocessOptions,
    page: PageOption = None,
    logging: LogOptions,
    report: ReportOptions,
) -> None:
    """Make an INT8 model from a float one.

    With --data it is calibrated first, with --from-stats ranges are chosen from saved statistics; with
    --table alone the ranges are those of the table.
    """
    from calib8.run_report.stage_times import StageTimes
    from calib8.scheme import TargetChoice

    terminal = open_terminal(report.quiet)
    new_table, old_table = (None, table) if data is None and from_stats is None else (table, None)
    check_report(page)
    outputs = {"--output": output, "--table": new_table, "--json": report.json, "--report": page}
    check_outputs(outputs, [model, data, labels, old_table, from_stats])
    check_written_model(output, f"--output {output}", also=(TMFILE,))
    log = logging.opened([output])
    check_new_table(new_table, "--data" if from_stats is None else "--from-stats")
    check_repairs(repairs, data, in_place_of_data(old_table, from_stats))
    preprocess = chosen_preprocess(preprocessing)
    shapes = _shapes(shape or (), data, output)
    request = _Request(
        model, old_table_of(old_table, table_format, partial), from_stats,
        TargetChoice(target or _target_of(output), ranges.activations, weights, recurrent),
        replace(reading.of(data, preprocess, labels), shapes=None if data is not None else shapes),
        ranges.choice(), repairs.choice(keep_float, spot), meaning.purpose(),
        cluster.spreading(reading.threads), StageTimes(),
    )  # fmt: skip
    _refuse_beside(request, ranges, reading_options(reading, labels))
    check_cluster(cluster, {"--from-stats": from_stats, "--labels": labels}, ranges.method, data)
    outcome = _outcome(terminal, request)
    if new_table is not None:
        outcome.result.table.save(new_table)
    _save(terminal, outcome.result, output, shapes)
    command = _next_command(outcome, request, output, data, reading, ranges)
    written = Written(output, new_table, model_bytes_on_disk(model), model_bytes_on_disk(output))
    say_outcome(terminal, outcome.result, written, command)
    if report.json is not None:
        _write_json(report.json, model, output, new_table or old_table, outcome, command)
    write_run_report(
        terminal, page, outcome.result, request.times, fp32=model, int8=output, reading=request.reading,
        purpose=request.purpose, command=command, log=log,
    )  # fmt: skip
    log.end()


def _save(terminal: Terminal, result: Quantization, output: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """Writes the model; tells what was made, with what to know of it and of its file."""
    told = result.save(output, shapes=shapes if is_translated(output) else None)
    terminal.say_lines(result.summary)
    for note in (*result.notes, result.caution, *told):
        if note:
            terminal.say(f"note: {on_command_line(note)}")
    if result.binding is not None:
        say_binding(terminal, result.binding)


def _next_command(
    outcome: _Outcome, request: _Request, output: Path, data: str | None, reading: ReadingOptions,
    ranges: RangeOptions,
) -> list[str]:  # fmt: skip
    """What to do with the model that was made."""
    result, done, labels = outcome.result, outcome.result.repaired, request.reading.labels
    if result.verdict is None:
        return []
    dataset = None if result.calibration is None else result.calibration.dataset
    asked = Asked(
        request.model, output, data, reading, None if dataset is None else dataset.preprocess,
        request.purpose.task_name, request.purpose.branches, request.target.scheme().name,
        request.target.weights,
        None if labels is None else Path(labels), ranges, request.repair.keep_float, request.repair.spots,
        "" if done is None else done.effort, request.target.recurrent, request.purpose.threshold,
    )  # fmt: skip
    return next_command(result.verdict, asked)


def _target_of(output: Path) -> str:
    """Where none was named."""
    if is_tmfile_name(output):
        return "tengine"
    return "tflite" if is_tflite_name(output) else "onnxruntime"


def _shapes(given: Sequence[str], data: str | None, output: Path) -> dict[str, tuple[int, ...]]:
    shapes = read_shapes(given)
    if shapes and data is not None and not is_translated(output):
        raise UsageError("--shape", "is given beside --data, which has sizes of its own", "Leave it out")
    return shapes


def _refuse_beside(request: _Request, ranges: RangeOptions, reading: Mapping[str, object]) -> None:
    """Refuses options that mean nothing beside statistics or a finished table."""
    data = request.reading.data
    if request.from_stats is not None:
        refuse_together("--from-stats", {"--data": data, **reading}, "Leave it out, or give --data alone")
        request.ranges.wish(from_statistics=True)
    elif request.table is not None:
        chosen = {"--method": ranges.method, "--percent": ranges.percent, "--decay": ranges.decay}
        cure = "Leave it out, or give --data in place of --table"
        refuse_together("a finished table", {**reading, **chosen}, cure)
    elif data is None:
        problem = "neither data nor statistics nor a table was given"
        raise UsageError("quantize", problem, "Give --data or --table")
    else:
        request.ranges.wish()


def _outcome(terminal: Terminal, request: _Request) -> _Outcome:
    if request.reading.data is not None:
        return _from_data(terminal, request)
    from calib8 import pipeline
    from calib8.formats.tables import read_table

    old = request.table
    table = None if old is None else read_table(old.path, old.format)
    what = "quantizing" if old is not None else "choosing ranges, quantizing"
    request.times.begin(what)
    with shown_progress(terminal, what):
        result = pipeline.quantize(
            request.model, request.reading, table=table, partial=old is not None and old.partial,
            statistics=request.from_stats, target=request.target, ranges=request.ranges,
            repair=request.repair, task=request.purpose,
        )  # fmt: skip
    if result.calibration is not None:
        say_calibration(terminal, result.calibration, result.table)
    _say_repaired(terminal, result)
    return _Outcome(result, None)


def _from_data(terminal: Terminal, request: _Request) -> _Outcome:
    model, seen = look_at_data(terminal, request.model, request.reading)

    from calib8 import pipeline

    with (
        shown_progress(terminal, "preparing the model", "choosing ranges, quantizing") as progress,
        request.spread(request.reading) as reading,
    ):
        result = pipeline.quantize(
            model, reading, target=request.target, ranges=request.ranges, repair=request.repair,
            task=request.purpose, progress=request.times.watching(progress),
        )  # fmt: skip
    if result.calibration is not None:
        say_calibration(terminal, result.calibration, result.table)
    _say_repaired(terminal, result)
    return _Outcome(result, seen)


def _say_repaired(terminal: Terminal, result: Quantization) -> None:
    if result.repaired is not None:
        say_repairs(terminal, result.repaired)


def _write_json(
    path: Path, model: Path, output: Path, table: Path | None, outcome: _Outcome, command: list[str]
) -> None:
    from calib8.model.metadata import stored_entries

    calibration, verdict = outcome.result.calibration, verdict_document(outcome.result.verdict)
    document = {
        "model": str(model),
        "output": str(output),
        "table": None if table is None else str(table),
        "metadata": stored_entries(outcome.result.model),
        "bytes": {"float": model_bytes_on_disk(model), "quantized": model_bytes_on_disk(output)},
        "prepared": {
            "max_abs_diff": outcome.result.prepared.max_abs_diff,
            "max_rel_diff": outcome.result.prepared.max_rel_diff,
        },
        "preflight": None if outcome.seen is None else preflight_document(outcome.seen),
        "binding": binding_document(outcome.result.binding),
        "calibration": None if calibration is None else calibration_document(calibration, calibration.table),
        "repairs": repairs_document(outcome.result.repaired),
        "outputs": meaning_document(outcome.result.meaning),
        "verdict": None if verdict is None else {**verdict, "next": shlex.join(command)},
        "nodes": placement_document(outcome.result.placement),
    }
    write_json(path, document)
