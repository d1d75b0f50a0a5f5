"""Python's steps are the structs of the native core, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import pytest
from decode import STEPS

from calib8 import _core
from calib8.engine import steps
from calib8.engine.steps import Step

SCHEMAS = _core.engine.schemas()


def field_names(kind: Any, prefix: str = "") -> Iterator[str]:
    """Names as the native core writes them: nested ones with a point, floats with a '~' in front."""
    hints = get_type_hints(kind, vars(steps))
    for field in fields(kind):
        hint = hints[field.name]
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
