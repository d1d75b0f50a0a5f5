"""What was typed, letter by letter: a ``Path`` of it has lost slashes, and messages show what the user knows.

https://host//net.onnx   →   Path('https:/host/net.onnx')
./net.onnx               →   Path('net.onnx')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from calib8.errors import Calib8Error, UsageError
from calib8.files import check_address
from calib8.parameters import Text

_TYPED: Final[dict[str, str]] = {}
"""Text of a path → what was typed, where that is another text; of the last command of this process."""


_OPTIONS: Final[dict[str, Any]] = {}
"""Arguments and options of the last command of this process: parameter → value."""


def remember_options(values: Mapping[str, Any]) -> None:
    """Keeps the arguments and options of a command as they were parsed."""
    _OPTIONS.clear()
    _OPTIONS.update(values)


def options_of_the_command() -> Mapping[str, Any]:
    """Arguments and options of the command that runs: parameter → value."""
    return _OPTIONS


def remember(words: Sequence[str]) -> None:
    """Keeps the words of a command, before anything is made of them."""
    values = [part for word in words for part in (word, word.partition("=")[2]) if part]
    _TYPED.clear()
    _TYPED.update((text, part) for part in values if (text := str(Path(part))) != part)


def refuse_addresses(arguments: Mapping[str, Any]) -> None:
    """Refuses what is no file of this machine, before anything is made of it.

    Args:
        arguments: of a command: values, lists of values, dataclasses of them. Data are no ``Path``: they may
            lie anywhere.

    Raises:
        UsageError: a path among them is an address such as ``https://…``.
    """
    for path in _paths(arguments.values()):
        check_address(path, UsageError)


def as_typed(error: Calib8Error) -> Calib8Error:
    """The error with its subject as the user typed it."""
    for text, typed in _TYPED.items():
        subject = error.subject.both
        if subject == text or subject.endswith(f" {text}"):
            named = Text(subject.removesuffix(text) + typed)
            return type(error)(named, error.problem, error.cure)
    return error


def _paths(values: Any) -> Iterator[Path]:
    for value in values:
        if isinstance(value, Path):
            yield value
        elif isinstance(value, list | tuple):
            yield from _paths(value)
        elif is_dataclass(value):
            yield from _paths(getattr(value, field.name) for field in fields(value))
