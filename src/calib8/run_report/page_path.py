"""Where a report is written to: looked at before the work starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from calib8.errors import UsageError
from calib8.files import checked_path, output_file

SUFFIXES: Final = (".html", ".htm")
"""Of pages."""


def check_page(path: str | os.PathLike[str], option: str = "") -> Path:
    """A path that a page can be written to.

    Args:
        path: of it.
        option: that gives it, for the message.

    Raises:
        UsageError: it is no path, or has another suffix.
        OutputError: it is a folder or another thing that is no file.
    """
    file = checked_path(path, "path")
    output_file(file)
    if file.suffix.lower() not in SUFFIXES:
        name = file.with_suffix(".html").name if file.name else "run.html"
        problem = "is not the name of a page"
        raise UsageError(f"{option} {file}".strip(), problem, f"Give a name such as {name}")
    return file
