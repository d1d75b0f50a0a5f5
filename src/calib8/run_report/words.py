"""Figures in words, as reports have them."""

from __future__ import annotations

from collections.abc import Mapping

from rich.filesize import decimal

from calib8.analysis.comparison import Comparison
from calib8.data.preprocess import Preprocess
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
        return (Figure("size", decimal(int8)),)
    return (Figure("size", decimal(int8), f"{100.0 * int8 / fp32:.0f} % of FP32's {decimal(fp32)}"),)


def verdict_words(verdict: Verdict, where: str) -> str:
    """What judged, and on which samples: the text of a verdict without its word."""
    return verdict.why or f"{with_both(verdict.grounds)}; on {where}"


def task_figures(figures: Mapping[str, float], truth: str) -> tuple[Figure, ...]:
    """Figures of a judge; ``truth`` is what they are by."""
    known = ((name, value) for name, value in figures.items() if name in FIGURES)
    return tuple(
        Figure(FIGURES[name][0], percent(value) if FIGURES[name][1] else f"{value:.4f}", truth)
        for name, value in known
    )


def output_figures(found: Comparison) -> tuple[Figure, ...]:
    """Agreement, and the SQNR of the outputs, of several branches each by itself."""
    note = f"on {count(found.images, 'sample')}"
    figures = [] if found.agreement is None else [Figure("agreement", percent(found.agreement), note)]
    if found.branches:
        figures += [
            Figure(f"SQNR of {one.name}", decibels(one.distance.sqnr_db), note) for one in found.branches
        ]
    else:
        figures.append(Figure("SQNR of the outputs", decibels(found.outputs.sqnr_db), note))
    if found.outputs.cosine is not None and not found.branches:
        figures.append(Figure("cosine", f"{found.outputs.cosine:.5f}", note))
    return tuple(figures)


def preprocess_words(p: Preprocess) -> str:
    """How images become inputs, in one line."""
    sizes = "" if p.size is None else f"{p.size[0]} × {p.size[1]}, "
    mean, scale = (", ".join(f"{value:.6g}" for value in numbers) for numbers in (p.mean, p.scale))
    values = "pixels as they are" if p.dtype == "uint8" else f"(pixel − {mean}) · {scale}"
    return f"{sizes}{p.color}, {p.resize}, {p.filter}; {values}"
