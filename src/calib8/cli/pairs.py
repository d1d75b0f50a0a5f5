"""Options that are pairs: ``KEY=VALUE``."""

from __future__ import annotations

from collections.abc import Iterable

from calib8.errors import UsageError


def pairs_of(option: str, given: Iterable[str], form: str, cure: str) -> dict[str, str]:
    """Keys and values.

    Args:
        option: that they were given with, subject of messages.
        given: one pair each; spaces around keys and values count for nothing.
        form: of a pair, such as ``KEY=VALUE``.
        cure: for what is no pair, or comes twice.

    Raises:
        UsageError: one has no key or no value, or a key comes twice.
    """
    found = dict[str, str]()
    for one in given:
        key, _, value = (word.strip() for word in one.rpartition("="))
        if not key or not value or key in found:
            what = f"'{one.strip()}' comes again" if key and value else f"'{one.strip()}' is no {form}"
            raise UsageError(option, what, cure)
        found[key] = value
    return found
