"""The reports of ``evaluate``, ``compare`` and ``diagnose``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
from rich.filesize import decimal

from calib8.analysis.comparison import Comparison
from calib8.analysis.evaluation import Evaluation
from calib8.analysis.findings import Finding as Cause
from calib8.number_texts import NOTHING, decibels, percent
from calib8.parameters import with_both
from calib8.remedies import Treatment
from calib8.run_report.around import Around
from calib8.run_report.class_table import classes_of
from calib8.run_report.layers import Inside, Known, inside
from calib8.run_report.made_of import how_it_was_made, what_its_bytes_are
from calib8.run_report.side_by_side import SideBySide
from calib8.run_report.told import (
    Attempt,
    Figure,
    Finding,
    Headline,
    ModelRow,
    Models,
    RunReport,
    Work,
)
from calib8.run_report.words import (
    agreement_figure,
    fed_figures,
    output_figures,
    size_figures,
    sqnr_figure,
    task_figures,
    verdict_words,
    where_compared,
)
from calib8.tasks.judges.interface import FIGURES
from calib8.tasks.verdict import Verdict, with_agreement


def of_evaluations(
    found: Sequence[Evaluation], seen: SideBySide | None, model: ir.Model | None, around: Around,
    sizes: Sequence[int | None] = (), int8_bytes: int | None = None,
) -> RunReport:  # fmt: skip
    """What to tell of models side by side.

    Args:
        found: one per model.
        seen: the first float and the first quantized one on some samples; None: there are none.
        model: that quantized one.
        around: files and times.
        sizes: of the files in bytes; empty: not known.
        int8_bytes: of the file of ``model``; None: not known.
    """
    told = Inside() if model is None else inside(model, _known(seen))
    judged = next((one for one in found if one.sqnr_db is not None or one.agreement is not None), None)
    figures = [] if judged is None else list(evaluated(judged))
    agreement = None if judged is None else judged.agreement
    count = 0 if judged is None else judged.images
    verdict = None if judged is None else judged.verdict
    headline = _headline(seen, figures, around, "evaluated", agreement, count, verdict)
    notes = tuple(f"{one.model}: {with_both(text)}" for one in found for text in _odd(one))
    made = fed_figures(None if judged is None else judged.fed)
    if model is not None:
        made += (*how_it_was_made(model), *what_its_bytes_are(model, int8_bytes), *told.contents)
    title = ", ".join(Path(one.model).name for one in found[:3]) + (" …" if len(found) > 3 else "")
    report = _report(
        title, "evaluate", headline, Work(made, notes=notes), _models(found, sizes), told, seen, around,
    )  # fmt: skip
    return replace(report, classes=classes_of(found))


def of_comparison(
    found: Comparison, seen: SideBySide | None, model: ir.Model | None, around: Around
) -> RunReport:
    """What to tell of the layers of a model.

    Args:
        found: the comparison.
        seen: both models on some samples; None: there are no data.
        model: the quantized one; None: it is not known.
        around: files and times.
    """
    told = Inside() if model is None else inside(model, _known(seen, found))
    figures = [*output_figures(found), *size_figures(*around.bytes)]
    facts = [Figure("float model", found.fp32), Figure("int8 model", found.int8)]
    facts += [*fed_figures(None if seen is None else seen.fed), *told.contents]
    notes = tuple(f"'{one.tensor}' is not compared: {one.reason}" for one in found.left_out)
    headline = _headline(seen, figures, around, "compared", found.agreement, found.images)
    work = Work(tuple(facts), notes=notes)
    return _report(Path(found.int8).name, "compare", headline, work, Models(), told, seen, around)


def of_treatment(found: Treatment, seen: SideBySide | None, model: ir.Model, around: Around) -> RunReport:
    """What to tell of a diagnosis and its remedies; see ``of_comparison``."""
    diagnosis = found.diagnosis
    comparison = diagnosis.comparison
    macs = {loss.row.node: loss.macs for loss in diagnosis.layers if loss.row.node is not None}
    told = inside(model, _known(seen, comparison, macs))
    work = Work(
        (
            Figure("float model", comparison.fp32),
            Figure("int8 model", comparison.int8),
            *fed_figures(None if seen is None else seen.fed),
            *told.contents,
        ),
        attempts=tuple(
            Attempt(one.text, diagnosis.sqnr_db, one.sqnr_db, kept=False) for one in found.remedies
        ),
        findings=tuple(map(_finding, diagnosis.findings)),
        notes=(diagnosis.fallback,) if diagnosis.fallback else (),
    )
    figures = [] if diagnosis.task is None else list(
        task_figures(diagnosis.task.against_float, f"against FP32, {diagnosis.task.samples} samples")
    )  # fmt: skip
    figures += [*output_figures(comparison), *size_figures(*around.bytes)]
    title = "plain int8 model of " + Path(comparison.fp32).name if found.made_here else comparison.int8
    headline = _headline(seen, figures, around, "diagnosed", comparison.agreement, comparison.images)
    return _report(
        Path(title).name, "diagnose", headline, work, Models(), told, seen, around,
    )  # fmt: skip


def _known(
    seen: SideBySide | None, comparison: Comparison | None = None, macs: dict[str, float | None] | None = None
) -> Known:
    other = None if seen is None else seen.comparison
    return Known(
        comparison=comparison or other, macs=macs, statistics=None if seen is None else seen.statistics
    )


def _headline(
    seen: SideBySide | None, figures: Sequence[Figure], around: Around, otherwise: str,
    agreement: float | None = None, count: int = 0, known: Verdict | None = None,
) -> Headline:  # fmt: skip
    """The verdict that is known; else that on the samples that were run, of classes on all that were judged.

    Args:
        seen: both models on some samples.
        figures: to be shown.
        around: the next command.
        otherwise: the word where nothing judged.
        agreement: share of all samples with FP32's best class, None where that is not known.
        count: of all samples.
        known: the verdict of the result itself; None: it has none.
    """
    if known is None and seen is not None:
        known = replace(seen.verdict, where=seen.where)
        if agreement is not None:
            on_all = with_agreement(known, agreement, count)
            known = known if on_all is known else replace(on_all, where=f"{count} samples")
    if known is None:
        text = "Without a float and an int8 model on the same samples there is no verdict."
        return Headline("unknown", otherwise, text, tuple(figures), around.next)
    command = around.cure if known.state in ("damaged", "ruined") else around.next
    words = verdict_words(known, known.where)
    return Headline(known.state, known.word, words, tuple(figures), command or around.next)


def _report(
    title: str, command: str, headline: Headline, work: Work, models: Models, told: Inside,
    seen: SideBySide | None, around: Around,
) -> RunReport:  # fmt: skip
    note = "As the comparison that was given found them." if told.layers else ""
    if seen is not None:
        note = where_compared(seen.where, seen.note, compared=seen.comparison is not None)
    counted = 0 if seen is None or seen.statistics is None else seen.statistics.samples
    return RunReport(
        title, command, headline, work, models, told.layers, note, told.network, told.tensors,
        f"Counted on {seen.where}." if seen is not None and counted else "",
        () if seen is None else seen.samples, "" if seen is None else f"The worst of {seen.where}.",
        None, around.timings, around.environment,
    )  # fmt: skip


def _finding(cause: Cause) -> Finding:
    where = cause.node or (f"input '{cause.tensor}'" if cause.tensor else "data")
    advice = f". {with_both(cause.reason.advice)}" if cause.reason.advice else ""
    return Finding(where, f"{with_both(cause.reason.text)}{advice}")


def evaluated(one: Evaluation) -> Iterator[Figure]:
    """The figures of one model."""
    note = f"{Path(one.model).name}, {one.images} samples"
    if one.top1 is not None:
        yield Figure("top-1", percent(one.top1), note, (("top1", one.top1),))
    if one.agreement is not None:
        yield agreement_figure(one.agreement, note)
    if len(one.branches) > 1:
        yield from (sqnr_figure(b.sqnr_db, note, b.name) for b in one.branches)
    elif one.sqnr_db is not None:
        yield sqnr_figure(one.sqnr_db, note)
    if one.task is not None:
        yield from task_figures(one.task.against_float, "against FP32")
        yield from task_figures(one.task.against_labels, "against labels", "labels/")
    speed = one.images_per_second
    if speed is not None:
        yield Figure("speed", f"{speed:.1f} images/s", f"in {one.runtime}", (("images_per_second", speed),))


def _odd(one: Evaluation) -> Iterator[str]:
    yield from one.warnings
    if one.failure is not None:
        yield one.failure


def _sqnr(one: Evaluation) -> str:
    """Of several branches that of the worst, and its name."""
    worst = one.worst_branch
    if len(one.branches) > 1 and worst is not None:
        return f"{decibels(worst.sqnr_db)} {worst.name}"
    return decibels(one.sqnr_db)


def _models(found: Sequence[Evaluation], sizes: Sequence[int | None]) -> Models:
    names = dict.fromkeys(name for one in found for name in _told(one))
    judged = ("verdict",) * any(one.verdict is not None for one in found)
    columns = (*judged, "runtime", "samples", "top-1", "top-5", "agreement", "SQNR", "images/s", "size")
    known = sizes or [None] * len(found)
    rows = tuple(
        ModelRow(
            Path(one.model).name,
            (
                *(NOTHING if one.verdict is None else one.verdict.word for _ in judged),
                one.runtime, str(one.images), percent(one.top1), percent(one.top5), percent(one.agreement),
                _sqnr(one),
                NOTHING if one.images_per_second is None else f"{one.images_per_second:.1f}",
                NOTHING if count is None else decimal(count),
                *(_told(one).get(name, NOTHING) for name in names),
            ),
        )
        for one, count in zip(found, known, strict=True)
    )  # fmt: skip
    return Models((*columns, *names), rows)


def _told(one: Evaluation) -> dict[str, str]:
    """Figures of the task and of the user's own judge: heading → figure."""
    cells = {}
    for judged in (one.task, one.own):
        for truth, figures in () if judged is None else (
            ("", judged.against_float), (" by labels", judged.against_labels),
        ):  # fmt: skip
            for name, value in figures.items():
                noun, share = FIGURES[name]
                cells[noun + truth] = percent(value) if share else f"{value:.4f}"
    return cells
