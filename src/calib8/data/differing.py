"""In which settings two preprocessings differ, for messages."""

from __future__ import annotations

import json
from typing import Any


def preprocess_difference(left: str | None, right: str | None) -> str:
    """The settings in which ``left`` differs from ``right``, for messages: ``filter nearest, not bilinear``.

    Args:
        left, right: what ``Preprocess.to_json`` gave, or None where arrays went in as they were.
    """
    if left is None or right is None:
        return "arrays, not images" if left is None else "images, not arrays"
    try:
        here, there = json.loads(left), json.loads(right)
        names = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    except (ValueError, TypeError, AttributeError):
        return f"{left}, not {right}"
    return "; ".join(f"{name} {_setting(here, name)}, not {_setting(there, name)}" for name in names)


def _setting(settings: dict[str, Any], name: str) -> str:
    value = settings.get(name)
    if isinstance(value, list):
        return ",".join(str(number).removesuffix(".0") for number in value)
    return "none" if value is None else str(value).removesuffix(".0")
