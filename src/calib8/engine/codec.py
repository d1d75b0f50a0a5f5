"""Steps as rows of int64, the form in which plans are stored and handed to the native core."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from calib8.engine.structs import Struct


def encode(step: Struct) -> npt.NDArray[np.int64]:
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
