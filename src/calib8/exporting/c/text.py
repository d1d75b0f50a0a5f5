"""C99 as text: names, comments, arrays, structures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

LINE: Final = 110
"""Signs of a line, at most."""

LABEL: Final = 28
"""Signs that a name of the model gives to a name in C, at most."""

SAID: Final = 90
"""Signs of a name of the model in a comment, at most."""

KEYWORDS: Final = frozenset({
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return",
    "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void",
    "volatile", "while", "asm", "bool", "catch", "class", "delete", "explicit", "export", "false",
    "friend", "mutable", "namespace", "new", "operator", "private", "protected", "public", "template",
    "this", "throw", "true", "try", "typename", "using", "virtual", "main",
})  # fmt: skip
"""Of C and C++, and the name that every program has."""

Value: TypeAlias = "int | float | str | list[int] | Mapping[str, Value]"
"""Of a field: a whole number, a float32 number, a name, a list of numbers, a structure."""

TYPES: Final[Mapping[str, str]] = {
    "int8": "int8_t", "uint8": "uint8_t", "int32": "int32_t", "int64": "int64_t", "float32": "float",
}  # fmt: skip
"""NumPy's name → C's."""


def identifier(name: str, otherwise: str) -> str:
    """What of a name may stand in C: letters, digits and underscores, in small letters.

    Args:
        name: any text; of ``a/b;c/d`` the part behind the last slash before the first semicolon counts.
        otherwise: what stands for a name of which nothing is left.
    """
    part = name.split(";")[0].rstrip("/").rsplit("/", 1)[-1]
    words = re.sub(r"[^0-9a-z]+", "_", part.lower()).strip("_")
    return words[:LABEL].rstrip("_") or otherwise


def prefix(stem: str) -> str:
    """The name with which all public names of a file begin: none that C has, none with a digit first."""
    name = re.sub(r"[^0-9A-Za-z_]+", "_", stem).strip("_")
    if not name or name[0].isdigit() or name in KEYWORDS:
        name = f"net_{name}".rstrip("_")
    return name


def unlike(name: str, taken: Iterable[str]) -> str:
    """The name, with a number behind it where it is taken."""
    known, found, number = set(taken), name, 2
    while found in known:
        found, number = f"{name}_{number}", number + 1
    return found


def said(name: str) -> str:
    """A name of the model for a comment: nothing in it ends that, goes on in the next line or is no ASCII.

    Of names that a converter has joined by semicolons it is the first.
    """
    first = name.split(";")[0] or name
    plain = "".join(sign if " " <= sign <= "~" and sign not in "\\?" else "." for sign in first)
    plain = plain.replace("*/", "*.").replace("/*", ".*")
    return plain if len(plain) <= SAID else f"{plain[: SAID - 3]}..."


def number(value: int | float) -> str:
    """A whole number, or a float32 number to the last bit."""
    if isinstance(value, float):
        return f"{value.hex()}f"
    if value == -(1 << 31):
        return "INT32_MIN"
    return str(value) if abs(value) < 1 << 31 else f"INT64_C({value})"


def array(name: str, values: npt.NDArray[Any]) -> str:
    """``static const TYPE name[n] = {…};`` of the elements in the order of memory."""
    flat = values.reshape(-1)
    texts = [number(one) for one in flat.tolist()] if flat.dtype != np.int8 else list(map(str, flat.tolist()))
    head = f"static const {TYPES[flat.dtype.name]} {name}[{flat.size}] = {{\n"
    return f"{head}{_filled(texts)}\n}};\n"


def _filled(texts: Sequence[str]) -> str:
    """Lines of numbers, as many in each as fit."""
    lines: list[str] = []
    line: list[str] = []
    length = 0
    for text in texts:
        if line and length + len(text) + 2 > LINE - 2:
            lines.append(f"  {', '.join(line)},")
            line, length = [], 0
        line.append(text)
        length += len(text) + 2
    lines.append(f"  {', '.join(line)}")
    return "\n".join(lines)


def structure(kind: str, name: str, fields: Mapping[str, Value]) -> str:
    """``static const struct kind name = {.field = value, …};``"""
    parts = [f".{field} = {_value(value)}" for field, value in fields.items()]
    lines, line = [], ""
    for part in parts:
        longer = f"{line} {part}," if line else f"  {part},"
        if line and len(longer) > LINE:
            lines.append(line)
            longer = f"  {part},"
        line = longer
    return "\n".join([f"static const struct {kind} {name} = {{", *lines, line, "};", ""])


def _value(value: Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'.{field} = {_value(part)}' for field, part in value.items())}}}"
    if isinstance(value, list):
        return f"{{{', '.join(number(one) for one in value)}}}"
    return number(value)


def structure_bytes(fields: Mapping[str, Value]) -> int:
    """What a structure takes where pointers have 32 bits."""
    total = 0
    for value in fields.values():
        if isinstance(value, Mapping):
            total += structure_bytes(value)
        elif isinstance(value, list):
            total += 4 * len(value)
        else:
            total += 8 if isinstance(value, int) and abs(value) >= 1 << 31 else 4
    return total
