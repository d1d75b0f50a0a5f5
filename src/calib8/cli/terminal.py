"""Where people read: results on standard output, progress and errors on standard error.

Text is never taken for markup, so that a file called ``[bold].onnx`` is shown as it is called. Signs that
cannot be printed, which names from files may hold, are shown in escaped form: a terminal would obey them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from calib8.parameters import escaped as escaped

_PIPE_WIDTH: Final = 100_000
"""Columns of a pipe: no line is broken and no name is cut there."""


@dataclass(frozen=True)
class Terminal:
    """The two streams of a command, and whether it keeps quiet about success."""

    out: Console
    err: Console
    quiet: bool

    def say(self, text: str, style: str | None = None) -> None:
        """A line of text."""
        if not self.quiet:
            self.out.print(text, style=style, soft_wrap=True)

    def say_lines(self, text: str | Callable[[], str]) -> None:
        """A line of text for each of its own; a function that gives it is called where it is told."""
        if not self.quiet:
            for line in (text if isinstance(text, str) else text()).split("\n"):
                self.say(line)

    def show(self, table: Table) -> None:
        """A table with an empty line before and behind it."""
        if not self.quiet:
            self.out.print()
            self.out.print(table)
            self.out.print()

    @property
    def animated(self) -> bool:
        """Progress may be drawn: somebody watches, and wants to."""
        return not self.quiet and self.err.file.isatty()


class _PlainConsole(Console):
    """A console that escapes all text which it makes lines and cells of."""

    def render_str(self, text: str, **how: Any) -> Text:
        """As that of ``Console``."""
        return super().render_str(escaped(text), **how)

    def on_broken_pipe(self) -> None:
        """Who reads has left: not for Rich to end the process, with an exit code of its own."""
        raise BrokenPipeError


def open_terminal(quiet: bool) -> Terminal:
    """The streams of this process as they are now."""
    return Terminal(_console(sys.stdout), _console(sys.stderr), quiet)


def _console(stream: TextIO) -> Console:
    watched = stream.isatty()
    return _PlainConsole(
        file=stream,
        width=None if watched else _PIPE_WIDTH,
        force_terminal=watched,
        markup=False,
        emoji=False,
        highlight=False,
    )
