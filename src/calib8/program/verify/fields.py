"""Does every field hold what its annotation says? Asked of all dataclasses of a program, rules included.

int          a Python int of 64 bits, no bool          tuple[X, ...]   a tuple of X
float        finite                                    NDArray[X]      an array of exactly that type
Literal      one of the words                          a dataclass     an instance, its fields likewise
"""

from __future__ import annotations

import math
import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from calib8.type_texts import a_type

INT64_MAX: Final = (1 << 63) - 1


def misfit(value: object, hint: Any, path: str = "") -> str | None:
    """What keeps ``value`` from being a ``hint``, with the path of the field; None if it is one.

    Args:
        value: anything.
        hint: a resolved annotation made of the kinds listed above and their unions.
        path: what to call the value, empty at the top.
    """
    if get_origin(hint) in (Union, types.UnionType):
        return _union_misfit(value, get_args(hint), path)
    if get_origin(hint) is Literal:
        known = type(value) is str and value in get_args(hint)
        return None if known else f"{path} is {value!r:.60}, not one of {', '.join(get_args(hint))}"
    if get_origin(hint) is tuple:
        return _tuple_misfit(value, get_args(hint), path)
    if get_origin(hint) is np.ndarray:
        return _array_misfit(value, np.dtype(get_args(get_args(hint)[1])[0]), path)
    if is_dataclass(hint):
        return _dataclass_misfit(value, hint, path)
    return _plain_misfit(value, hint, path)


def _union_misfit(value: object, options: tuple[Any, ...], path: str) -> str | None:
    problems = [misfit(value, option, path) for option in options]
    if None in problems:
        return None
    for option, problem in zip(options, problems, strict=True):
        if isinstance(option, type) and isinstance(value, option):
            return problem  # right class, wrong content: that is what the reader wants to know
    return f"{path} is {_described(value)}, not {' or '.join(_name(option) for option in options)}"


def _tuple_misfit(value: object, kinds: tuple[Any, ...], path: str) -> str | None:
    if not isinstance(value, tuple):
        return f"{path} is {_described(value)}, not a tuple"
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(value) != len(kinds):
        return f"{path} has {len(value)} elements, not {len(kinds)}"
    problems = (
        misfit(item, kind, f"{path}[{i}]") for i, (item, kind) in enumerate(zip(value, kinds, strict=True))
    )
    return next((problem for problem in problems if problem is not None), None)


def _array_misfit(value: object, dtype: np.dtype[Any], path: str) -> str | None:
    if not isinstance(value, np.ndarray):
        return f"{path} is {_described(value)}, not a {dtype} array"
    return None if value.dtype == dtype else f"{path} is a {value.dtype} array, not {dtype}"


def _dataclass_misfit(value: object, kind: Any, path: str) -> str | None:
    if not isinstance(value, kind):
        return f"{path} is {_described(value)}, not {_name(kind)}"
    own: Any = type(value)
    for name, own_hint in _field_hints(own).items():
        problem = misfit(getattr(value, name), own_hint, f"{path}.{name}" if path else name)
        if problem is not None:
            return problem
    return None


def _plain_misfit(value: object, kind: type, path: str) -> str | None:
    right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not right:
        return f"{path} is {_described(value)}, not {_name(kind)}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{path} is {value}, not a finite number"
    if isinstance(value, int) and abs(value) > INT64_MAX:
        return f"{path} does not fit 64 bits"
    return None


@cache
def _field_hints(kind: Any) -> dict[str, Any]:
    """Field → resolved annotation, inherited fields first; class constants are no fields."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _described(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"a {value.dtype} array"
    if value is None or isinstance(value, bool | int | float | str):
        return f"{value!r:.60}"
    return f"{a_type(value)}"


def _name(option: Any) -> str:
    if get_origin(option) is np.ndarray:
        return f"a {np.dtype(get_args(get_args(option)[1])[0])} array"
    return "None" if option is type(None) else str(getattr(option, "__name__", option))
