"""The page of one report: its own page in a frame, which cannot leave this machine from there."""

from __future__ import annotations

from calib8.run_report.facts import Unread
from calib8.run_report.marked_up import note
from calib8.viewer.frame import SAY, box, framed
from calib8.viewer.reports import Report

LIST = '<nav aria-label="Other pages"><ul><li><a href="./">All reports</a></li></ul></nav>'


def report_page(report: Report | None, *, alone: bool) -> str:
    """The page.

    Args:
        report: None where it is gone.
        alone: there is no list of others.
    """
    above = "" if alone else LIST
    if report is None:
        return framed("Not found", "<section><p>The report is not here any more.</p></section>", above)
    why = note(report.facts.why, SAY) if isinstance(report.facts, Unread) else ""
    return framed(report.title, f"{why}{box(report, report.title, whole=True)}", above)
