"""Marks beside the frames of streams: an array ``reset``, 1 (or True) where a stream begins, else 0."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from calib8.data.arrays import as_array
from calib8.data.samples import Array, DataSource
from calib8.data.sound import RESET
from calib8.data.stored_arrays import StoredArray, open_arrays
from calib8.errors import DataError
from calib8.tensors import TensorSpec, shape_text

MARKS: Final = TensorSpec(RESET, np.dtype(np.int64), (None,))
"""The mark of one frame, as it is read beside the inputs."""

_CURE: Final = f"Give '{RESET}' one whole number or bool per frame, 1 where a stream begins, else 0"


def begins(frame: Mapping[str, Array], name: str) -> bool:
    """Whether a frame is marked as the first of a stream; without a mark it is not.

    Args:
        frame: the arrays of a sample.
        name: of the sample.

    Raises:
        DataError: a mark that is neither 0 nor 1.
    """
    mark = frame.get(RESET)
    if mark is None:
        return False
    wrong = np.asarray(mark)[~np.isin(mark, (0, 1))]
    if wrong.size:
        raise DataError(name, f"has the mark {wrong[0]} in '{RESET}'", _CURE)
    return bool(np.any(mark))


def holds_any(data: DataSource | None, names: Collection[str]) -> bool:
    """Whether there is an array of one of the names; False also of what yields items."""
    arrays, _ = _arrays_of(data)
    return any(name in arrays for name in names)


def has_marks(data: DataSource | None, inputs: Sequence[TensorSpec]) -> bool:
    """Whether there is an array of marks beside arrays of frames, one for each.

    Args:
        data: of arrays by name, in memory or in an .npz; what yields items is looked at frame by frame.
        inputs: what a frame has.

    Returns:
        False also of what yields items.

    Raises:
        DataError: names the file, what the marks are, and what they are to be.
    """
    arrays, source = _arrays_of(data)
    if RESET not in arrays:
        return False
    marks = _array(arrays[RESET], source)
    shape = shape_text(marks.shape) or "scalar"
    kind = "text" if marks.dtype.kind in "US" else marks.dtype
    found = f"its array '{RESET}' is {kind} {shape}"
    if marks.dtype.kind == "f" and not np.all(np.isfinite(marks)):
        raise DataError(source, f"{found} with NaN or an infinity", _CURE)
    if not np.can_cast(marks.dtype, np.int64, "safe") or marks.ndim == 0 or marks.size != len(marks):
        raise DataError(source, found, _CURE)
    wrong = marks[~np.isin(marks, (0, 1))]
    if wrong.size:
        raise DataError(source, f"{found} with the value {wrong[0]}", _CURE)
    for spec in inputs:
        frames = arrays.get(spec.name)
        if frames is not None and np.ndim(frames) > 0 and len(frames) != len(marks):
            problem = f"{found}, and '{spec.name}' holds {len(frames)} frames"
            raise DataError(source, problem, _CURE)
    return True


def _arrays_of(data: DataSource | None) -> tuple[Mapping[str, Any], str]:
    """What is there by name, and what to call it."""
    if isinstance(data, Mapping):
        return data, "arrays"
    if isinstance(data, str | os.PathLike) and Path(data).suffix.lower() == ".npz" and Path(data).is_file():
        return open_arrays(Path(data)), str(data)
    return {}, ""


def _array(value: Any, source: str) -> Array:
    """All marks in memory."""
    if isinstance(value, StoredArray):
        if not value.ndim:
            return np.zeros((), value.dtype)
        return np.array([value[row] for row in range(len(value))], value.dtype).reshape(value.shape)
    return as_array(value, source, RESET)
