"""Counting in the bins of other tools, and the divergences as those tools define them, in C++."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

class KeyCounter:
    """Counts of one tensor in fixed bins; ``calib8.calibration.layouts`` defines keys and edges."""

    def __init__(self, edges: npt.NDArray[np.int32], magnitudes: bool, scale: float, shift: float) -> None:
        """Empty bins.

        Args:
            edges: ascending keys [n + 1]; bin i holds edges[i] ≤ key < edges[i + 1].
            magnitudes: keys of |x| instead of x.
            scale: scale · x + shift is about the bin of x (|x|); only speed depends on it.
            shift: see ``scale``.

        Raises:
            TypeError: ``edges`` are no int32 vector.
            ValueError: fewer than two edges, or they descend.
        """

    @property
    def bins(self) -> npt.NDArray[np.int64]:
        """A copy of the counts, shape [n]."""

    @property
    def below(self) -> int:
        """Values with a key under the first edge."""

    @property
    def outside(self) -> int:
        """Values with a key from the last edge on, infinities and NaN."""

def count(items: Sequence[tuple[KeyCounter, npt.NDArray[np.float32]]], threads: int = 1) -> None:
    """Counts each array, of any shape, into its counter, without the GIL.

    The result does not depend on ``threads`` (1 … 256) or on CALIB8_ISA.

    Raises:
        TypeError: an item is not a counter and a C-contiguous float32 array.
        ValueError: ``threads`` is out of range.
    """

def divergences_ncnn(counts: npt.NDArray[np.int64], levels: int) -> npt.NDArray[np.float64]:
    """KL for levels … n − 1 kept bins; see ``calib8.calibration.ranges.entropy_ncnn``.

    These four functions give the same bits on every CPU.

    Raises:
        TypeError: ``counts`` are no int64 vector.
        ValueError: all counts are 0, one is negative, or there are fewer than two levels.
    """

def divergences_tengine(counts: npt.NDArray[np.int64], levels: int) -> npt.NDArray[np.float64]:
    """KL for levels … n − 1 kept bins; see ``calib8.calibration.ranges.entropy_tengine``."""

def divergences_smooth(counts: npt.NDArray[np.int64], levels: int) -> npt.NDArray[np.float64]:
    """KL for levels … n − 1 kept bins; see ``calib8.calibration.ranges.entropy_smooth``."""

def divergences_mxnet(counts: npt.NDArray[np.int64], levels: int) -> npt.NDArray[np.float64]:
    """KL for levels // 2 … n // 2 bins on each side; see ``calib8.calibration.ranges.entropy_mxnet``."""
