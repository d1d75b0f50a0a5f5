"""Types of Python values as people read them: ``an int``, ``a list``, ``an ndarray``."""

from __future__ import annotations


def a_type(value: object) -> str:
    """The name of the type of a value, with its article."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' or name.startswith('nd') else 'a'} {name}"
