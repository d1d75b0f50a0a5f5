"""Inputs made up from a model's own description, where a model must run and no data is at hand."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.tensors import TensorSpec

FREE_SIZE: Final = 64
"""What a free size becomes, other than that of axis 0, which is the batch."""


def made_up_input(spec: TensorSpec) -> npt.NDArray[Any]:
    """Reproducible values in [0, 1) for an input; free sizes become 1 on axis 0 and 64 elsewhere.

    An input of unknown rank gets the shape [1].
    """
    sizes = (1,) if spec.shape is None else spec.shape
    shape = [
        size if isinstance(size, int) else (1 if axis == 0 else FREE_SIZE) for axis, size in enumerate(sizes)
    ]
    return np.asarray(np.random.default_rng(0).random(shape)).astype(spec.dtype)
