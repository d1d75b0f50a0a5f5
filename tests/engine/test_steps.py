"""Python's steps are the structs of the native core: fields, kinds, and what rows can hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from decode import STEPS

from calib8 import _core
from calib8.engine.fields import NONE, Activation, Rescale, SumRule, View
from calib8.engine.steps import Copy, Step
from calib8.engine.structs import Struct

SCHEMAS = _core.engine.schemas()


def field_names(kind: Any, prefix: str = "") -> Iterator[str]:
    """Names as the native core writes them: nested ones with a point, floats with a '~' in front."""
    for field in fields(kind):
        hint = field.type
        if is_dataclass(hint):
            yield from field_names(hint, f"{prefix}{field.name}.")
        elif hint is float:
            yield f"~{prefix}{field.name}"
        elif hint is int:
            yield prefix + field.name
        else:
            yield from (f"{prefix}{field.name}.{axis}" for axis in range(6))


def test_both_sides_know_the_same_steps() -> None:
    assert sorted(SCHEMAS) == sorted(step.opcode for step in STEPS)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.opcode)
def test_fields_and_their_order_agree(step: type[Step]) -> None:
    assert list(field_names(step)) == list(SCHEMAS[step.opcode])


HEADERS = Path(__file__).parents[2] / "csrc" / "engine" / "steps"
ENUMERATION = re.compile(r"^struct (\w+) \{(?:(?!^\};).)*?^  enum \w+ : int64_t \{(.*?)\};", re.M | re.S)


def test_kinds_are_the_enumerations_of_the_headers() -> None:
    """Every value is named, so that nobody copies a number."""
    found = {}
    for header in HEADERS.glob("*.h"):
        for name, values in ENUMERATION.findall(header.read_text(encoding="utf-8")):
            found[name] = [int(value) for value in re.findall(r"= (\d+)", values)]
    kinds = {kind.__name__: sorted(kind.kinds.values()) for kind in (Rescale, Activation, SumRule, *STEPS)}
    assert {name: values for name, values in kinds.items() if values} == found
    assert len(found) > 6


def test_kinds_are_called_as_rules_call_them() -> None:
    assert Rescale.kinds == {"none": 0, "float": 1, "double": 2, "single": 3, "away": 4}


def test_a_class_that_the_core_does_not_know_has_no_fields() -> None:
    class Unknown(Struct):
        """Of no use."""

    assert not is_dataclass(Unknown)
    with pytest.raises(TypeError):
        Unknown(1)


@pytest.mark.parametrize(
    ("step", "change", "told"),
    [
        (View.zeros(), {"offset": 1.0}, r"View\.offset is 1\.0"),
        (SumRule.zeros(), {"lhs": 1}, r"SumRule\.lhs is 1"),
        (Copy.zeros(), {"sizes": (1,) * 5}, r"Copy\.sizes is"),
        (Copy.zeros(), {"sizes": 6}, r"Copy\.sizes is 6"),
        (Copy.zeros(), {"run": None}, r"Copy\.run is None"),
    ],
)
def test_what_does_not_fit_its_field_is_told(step: Struct, change: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        replace(step, **change)
    with pytest.raises(TypeError):
        type(step)(NONE)
