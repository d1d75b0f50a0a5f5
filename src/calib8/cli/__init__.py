"""The command line: ``calib8 COMMAND``, one module per command.

Exit codes: 0 done, 1 something is wrong with model, data, table or output, 2 wrong usage, 3 a promise that is
not kept, 130 Ctrl-C.
The modules here import the other rooms inside their functions, so that ``--help`` is instant.
"""

from __future__ import annotations

import io
import logging
import sys
import warnings
from typing import Annotated

import typer

from calib8.cli.benchmark import benchmark
from calib8.cli.calibrate import calibrate, checkpoint_of
from calib8.cli.commands import add_command, print_interrupted
from calib8.cli.compare import compare
from calib8.cli.compile import compile
from calib8.cli.demo import demo
from calib8.cli.diagnose import diagnose
from calib8.cli.doctor import doctor
from calib8.cli.evaluate import evaluate
from calib8.cli.export import export
from calib8.cli.help_pages import HelpfulGroup
from calib8.cli.inspect import inspect
from calib8.cli.late_modules import load_late
from calib8.cli.quantize import quantize
from calib8.cli.run import run
from calib8.cli.stats import merge, show
from calib8.cli.table import table_app
from calib8.cli.tengine_quant import tengine_quant
from calib8.cli.tune import tune, work_folder
from calib8.cli.view import view
from calib8.signals import exit_code

app = typer.Typer(
    name="calib8",
    cls=HelpfulGroup,
    help="Turns a trained FP32 CNN (ONNX) into an INT8 one and proves that it kept its accuracy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Boxes and colours are for people; a pipe gets plain text.
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version as installed_version  # with what reads e-mail and archives

        typer.echo(f"calib8 {installed_version('calib8')}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options that come before the command."""


_COMMANDS = (
    demo, quantize, calibrate, evaluate, compare, diagnose, run, inspect, compile, export, benchmark, tune,
    view, doctor,
)  # fmt: skip

_KEPT = {calibrate: checkpoint_of, tune: work_folder}

for _function in _COMMANDS:
    add_command(app, _function.__name__, _function, kept=_KEPT.get(_function))
add_command(app, "tengine-quant", tengine_quant)
app.add_typer(table_app, name="table")

stats = typer.Typer(cls=HelpfulGroup, help="Statistics of runs: merge, show.", no_args_is_help=True)
add_command(stats, "merge", merge, "stats")
add_command(stats, "show", show, "stats")
app.add_typer(stats, name="stats")


def main() -> None:
    """Runs the command line and leaves with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file name that is no valid text, or a terminal without "×", must not end a run.
            stream.reconfigure(errors="backslashreplace")
    load_late()
    logging.basicConfig(level=logging.ERROR)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    try:
        app(prog_name="calib8")
    except KeyboardInterrupt as error:  # before a command began
        print_interrupted(error)
        sys.exit(exit_code(error))
