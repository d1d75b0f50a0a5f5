"""The page of one report that was asked for alone: its own page in a frame."""

from __future__ import annotations

import html

from calib8.viewer.frame import SAY, framed, in_address, link
from calib8.viewer.reports import Report


def report_page(report: Report | None) -> str:
    """The page; None: the report is gone."""
    if report is None:
        return framed("Not found", "<section><p>The report is not here any more.</p></section>")
    address, title = html.escape(in_address(report.path)), SAY(report.title)
    frame = f'<iframe src="page/{address}" title="{title}" sandbox="allow-scripts"></iframe>'
    return framed(report.title, f"<section><p>{link(report)} alone</p>{frame}</section>")
