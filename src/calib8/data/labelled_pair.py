"""``(arrays, labels)`` given as data: one pair of arrays, as Keras and scikit-learn take them.

    (X, y)            X an array or a tensor, y one integer per row of X
    ({name: X}, y)    the same for named inputs

They are read as ``{name: X, "labels": y}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calib8.data.arrays import as_array, is_tensor, pixels_last
from calib8.errors import DataError
from calib8.number_texts import count
from calib8.tensors import TensorSpec


def with_labels(data: Any, inputs: Sequence[TensorSpec]) -> Any:
    """``{name: X, "labels": y}`` where the data are a tuple (X, y); anything else as it is.

    Args:
        data: what the user gave.
        inputs: those of the model.

    Raises:
        DataError: the lengths differ; two samples may be meant as well; one of them has no values.
    """
    if not isinstance(data, tuple) or len(data) != 2 or not _is_array(data[1]):
        return data
    first, labels = data[0], as_array(data[1], "data", "labels")
    rows = _rows(first)
    if rows is None or labels.dtype.kind not in "iu" or labels.ndim != 1:
        return data
    if rows != len(labels):
        if _is_sample(labels, inputs):
            return data
        problem = f"are a tuple of {count(rows, 'row')} and {count(len(labels), 'label')}"
        raise DataError("data", problem, "Give one label per row; a list where both are samples")
    if isinstance(first, Mapping):
        return {**first, "labels": labels}
    rows_of_data = as_array(first, "data", inputs[0].name if inputs else "")
    if rows_of_data.dtype.kind in "iu" and _is_sample(labels, inputs):
        problem = "are a tuple of two arrays of integers, which may be two samples, or one and its labels"
        named = f"{{'{inputs[0].name}': …, 'labels': …}}"
        cure = f"Give {named} where they are labels, a list where they are samples"
        raise DataError("data", problem, cure)
    return {"images": pixels_last(rows_of_data) if is_tensor(first) else rows_of_data, "labels": labels}


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_tensor(value)


def _rows(first: Any) -> int | None:
    """Length of axis 0; None where there are not several axes, or no arrays."""
    if isinstance(first, Mapping):
        lengths = {len(value) if _is_array(value) and value.ndim else None for value in first.values()}
        return lengths.pop() if len(lengths) == 1 else None
    return len(first) if _is_array(first) and first.ndim > 1 else None


def _is_sample(labels: Any, inputs: Sequence[TensorSpec]) -> bool:
    """Whether a row of so many integers fits the only input, with its batch axis or without."""
    shape = inputs[0].shape if len(inputs) == 1 else None
    if shape is None or len(shape) not in (1, 2):
        return False
    return not isinstance(shape[-1], int) or shape[-1] == len(labels)
