"""What the viewer's pages share: the frame, addresses of reports, headings that sort, moments.

    page_files/frame.html   the frame; $names are filled in
    page_files/viewer.css   what reports have no need of; the rest is their style sheet
    page_files/viewer.js    sorting, searching, choosing

Addresses are relative to the folder of the token: ``pair?report=…``, ``open?report=…``, ``page/…``.
"""

from __future__ import annotations

import html
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from calib8.run_report.looks import style
from calib8.run_report.marked_up import Words, breakable
from calib8.viewer.reports import Report

FOLDER: Final = Path(__file__).parent / "page_files"

SAY: Final = Words(typed=True)
"""Texts of facts are worded already: both kinds of words are the same there."""


def framed(title: str, body: str, above: str = "") -> str:
    """A page.

    Args:
        title: a text.
        body, above: HTML of the content and of what stands below the title.
    """
    frame = Template((FOLDER / "frame.html").read_text(encoding="utf-8"))
    return frame.substitute(title=SAY(title), body=body, above=above)


def style_sheet() -> str:
    """Style of all pages."""
    return f"{style()}\n{(FOLDER / 'viewer.css').read_text(encoding='utf-8')}"


def script() -> str:
    """Script of all pages."""
    return (FOLDER / "viewer.js").read_text(encoding="utf-8")


def in_address(path: str) -> str:
    """A path as a part of an address, ASCII only, whatever its bytes are."""
    return quote(os.fsencode(path), safe="/")


def from_address(text: str) -> str:
    """The path that ``in_address`` made that of."""
    return os.fsdecode(unquote_to_bytes(text))


def pair_address(left: Report, right: Report) -> str:
    """Of the page with two reports, for an attribute."""
    return html.escape(f"pair?{_asked(left.path)}&{_asked(right.path)}")


def open_address(path: str) -> str:
    """Of the page with one report."""
    return f"open?{_asked(path)}"


def _asked(path: str) -> str:
    return f"report={quote(in_address(path), safe='')}"


def link(report: Report) -> str:
    """A link to a report, named as it is."""
    return f'<a href="{html.escape(open_address(report.path))}">{breakable(report.title, SAY)}</a>'


def box(report: Report, title: str, *, whole: bool = False) -> str:
    """The page of a report in a frame, without any right to reach the viewer's pages.

    Args:
        report: a report.
        title: of the frame, for who cannot see it.
        whole: as high as the window.
    """
    looks = ' class="whole"' if whole else ""
    address = html.escape(in_address(report.path))
    return f'<iframe{looks} src="page/{address}" title="{SAY(title)}" sandbox="allow-scripts"></iframe>'


def verdict(state: str, word: str) -> str:
    """A verdict in its colour."""
    return f'<span class="state {html.escape(state)}">{SAY(word)}</span>'


def moment(seconds: float) -> str:
    """A moment in the time of this machine."""
    try:
        there = time.localtime(seconds)
        zone = time.strftime("%z", there)
    except (OverflowError, ValueError, OSError):
        return "–"
    date = time.strftime("%Y-%m-%dT%H:%M:%S", there)
    shown = time.strftime("%Y-%m-%d %H:%M", there)
    return f'<time datetime="{date}{zone[:3]}:{zone[3:]}">{shown}</time>'


def heading(label: str, key: str, *, first: str = "ascending", sorted_now: str = "", css: str = "") -> str:
    """A heading of a column that sorts by ``data-key`` of the rows.

    Args:
        label: a text.
        key: of the rows.
        first: direction of the first click.
        sorted_now: direction in which the table is sorted already.
        css: class of the column.
    """
    state = f' aria-sort="{sorted_now}"' if sorted_now else ""
    looks = f' class="{css}"' if css else ""
    button = f'<button type="button" data-sort="{key}" data-first="{first}">{html.escape(label)}</button>'
    return f'<th scope="col"{looks}{state}>{button}</th>'


def number(value: float | None) -> str:
    """A number for ``data-…``, where the script reads it."""
    if value is None or math.isnan(value):
        return ""
    return f"{value:.10g}" if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def search_box(table: str, label: str, noun: str) -> str:
    """A field that searches a table, and how many rows it leaves."""
    return (
        f'<label class="search">{html.escape(label)} <input type="search" data-searches="{table}"></label>'
        f'<span class="status" role="status" id="{table}-found" data-noun="{html.escape(noun)}"></span>'
    )


def choice_of(table: str, key: str, label: str, values: Sequence[tuple[str, str]]) -> str:
    """A field that leaves the rows with one value of ``data-key``; ``values``: with what to call each."""
    options = "".join(f'<option value="{html.escape(value)}">{SAY(name)}</option>' for value, name in values)
    return (
        f'<label class="search">{html.escape(label)} <select data-filters="{table}" data-key="{key}">'
        f'<option value="">all</option>{options}</select></label>'
    )
