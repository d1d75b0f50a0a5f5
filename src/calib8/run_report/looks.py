"""How pages look, for all pages that show reports: one style sheet for light and dark, phone and wide screen."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "page_files"
"""Frame, style and script of a report."""


def style() -> str:
    """The style sheet."""
    return (FOLDER / "page.css").read_text(encoding="utf-8")
