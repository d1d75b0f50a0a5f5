"""Arrays as the model's inputs take them: type and shape are checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.data.rearranged import rearrangement
from calib8.errors import DataError
from calib8.tensors import UNTOLD, TensorSpec, shape_text

COLORS: Final = (1, 3, 4)
"""Channels that a picture may have."""


def as_array(value: Any, name: str, key: str) -> npt.NDArray[np.generic]:
    """``numpy.asarray`` of the value, or tensor, under ``key`` of the sample ``name``.

    Raises:
        DataError: NumPy cannot make an array of it.
    """
    try:
        return np.asarray(in_memory(value))
    except Exception as error:  # foreign array types raise what they like
        raise DataError(name, f"the value of '{key}' is not an array ({error})", _made_one(value)) from error


def _made_one(value: Any) -> str:
    """What makes an array of a value that NumPy makes none of."""
    if str(getattr(value, "layout", "torch.strided")) != "torch.strided":
        return "Give tensor.to_dense()"
    if getattr(value, "is_meta", False) is True:
        return "A tensor of the device meta has no values: give one that has"
    return "Give NumPy arrays"


def pixels_last(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """A tensor of pixels N×C×H×W as N×H×W×C; anything else as it is."""
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] in COLORS or array.shape[1] not in COLORS:
        return array
    return np.moveaxis(array, 1, -1)


def in_memory(value: Any) -> Any:
    """A tensor of PyTorch off its graph and its device; anything else as it is."""
    for step in ("detach", "cpu"):
        method = getattr(value, step, None)
        if not callable(method):
            return value
        value = method()
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":  # which NumPy does not have
        value = value.float()
    return value


def is_tensor(value: Any) -> bool:
    """A tensor of PyTorch, or what looks like one."""
    return all(callable(getattr(value, step, None)) for step in ("detach", "cpu", "numpy"))


def conform(
    value: Any,
    spec: TensorSpec,
    name: str,
    partial: bool = False,
    whole: tuple[int, ...] | None = None,
) -> npt.NDArray[np.generic]:
    """The value as an array of the input's dtype, checked against its shape.

    Floats and integers become the float type of a float input; integers become wider ones; nothing else
    is converted.

    Args:
        value: an array or what ``numpy.asarray`` takes.
        spec: the input.
        name: the sample, subject of error messages.
        partial: axis 0 is the batch, and a divisor of the model's is enough.
        whole: shape of the array of which the value is a part, for the cure; None: it is not a part.

    Raises:
        DataError: the value is no numeric array, or its dtype or shape does not fit.
    """
    array = as_array(value, name, spec.name)
    if not (_type_fits(array.dtype, spec.dtype) and _shape_fits(array.shape, spec.shape, partial)):
        shape = shape_text(array.shape) or "scalar"
        problem = f"has {array.dtype} {shape} for the input '{spec}'"
        raise DataError(name, problem, _cure(array, spec, whole))
    return np.ascontiguousarray(array, spec.dtype).reshape(array.shape)


def _cure(array: npt.NDArray[np.generic], spec: TensorSpec, whole: tuple[int, ...] | None) -> str:
    """What to do with an array that does not fit."""
    if spec.batch_axis == UNTOLD:
        return untold_cure(spec)
    code = rearrangement(
        whole or array.shape, spec.shape, stacked=whole is not None, batch_axis=spec.batch_axis
    )
    if not code or not _type_fits(array.dtype, spec.dtype):
        return "Give arrays of the model's type and shape, batch axis included"
    return f"Give array{code}, so that the axes are those of the model"


def untold_cure(spec: TensorSpec) -> str:
    """What to do where nothing tells which axis counts samples."""
    return (
        f"Give a list of {{'{spec.name}': array}} with the axes of the model, or call that axis 'batch' there"
    )


def conform_all(
    values: Mapping[str, Any],
    inputs: Sequence[TensorSpec],
    name: str,
    wholes: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
) -> dict[str, npt.NDArray[np.generic]]:
    """One checked array per input, in the order of the model's inputs.

    Args:
        values: input name → array.
        inputs: those of the model.
        name: the sample, subject of error messages.
        wholes: input name → shape of the array of which the value is a part, where it is one.

    Raises:
        DataError: an input is missing, a name is none of the model's, or an array does not fit.
    """
    wanted = [spec.name for spec in inputs]
    extra = [key for key in values if key not in wanted]
    missing = [key for key in wanted if key not in values]
    if extra or missing:
        problem = f"has no array for input '{missing[0]}'" if missing else f"has an array '{extra[0]}'"
        raise DataError(name, problem, f"Give one array for each input of the model: {', '.join(wanted)}")
    partial = rows_per_batch(inputs) != 1
    return {
        spec.name: conform(values[spec.name], spec, name, partial, wholes.get(spec.name)) for spec in inputs
    }


def rows_per_batch(inputs: Sequence[TensorSpec]) -> int | None:
    """How many rows (entries of axis 0) the model takes at once; None: any number.

    Where axis 0 is not the same batch axis in every input the answer is 1: samples are not stacked.
    """
    if any(spec.batch_axis or spec.begins_with_time for spec in inputs):
        return 1
    leading: set[int | str | None] = set()
    for spec in inputs:
        if spec.shape is None:
            leading.add(None)
        elif not spec.shape:
            return 1
        else:
            leading.add(spec.shape[0])
    if len(leading) != 1:
        return 1
    (rows,) = leading
    return rows if isinstance(rows, int) else None


def _type_fits(given: np.dtype[np.generic], wanted: np.dtype[np.generic]) -> bool:
    if wanted.kind == "f":
        return given.kind in "fiu"
    return given.kind in "biuf" and np.can_cast(given, wanted, "safe")


def _shape_fits(given: tuple[int, ...], wanted: tuple[int | str | None, ...] | None, partial: bool) -> bool:
    if 0 in given:
        return False
    if wanted is None:
        return True
    if len(given) != len(wanted):
        return False
    return all(
        not isinstance(length, int) or size == length or (partial and axis == 0 and length % size == 0)
        for axis, (size, length) in enumerate(zip(given, wanted, strict=True))
    )
