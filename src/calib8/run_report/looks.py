"""How pages of reports look: one style sheet for light and dark, a phone and a wide screen."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "page_files"
"""Frame, style and script of a report."""


def style() -> str:
    """The style sheet."""
    return (FOLDER / "page.css").read_text(encoding="utf-8")
