"""Types of what is given from Python: one check for the fields of requests and the parameters of functions.

The annotation says what is wanted. What it takes in another form becomes that form:

    annotation                     taken                                  becomes
    int, float, bool               those of Python and NumPy              that of Python
    str                            str
    str | os.PathLike[str]         paths
    Sequence[str], Sequence[int]   what yields them; a text alone is one  a list or tuple stays, else a tuple
    tuple[int, int]                so many in a row                       a tuple
    tuple[int, ...]                any number of them                     a tuple
    Mapping[str, …]                mappings of names
    Callable[…]                    functions

A Request stands for any request. A parameter that takes anything else too is left to who takes it.
"""

from __future__ import annotations

import collections.abc
import inspect
import operator
import os
import sys
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache, wraps
from numbers import Integral, Real
from typing import Any, Final, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from calib8.errors import UsageError
from calib8.parameters import entry, parameter

Function = TypeVar("Function", bound=Callable[..., Any])

_UNKNOWN: Final = object()
"""A type that is not checked here."""

_WORDS: Final[Mapping[object, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a text",
    os.PathLike: "a path",
    collections.abc.Sequence: "a list",
    tuple: "a tuple",
    collections.abc.Mapping: "a mapping",
    collections.abc.Callable: "a function",
}
"""What can be wanted, as errors call it."""

_NUMBERS: Final[Mapping[object, type]] = {int: Integral, float: Real}
"""Numbers of Python and NumPy alike."""

_EXAMPLES: Final[Mapping[object, object]] = {
    int: 1,
    bool: True,
    collections.abc.Sequence: ["NAME"],
    collections.abc.Mapping: {"NAME": "…"},
}
"""Values that are right, where one is for any parameter."""

_SHORT: Final = 40
"""Longest value that an error shows."""


class Request:
    """What belongs together of a call; a frozen dataclass that checks its fields when it is made."""

    def __post_init__(self) -> None:
        """Checks the types of the fields, and takes them in the form that their annotations name.

        Raises:
            UsageError: one is of another type.
        """
        fit_fields(self)


def fit_fields(made: object) -> None:
    """Checks the types of a frozen dataclass's fields, and takes them in the form that these name.

    Raises:
        UsageError: one is of another type.
    """
    names = vars(sys.modules[type(made).__module__])
    for one in fields(cast(Any, made)):
        object.__setattr__(made, one.name, fitted(one.name, getattr(made, one.name), one.type, names))


class _NoFitError(Exception):
    """A value is not what is wanted."""


def fitted(name: str, value: object, annotation: object, names: Mapping[str, Any]) -> Any:
    """A value in the form that its annotation names, see the top of the file.

    Args:
        name: of the parameter or field.
        value: that was given.
        annotation: what it is to be, mostly a text.
        names: what the text speaks of: the names of the module that it stands in.

    Raises:
        UsageError: it is of another type.
    """
    wanted = _wanted(annotation, names)
    try:
        taken = _fit(value, wanted, names)
    except _NoFitError:
        raise UsageError(parameter(name), *_why(value, wanted, names, name)) from None
    if isinstance(taken, Mapping):
        _check_entries(name, taken, wanted, names)
    return taken


Typed: TypeAlias = "tuple[object, Mapping[str, Any]]"
"""An annotation, and the names of the module that it stands in."""


def flag(name: str, value: object) -> bool:
    """True or False, of Python or NumPy.

    Raises:
        UsageError: it is neither.
    """
    return bool(fitted(name, value, bool, {}))


def checks_types(function: Function) -> Function:
    """Lets a public function refuse values of other types than its annotations name, in plain words."""
    own, typed = inspect.signature(function), types_of(function)

    @wraps(function)
    def checked(*values: Any, **keywords: Any) -> Any:
        bound = own.bind(*values, **keywords)
        fit_arguments(bound, typed)
        return function(*bound.args, **bound.kwargs)

    return cast(Function, checked)


def types_of(function: Callable[..., Any]) -> dict[str, Typed]:
    """The annotations of a function's parameters, but of ``**words``."""
    names = cast(Any, function).__globals__
    given = inspect.signature(function).parameters.values()
    return {one.name: (one.annotation, names) for one in given if one.kind is not one.VAR_KEYWORD}


def fit_arguments(bound: inspect.BoundArguments, typed: Mapping[str, Typed]) -> None:
    """Checks the arguments of a call, and puts those in their place that become something else.

    Raises:
        UsageError: one is of another type than its annotation says.
    """
    for name, value in bound.arguments.items():
        if name in typed:
            bound.arguments[name] = fitted(name, value, *typed[name])


def _wanted(annotation: object, names: Mapping[str, Any]) -> list[Any]:
    """The types that an annotation joins by ``|``; ``_UNKNOWN`` for each that is not checked here."""
    if isinstance(annotation, str):
        return [kind for part in _parts(annotation) for kind in _read(part, names)]
    if get_origin(annotation) in (Union, types.UnionType):
        return [kind for part in get_args(annotation) for kind in _wanted(part, names)]
    if annotation is None or annotation is type(None):
        return [type(None)]
    kind = get_origin(annotation) or annotation
    if kind is collections.abc.Sequence and _UNKNOWN in _wanted(get_args(annotation)[0], names):
        return [_UNKNOWN]
    return [annotation if kind in _WORDS or _is_request(kind) else _UNKNOWN]


def _read(part: str, names: Mapping[str, Any]) -> list[Any]:
    """The types that a part of an annotation names."""
    try:
        found = eval(part, {}, ChainMap(cast(Any, names), vars(collections.abc), vars(typing)))
    except (NameError, TypeError):  # known to tools that read types alone
        return [_UNKNOWN]
    return _wanted(found, names)


@cache
def _parts(annotation: str) -> tuple[str, ...]:
    """``int | Mapping[str, int | str]`` → ``int``, ``Mapping[str, int | str]``."""
    parts, depth = [""], 0
    for sign in annotation:
        depth += (sign == "[") - (sign == "]")
        if sign == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return tuple(part.strip() for part in parts)


def _is_request(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Request)


def _fit(value: object, wanted: Sequence[Any], names: Mapping[str, Any]) -> object:
    """The value as the first of the types that takes it."""
    for one in wanted:
        try:
            return value if one is _UNKNOWN else _as(one, value, names)
        except _NoFitError:
            continue
    raise _NoFitError


def _as(wanted: Any, value: object, names: Mapping[str, Any]) -> object:
    """The value as one of the types."""
    kind = get_origin(wanted) or wanted
    if _is_request(kind):  # of another kind: ``requested`` says so
        return _only(value, isinstance(value, Request))
    if kind in _NUMBERS:
        number = _only(value, isinstance(value, _NUMBERS[kind]) and not _is_flag(value))
        return value if type(value) in (int, float) else kind(number)
    if kind is bool:
        return bool(_only(value, _is_flag(value)))
    if kind is collections.abc.Callable:
        return _only(value, callable(value))
    if kind is collections.abc.Mapping:
        return _only(value, isinstance(value, Mapping) and all(isinstance(key, str) for key in value))
    if kind in (tuple, collections.abc.Sequence):
        return _row(wanted, value, names)
    return _only(value, isinstance(value, kind))


def _only(value: Any, fits: bool) -> Any:
    if not fits:
        raise _NoFitError
    return value


def _is_flag(value: object) -> bool:
    """Whether it is True or False, of Python or of NumPy, which is not loaded for it."""
    kind = type(value)
    return kind is bool or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"))


def _row(wanted: Any, value: Any, names: Mapping[str, Any]) -> object:
    """A row of values of one type; a text alone is a row of itself."""
    kinds = get_args(wanted)
    of = _wanted(kinds[0], names)
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, Iterable) or isinstance(given, Mapping | bytes):
        raise _NoFitError
    try:
        row = tuple(_fit(one, of, names) for one in given)
    except TypeError:  # an array without an axis
        raise _NoFitError from None
    if get_origin(wanted) is tuple:
        return _only(row, kinds[1:] == (...,) or len(row) == len(kinds))
    same = isinstance(value, list | tuple) and all(map(operator.is_, row, value))
    return value if same else row


def _check_entries(name: str, given: Mapping[str, object], wanted: Sequence[Any], names: Any) -> None:
    """Refuses a mapping of which a value is of another type."""
    kinds = [get_args(one)[1] for one in wanted if get_origin(one) is collections.abc.Mapping]
    of = [kind for one in kinds for kind in _wanted(one, names)]
    for key, value in given.items():
        try:
            _fit(value, of or [_UNKNOWN], names)
        except _NoFitError:
            raise UsageError(entry(name, key), *_why(value, of, names)) from None


def _wrong_inside(
    value: object, wanted: Sequence[Any], names: Mapping[str, Any]
) -> tuple[object, list[Any]] | None:
    """The first value of a list that a row may not hold, with what it may; None where there is none."""
    rows = [one for one in wanted if get_origin(one) in (tuple, collections.abc.Sequence)]
    if not rows or not isinstance(value, list | tuple):
        return None
    of = [kind for one in rows for kind in _wanted(get_args(one)[0], names)]
    for one in value:
        try:
            _fit(one, of, names)
        except _NoFitError:
            return one, of
    return None


def _why(value: object, wanted: Sequence[Any], names: Mapping[str, Any], name: str = "") -> tuple[str, str]:
    """What is wrong with a value, and a line that is right where one is known."""
    if (inside := _wrong_inside(value, wanted, names)) is not None:
        problem, cure = _why(*inside, names)
        return f"holds a value that {problem}", f"{cure} in its place"
    kinds = [get_origin(one) or one for one in wanted if one is not type(None)]
    if os.PathLike in kinds:
        kinds.remove(str)
    words = " or ".join(dict.fromkeys(_WORDS.get(kind, f"a {kind.__name__}") for kind in kinds))
    shown = f" ({value!r})" if isinstance(value, str | int | float) and len(repr(value)) < _SHORT else ""
    problem = f"is of type {type(value).__name__}{shown}, not {words}"
    right = next((_EXAMPLES[kind] for kind in kinds if kind in _EXAMPLES), None)
    if isinstance(value, str) and any(kind in _NUMBERS for kind in kinds):
        with suppress(ValueError):
            right = int(value) if int in kinds else float(value)
    if not name or right is None:
        return problem, f"Give {words}"
    return problem, f"Give {words}, such as {parameter(name, right)}"
