"""What saved programs begin with: enough to tell one, without the classes that it is read into."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

MAGIC: Final = b"\x89c8p\r\n\x1a\n"
"""Begins no text, and does not survive being copied as text."""


def is_program_file(path: str | os.PathLike[str]) -> bool:
    """The file begins like a saved program; False also for what cannot be read, and for a pipe."""
    if not os.path.isfile(path):  # noqa: PTH113 - pathlib refuses paths with a zero byte
        return False
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
