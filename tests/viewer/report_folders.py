"""Folders with reports in them, for the tests of the viewer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from example_reports import report

from calib8.run_report.page import page
from calib8.run_report.told import Figure, RunReport


def told(title: str, agreement: float = 97.0, sqnr: float = 30.0, count: int = 6) -> RunReport:
    """A report with an agreement and the SQNR of two branches, of which the first is the worse one."""
    plain = report(count)
    state, word = ("kept", "kept") if agreement >= 99 else ("damaged", "visibly damaged")
    figures = (
        Figure("agreement", f"{agreement:.2f} %", "on 64 samples"),
        Figure("SQNR of boxes", f"{sqnr:.1f} dB"),
        Figure("SQNR of scores", f"{sqnr + 5:.1f} dB"),
        Figure("size", "1.2 MB"),
    )
    headline = replace(plain.headline, state=state, word=word, figures=figures)  # type: ignore[arg-type]
    return replace(plain, title=title, headline=headline)


def written(path: Path, report: RunReport) -> Path:
    """The page of a report, in folders that are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(report), encoding="utf-8")
    return path
