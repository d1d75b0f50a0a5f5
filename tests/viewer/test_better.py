"""The sentence on two reports: which model is better, by which figure, or why that cannot be told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from report_folders import told, written

from calib8.run_report.facts import LayerFacts, PageFacts, facts_in
from calib8.run_report.told import Figure
from calib8.viewer.better import which_is_better
from calib8.viewer.pair_page import pair_page
from calib8.viewer.reports import Report

A_FIGURE = Figure("agreement", "97.00 %", "on 64 samples")


def facts(
    *figures: Figure, state: str = "kept", word: str = "kept", data: str = "images, 64 samples"
) -> PageFacts:
    options = (Figure("data", data),) if data else ()
    return PageFacts("t", "evaluate", state, word, "", figures, options=options)  # type: ignore[arg-type]


def test_by_the_first_figure_that_differs() -> None:
    one = facts(A_FIGURE, Figure("SQNR of boxes", "30.0 dB"), Figure("SQNR of scores", "20.0 dB"))
    other = replace(
        one, figures=(A_FIGURE, Figure("SQNR of boxes", "40.0 dB"), Figure("SQNR of scores", "12.0 dB"))
    )
    assert which_is_better(one, other) == (
        "A is better by its SQNR of scores, 20.0 dB against 12.0 dB; both are kept."
    )
    assert which_is_better(other, one).startswith("B is better by its SQNR of scores, 20.0 dB against 12.0")
    agreeing = replace(other, figures=(replace(A_FIGURE, value="98.00 %"), *other.figures[1:]))
    assert which_is_better(one, agreeing).startswith("B is better by its agreement, 98.00 % against 97.00 %;")
    assert which_is_better(one, one) == (
        "A and B are equally good by all figures that both tell; both are kept."
    )


def test_fewer_errors_are_better() -> None:
    one, other = (facts(Figure("character errors", value)) for value in ("1.00 %", "3.00 %"))
    assert which_is_better(one, other).startswith(
        "A is better by its character errors, 1.00 % against 3.00 %"
    )


def test_the_verdict_comes_first() -> None:
    one = facts(Figure("top-1", "70.00 %"), state="ruined", word="ruined")
    other = facts(Figure("top-1", "71.00 %"), state="damaged", word="visibly damaged")
    assert which_is_better(one, other) == (
        "B is better by its verdict: visibly damaged, the other ruined: top-1, 71.00 % against 70.00 %."
    )
    unjudged = replace(one, state="unknown", word="compared")
    assert which_is_better(unjudged, other) == "B is better by its top-1, 71.00 % against 70.00 %."


def test_what_cannot_be_compared_says_why() -> None:
    one = facts(A_FIGURE)
    elsewhere = facts(A_FIGURE, data="others, 64 samples")
    begin = "Which model is better cannot be told: "
    assert which_is_better(one, elsewhere) == (
        f"{begin}they were measured on other data, A on images, 64 samples, B on others, 64 samples."
    )
    fewer = facts(replace(A_FIGURE, note="on 32 samples"), data="")
    assert which_is_better(one, fewer) == f"{begin}they were measured on other samples."
    objects = facts(Figure("recall", "97.00 %"))
    assert which_is_better(one, objects) == (
        f"{begin}they have other tasks, A is judged by agreement, B by recall."
    )
    assert which_is_better(facts(Figure("size", "1 kB")), one) == f"{begin}A tells no figure of accuracy."
    layered = [
        replace(one, layers=(LayerFacts(name, "Conv", "int8", None, None, None),)) for name in ("a", "b")
    ]
    assert "they are other networks" in which_is_better(*layered)


def test_the_page_has_it_above_the_tables(tmp_path: Path) -> None:
    reports = []
    for name, agreement in (("a", 99.0), ("b", 97.0)):
        path = written(tmp_path / f"{name}.html", told(name, agreement))
        with path.open("rb") as file:
            found = facts_in(file)
        assert isinstance(found, PageFacts)
        reports.append(Report(f"{name}.html", found, 1, 0.0))
    shown = pair_page(*reports)
    sentence = "A is better by its verdict: kept, the other visibly damaged"
    assert shown.index(sentence) < shown.index('id="figures"')
