"""Steps out of the rows of a plan, for tests that look into them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final, get_type_hints

from calib8.engine.plan import Plan, Row
from calib8.engine.steps import Finish, Step
from calib8.engine.structs import AXES

STEPS: Final = tuple(Step.__subclasses__())
"""All kinds of steps."""

assert Finish in STEPS


def steps_of(plan: Plan) -> tuple[Step, ...]:
    """The rows as steps."""
    return tuple(map(decode, plan.rows))


def decode(row: Row) -> Step:
    """The step of a row; the inverse of ``encode``."""
    (kind,) = (step for step in STEPS if step.opcode == row.opcode)
    numbers = iter(row.fields.tolist())
    step: Step = _value(kind, numbers)
    assert next(numbers, None) is None, f"a row '{row.opcode}' is too long"
    return step


def _value(kind: Any, numbers: Iterator[int]) -> Any:
    if kind is int:
        return next(numbers)
    if kind is float:
        return struct.unpack("<d", struct.pack("<q", next(numbers)))[0]
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{field.name: _value(hints[field.name], numbers) for field in fields(kind)})  # type: ignore[operator]
    return tuple(next(numbers) for _ in range(AXES))
