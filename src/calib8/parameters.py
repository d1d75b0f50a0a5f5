"""Texts that name parameters, written once for both worlds: ``threads=0`` in Python, ``--threads 0`` typed.

    f"Give {parameter('data')} or {parameter('statistics')}"
        in Python            Give data or statistics
        on the command line  Give --data or --from-stats

Such a text holds both wordings, between signs that no text has. Errors read it by themselves; a note or an
advice is made a ``Text``: a string in the words of Python, which the command line reads in its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final

FLAGS: Final[Mapping[str, str]] = {
    "branches": "--branch",
    "form": "--format",
    "ranges": "--range",
    "runtimes": "--runtime",
    "shapes": "--shape",
    "spots": "--spot",
    "statistics": "--from-stats",
}
"""Parameters whose flag is not their name with hyphens: mostly one that takes many is typed many times."""

OTHER_NAMES: Final[Mapping[str, str]] = {
    "absmax": "minmax",
    "bench": "benchmark",
    "eval": "evaluate",
    "imagenet": "torchvision",
    "kl": "entropy",
    "kld": "entropy",
    "max": "minmax",
    "min-max": "minmax",
    "moving-average": "ema",
    "ort": "onnxruntime",
    "ov": "openvino",
    "pytorch": "torchvision",
    "tfl": "tflite",
    "trt": "tensorrt",
}
"""What is called otherwise elsewhere."""

_UNSAID: Final = object()
_FIRST, _SECOND, _END = "\x0e", "\x0f", "\x10"
_EITHER: Final = re.compile(
    f"{_FIRST}([^{_FIRST}{_SECOND}{_END}]*){_SECOND}([^{_FIRST}{_SECOND}{_END}]*){_END}"
)
_SIGNS: Final = dict.fromkeys(map(ord, (_FIRST, _SECOND, _END)))


class Text(str):
    """A text in the words of Python that knows those of the command line, see ``on_command_line``.

    Attributes:
        both: the text with both wordings, to be made part of another one.
    """

    both: str
    __slots__ = ("both",)

    def __new__(cls, text: str) -> Text:
        """A text with names of parameters, or a ``Text``."""
        both = with_both(text)
        made = super().__new__(cls, _EITHER.sub(r"\1", both))
        made.both = both
        return made

    def __reduce__(self) -> tuple[type[Text], tuple[str]]:
        """Texts pass from one process to another."""
        return type(self), (self.both,)


def escaped(text: str) -> str:
    """On one line: ``\\n`` for a line break, and so on for all that cannot be printed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def with_both(text: str) -> str:
    """The text as a part of another one, which keeps its wordings."""
    return text.both if isinstance(text, Text) else text


def on_command_line(text: str) -> str:
    """The text in the words of the command line."""
    return _EITHER.sub(r"\2", with_both(text))


def either(python: str, command_line: str) -> str:
    """A piece of text that is worded in two ways."""
    return f"{_FIRST}{python.translate(_SIGNS)}{_SECOND}{command_line.translate(_SIGNS)}{_END}"


def flag_of(name: str) -> str:
    """The flag of a parameter."""
    return FLAGS.get(name) or f"--{name.replace('_', '-')}"


def parameter(name: str, value: object = _UNSAID) -> str:
    """A parameter, with its value where one is given; of a switch that is True only the flag is typed."""
    flag = flag_of(name)
    if value is _UNSAID:
        return either(name, flag)
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    return either(f"{name}={value!r}", flag if value is True else f"{flag} {_typed(value)}")


def one_of(given: object, known: Iterable[str], every: str = "Use one of") -> str:
    """A cure that lists names: ``Did you mean 'minmax'? Use one of auto, minmax …``.

    Args:
        given: what is none of them, of any type; None: nothing was.
        known: all of them.
        every: what stands before the list.
    """
    names = list(known)
    near = nearest(given, names)
    meant = "" if near is None else f"Did you mean '{near}'? "
    return f"{meant}{every} {', '.join(names)}"


def nearest(given: object, known: Iterable[str]) -> str | None:
    """The name that is meant by one that is none of them; None where none is near.

    Args:
        given: of any type.
        known: all of them.
    """
    from difflib import get_close_matches  # only for what is wrong

    plain = {name.lower().replace("_", "-"): name for name in known}
    asked = given.strip().lower().replace("_", "-") if isinstance(given, str) else ""
    near = [OTHER_NAMES[asked]] if asked in OTHER_NAMES else get_close_matches(asked, plain, 1, 0.7)
    return plain.get(near[0]) if near else None


def entry(name: str, key: str, value: str | None = None) -> str:
    """One entry of a parameter that maps names, with what its name is mapped to where that is given."""
    if value is None:
        return either(f"{name}[{key!r}]", f"{flag_of(name)} {key}")
    return entries(name, {key: value})


def entries(name: str, pairs: Mapping[str, str]) -> str:
    """Entries of such a parameter; on the command line each of them is a flag of its own."""
    typed = (f"{flag_of(name)} {_quoted(f'{key}={value}')}" for key, value in pairs.items())
    return either(f"{name}={dict(pairs)!r}", " ".join(typed))


def _quoted(text: str) -> str:
    """As a shell takes it: brackets are signs of its own."""
    return f"'{text}'" if "[" in text else text


def _typed(value: object) -> str:
    """A value as it is typed."""
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if isinstance(value, list | tuple):
        return ",".join(map(_typed, value))
    return str(value)
