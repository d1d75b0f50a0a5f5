"""Options that are pairs: ``KEY=VALUE``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from calib8.errors import UsageError

_WORDS: Final = {"true": True, "false": False}


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


def fixed_values(given: Iterable[str] | None) -> dict[str, object] | None:
    """Values of inputs: a number, ``true`` or ``false``, or several of them with commas; None for none.

    Raises:
        UsageError: one is none of these, or an input comes twice.
    """
    form, cure = "INPUT=VALUE", "Write it like --fix sr=16000, each input once"
    pairs = pairs_of("--fix", given or (), form, cure)
    return {name: _value(text, cure) for name, text in pairs.items()} or None


def _value(text: str, cure: str) -> object:
    """``16000``, ``0.5``, ``true`` or ``1,2``."""
    found = [_number(word.strip(), cure) for word in text.split(",")]
    return found if "," in text else found[0]


def _number(word: str, cure: str) -> bool | int | float:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    raise UsageError("--fix", f"'{word}' is no number", cure)


def declared_states(given: Iterable[str] | None) -> dict[str, str] | None:
    """Input → output that feeds it in the next frame; empty for ``none``, None where nothing is given.

    Raises:
        UsageError: one is no pair, or an input comes twice.
    """
    listed = list(given or ())
    if listed == ["none"]:
        return {}
    cure = "Write it like --state h=hn, each input once, or --state none"
    return pairs_of("--state", listed, "INPUT=OUTPUT", cure) or None
