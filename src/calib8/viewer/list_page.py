"""The page of a folder: its reports, of which two can be chosen."""

from __future__ import annotations

import html
from collections.abc import Sequence

from rich.filesize import decimal

from calib8.number_texts import NOTHING, count
from calib8.run_report.facts import PageFacts, Unread
from calib8.run_report.marked_up import breakable, bullets, section
from calib8.run_report.told import Figure
from calib8.tasks.limits import State
from calib8.tasks.verdict import WORDS
from calib8.viewer.frame import (
    SAY,
    choice_of,
    framed,
    heading,
    in_address,
    link,
    moment,
    number,
    search_box,
    verdict,
)
from calib8.viewer.pair import amount
from calib8.viewer.reports import Listing, Report

SQNR = "SQNR of "
"""Begins the label of a figure of the outputs or of a branch."""

MOST_NAMED = 100
"""Pages that are no reports are named, so many of them."""


def list_page(name: str, found: Listing) -> str:
    """The page.

    Args:
        name: of the folder.
        found: what it holds.
    """
    if not found.reports:
        text = "No report is here. Commands write one where it is asked for, Python by calib8.write_report."
        body = section("none", "Reports", f"<p>{text}</p>")
    else:
        body = _reports(found.reports)
    return framed(name, body + _rest(found), f'<p class="note">{count(len(found.reports), "report")}</p>')


def _reports(reports: Sequence[Report]) -> str:
    columns = (
        heading("report", "name", css="left"), heading("verdict", "state", css="left"),
        heading("command", "command", css="left wide"),
        heading("first figure", "figure", first="descending"),
        heading("SQNR", "sqnr", first="descending", css="wide"),
        heading("model", "size", css="wide"), heading("int8 nodes", "nodes", css="wide"),
        heading("written", "written", first="descending", sorted_now="descending", css="wide"),
    )  # fmt: skip
    head = '<td class="choice"></td>' + "".join(columns)
    rows = "\n".join(map(_row, reports))
    table = (
        '<div class="scroll" role="region" tabindex="0" aria-label="List of reports">'
        f'<table id="reports" data-searched aria-label="List of reports"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )
    compare = (
        '<div class="tools"><button class="button go" id="compare" type="submit">Show side by side</button>'
        '<span class="status" role="status" id="chosen"></span></div>'
    )
    return section("list", "Reports", f'<form action="pair">{_tools(reports)}{compare}{table}</form>')


def _tools(reports: Sequence[Report]) -> str:
    states = sorted({_state(one) for one in reports}, key=["kept", "damaged", "ruined", "unknown"].index)
    commands = sorted({one.facts.command for one in reports if isinstance(one.facts, PageFacts)})
    return (
        f'<div class="tools">{search_box("reports", "Search", "reports")}'
        + choice_of("reports", "state", "Verdict", [(state, WORDS[state]) for state in states])
        + choice_of("reports", "command", "Command", [(name, name) for name in commands])
        + "</div>"
    )


def _state(report: Report) -> State:
    return "unknown" if isinstance(report.facts, Unread) else report.facts.state


def _row(report: Report) -> str:
    facts = report.facts
    told = facts if isinstance(facts, PageFacts) else PageFacts(report.title, "", "unknown", "", "")
    first = next((one for one in told.figures if not one.label.startswith(SQNR)), None)
    worst = worst_sqnr(told.figures)
    size = next((one.value for one in told.figures if one.label == "size"), NOTHING)
    coded, nodes = dict(told.nodes).get("int8", 0), sum(many for kind, many in told.nodes if kind != "input")
    keys = {
        "name": SAY.plain(report.title), "state": told.state, "command": told.command,
        "figure": number(None if first is None else amount(first.value)),
        "sqnr": number(None if worst is None else amount(worst.value)), "size": number(amount(size)),
        "nodes": number(coded / nodes if nodes else None), "written": number(report.written),
        "words": SAY.plain(f"{report.title} {report.path} {told.word} {told.text} {told.command}"),
    }  # fmt: skip
    data = "".join(f' data-{key}="{html.escape(value)}"' for key, value in keys.items())
    cells = (
        _verdict(report), f'<td class="left wide">{SAY(told.command)}</td>',
        f"<td>{_figure(first)}</td>", f'<td class="wide">{_figure(worst)}</td>',
        f'<td class="wide">{SAY(size)}</td>',
        f'<td class="wide">{f"{coded} of {nodes}" if nodes else NOTHING}</td>',
        f'<td class="wide">{moment(report.written)}</td>',
    )  # fmt: skip
    return f"<tr{data}>{_choice(report)}{_name(report)}{''.join(cells)}</tr>"


def _choice(report: Report) -> str:
    label = SAY(f"Choose {report.title}, {report.path}")
    value = html.escape(in_address(report.path))
    return (
        f'<td class="choice"><input type="checkbox" name="report" value="{value}" aria-label="{label}"></td>'
    )


def _name(report: Report) -> str:
    where = f"{breakable(report.path, SAY)}, {decimal(report.bytes)}"
    return f'<th scope="row" class="left">{link(report)}<span class="where">{where}</span></th>'


def _verdict(report: Report) -> str:
    if isinstance(report.facts, Unread):
        return f'<td class="left">{SAY(report.facts.why)}</td>'
    return f'<td class="left">{verdict(report.facts.state, report.facts.word)}</td>'


def _figure(one: Figure | None) -> str:
    if one is None:
        return NOTHING
    return f'<span class="num">{SAY(one.value)}</span><span class="figure">{SAY(one.label)}</span>'


def worst_sqnr(figures: Sequence[Figure]) -> Figure | None:
    """Of the outputs, or of the branch that lost most; None where none is told."""
    known = [(amount(one.value), one) for one in figures if one.label.startswith(SQNR)]
    return min(((value, one) for value, one in known if value is not None), key=lambda one: one[0],
               default=(0.0, None))[1]  # fmt: skip


def _rest(found: Listing) -> str:
    """Pages that are no reports, and what was not looked at."""
    named = bullets(found.others[:MOST_NAMED], SAY)
    more = len(found.others) - MOST_NAMED
    named += f"<p>… and {more} more</p>" if more > 0 else ""
    what = "page that is no report" if len(found.others) == 1 else "pages that are no reports"
    details = f"<details><summary>{len(found.others)} {what}</summary>{named}</details>" if named else ""
    notes = bullets(found.notes, SAY)
    return section("rest", "Left out", notes + details) if notes or details else ""
