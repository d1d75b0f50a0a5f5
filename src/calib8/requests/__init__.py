"""Requests: what belongs together travels as one value, and public functions take its fields as keywords too.

    calib8.quantize(model, "images", samples=100, method="mse")
    calib8.quantize(model, Reading("images", samples=100), ranges=RangeChoice("mse"))

Both ask for the same. A request is a frozen dataclass that checks its fields when it is made.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from functools import wraps
from typing import Any, TypeVar, cast

from calib8.errors import UsageError
from calib8.parameters import parameter
from calib8.requests.given_types import Request as Request
from calib8.requests.given_types import Typed, fit_arguments, types_of
from calib8.requests.given_types import checks_types as checks_types
from calib8.requests.given_types import fit_fields as fit_fields
from calib8.type_texts import a_type

Kind = TypeVar("Kind", bound=Request)
Function = TypeVar("Function", bound=Callable[..., Any])


def requested(
    kind: type[Kind], words: Mapping[str, object], value: object = None, *, field: str = ""
) -> Kind:
    """The request that a parameter or the keywords are.

    Args:
        kind: a dataclass.
        words: keywords of the call; those that are not fields are passed over.
        value: of a parameter that takes a request, or what one of its fields holds; None: not given.
        field: the name of that field.

    Raises:
        UsageError: a keyword beside a request that holds it, another request; what ``kind`` refuses.
    """
    defaults = {one.name: _default(one) for one in fields(cast(Any, kind)) if one.name != field}
    given = {name: words[name] for name in defaults if name in words}
    if not isinstance(value, kind):
        made = given if value is None else {field: value, **given}
        for name, one in made.items():
            if isinstance(one, Request):
                problem = f"is {a_type(one)}"
                raise UsageError(parameter(name), problem, f"Give it what a {kind.__name__} takes as {name}")
        return kind(**made)
    for name, one in given.items():
        if one == defaults[name]:
            continue
        problem = f"is given beside a {kind.__name__}, which holds it"
        raise UsageError(parameter(name), problem, f"Give {kind.__name__}(…, {name}=…)")
    return value


def check_used(request: Request, field: str) -> None:
    """Refuses fields of a request that say nothing without another one, which is not given.

    Args:
        request: a dataclass.
        field: the other one; None: not given.

    Raises:
        UsageError: it is not, and one of the others is.
    """
    if getattr(request, field) is not None:
        return
    for one in fields(cast(Any, request)):
        if getattr(request, one.name) != _default(one):
            problem = f"goes with {parameter(field)} only"
            raise UsageError(parameter(one.name), problem, f"Give {parameter(field)} too")


def takes_words_of(*kinds: type, without: Collection[str] = ()) -> Callable[[Function], Function]:
    """Lets a function with ``**words`` take the fields of some dataclasses as keywords.

    ``help()`` and editors see them as its own parameters, and anything else is refused.

    Args:
        kinds: the dataclasses. A field of the name of a parameter is that parameter's.
        without: fields that would change nothing in this function.
    """

    def taking(function: Function) -> Function:
        own = inspect.signature(function)
        named = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        taken = {*own.parameters, *without}
        words = [word for kind in kinds for word in _words(kind) if word.name not in taken]
        signature = own.replace(parameters=[*named, *words])
        typed = {**_types(kinds), **types_of(function)}

        @wraps(function)
        def checked(*values: Any, **keywords: Any) -> Any:
            try:
                bound = signature.bind(*values, **keywords)
            except TypeError as error:
                raise TypeError(f"{function.__name__}(): {error}") from None
            fit_arguments(bound, typed)
            return function(*bound.args, **bound.kwargs)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return cast(Function, checked)

    return taking


def _words(kind: type) -> list[inspect.Parameter]:
    """The fields of a dataclass as keywords."""
    return [
        inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=_default(one), annotation=one.type
        )
        for one in fields(cast(Any, kind))
    ]


def _types(kinds: Iterable[type]) -> dict[str, Typed]:
    """The annotations of the fields of dataclasses."""
    return {
        one.name: (one.type, vars(sys.modules[kind.__module__]))
        for kind in kinds
        for one in fields(cast(Any, kind))
    }


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default
