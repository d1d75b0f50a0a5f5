"""Results as lines and tables for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.filesize import decimal
from rich.table import Table

from calib8.cli.terminal import Terminal
from calib8.number_texts import NOTHING, count, percent, percent_cell
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.analysis.evaluate import BranchSqnr, Evaluation
    from calib8.analysis.inspect import ModelInspection
    from calib8.analysis.lint import Violation
    from calib8.autorange.check import Check
    from calib8.data.preflight import InputCheck
    from calib8.data.samples import Skipped
    from calib8.formats.bind import Binding
    from calib8.judge import Preflight
    from calib8.repair.result import Repaired
    from calib8.repair.step import Step
    from calib8.tasks.judges.interface import TaskFigures

_SKIPPED_SHOWN: Final = 5


def say_preflight(terminal: Terminal, found: Preflight) -> None:
    """What goes into the model, what looks wrong with it, and what the float model makes of it."""
    for check in found.inputs:
        terminal.say(_input_line(check))
        for warning in check.warnings:
            terminal.say(f"warning: input '{check.input}': {on_command_line(warning)}", style="yellow")
    if found.evaluation is not None and found.evaluation.top1 is not None:
        terminal.say(f"FP32 top-1 on these {found.images} samples: {percent(found.evaluation.top1)}")
    for warning in found.warnings:
        terminal.say(f"warning: {on_command_line(warning)}", style="yellow")


def _input_line(check: InputCheck) -> str:
    low, high = min(check.minimum), max(check.maximum)
    line = f"input '{check.input}', {check.rows} samples: observed {low:.4g} … {high:.4g}"
    if check.implied is None:
        return line
    implied_low, implied_high = min(low for low, _ in check.implied), max(high for _, high in check.implied)
    return f"{line}; mean and scale allow {implied_low:.4g} … {implied_high:.4g}"


def say_skipped(terminal: Terminal, skipped: Sequence[Skipped]) -> None:
    """How many bad images were passed over, and the first of them with the reason."""
    if not skipped:
        return
    terminal.say(f"warning: {count(len(skipped), 'bad image')} skipped", style="yellow")
    for bad in skipped[:_SKIPPED_SHOWN]:
        terminal.say(f"  {bad.name}: {bad.reason}")
    if len(skipped) > _SKIPPED_SHOWN:
        terminal.say(f"  and {len(skipped) - _SKIPPED_SHOWN} more")


def say_missing(terminal: Terminal, missing: int) -> None:
    """How many bad images were passed over, where their names are not known."""
    if missing:
        terminal.say(f"warning: {count(missing, 'bad image')} skipped", style="yellow")


def say_binding(terminal: Terminal, binding: Binding) -> None:
    """What of a table was not used as it stands; nothing where all of it was."""
    if binding.unused:
        terminal.say(f"table: {count(len(binding.unused), 'range')} of tensors without codes not used")
    for tensor, other in binding.borrowed:
        terminal.say(f"table: '{tensor}' has the range of '{other}', which has the same values")
    if binding.unknown:
        names = ", ".join(f"'{name}'" for name in binding.unknown)
        unknown = count(len(binding.unknown), "name")
        terminal.say(f"warning: table: {unknown} unknown to the model passed over: {names}", style="yellow")


def say_sizes(terminal: Terminal, before: tuple[Path, int], after: tuple[Path, int]) -> None:
    """Paths and sizes in bytes of the float and the quantized model."""
    terminal.say(f"FP32 {before[0]}  {decimal(before[1])}")
    terminal.say(f"INT8 {after[0]}  {decimal(after[1])}, {100 * after[1] / before[1]:.0f} % of FP32's size")


def evaluation_table(evaluations: Sequence[Evaluation], sizes: Sequence[int]) -> Table:
    """One row per model; ``sizes`` in bytes."""
    table = plain_table("model", "runtime", "images")
    for header in ("top-1 %", "top-5 %", "agreement %", "SQNR dB", "images/s", "size"):
        table.add_column(header, justify="right")
    table.columns[2].justify = "right"
    for e, size in zip(evaluations, sizes, strict=True):
        table.add_row(
            e.model,
            e.runtime,
            str(e.images),
            percent_cell(e.top1),
            percent_cell(e.top5),
            percent_cell(e.agreement),
            e.sqnr_cell,
            NOTHING if e.images_per_second is None else f"{e.images_per_second:.1f}",
            decimal(size),
        )
    return table


def task_tables(evaluations: Sequence[Evaluation]) -> Iterator[Table]:
    """One table per truth, FP32's answers and labels, with one row per model that was judged by it."""
    from calib8.tasks.judges.interface import FIGURES

    judged = [(e.model, e.task) for e in evaluations if e.task is not None]
    by_float = [(model, told.task, told.against_float) for model, told in judged if told.against_float]
    by_labels = [(model, told.task, told.against_labels) for model, told in judged if told.against_labels]
    for rows, truth in ((by_float, "FP32"), (by_labels, "labels")):
        if not rows:
            continue
        names = [name for name in FIGURES if any(name in figures for _, _, figures in rows)]
        table = plain_table(f"{rows[0][1]}, beside {truth}")
        for title, share in (FIGURES[name] for name in names):
            table.add_column(f"{title} %" if share else title, justify="right")
        for model, _, figures in rows:
            shown = (_figure(figures.get(name), share=FIGURES[name][1]) for name in names)
            table.add_row(model, *shown)
        yield table


def task_line(told: TaskFigures) -> str:
    """Such as ``detect: recall 79.4 %, mAP@.5 91.3 % beside FP32 on 32 samples``."""
    from calib8.tasks.judges.interface import FIGURES

    shown = ((*FIGURES[name], value) for name, value in told.against_float.items())
    each = [f"{title} {_figure(value, share=share)}{' %' * share}" for title, share, value in shown]
    return f"{told.task}: {', '.join(each)} beside FP32 on {count(told.samples, 'sample')}"


def _figure(value: float | None, *, share: bool) -> str:
    return percent_cell(value) if share or value is None else f"{value:.4f}"


def say_branches(terminal: Terminal, evaluations: Sequence[Evaluation]) -> None:
    """A line per model whose outputs have several branches."""
    for e in evaluations:
        if len(e.branches) > 1:
            terminal.say(f"{e.model}: {', '.join(map(_branch, e.branches))}")


def _branch(one: BranchSqnr) -> str:
    return f"{one.name} {one.why_no_sqnr if one.sqnr_db is None else f'{one.sqnr_db:.1f} dB'}"


def branch_line(check: Check) -> str:
    """Such as ``scores 12.1, boxes 32.6 dB``, the worst one first."""
    ordered = sorted(check.branches, key=lambda branch: branch.sqnr_db)
    return ", ".join(f"{branch.name} {branch.sqnr_db:.1f}" for branch in ordered) + " dB"


def say_inspection(terminal: Terminal, found: ModelInspection) -> None:
    """All that is known of a model."""
    terminal.say(f"{found.path}: {found.kind} model, opset {found.opset}")
    for title, specs in (("input", found.inputs), ("output", found.outputs)):
        for spec in specs:
            terminal.say(f"{title} {spec}")
    terminal.say(f"{found.parameters:,} parameters, {_macs(found.macs)} multiply-accumulates per sample")
    terminal.say("ops: " + ", ".join(f"{number} {op}" for op, number in found.ops.items()))
    from calib8.passes.channel_factors import CHANNEL_FACTORS
    from calib8.passes.converter_names import CONVERTER_NAMES
    from calib8.passes.stored_statistics import BATCH_NORMS

    for key, value in found.metadata.items():
        if key not in (CHANNEL_FACTORS, BATCH_NORMS, CONVERTER_NAMES):  # for compare and export
            terminal.say(f"{key}: {value}")
    if found.layers:
        terminal.show(_layer_table(found))
        done = sum(layer.quantized for layer in found.layers)
        terminal.say(f"{done} of {len(found.layers)} operations {_quantized_where(found)}")
    for warning in found.warnings:
        terminal.say(f"warning: {on_command_line(warning)}", style="yellow")


def _quantized_where(found: ModelInspection) -> str:
    """What holds of the file, and what of calib8's engine."""
    macs = "" if found.coded_share is None else f", {100 * found.coded_share:.3g} % of the MACs"
    if found.kind == "float":
        return (
            f"would be quantized{macs}; what calib8's engine would compute in float "
            "is told by inspect of the INT8 file"
        )
    if any(layer.engine is None for layer in found.layers):
        return f"quantized in the file{macs}"
    floats = sum(bool(layer.engine) for layer in found.layers)
    return f"quantized in the file{macs}, {floats or 'none'} float in calib8's engine"


def _layer_table(found: ModelInspection) -> Table:
    table = plain_table("layer", "op", "output")
    table.add_column("parameters", justify="right")
    table.add_column("MACs", justify="right")
    table.add_column("INT8")
    lowered = any(layer.engine is not None for layer in found.layers)
    if lowered:
        table.add_column("engine")
    table.add_column("why not", overflow="fold")
    for layer in found.layers:
        engine = ["float" if layer.engine else "int"] if lowered else []
        table.add_row(
            layer.name,
            layer.op_type,
            shape_text(layer.output_shape),
            f"{layer.parameters:,}",
            _macs(layer.macs),
            "yes" if layer.quantized else "no",
            *engine,
            layer.reason or layer.engine or "",
        )
    return table


def say_violations(terminal: Terminal, target: str, violations: Sequence[Violation]) -> None:
    """The rules of a target that a model breaks; told even when success would not be."""
    for violation in violations:
        cure = on_command_line(violation.cure)
        text = f"{violation.node}: {violation.problem} ({violation.rule}). {cure}."
        terminal.out.print(text, style="red", soft_wrap=True)
    terminal.say(f"{count(len(violations), 'violation')} of the rules of target '{target}'")


def plain_table(*headers: str) -> Table:
    """An empty table without lines, its columns aligned left."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def both_measures(check: Check) -> str:
    """What ``evaluate`` would tell of the same samples, and the figure of a typical one; or each branch."""
    if check.branches:
        return branch_line(check)
    return f"total {check.evaluated_db:.1f}, typical {check.typical_db:.1f}"


def shape_text(shape: Sequence[int | str | None] | str | None) -> str:
    """``(1, 3, None)`` → ``1×3×?``."""
    from calib8 import tensors  # NumPy

    if shape is None:
        return "?"
    return shape if isinstance(shape, str) else tensors.shape_text(shape)


def _macs(macs: int | None) -> str:
    return NOTHING if macs is None else f"{macs:,}"


def say_repairs(terminal: Terminal, found: Repaired) -> None:
    """Which repairs are part of the result; which were tried in vain or found nothing to do, each once."""
    from calib8.repair.plain_words import in_plain_words

    if found.warning:
        terminal.say(f"warning: {on_command_line(found.warning)}", style="yellow")
    where = f"on {count(found.held_back, 'sample')} held back"
    if found.shared:
        where = f"on the {count(found.held_back, 'sample')} it was made from: no proof"
    for step in found.steps:
        if not step.kept:
            continue
        on, told = count(len(step.layers), "layer"), in_plain_words(step.names)
        if math.isnan(step.after_db):
            terminal.say(f"{told}: {on} changed")
        else:
            gains = _gains(step.before, step.after)
            terminal.say(f"{told}: {gains} {where}{f', {on}' if step.layers else ''}")
        _say_notes(terminal, [step])
    kept = {step.name for step in found.steps if step.kept}
    left = [step for step in found.steps if step.name not in kept]
    vain = _by_name(step for step in left if step.layers or abs(step.after_db - step.before_db) > 0.0)
    idle = _by_name(step for step in left if step.name not in vain)
    for told, tries in (("tried, and left out", vain), ("nothing to do for", idle)):
        if tries:
            each = (f"{name} ({len(of)} times)" if len(of) > 1 else name for name, of in tries.items())
            terminal.say(f"{told}: {', '.join(each)}")
            _say_notes(terminal, [of[-1] for of in tries.values()])


def _by_name(steps: Iterable[Step]) -> dict[str, list[Step]]:
    """Every name once, in the order of the first try, with all tries: one left out is tried again later."""
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(step.name, []).append(step)
    return found


def _gains(before: Check, after: Check) -> str:
    """From → to: of each branch where there are several, else of the total and of a typical sample."""
    pairs = [(was, now) for now in after.branches if (was := before.branch(now.name)) is not None]
    if pairs:
        each = (f"{now.name} {was.sqnr_db:.1f} → {now.sqnr_db:.1f} dB" for was, now in pairs)
        return ", ".join(each)
    total = f"total {before.evaluated_db:.1f} → {after.evaluated_db:.1f} dB"
    return f"{total}, typical {before.typical_db:.1f} → {after.typical_db:.1f} dB"


def _say_notes(terminal: Terminal, steps: Sequence[Step]) -> None:
    """Each once."""
    for note in dict.fromkeys(note for step in steps for note in step.notes):
        terminal.say(f"  note: {on_command_line(note)}")
