"""Outputs that are the same for every sample: whatever INT8 keeps of them, it proves nothing.

x ─ Conv (all below 0) ─ Relu (all 0) ─ Gemm → y        a dead network keeps its class in every sample
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SAME: Final = (
    "FP32's is the same for every sample: it does not depend on the data, and keeping it proves nothing"
)

CHECK_OF_UNVARYING: Final = (
    "Check the model (weights that are missing, activations that are always 0) and that the samples differ"
)


def unvarying_outputs(samples: int) -> str:
    """What is to be said of a float model whose outputs are the same for so many samples."""
    return (
        f"its outputs are the same for all {samples} samples: they do not depend on the data, and keeping "
        f"them proves nothing. {CHECK_OF_UNVARYING}"
    )


def is_unvarying(runs: Sequence[Sequence[Array]]) -> bool:
    """Whether what a model gave is the same for all samples, bit by bit.

    Args:
        runs: arrays of every run: those of a branch, or some outputs. Of a single run its rows are looked
            at; one sample tells nothing.
    """
    arrays = list(zip(*runs, strict=True))
    return bool(arrays) and all(_is_one(several) for several in arrays)


def _is_one(arrays: Sequence[Array]) -> bool:
    first = arrays[0]
    if not first.size:
        return False
    if len(arrays) > 1 and all(np.array_equal(first, other) for other in arrays[1:]):
        return True
    if any(array.ndim < 2 for array in arrays):
        return False
    rows = [row for array in arrays for row in array]
    return len(rows) > 1 and all(np.array_equal(rows[0], row) for row in rows[1:])


class Varying:
    """The same of samples that come one by one.

    Attributes:
        samples: how many came.
    """

    def __init__(self) -> None:
        """Begins."""
        self.samples = 0
        self._first: list[Array] = []
        self._varies = False

    def add(self, outputs: Sequence[Array]) -> None:
        """One more sample, or run of several."""
        self.samples += 1
        if self.samples == 1:
            self._first = [array.copy() for array in outputs]
        elif not self._varies:
            self._varies = not all(map(np.array_equal, self._first, outputs)) or not any(
                array.size for array in outputs
            )

    @property
    def never(self) -> bool:
        """All were the same, and more than one came."""
        return self.samples > 1 and not self._varies
