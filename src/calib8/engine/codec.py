"""Steps as rows of int64, the form in which plans are stored and handed to the native core."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final, get_type_hints

import numpy as np
import numpy.typing as npt

from calib8.engine.steps import STEPS, Step

AXES: Final = 6
"""Numbers of a field that is a tuple."""


def encode(step: Step) -> npt.NDArray[np.int64]:
    """The row of a step."""
    return np.fromiter(_numbers(step), np.int64)


def _numbers(value: object) -> Iterator[int]:
    if isinstance(value, bool | int):
        yield int(value)
    elif isinstance(value, float):
        yield struct.unpack("<q", struct.pack("<d", value))[0]
    elif isinstance(value, tuple):
        yield from value
    else:
        for field in fields(value):  # type: ignore[arg-type]
            yield from _numbers(getattr(value, field.name))


def decode(opcode: str, row: npt.NDArray[np.int64]) -> Step:
    """The step of a row; the inverse of ``encode``.

    Raises:
        ValueError: no step is called so, or the row has another length.
    """
    kind = next((step for step in STEPS if step.opcode == opcode), None)
    if kind is None:
        raise ValueError(f"there is no step '{opcode}'")
    numbers = iter(row.tolist())
    try:
        step: Step = _value(kind, numbers)
    except StopIteration:
        raise ValueError(f"a step '{opcode}' has {row.size} numbers, which are too few") from None
    if next(numbers, None) is not None:
        raise ValueError(f"a step '{opcode}' has {row.size} numbers, which are too many")
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
