"""From a function to a command: dataclasses of options become single options, errors become one line.

def quantize(model: ModelArgument, data: DataOptions, …)   →   calib8 quantize MODEL --data … --samples …
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

import typer

from calib8.cli.help_pages import HelpfulCommand, example_of
from calib8.cli.system_errors import let_go_of_output, refused_by_system
from calib8.cli.terminal import escaped
from calib8.cli.typed import as_typed, refuse_addresses, remember_options
from calib8.errors import Calib8Error
from calib8.parameters import on_command_line
from calib8.signals import CLOSED_PIPE, ending_word, exit_code, interruption_in

TRACEBACK_VARIABLE: Final = "CALIB8_TRACEBACK"
"""Set to 1 this environment variable lets unexpected errors through with their traceback."""

Kept = Callable[[Mapping[str, Any]], Path | None]
"""From the arguments of a function to the file or folder with which a run that was stopped goes on."""


def add_command(
    app: typer.Typer, name: str, function: Callable[..., None], group: str = "", kept: Kept | None = None
) -> None:
    """Makes a function a command.

    Args:
        app: that gets it.
        name: of the command.
        function: see ``as_command``.
        group: of commands that ``app`` is, such as ``table``; empty: it is the program.
        kept: where the function saves what it has on the way.
    """
    example = example_of(f"{group} {name}".strip())
    app.command(name, cls=HelpfulCommand, epilog=example)(as_command(function, kept))


def as_command(function: Callable[..., None], kept: Kept | None = None) -> Callable[..., None]:
    """A function that Typer can make a command of.

    Args:
        function: its parameters are Typer's (``Annotated`` with an Argument or Option) or frozen
            dataclasses whose fields are; the fields become options in place of the parameter.
        kept: where it saves what it has on the way.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation) and isinstance(parameter.annotation, type):
            groups[parameter.name] = parameter.annotation
            parameters.extend(_options_of(parameter.annotation))
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    def command(**values: Any) -> None:  # Typer passes what it parsed by name
        remember_options(values)
        with_groups = dict(values)
        for name, group in groups.items():
            with_groups[name] = group(**{field.name: with_groups.pop(field.name) for field in fields(group)})
        _run_reporting_errors(function, with_groups, kept)

    command.__name__ = function.__name__
    command.__doc__ = function.__doc__
    command.__annotations__ = {}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _options_of(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )
        for field in fields(group)
    ]


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _run_reporting_errors(
    function: Callable[..., None], arguments: dict[str, Any], kept: Kept | None
) -> None:
    try:
        refuse_addresses(arguments)
        function(**arguments)
        sys.stdout.flush()  # what cannot be written is told, not found out when Python ends
    except Calib8Error as error:
        raise _told(error) from None
    except KeyboardInterrupt as error:
        raise _interrupted(error, arguments, kept) from None
    except (typer.Exit, typer.Abort):
        raise
    except BrokenPipeError:  # who read the output has left, as ``head`` does
        let_go_of_output()
        raise typer.Exit(CLOSED_PIPE) from None
    except Exception as error:
        interruption = interruption_in(error)
        if interruption is not None:
            raise _interrupted(interruption, arguments, kept) from None
        refused = refused_by_system(error)
        if refused is not None:
            let_go_of_output()
            raise _told(refused) from None
        if os.environ.get(TRACEBACK_VARIABLE) == "1":
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        print_error(
            f"unexpected {what}. Please report this as a bug; {TRACEBACK_VARIABLE}=1 shows where it happened."
        )
        raise typer.Exit(1) from None


def _told(error: Calib8Error) -> typer.Exit:
    """The end after an error: one line."""
    print_error(on_command_line(as_typed(error).text))
    return typer.Exit(error.exit_code)


def _interrupted(error: KeyboardInterrupt, arguments: Mapping[str, Any], kept: Kept | None) -> typer.Exit:
    """The end after Ctrl-C or a signal, with a word about what is left behind and an exit code of its own.

    Where Ctrl-C came while generated code ran, as when a dataclass is made, ``python -m calib8`` would end by
    the signal: CPython remembers such an interruption until other generated code has run.
    """
    exec("")
    place = None if kept is None else kept(arguments)
    print_interrupted(error, place if place is not None and place.exists() else None)
    return typer.Exit(exit_code(error))


def print_interrupted(error: KeyboardInterrupt, place: Path | None = None) -> None:
    """A line on standard error.

    Args:
        error: what interrupted.
        place: what is there of the run that was stopped; None where nothing is.
    """
    goes_on = "" if place is None else f"; the same command goes on with what is in {escaped(str(place))}"
    with suppress(OSError):  # a terminal that is closed
        typer.echo(f"{ending_word(error)}: no file is left half-written{goes_on}", file=sys.stderr)


def print_error(message: str) -> None:
    """A line on standard error; signs that cannot be printed are escaped."""
    typer.secho("error:", fg=typer.colors.RED, bold=True, nl=False, err=True)
    typer.echo(f" {escaped(message)}", file=sys.stderr)
