"""``calib8 compare``: the loss of every layer of an int8 model, worst first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table

from calib8.cli.choices import completed
from calib8.cli.documents import finite
from calib8.cli.headings import RESULTS
from calib8.cli.meaning_options import OutputOptions
from calib8.cli.options import (
    DataOption,
    PreprocessOptions,
    ReadingOptions,
    ReportOptions,
    RuntimeOptions,
)
from calib8.cli.outputs import check_outputs, write_json
from calib8.cli.preprocessing import chosen_preprocess, stored_in_file
from calib8.cli.progress import shown_progress
from calib8.cli.render import plain_table, say_missing
from calib8.cli.run_report import PageOption, check_report, diagnose_command, write_run_report
from calib8.cli.terminal import Terminal, open_terminal
from calib8.cli.tracking import LogOptions
from calib8.errors import UsageError
from calib8.number_texts import NOTHING, count, decibels_cell, percent, percent_cell
from calib8.tmfile.magic import claims_to_be_tmfile

if TYPE_CHECKING:
    from calib8.analysis.compare import Comparison, TensorComparison
    from calib8.analysis.noise import Distance

_LEFT_OUT_SHOWN: Final = 5

FloatArgument = Annotated[
    Path,
    typer.Argument(metavar="FP32", show_default=False, help="The float model: .onnx, .tflite or .tmfile."),
]
Int8Argument = Annotated[
    Path,
    typer.Argument(
        metavar="INT8",
        show_default=False,
        help="The quantized model made from it, an .onnx file or a .tmfile.",
    ),
]
SortOption = Annotated[
    str,
    typer.Option(
        "--sort",
        metavar="HOW",
        help="What is worst first: local, the loss of the layer alone, or cumulative, of all up to it.",
        rich_help_panel=RESULTS,
        autocompletion=completed("--sort"),
    ),
]
TopOption = Annotated[
    int, typer.Option("--top", metavar="N", help="How many tensors to show.", rich_help_panel=RESULTS)
]


def compare(
    fp32: FloatArgument,
    int8: Int8Argument,
    data: DataOption,
    *,
    sort: SortOption = "local",
    top: TopOption = 20,
    running: RuntimeOptions,
    meaning: OutputOptions,
    reading: ReadingOptions,
    preprocessing: PreprocessOptions,
    page: PageOption = None,
    logging: LogOptions,
    report: ReportOptions,
) -> None:
    """Show what every layer loses.

    SQNR and cosine of every quantized tensor against the float model's: of its layer alone, fed by the
    float model, and of the INT8 model up to it.

    Without preprocessing flags the images are treated as the INT8 model was calibrated.
    """
    terminal = open_terminal(report.quiet)
    check_report(page)
    check_outputs({"--json": report.json, "--report": page}, [fp32, int8, data])
    refuse_page_of_tmfile(page, int8)
    log = logging.opened([int8])
    purpose, preprocess = meaning.purpose(), chosen_preprocess(preprocessing, stored_in_file([int8, fp32]))

    from calib8.analysis import compare as analysis
    from calib8.progress import check_positive
    from calib8.run_report.stage_times import StageTimes

    check_positive("top", top)
    asked, times = reading.of(data, preprocess), StageTimes()
    with shown_progress(terminal, "opening the models") as progress:
        found = analysis.compare(
            fp32, int8, asked, runtime=running.runtime,
            profile=running.profile, integer_only=running.integer_only, sort=analysis.sort_order(sort),
            task=purpose, progress=times.watching(progress),
        )  # fmt: skip
    say_missing(terminal, progress.missing)
    terminal.show(comparison_table(found, top))
    say_comparison(terminal, found, top)
    if report.json is not None:
        write_json(report.json, _document(found))
    write_run_report(
        terminal, page, found, times, fp32=fp32, int8=int8, reading=asked, purpose=purpose,
        cure=diagnose_command([fp32, int8], data, reading, preprocess, purpose), log=log,
    )  # fmt: skip
    log.end()


def refuse_page_of_tmfile(page: Path | None, int8: Path | None) -> None:
    """The page runs the int8 model in ONNX Runtime, which does not give Tengine's codes.

    Raises:
        UsageError: there is to be one of a tmfile.
    """
    if page is not None and int8 is not None and claims_to_be_tmfile(int8):
        problem = f"shows the answers of ONNX models, and {int8} is a Tengine model"
        raise UsageError(f"--report {page}", problem, "Leave it out, or give the QDQ .onnx file")


def comparison_table(found: Comparison, top: int) -> Table:
    """One row per tensor, the first ``top`` of them."""
    table = plain_table("layer", "op")
    for header in (
        "local dB", "cumulative dB", "local cosine", "cumulative cosine", "weight dB", "saturated %",
        "scale", "zero point", "FP32 range",
    ):  # fmt: skip
        table.add_column(header, justify="right")
    for tensor in found.tensors[:top]:
        table.add_row(*_row(tensor))
    return table


def _row(t: TensorComparison) -> tuple[str, ...]:
    return (
        f"input '{t.tensor}'" if t.node is None else t.node,
        t.op_type or NOTHING,
        decibels_cell(t.local.sqnr_db),
        decibels_cell(t.cumulative.sqnr_db),
        cosine_text(t.local.cosine),
        cosine_text(t.cumulative.cosine),
        decibels_cell(t.weight_sqnr_db),
        percent_cell(t.saturated),
        _one_of(t.scale, "scales"),
        _one_of(t.zero_point, "zero points"),
        f"{t.observed[0]:.4g} … {t.observed[1]:.4g}",
    )


def say_comparison(terminal: Terminal, found: Comparison, top: int) -> None:
    """How many tensors are shown, the loss at the outputs, and what was not compared."""
    say_estimated(terminal, found)
    shown, total = min(top, len(found.tensors)), len(found.tensors)
    terminal.say(f"{shown:,} of {count(total, 'tensor')} shown, worst {found.sort} SQNR first")
    agreement = "" if found.agreement is None else f", agreement {percent(found.agreement)}"
    for branch in found.branches:
        distance = branch.distance
        terminal.say(
            f"{branch.name}: SQNR {decibels_cell(distance.sqnr_db)} dB, cosine {cosine_text(distance.cosine)}"
        )
    samples = count(found.images, "sample")
    if found.branches:
        terminal.say(f"compared on {samples}{agreement}")
    else:
        loss = f"SQNR {decibels_cell(found.outputs.sqnr_db)} dB, cosine {cosine_text(found.outputs.cosine)}"
        terminal.say(f"outputs: {loss}{agreement} on {samples}")
    if not found.left_out:
        return
    number = count(len(found.left_out), "quantized tensor")
    terminal.say(f"warning: {number} not compared, their loss counts as that of the next", style="yellow")
    for left_out in found.left_out[:_LEFT_OUT_SHOWN]:
        terminal.say(f"  {left_out.tensor}: {left_out.reason}")
    if len(found.left_out) > _LEFT_OUT_SHOWN:
        terminal.say(f"  and {len(found.left_out) - _LEFT_OUT_SHOWN} more")


def say_estimated(terminal: Terminal, found: Comparison) -> None:
    """That the float model is compared with the statistics of the int8 one, where it is."""
    if found.estimated:
        number = count(found.estimated, "batch normalization")
        terminal.say(
            f"note: {found.int8} was repaired with 'bn': it is compared with {found.fp32} as 'bn' made it, "
            f"with other statistics in {number}"
        )


def cosine_text(value: float | None) -> str:
    """A cosine with five digits."""
    return NOTHING if value is None else f"{value:.5f}"


def _one_of(values: tuple[float, ...] | None, noun: str) -> str:
    """The number, or how many there are."""
    if values is None:
        return NOTHING
    digits = 6 if noun == "zero points" else 4
    return f"{values[0]:.{digits}g}" if len(values) == 1 else f"{len(values)} {noun}"


def _document(found: Comparison) -> dict[str, Any]:
    return {
        "fp32": found.fp32,
        "int8": found.int8,
        "images": found.images,
        "sort": found.sort,
        "estimated_batch_norms": found.estimated,
        "outputs": {**_distance(found.outputs), "agreement": found.agreement},
        "branches": [
            {"name": one.name, "kind": one.kind, **_distance(one.distance)} for one in found.branches
        ],
        "tensors": [comparison_document(tensor) for tensor in found.tensors],
        "left_out": [{"tensor": item.tensor, "reason": item.reason} for item in found.left_out],
    }


def comparison_document(t: TensorComparison) -> dict[str, Any]:
    """What was compared of one tensor."""
    return {
        "tensor": t.tensor,
        "node": t.node,
        "op_type": t.op_type,
        "nodes": list(t.nodes),
        "dtype": t.dtype,
        "scale": None if t.scale is None else list(t.scale),
        "zero_point": None if t.zero_point is None else list(t.zero_point),
        "representable": None if t.representable is None else list(t.representable),
        "observed": [finite(bound) for bound in t.observed],
        "values": t.values,
        "saturated": t.saturated,
        "vanished": t.vanished,
        "local": _distance(t.local),
        "cumulative": _distance(t.cumulative),
        "weight_sqnr_db": finite(t.weight_sqnr_db),
    }


def _distance(distance: Distance) -> dict[str, float | None]:
    return {"sqnr_db": finite(distance.sqnr_db), "cosine": distance.cosine}
