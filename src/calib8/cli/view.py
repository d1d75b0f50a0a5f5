"""``calib8 view``: reports of a folder, one report or a model in a browser of this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calib8.cli.headings import RESULTS, option
from calib8.cli.options import ReportOptions
from calib8.cli.outputs import check_outputs, write_json
from calib8.cli.terminal import open_terminal
from calib8.signals import ending_word, exit_code

if TYPE_CHECKING:
    from calib8.viewer.reports import Report
    from calib8.viewer.view import Viewer

_PATH_HELP = "A folder with reports in it or further down, one report, or a model, program or plan."
ViewedArgument = Annotated[
    Path, typer.Argument(metavar="DIR|PAGE.html|MODEL", show_default=False, help=_PATH_HELP)
]
_PORT_HELP = "Port of this machine to listen to. Default: any that is free."
PortOption = Annotated[int, option(RESULTS, "--port", "N", _PORT_HELP)]
_OPEN_HELP = "Open the page in a browser where there is a screen. Default: open."
OpenOption = Annotated[bool, option(RESULTS, "--open/--no-browser", None, _OPEN_HELP)]


def view(
    path: ViewedArgument, *, port: PortOption = 0, browser: OpenOption = True, report: ReportOptions
) -> None:
    """Browse reports side by side.

    Lists the reports of a folder, or shows what is in a model, on pages of this machine that no other one can
    ask for. Ctrl-C ends it.
    """
    terminal = open_terminal(report.quiet)
    check_outputs({"--json": report.json}, [path])

    from calib8.viewer.view import shown

    try:
        with shown(path, port=port, browser=browser, typed=True) as viewer:
            if report.json is not None:
                write_json(report.json, _document(viewer))
            terminal.say(f"viewer {viewer.url}")
            terminal.say("Ctrl-C ends it")
            sys.stdout.flush()
            viewer.wait()
    except KeyboardInterrupt as error:
        typer.echo(f"{ending_word(error)}: the viewer is closed", file=sys.stderr)
        raise typer.Exit(exit_code(error)) from None


def _document(viewer: Viewer) -> dict[str, Any]:
    found = viewer.listing()
    return {
        "url": viewer.url,
        "reports": [_report(one) for one in found.reports],
        "others": list(found.others),
        "notes": list(found.notes),
    }


def _report(report: Report) -> dict[str, Any]:
    """Of a report whose facts are not known ``why`` says so, and what they would tell is null."""
    from calib8.run_report.facts import Unread

    facts = report.facts
    known = None if isinstance(facts, Unread) else facts
    return {
        "path": report.path,
        "title": report.title,
        "bytes": report.bytes,
        "written": report.written,
        "command": None if known is None else known.command,
        "verdict": None if known is None else known.state,
        "figures": None if known is None else {one.label: one.value for one in known.figures},
        "why": facts.why if isinstance(facts, Unread) else None,
    }
