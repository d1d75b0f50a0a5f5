"""Random images, and what a comparison found by tensor."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from calib8.analysis.compare import Comparison, TensorComparison
from small_models import normal
from small_nets import IMAGE

Array = npt.NDArray[Any]


def images(count: int, shape: tuple[int, ...] = IMAGE) -> list[dict[str, Array]]:
    return [{"x": normal(*shape, seed=100 + index)} for index in range(count)]


def by_tensor(found: Comparison) -> dict[str, TensorComparison]:
    return {tensor.tensor: tensor for tensor in found.tensors}
