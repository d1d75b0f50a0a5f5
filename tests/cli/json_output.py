"""What the command line wrote with ``--json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def load(path: Path) -> dict[str, Any]:
    """The document."""
    document: dict[str, Any] = json.loads(path.read_text())
    return document
