"""Whether axis 0 of what an item holds is the batch: of arrays with it, without it, and of rows of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.data.arrays import as_array
from calib8.tensors import TensorSpec


def with_batch(
    value: Any, shape: tuple[int | str | None, ...] | None, name: str, key: str
) -> npt.NDArray[np.generic]:
    """The array, with a batch axis where only that is missing."""
    array = as_array(value, name, key)
    if shape is None or array.ndim != len(shape) - 1:
        return array
    pairs = zip(array.shape, shape[1:], strict=True)
    return (
        array[None] if all(size == length or not isinstance(length, int) for size, length in pairs) else array
    )


def share_a_batch_axis(inputs: Sequence[TensorSpec]) -> bool:
    """Axis 0 is one and the same in all inputs."""
    return len({None if spec.shape is None else spec.shape[:1] for spec in inputs}) == 1


def is_batch(spec: TensorSpec, rows: int) -> bool:
    """Whether so many rows are as many samples: not where they are the fixed batch, or axis 0 is time."""
    if spec.shape is None or not spec.shape or spec.shape[0] == rows:
        return False
    first, *others = (str(length).lower() for length in spec.shape)
    time = first == "t" or first.startswith(("time", "seq", "len", "frame"))
    return not time and not any("batch" in length for length in others)
