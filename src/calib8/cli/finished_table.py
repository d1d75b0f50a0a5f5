"""``quantize --table``: one that is read in place of data, or written beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from calib8.cli.outputs import TABLE, check_kind
from calib8.errors import UsageError


@dataclass(frozen=True)
class OldTable:
    """A table that is there already."""

    path: Path
    format: str | None
    partial: bool


def check_new_table(path: Path | None, source: str) -> None:
    """Refuses to write over a table: without ``source`` the same option would have read it."""
    check_kind("--table", path, TABLE)
    if path is not None and path.exists():
        problem = f"exists already, and beside {source} a table is written, not read"
        raise UsageError(f"--table {path}", problem, f"Leave out {source} to read it, or choose another path")


def in_place_of_data(table: Path | None, statistics: Path | None) -> str:
    """The option that was given for ranges without data."""
    return "--from-stats" if statistics is not None else "--table" if table is not None else ""


def old_table_of(path: Path | None, form: str | None, partial: bool) -> OldTable | None:
    """The table that is read, if one was named.

    Raises:
        UsageError: none was, and an option says how to read it.
    """
    if path is not None:
        return OldTable(path, form, partial)
    for option, value in {"--table-format": form, "--partial": partial or None}.items():
        if value is not None:
            problem = "says how to read a finished table, and none is given"
            raise UsageError(option, problem, "Leave it out, or give --table without --data")
    return None
