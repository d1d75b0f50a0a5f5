"""Figures in words, as reports have them."""

from __future__ import annotations

from collections.abc import Mapping

from rich.filesize import decimal

from calib8.analysis.comparison import Comparison
from calib8.data.fed import Fed
from calib8.number_texts import count, decibels, percent
from calib8.parameters import with_both
from calib8.run_report.told import Figure
from calib8.tasks.judges.interface import FIGURES
from calib8.tasks.verdict import Verdict


def where_compared(where: str, note: str, *, compared: bool) -> str:
    """On which samples layers were compared, or why they were not, or nothing was counted."""
    if compared:
        return f"Compared with the float model on {where}, in ONNX Runtime.{f' {note}' if note else ''}"
    return f"The layers could not be compared: {note}"


def size_figures(fp32: int | None, int8: int | None) -> tuple[Figure, ...]:
    """Sizes in bytes of both models; None: not known."""
    if int8 is None:
        return ()
    if not fp32:
        return (Figure("size", decimal(int8), numbers=(("bytes/int8", int8),)),)
    note = f"{100.0 * int8 / fp32:.0f} % of FP32's {decimal(fp32)}"
    return (Figure("size", decimal(int8), note, (("bytes/int8", int8), ("bytes/fp32", fp32))),)


def verdict_words(verdict: Verdict, where: str) -> str:
    """What judged, and on which samples: the text of a verdict without its word."""
    return verdict.why or f"{with_both(verdict.grounds)}; on {where}"


def task_figures(figures: Mapping[str, float], truth: str, by: str = "") -> tuple[Figure, ...]:
    """Figures of a judge.

    Args:
        figures: name as in ``FIGURES`` → figure; others are passed over.
        truth: what they are by, in words.
        by: the same before the names of numbers, such as ``labels/``.
    """
    known = ((name, value) for name, value in figures.items() if name in FIGURES)
    return tuple(
        Figure(
            FIGURES[name][0], percent(value) if FIGURES[name][1] else f"{value:.4f}", truth,
            ((f"{by}{name}", value),),
        )
        for name, value in known
    )  # fmt: skip


def output_figures(found: Comparison) -> tuple[Figure, ...]:
    """Agreement, and the SQNR of the outputs, of several branches each by itself."""
    note = f"on {count(found.images, 'sample')}"
    figures = []
    if found.agreement is not None:
        figures.append(agreement_figure(found.agreement, note))
    if found.branches:
        figures += [sqnr_figure(one.distance.sqnr_db, note, one.name) for one in found.branches]
    else:
        figures.append(sqnr_figure(found.outputs.sqnr_db, note))
    if found.outputs.cosine is not None and not found.branches:
        cosine = found.outputs.cosine
        figures.append(Figure("cosine", f"{cosine:.5f}", note, (("cosine", cosine),)))
    return tuple(figures)


def agreement_figure(share: float, note: str) -> Figure:
    """The share of samples with FP32's best class, 0 … 1."""
    return Figure("agreement", percent(share), note, (("agreement", share),))


def sqnr_figure(value: float | None, note: str, branch: str = "") -> Figure:
    """The SQNR of all outputs, or of one branch."""
    label, name = (f"SQNR of {branch}", f"sqnr_db/{branch}") if branch else ("SQNR of the outputs", "sqnr_db")
    return Figure(label, decibels(value), note, () if value is None else ((name, value),))


def fed_figures(fed: Fed | None) -> tuple[Figure, ...]:
    """The name of the data with how many samples of how many, and what pictures go through."""
    if fed is None:
        return ()
    images = (Figure("images", fed.image_words),) if fed.image_words else ()
    return (Figure("data", fed.data_words), *images)
