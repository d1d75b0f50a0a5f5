"""``calib8 diagnose``: where an int8 model loses its accuracy, why, and the flags that give it back."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from calib8.addresses import without_secrets
from calib8.cli.compare import (
    FloatArgument,
    comparison_document,
    cosine_text,
    refuse_page_of_tmfile,
    say_estimated,
)
from calib8.cli.documents import finite, measures_document, task_document
from calib8.cli.headings import RESULTS
from calib8.cli.meaning_options import MeaningOptions
from calib8.cli.options import DataOption, PreprocessOptions, ReadingOptions, ReportOptions
from calib8.cli.outputs import check_outputs, write_json
from calib8.cli.preprocessing import chosen_preprocess, preprocessing_flags, stored_in_file
from calib8.cli.progress import shown_progress
from calib8.cli.render import both_measures, branch_line, plain_table, say_missing, task_line
from calib8.cli.run_report import PageOption, check_report, write_run_report
from calib8.cli.sound_options import framing_flags
from calib8.cli.steps import reading_flags
from calib8.cli.terminal import Terminal, open_terminal
from calib8.cli.tracking import LogOptions
from calib8.number_texts import NOTHING, count, decibels_cell, percent, percent_cell
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.analysis.branch_losses import BranchLoss
    from calib8.analysis.findings import Finding, LayerLoss
    from calib8.remedies import Remedy, Treatment

Int8Argument = Annotated[
    Path | None,
    typer.Argument(
        metavar="[INT8]", show_default=False, help="The quantized model. Default: one made in memory."
    ),
]
TopOption = Annotated[
    int, typer.Option("--top", metavar="N", help="How many layers to show.", rich_help_panel=RESULTS)
]


def diagnose(
    fp32: FloatArgument,
    int8: Int8Argument = None,
    *,
    data: DataOption,
    top: TopOption = 10,
    meaning: MeaningOptions,
    reading: ReadingOptions,
    preprocessing: PreprocessOptions,
    page: PageOption = None,
    logging: LogOptions,
    report: ReportOptions,
) -> None:
    """Find out why an INT8 model lost its accuracy, and what helps.

    Shows what the codes of every layer alone do to the outputs, the causes, and the flags of 'quantize'
    that gained most when they were tried. Without INT8 a plainly quantized model is looked at.
    """
    terminal = open_terminal(report.quiet)
    check_report(page)
    check_outputs({"--json": report.json, "--report": page}, [fp32, int8, data])
    refuse_page_of_tmfile(page, int8)
    log = logging.opened([] if int8 is None else [int8])
    models = [path for path in (int8, fp32) if path is not None]
    purpose, preprocess = meaning.purpose(), chosen_preprocess(preprocessing, stored_in_file(models))

    from calib8.progress import check_positive
    from calib8.remedies import diagnose as diagnosed
    from calib8.run_report.stage_times import StageTimes

    check_positive("top", top)
    asked, times = reading.of(data, preprocess), StageTimes()
    with shown_progress(terminal, "opening the models") as progress:
        found = diagnosed(fp32, int8, asked, task=purpose, progress=times.watching(progress))
    say_missing(terminal, progress.missing)
    terminal.show(layer_table(found, top))
    say_diagnosis(terminal, found, top)
    commands = [quantize_command(found, remedy, fp32, data, reading) for remedy in found.remedies]
    say_remedies(terminal, found, commands)
    if report.json is not None:
        write_json(report.json, _document(found, fp32, int8, commands))
    write_run_report(
        terminal, page, found, times, fp32=fp32, int8=int8, reading=asked, purpose=purpose,
        command=shlex.split(commands[0]) if commands else (), log=log,
    )  # fmt: skip
    log.end()


def layer_table(found: Treatment, top: int) -> Table:
    """One row per layer, the first ``top`` of them."""
    table = plain_table("layer", "op")
    for header in (
        "weights dB", "codes dB", "both dB", "local dB", "cumulative dB", "cosine", "saturated %",
        "vanished %", "MACs %",
    ):  # fmt: skip
        table.add_column(header, justify="right")
    for loss in found.diagnosis.layers[:top]:
        table.add_row(*_row(loss))
    return table


def _row(loss: LayerLoss) -> tuple[str, ...]:
    row, damage = loss.row, loss.damage
    return (
        f"input '{row.tensor}'" if row.node is None else row.node,
        row.op_type or NOTHING,
        decibels_cell(damage.weights),
        decibels_cell(damage.codes),
        decibels_cell(damage.both),
        decibels_cell(row.local.sqnr_db),
        decibels_cell(row.cumulative.sqnr_db),
        cosine_text(row.cumulative.cosine),
        percent_cell(row.saturated),
        percent_cell(row.vanished),
        percent_cell(loss.macs),
    )


def say_diagnosis(terminal: Terminal, found: Treatment, top: int) -> None:
    """How many layers are shown, the loss at the outputs, and the causes."""
    diagnosis = found.diagnosis
    say_estimated(terminal, diagnosis.comparison)
    shown, total = min(top, len(diagnosis.layers)), len(diagnosis.layers)
    terminal.say(f"{shown:,} of {count(total, 'layer')} shown, worst damage to the outputs first")
    model = "a model with ranges of 'mse', no repairs" if found.made_here else "INT8"
    looked = count(diagnosis.looked_at, "sample")
    measures = both_measures(diagnosis.figures)
    if diagnosis.figures.branches:
        terminal.say(f"{model}: {branch_line(diagnosis.figures)} on {looked}; layers by the worst of them")
    else:
        terminal.say(f"{model}: outputs {decibels_cell(diagnosis.sqnr_db)} dB ({measures}) on {looked}")
    if diagnosis.task is not None:
        terminal.say(task_line(diagnosis.task))
    for branch in diagnosis.branches:
        terminal.say(_branch(branch))
    if diagnosis.fallback:
        text = f"note: every layer was run by itself, which takes longer ({diagnosis.fallback})"
        terminal.say(text)
    if not diagnosis.findings:
        terminal.say("no cause stands out: the loss is spread over the layers")
    for number, finding in enumerate(diagnosis.findings, 1):
        terminal.say(f"{number}. {_finding(finding)}", style="yellow")


def _branch(branch: BranchLoss) -> str:
    """Such as ``scores 11.1 dB: head.2 leaves 13.8 dB alone (54 % of the noise), input 'x' 18.0 (20 %)``."""
    each = list[str]()
    for one in branch.culprits:
        where, share = one.node or f"input '{one.tensor}'", f"{100.0 * one.share:.0f} %"
        words = ("leaves ", " dB alone", " of the noise") if not each else ("", "", "")
        each.append(f"{where} {words[0]}{decibels_cell(one.sqnr_db)}{words[1]} ({share}{words[2]})")
    told = ", ".join(each) or "the loss is spread over the layers"
    return f"{branch.name} {decibels_cell(branch.sqnr_db)} dB: {told}"


def _finding(finding: Finding) -> str:
    where = finding.node or (f"input '{finding.tensor}'" if finding.tensor else "data")
    text, advice = on_command_line(finding.reason.text), on_command_line(finding.reason.advice)
    told = finding.floats and finding.reason.cause != "input"
    gain = f" ({finding.gain_db:+.1f} dB without these codes)" if told else ""
    return f"{where}: {text}{'. ' * bool(advice)}{advice}{gain}"


def say_remedies(terminal: Terminal, found: Treatment, commands: Sequence[str]) -> None:
    """What was tried with success, and how to do the best of it."""
    if not found.tried:
        terminal.say("put that right first: no remedy was tried")
        return
    for remedy in found.remedies:
        gain = f"{remedy.gain_db:+.1f} dB ({both_measures(remedy.figures)})"
        terminal.say(f"{on_command_line(remedy.text)}: {gain}, {_costs(remedy)}")
    if commands:
        terminal.say("do the first:")
        terminal.say(f"  {commands[0]}")
    else:
        wishes = f"{found.tried} {'remedy' if found.tried == 1 else 'remedies'}"
        terminal.say(f"{wishes} tried, none gained 1 dB; 'calib8 quantize --effort best' tries more")


def _costs(remedy: Remedy) -> str:
    from calib8.repair.repairs import ADDS_OPS

    costs = []
    if remedy.wish.keep_float:
        shares = (
            "MACs that cannot be counted" if remedy.macs is None else f"{percent(remedy.macs)} of the MACs"
        )
        costs.append(f"costs {shares}")
    if remedy.wish.spots:
        costs.append(f"{percent(remedy.wide)} of the MACs are done twice")
    adds = set(remedy.wish.repairs) & set(ADDS_OPS)
    return ", ".join(costs) or ("adds multiplications" if adds else "costs no speed")


def quantize_command(found: Treatment, remedy: Remedy, fp32: Path, data: str, reading: ReadingOptions) -> str:
    """The command line that makes the model of a remedy, from the data as they were read here."""
    words = ["calib8", "quantize", str(fp32), "--data", without_secrets(data), *reading_flags(reading)]
    words += preprocessing_flags(found.diagnosis.preprocess)
    words += [] if reading.sound else framing_flags(found.diagnosis.framing)
    suffix = ".onnx" if found.basis.takes_float else ".tmfile"
    return shlex.join([*words, *found.flags(remedy), "-o", f"{fp32.stem}.repaired{suffix}"])


def _document(found: Treatment, fp32: Path, int8: Path | None, commands: Sequence[str]) -> dict[str, Any]:
    diagnosis = found.diagnosis
    return {
        "fp32": str(fp32),
        "int8": None if int8 is None else str(int8),
        "images": diagnosis.comparison.images,
        "looked_at": diagnosis.looked_at,
        "estimated_batch_norms": diagnosis.comparison.estimated,
        "sqnr_db": finite(diagnosis.sqnr_db),
        **measures_document(diagnosis.figures),
        "culprits": [_branch_document(branch) for branch in diagnosis.branches],
        "task": None if diagnosis.task is None else task_document(diagnosis.task),
        "fallback": diagnosis.fallback or None,
        "layers": [_layer(loss) for loss in diagnosis.layers],
        "findings": [
            {
                "node": one.node,
                "tensor": one.tensor or None,
                "cause": one.reason.cause,
                "text": one.reason.text,
                "advice": one.reason.advice,
                "keep_float": list(one.floats),
                "gain_db": finite(one.gain_db),
            }
            for one in diagnosis.findings
        ],
        "remedies": [
            _remedy_document(found, one, command)
            for one, command in zip(found.remedies, commands, strict=True)
        ],
    }


def _remedy_document(found: Treatment, remedy: Remedy, command: str) -> dict[str, Any]:
    wish = remedy.wish
    return {
        "method": wish.method or found.basis.method,
        "repairs": list(wish.repairs),
        "keep_float": list(wish.keep_float),
        "without_ranges": list(wish.without_ranges),
        "spots": list(wish.spots),
        "sqnr_db": finite(remedy.sqnr_db),
        **measures_document(remedy.figures),
        "gain_db": finite(remedy.gain_db),
        "macs": remedy.macs,
        "wide_macs": remedy.wide,
        "command": command,
    }


def _branch_document(branch: BranchLoss) -> dict[str, Any]:
    return {
        "branch": branch.name,
        "kind": branch.kind,
        "sqnr_db": finite(branch.sqnr_db),
        "layers": [
            {"node": one.node, "tensor": one.tensor, "sqnr_db": finite(one.sqnr_db), "share": one.share}
            for one in branch.culprits
        ],
    }


def _layer(loss: LayerLoss) -> dict[str, Any]:
    damage = loss.damage
    return {
        **comparison_document(loss.row),
        "damage": {
            "weights": finite(damage.weights),
            "codes": finite(damage.codes),
            "both": finite(damage.both),
        },
        "macs": loss.macs,
    }
