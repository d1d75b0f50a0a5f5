"""Inputs made up from a model's own description, where a model must run and no data is at hand."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import ModelError
from calib8.tensors import TensorSpec

FREE_SIZE: Final = 64
"""What a free size becomes, other than that of axis 0, which is the batch."""

MOST_VALUES: Final = 2**31
"""Of a tensor, as for plans."""


def made_up_input(spec: TensorSpec) -> npt.NDArray[Any]:
    """Reproducible values in [0, 1) for an input; free sizes become 1 on axis 0 and 64 elsewhere.

    An input of unknown rank gets the shape [1].

    Raises:
        ModelError: it has more than ``MOST_VALUES``.
    """
    sizes = (1,) if spec.shape is None else spec.shape
    shape = [
        size if isinstance(size, int) else (1 if axis == 0 else FREE_SIZE) for axis, size in enumerate(sizes)
    ]
    if math.prod(shape) > MOST_VALUES:
        problem = f"states {math.prod(shape):,} values, more than a tensor can have"
        raise ModelError(f"input '{spec}'", problem, "Export the model with the sizes of a sample")
    return np.asarray(np.random.default_rng(0).random(shape)).astype(spec.dtype)
