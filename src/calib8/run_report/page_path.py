"""Where a report is written to: looked at before the work starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from calib8.errors import UsageError
from calib8.files import check_place, checked_path

SUFFIXES: Final = (".html", ".htm")
"""Of pages."""


def check_page(path: str | os.PathLike[str], option: str = "") -> Path:
    """A path that a page can be written to.

    Args:
        path: of it.
        option: that gives it, for the message.

    Raises:
        UsageError: it is no path, or has another suffix.
        PlaceError: it is a folder or another thing that is no file, or its folder cannot be written to.
    """
    file = checked_path(path, "path")
    subject = f"{option} {file}".strip()
    if file.name and not os.path.isdir(file):  # noqa: PTH112 - a name that no file can have is no folder
        _check_suffix(file, subject)
    check_place(subject, file)
    return file


def _check_suffix(file: Path, subject: str) -> None:
    if file.suffix.lower() not in SUFFIXES:
        problem = "is not the name of a page"
        raise UsageError(subject, problem, f"Give a name such as {file.with_suffix('.html').name}")
