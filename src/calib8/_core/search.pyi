"""What range searches compare, computed natively and without the GIL; ``calib8.calibration.ranges`` uses it.

The same arguments give the same bits on every machine: no library logarithm, no contracted products, one
order of additions.
"""

import numpy as np
import numpy.typing as npt

def kl_divergences(counts: npt.NDArray[np.int64], levels: int) -> npt.NDArray[np.float64]:
    """KL(i) for i = levels … n, see ``calib8.calibration.ranges.entropy``.

    Args:
        counts: C-contiguous [n], not negative, sum in 1 … 2^62.
        levels: 1 … n.

    Raises:
        TypeError: not a C-contiguous int64 vector.
        ValueError: levels or counts are out of range.
    """

def squared_errors(
    counts: npt.NDArray[np.int64],
    origin: int,
    steps: npt.NDArray[np.float64],
    lowest: npt.NDArray[np.int64],
    codes: int,
) -> npt.NDArray[np.float64]:
    """Errors of candidates in squared widths of a bin, see ``calib8.calibration.ranges.mse``.

    Args:
        counts: C-contiguous [n], not negative, sum in 1 … 2^62.
        origin: index of the bin whose lower edge is 0.
        steps: scales in widths of a bin, [candidates], in (0, 2^64).
        lowest: smallest code minus zero point, [candidates], −65536 … 65536.
        codes: number of codes, 1 … 65536.

    Raises:
        TypeError: not C-contiguous vectors of these types.
        ValueError: a value is out of range, or two lengths differ.
    """
