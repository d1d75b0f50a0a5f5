"""``calib8 table plot`` and ``calib8 calibrate --plot``: pictures of a calibration as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from calib8.cli.headings import RANGES, RESULTS, STATISTICS, option
from calib8.cli.options import ReportOptions
from calib8.cli.outputs import check_kind, check_outputs, write_json
from calib8.cli.terminal import Terminal, open_terminal
from calib8.errors import OutputError, PlaceError, UsageError
from calib8.number_texts import count

if TYPE_CHECKING:
    from calib8.calibration.statistics import Statistics
    from calib8.report.pictures import TensorPicture
    from calib8.table import CalibrationTable

PAGE_NAME: Final = "calibration.html"
"""Name of the page in a folder."""

PICTURES: Final = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".pdf", ".png", ".ps", ".svg", ".tif", ".tiff", ".webp"}
)
"""Suffixes of files that the page is none of; a folder that is there may have one."""

TableArgument = Annotated[
    Path, typer.Argument(metavar="TABLE", show_default=False, help="A calibration table of any format.")
]
StatisticsOption = Annotated[
    Path,
    typer.Option(
        "--stats",
        metavar="FILE",
        show_default=False,
        help="The statistics that it was chosen from.",
        rich_help_panel=STATISTICS,
    ),
]
PageOption = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR|FILE.html",
        show_default=False,
        help="Where to write the page.",
        rich_help_panel=RESULTS,
    ),
]
_ACTIVATIONS_HELP: Final = "Code that the methods assume: uint8, int8 or int8-symmetric. Default: uint8."
ActivationsOption = Annotated[str, option(RANGES, "--activations", "TYPE", _ACTIVATIONS_HELP)]

_PLOT_HELP: Final = "Write a page of pictures: histograms, ranges of all methods, error curves."
PlotOption = Annotated[Path | None, option(RESULTS, "--plot", "DIR|FILE.html", _PLOT_HELP)]


def plot(
    table: TableArgument,
    stats: StatisticsOption,
    output: PageOption,
    *,
    activations: ActivationsOption = "uint8",
    report: ReportOptions,
) -> None:
    """Draw histograms, the range of every method and error curves."""
    terminal = open_terminal(report.quiet)
    page = check_page("--output", output, {"--json": report.json}, [table, stats])

    from calib8.calibration.statistics import Statistics
    from calib8.formats.tables import read_table
    from calib8.scheme import activation_type

    activation_type(activations)
    file = read_table(table)
    if file.keys != "tensors":
        cure = "Convert it with 'calib8 table convert --model' first"
        raise UsageError(str(table), f"names {file.keys}, the statistics name tensors", cure)
    shown = write_plot(terminal, page, Statistics.load(stats), file.table, activations, str(table))
    if report.json is not None:
        tensors = [{"tensor": p.name, "clipped": p.chosen.saturated, "lost": p.lost} for p in shown]
        write_json(report.json, {"table": str(table), "page": str(page), "tensors": tensors})


def check_page(
    option: str, output: Path, others: Mapping[str, Path | None], inputs: Sequence[Path | str | None]
) -> Path:
    """The file that ``write_plot`` will write: ``output`` itself, or a page in it where it is a folder.

    Looks before any work is done; makes no folder yet.

    Args:
        option: that gives ``output``.
        output: a folder, which need not exist, or an .html file.
        others: option → other files to be written, which are looked at too.
        inputs: files that are read.

    Raises:
        UsageError: plotly is not installed, the name is that of a picture or of another kind of file, or the
            page is an input or another output.
        OutputError: neither the folder nor what it would be made in can be written to.
    """
    from calib8.report.page import check_report_installed

    check_report_installed()
    if output.suffix.lower() in PICTURES and not output.is_dir():
        problem = f"is called like a picture ({output.suffix}); all pictures are one HTML page"
        raise UsageError(f"{option} {output}", problem, f"Give {output.stem}.html, or a folder")
    if not output.is_dir():
        check_kind(option, output, ("a page or a folder", (".html", ".htm")))
    if output.suffix.lower() in (".html", ".htm") and not output.is_dir():
        check_outputs({**others, option: output}, inputs)
        return output
    place = next((p for p in (output, *output.parents) if p.exists()), Path())
    if not place.is_dir():
        raise PlaceError(
            f"{option} {output}", f"cannot be made, {place} is not a folder", "Choose another folder"
        )
    check_outputs({**others, option: place / PAGE_NAME}, inputs)
    return output / PAGE_NAME


def write_plot(
    terminal: Terminal,
    page: Path,
    statistics: Statistics,
    table: CalibrationTable,
    activations: str,
    title: str,
) -> tuple[TensorPicture, ...]:
    """Writes the page that ``check_page`` gave and says so; makes its folder where it is missing.

    Args:
        terminal: to say it on.
        page: the file.
        statistics, table: what is drawn.
        activations: the activation type that the methods assume.
        title: what the pictures are of.

    Raises:
        Calib8Error: table and statistics do not belong together, or the page cannot be written.
    """
    from calib8.report.page import write_page
    from calib8.report.pictures import pictures
    from calib8.scheme import activation_type

    shown = pictures(statistics, table, activation_type(activations))
    facts = (
        count(len(shown), "tensor"),
        f"ranges of the methods for {activations}",
        f"prepared model {statistics.model_hash[:16]}",
    )
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(str(page.parent), f"cannot be made ({reason})", "Choose another folder") from error
    write_page(page, shown, title=title, facts=facts)
    terminal.say(f"page {page}")
    return shown
