"""Cases that are slow: ``pytest`` alone leaves them out, ``scripts/check-full`` runs them.

A test of all combinations of its parameters may bear ``@pytest.mark.one_in(step)``: one in so many of them
stays, along the diagonals, so that every value stays beside which another parameter has ``step`` values.
Where some cases tell the most, or cost the least, ``slow_but`` names those that stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def slow_but(kept: Iterable[str], names: Iterable[str]) -> list[ParameterSet]:
    """The names as parameters; all are slow but those that are kept, which have to be among them."""
    staying, names = set(kept), list(names)
    assert staying <= set(names), staying - set(names)
    return [pytest.param(name, marks=() if name in staying else pytest.mark.slow) for name in names]


def thinned_out(item: pytest.Item) -> bool:
    """Whether its test bears ``one_in``, and it is none of the cases that stay."""
    mark = item.get_closest_marker("one_in")
    if mark is None:
        return False
    assert isinstance(item, pytest.Function)
    places = [_place(item.callspec.params, *given.args) for given in item.iter_markers("parametrize")]
    return sum(places) % int(mark.args[0]) != 0


def _place(case: Mapping[str, object], names: str | Sequence[str], values: Iterable[Any]) -> int:
    """Where the values of a case stand among those that one ``parametrize`` gives."""
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    wanted = [case[name] for name in arguments]
    for place, given in enumerate(values):
        if isinstance(given, ParameterSet):
            given = given.values
        elif len(wanted) == 1:
            given = (given,)
        if all(map(_same, wanted, given)):
            return place
    raise AssertionError(f"{wanted} is none of the values of {names}")


def _same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, int | float | str) and one == other)
