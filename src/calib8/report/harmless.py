"""Names and numbers as parts of a page that they cannot break out of."""

from __future__ import annotations

import json
from typing import Any


def harmless_json(document: Any) -> str:
    """JSON that no name can break out of: ASCII only, without the signs that mean something to HTML."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def printable(text: str) -> str:
    """The text without what UTF-8 cannot hold and HTML does not allow: such signs become \\x…"""
    ascii_only = (sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
    return "".join(ascii_only)
