"""``calib8 table``: shows, converts and compares calibration tables, those of other tools too."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from calib8.cli.render import count, say_binding
from calib8.cli.table_text import difference_document, say_difference, say_table, table_document
from calib8.cli.terminal import open_terminal
from calib8.errors import TableError, UsageError
from calib8.parameters import one_of

if TYPE_CHECKING:
    import onnx_ir as ir

    from calib8.formats.bind import Binding
    from calib8.formats.table_file import TableFile
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
    _check_conversion(to, model, partial, header)

    from calib8.formats.difference import losses
    from calib8.formats.tables import FORMATS, read_table, table_text, write_text

    read = read_table(table, format)
    bound = _on_model(read, model, partial)
    text = table_text(bound.file.table, to, model=bound.prepared, header=header or read.header)
    written = _read_back(bound, to, text, output)
    lost = losses(bound.file, written, keeps_weights=FORMATS[to].layers)
    if lost and not lossy:
        problem = f"cannot hold all of {table}, but loses {'; '.join(lost)}"
        raise UsageError(f"--to {to}", problem, "Add --lossy if that is acceptable")
    write_text(output, text)
    if bound.binding is not None:
        say_binding(terminal, bound.binding)
    for what in lost:
        terminal.say(f"lost: {what}", style="yellow")
    ranges = count(len(written.entries), "range")
    terminal.say(f"{FORMATS[to].title} {output}: {ranges} of {FORMATS[read.format].title} {table}")
    if report.json is not None:
        document = {
            "table": str(table),
            "format": read.format,
            "output": str(output),
            "output_format": to,
            "tensors": len(written.entries),
            "binding": binding_document(bound.binding),
            "lost": lost,
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


def _check_conversion(to: str, model: Path | None, partial: bool, header: str | None) -> None:
    from calib8.formats.tables import table_format

    wanted = table_format(to, f"--to {to}")
    if header is not None and to != "tensorrt":
        raise UsageError(f"--header {header}", f"format '{to}' has none", "Use it with --to tensorrt")
    if model is None and partial:
        raise UsageError("--partial", "concerns the names of a model", "Give the model with --model")
    if model is None and wanted.layers:
        raise UsageError(f"--to {to}", "its names are those of layers", "Give the model with --model")


@dataclass(frozen=True)
class _Bound:
    """A table called after tensors; on a model, if one was given."""

    file: TableFile
    prepared: ir.Model | None
    binding: Binding | None


def _on_model(file: TableFile, model: Path | None, partial: bool) -> _Bound:
    if model is None:
        if file.keys == "layers":
            raise UsageError(file.source, "names layers, not tensors", "Give the model with --model")
        return _Bound(file, None, None)
    from calib8.calibration.source import prepare_for_table
    from calib8.formats.bind import bind

    original, prepared = prepare_for_table(model, known=file.table.inputs, invent=True)
    binding = bind(file, prepared.model, original, partial=partial)
    if not binding.table.entries:
        problem = f"has no range of a tensor of {model}"
        raise TableError(file.source, problem, "Give the model that it was made for")
    return _Bound(replace(file, table=binding.table, keys="tensors"), prepared.model, binding)


def _read_back(bound: _Bound, to: str, text: str, output: Path) -> CalibrationTable:
    """What the text says of tensors."""
    from calib8.formats.bind import layers_to_tensors
    from calib8.formats.tables import FORMATS

    back = FORMATS[to].read(text, str(output))
    return back.table if bound.prepared is None else layers_to_tensors(back, bound.prepared).table


def _all_symmetric(table: CalibrationTable) -> bool:
    from calib8.formats.table_file import is_symmetric

    return all(is_symmetric(entry.range) for entry in table.entries.values())
