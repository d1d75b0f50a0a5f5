"""What a function of the user's does, as a digest: the same in every process of one Python.

    function    its code, defaults and what it holds of the calls around it
    partial     the function and its arguments
    object      its class, what its methods do, and what it holds
    built in    module and name

What a function calls by name counts as that name.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any


def function_digest(function: Callable[..., Any]) -> str:
    """Digest of a function, 64 hexadecimal digits; another one may do something else."""
    return hashlib.sha256(repr(_told(function, ())).encode()).hexdigest()


def _told(value: Any, inside: tuple[int, ...]) -> object:
    """A value in a form whose text tells it; ``inside``: of which values it is a part, by ``id``."""
    if id(value) in inside:
        return "itself"
    told = partial(_told, inside=(*inside, id(value)))
    if isinstance(value, FunctionType):
        cells = [_content(cell) for cell in value.__closure__ or ()]
        defaults = (value.__defaults__, value.__kwdefaults__)
        return value.__qualname__, _code(value.__code__), told(cells), told(defaults)
    if isinstance(value, MethodType):
        return told(value.__self__), told(value.__func__)
    if isinstance(value, partial):
        return told(value.func), told(value.args), told(value.keywords)
    if isinstance(value, list | tuple):
        return [told(each) for each in value]
    if isinstance(value, dict):
        return [(told(name), told(each)) for name, each in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(repr(told(each)) for each in value)
    if hasattr(value, "__qualname__"):
        return getattr(value, "__module__", ""), value.__qualname__
    return _object(value, told)


def _object(value: Any, told: Callable[[Any], object]) -> object:
    """An object by its class, with what its methods do, and by what pickle makes of it, or its attributes."""
    kind = type(value)
    methods = [told(each) for each in vars(kind).values() if isinstance(each, FunctionType)]
    try:
        held: object = pickle.dumps(value)
    except Exception:  # it has rules of its own
        held = told(getattr(value, "__dict__", {}))
    return kind.__module__, kind.__qualname__, methods, held


def _code(code: CodeType) -> object:
    """What code does, wherever it is written down."""
    constants = [_code(each) if isinstance(each, CodeType) else _told(each, ()) for each in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def _content(cell: Any) -> object:
    """What a function holds of the call around it; nothing yet where that call has not come so far."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
