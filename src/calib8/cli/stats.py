"""``calib8 stats``: saved statistics of several runs as one, and what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calib8.cli.headings import RESULTS, STATISTICS
from calib8.cli.options import ReportOptions
from calib8.cli.outputs import SAVED_STATISTICS, check_kind, check_outputs, write_json
from calib8.cli.render import plain_table
from calib8.cli.terminal import Terminal, open_terminal
from calib8.number_texts import count

if TYPE_CHECKING:
    from calib8.calibration.statistics import Statistics
    from calib8.calibration.tensor_statistics import TensorStatistics

PartsArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE", show_default=False, help="Statistics of the parts.")
]
StatisticsArgument = Annotated[
    Path, typer.Argument(metavar="FILE", show_default=False, help="Statistics that calib8 wrote.")
]
StatisticsOutput = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="OUT",
        show_default=False,
        help="The statistics to write.",
        rich_help_panel=RESULTS,
    ),
]
MixedOption = Annotated[
    bool,
    typer.Option(
        "--mixed",
        help="Take parts of several CPU types or versions of ONNX Runtime; it is told.",
        rich_help_panel=STATISTICS,
    ),
]
RepeatedOption = Annotated[
    bool,
    typer.Option(
        "--repeated",
        help="Take parts that hold the same samples; each counts as often as it comes.",
        rich_help_panel=STATISTICS,
    ),
]


def merge(
    files: PartsArgument,
    output: StatisticsOutput,
    *,
    mixed: MixedOption = False,
    repeated: RepeatedOption = False,
    report: ReportOptions,
) -> None:
    """Make the statistics of all samples from those of parts of them.

    The order of the files does not matter: the result is that of one run over all samples, byte for byte.
    """
    terminal = open_terminal(report.quiet)
    check_outputs({"--output": output, "--json": report.json}, files)
    check_kind("--output", output, SAVED_STATISTICS)

    from calib8.calibration.merge import merge_statistics

    merged = merge_statistics(files, mixed=mixed, repeated=repeated)
    merged.save(output)
    _say(terminal, f"{count(len(files), 'file')} merged", merged)
    terminal.say(f"statistics {output}")
    if report.json is not None:
        sources = [str(file) for file in files]
        write_json(report.json, {"files": sources, "output": str(output), **_document(merged)})


def show(file: StatisticsArgument, *, report: ReportOptions) -> None:
    """Show what statistics hold of every tensor."""
    terminal = open_terminal(report.quiet)
    check_outputs({"--json": report.json}, [file])

    from calib8.calibration.statistics import Statistics

    found = Statistics.load(file)
    _say(terminal, str(file), found)
    table = plain_table("tensor")
    for header in ("values", "zeros %", "min", "mean min", "mean max", "max", "NaN", "inf"):
        table.add_column(header, justify="right")
    for name in sorted(found.tensors):
        table.add_row(name, *_row(found.tensors[name]))
    terminal.show(table)
    if report.json is not None:
        write_json(report.json, {"file": str(file), **_document(found)})


def _say(terminal: Terminal, what: str, found: Statistics) -> None:
    samples = count(found.samples, "sample")
    terminal.say(f"{what}: {samples}, {count(len(found.tensors), 'tensor')}, model {found.model_hash[:12]}")
    if found.origins:
        terminal.say(f"gathered on {', '.join(map(str, found.origins))}")
    if len(found.origins) > 1:
        terminal.say("note: mixed: a run over all samples on one of these would give other last bits")


def _row(t: TensorStatistics) -> tuple[str, ...]:
    share = f"{100 * t.zeros / t.finite:.2f}" if t.finite else "–"
    values = (t.minimum, t.mean_minimum, t.mean_maximum, t.maximum) if t.finite else ()
    figures = [f"{value:.4g}" for value in values] or ["–"] * 4
    return str(t.count), share, *figures, str(t.nans), str(t.positive_infs + t.negative_infs)


def _document(found: Statistics) -> dict[str, Any]:
    return {
        "model_hash": found.model_hash,
        "samples": found.samples,
        "origins": [{"cpu": origin.cpu, "runtime": origin.runtime} for origin in found.origins],
        "tensors": [
            {
                "tensor": name,
                "samples": t.samples,
                "count": t.count,
                "zeros": t.zeros,
                "nans": t.nans,
                "infinities": t.positive_infs + t.negative_infs,
                "minimum": t.minimum if t.finite else None,
                "maximum": t.maximum if t.finite else None,
                "mean_minimum": t.mean_minimum if t.finite else None,
                "mean_maximum": t.mean_maximum if t.finite else None,
            }
            for name, t in sorted(found.tensors.items())
        ],
    }
