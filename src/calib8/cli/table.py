"""``calib8 table``: shows, converts and compares calibration tables, those of other tools too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from calib8.cli.choices import TABLE_FORMATS, completed
from calib8.cli.commands import add_command
from calib8.cli.documents import binding_document
from calib8.cli.headings import RESULTS, TABLES
from calib8.cli.help_pages import HelpfulGroup
from calib8.cli.options import FORMATS_HELP, TOLD, ReportOptions
from calib8.cli.outputs import CONVERTED, check_kind, check_outputs, write_json
from calib8.cli.plot import plot
from calib8.cli.render import say_binding
from calib8.cli.table_text import difference_document, say_difference, say_table, table_document
from calib8.cli.terminal import open_terminal
from calib8.errors import UsageError
from calib8.number_texts import count
from calib8.parameters import one_of

if TYPE_CHECKING:
    from calib8.table import CalibrationTable

table_app = typer.Typer(
    cls=HelpfulGroup,
    help="Show, convert, compare or draw calibration tables.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

TableArgument = Annotated[
    Path, typer.Argument(metavar="TABLE", show_default=False, help="A calibration table of any format.")
]
OtherTableArgument = Annotated[
    Path, typer.Argument(metavar="OTHER", show_default=False, help="The table to compare it with.")
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help=f"What TABLE is: {FORMATS_HELP} Default: {TOLD}.",
        rich_help_panel=TABLES,
        autocompletion=completed("--format"),
    ),
]
OtherFormatOption = Annotated[
    str | None,
    typer.Option(
        "--other-format",
        metavar="NAME",
        help=f"What OTHER is, as --format. Default: {TOLD}.",
        rich_help_panel=TABLES,
        autocompletion=completed("--other-format"),
    ),
]
TypeOption = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Code of the scales and zero points shown: uint8, int8 or int8-symmetric. Default: uint8, "
        "int8-symmetric where all ranges are symmetric.",
        rich_help_panel=TABLES,
        autocompletion=completed("--type"),
    ),
]
ConvertedOutput = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT",
        show_default=False,
        help="The table to write.",
        rich_help_panel=RESULTS,
    ),
]
ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="NAME",
        help=f"Format of OUT: {FORMATS_HELP}",
        show_default=True,
        rich_help_panel=TABLES,
        autocompletion=completed("--to", TABLE_FORMATS),
    ),
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="The float model: binds a calib8 table to it, and tells the layers of an ncnn table.",
        rich_help_panel=TABLES,
    ),
]
PartialOption = Annotated[
    bool,
    typer.Option(
        "--partial", help="With --model: pass over names that it does not have.", rich_help_panel=TABLES
    ),
]
LossyOption = Annotated[
    bool,
    typer.Option(
        "--lossy",
        help="Convert even where the format cannot hold all of it; what is told.",
        rich_help_panel=TABLES,
    ),
]
HeaderOption = Annotated[
    str | None,
    typer.Option(
        "--header",
        metavar="TEXT",
        help="With --to tensorrt: first line. Default: that of TABLE, else TRT-8601-EntropyCalibration2.",
        rich_help_panel=TABLES,
    ),
]
ExitCodeOption = Annotated[
    bool,
    typer.Option(
        "--exit-code", help="Make the exit code 1 where the tables differ.", rich_help_panel=RESULTS
    ),
]

DIFFERENT: Final = 1
"""Exit code of ``diff --exit-code`` for tables that differ."""


def show(
    table: TableArgument,
    *,
    format: FormatOption = None,
    type: TypeOption = None,
    report: ReportOptions,
) -> None:
    """Show ranges, scales and zero points of a table."""
    terminal = open_terminal(report.quiet)
    check_outputs({"--json": report.json}, [table])

    from calib8.formats.tables import read_table
    from calib8.scheme import activation_type

    if type is not None:
        _check_type(type)
    file = read_table(table, format)
    name = type or ("int8-symmetric" if _all_symmetric(file.table) else "uint8")
    say_table(terminal, file, name, activation_type(name))
    if report.json is not None:
        write_json(report.json, table_document(table, file, name, activation_type(name)))


def convert(
    table: TableArgument,
    output: ConvertedOutput,
    *,
    to: ToOption = "calib8",
    format: FormatOption = None,
    model: ModelOption = None,
    partial: PartialOption = False,
    header: HeaderOption = None,
    lossy: LossyOption = False,
    report: ReportOptions,
) -> None:
    """Write a table in the format of another tool."""
    terminal = open_terminal(report.quiet)
    check_outputs({"--output": output, "--json": report.json}, [table, model])
    check_kind("--output", output, CONVERTED)

    from calib8.formats.convert import convert_table
    from calib8.formats.tables import FORMATS

    found = convert_table(
        table, output, to, form=format, model=model, partial=partial, header=header, lossy=lossy
    )
    if found.binding is not None:
        say_binding(terminal, found.binding)
    for what in found.lost:
        terminal.say(f"lost: {what}", style="yellow")
    ranges = count(len(found.table.entries), "range")
    terminal.say(f"{FORMATS[to].title} {output}: {ranges} of {FORMATS[found.source.format].title} {table}")
    if report.json is not None:
        document = {
            "table": str(table),
            "format": found.source.format,
            "output": str(output),
            "output_format": to,
            "tensors": len(found.table.entries),
            "binding": binding_document(found.binding),
            "lost": list(found.lost),
        }
        write_json(report.json, document)


def diff(
    table: TableArgument,
    other: OtherTableArgument,
    *,
    format: FormatOption = None,
    other_format: OtherFormatOption = None,
    exit_code: ExitCodeOption = False,
    report: ReportOptions,
) -> None:
    """Compare the ranges of two tables, largest difference first."""
    terminal = open_terminal(report.quiet)
    check_outputs({"--json": report.json}, [table, other])

    from calib8.formats.difference import difference
    from calib8.formats.tables import read_table

    left, right = read_table(table, format), read_table(other, other_format)
    if left.keys != right.keys:
        layered = table if left.keys == "layers" else other
        problem = "names layers, the other table tensors"
        raise UsageError(str(layered), problem, "Convert it with 'calib8 table convert --model' first")
    found = difference(left.table, right.table)
    say_difference(terminal, found, (table, other))
    if report.json is not None:
        write_json(report.json, difference_document(found, (table, other)))
    if exit_code and found.differs:
        raise typer.Exit(DIFFERENT)


for _function in (show, convert, diff, plot):
    add_command(table_app, _function.__name__, _function, "table")


def _check_type(name: str) -> None:
    from calib8.scheme import ACTIVATION_TYPES

    if name not in ACTIVATION_TYPES:
        raise UsageError(f"--type {name}", "unknown type", one_of(name, ACTIVATION_TYPES))


def _all_symmetric(table: CalibrationTable) -> bool:
    from calib8.formats.table_file import is_symmetric

    return all(is_symmetric(entry.range) for entry in table.entries.values())
