"""Whether axis 0 of what an item holds is the batch: of arrays with it, without it, and of rows of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.data.arrays import as_array, untold_cure
from calib8.data.rearranged import sizes_fit
from calib8.errors import DataError
from calib8.parameters import Text, parameter
from calib8.tensors import UNTOLD, TensorSpec, shape_text


def with_batch(value: Any, spec: TensorSpec | None, name: str, key: str) -> npt.NDArray[np.generic]:
    """The array, with a batch axis where only that is missing."""
    array = as_array(value, name, key)
    if spec is None or spec.shape is None or array.ndim != len(spec.shape) - 1 or spec.batch_axis == UNTOLD:
        return array
    given, axis = list(array.shape), spec.batch_axis
    rest = [size for place, size in enumerate(spec.shape) if place != axis]
    return np.expand_dims(array, axis) if sizes_fit(given, rest) else array


def share_a_batch_axis(inputs: Sequence[TensorSpec]) -> bool:
    """The axes that count samples have one size in all inputs, so that a batch is cut into samples there."""
    sizes = {None if spec.shape is None else _count(spec, spec.shape) for spec in inputs}
    return len(sizes) == 1 and not any(spec.batch_axis and _takes_several(spec) for spec in inputs)


def _takes_several(spec: TensorSpec) -> bool:
    """A fixed number of them, or one that is not known to be any."""
    if spec.batch_axis == UNTOLD:
        return True
    size = None if spec.shape is None else spec.shape[spec.batch_axis]
    return isinstance(size, int) and size > 1


def _count(spec: TensorSpec, shape: Sequence[int | str | None]) -> int | str | None:
    """Samples in an array of that shape; 1 where it has no axis for them."""
    return shape[spec.batch_axis] if len(shape) > spec.batch_axis > UNTOLD else 1


def samples_in(arrays: Mapping[str, npt.NDArray[np.generic]], inputs: Sequence[TensorSpec]) -> int:
    """The most samples in one of the arrays, which are named like the inputs."""
    counts = [_count(spec, arrays[spec.name].shape) for spec in inputs if spec.name in arrays]
    return max([1, *(count for count in counts if isinstance(count, int))])


def sample_of(
    arrays: Mapping[str, npt.NDArray[np.generic]], inputs: Sequence[TensorSpec], number: int
) -> dict[str, npt.NDArray[np.generic]]:
    """One sample of a batch, batch axis included; arrays are named like the inputs, or are no inputs."""
    axes = {spec.name: spec.batch_axis for spec in inputs}
    one = slice(number, number + 1)
    return {
        key: array[(*(slice(None),) * axes[key], one)] if array.ndim > axes.get(key, array.ndim) else array
        for key, array in arrays.items()
    }


def is_batch(spec: TensorSpec, rows: int) -> bool:
    """Whether so many rows are as many samples: not where they are the fixed batch, or axis 0 is time."""
    if spec.shape is None or not spec.shape or spec.shape[0] == rows:
        return False
    return spec.batch_axis == 0 and not spec.begins_with_time


def has_samples_first(
    array: npt.NDArray[np.generic], spec: TensorSpec, name: str, labels: int | None = None
) -> bool:
    """Whether axis 0 of an array counts samples, although another one does in the model.

    Args:
        array: without the name of an input, with as many axes as the input.
        spec: the input.
        name: of the sample or the batch, subject of the error.
        labels: how many there are beside it, which tell what counts samples; None: they do not.

    Raises:
        DataError: it may be a batch with the axes of the model as well.
    """
    axis = spec.batch_axis
    if not axis or spec.shape is None or array.ndim != len(spec.shape):
        return False
    if axis == UNTOLD:
        if sum(size > 1 for size in array.shape[:2]) > 1:
            raise untold(spec, array.shape, name)
        return False
    row = array.shape[1:]
    as_rows = sizes_fit((*row[:axis], 1, *row[axis:]), spec.shape)
    if labels is not None and (labels == len(array)) != (labels == array.shape[axis]):
        return as_rows and labels == len(array)
    if not sizes_fit(array.shape, spec.shape):
        return as_rows
    if as_rows and array.shape[axis] != 1:
        problem = (
            f"has {shape_text(array.shape)} for the input '{spec}', of which axis {axis} counts samples: "
            f"they may be {array.shape[axis]} samples, or {array.shape[0]} one after the other"
        )
        raise DataError(
            name, problem,
            Text(
                f"Say which by {parameter('transform')}, a function that gives {{'{spec.name}': array}} with "
                f"the axes of the model (numpy.moveaxis(array, 0, {axis}) where axis 0 counts samples)"
            ),
        )  # fmt: skip
    return False


def untold(spec: TensorSpec, shape: Sequence[int], name: str) -> DataError:
    """What is raised where nothing tells which axis of an array counts samples.

    Args:
        spec: the input, whose ``batch_axis`` is ``UNTOLD``.
        shape: of the array.
        name: of the data, subject of the error.
    """
    problem = f"has {shape_text(shape)} for the input '{spec}', and which axis counts samples is not known"
    return DataError(name, problem, untold_cure(spec))
