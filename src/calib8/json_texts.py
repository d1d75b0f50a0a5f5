"""JSON of files that nobody should trust, read with one error for all that can be wrong with it."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes | bytearray) -> Any:
    """What a JSON text says.

    Raises:
        ValueError: it is none, is nested too deeply, or holds an integer of thousands of digits.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
