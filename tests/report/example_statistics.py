"""Statistics of a few distributions, and tables chosen from them."""

from __future__ import annotations

import numpy as np

from calib8.calibration.statistics import Statistics
from calib8.calibration.tensor_statistics import TensorStatistics

HASH = "0123456789abcdef" * 4


def statistics_of(**tensors: np.ndarray) -> Statistics:
    """Statistics of named arrays."""
    return Statistics(HASH, {name: TensorStatistics.from_values(x) for name, x in tensors.items()})


def distributions() -> dict[str, np.ndarray]:
    """Both signs with an outlier, one sign, a spike at 6, zeros only, one value, tiny and huge."""
    rng = np.random.default_rng(3)
    laplace = rng.laplace(size=4000).astype(np.float32)
    outlier = laplace.copy()
    outlier[7] = 60.0
    return {
        "outlier": outlier,
        "relu": np.maximum(laplace, 0),
        "negative": -np.abs(laplace),
        "relu6": np.clip(3 * laplace, 0, 6),
        "zeros": np.zeros(9, np.float32),
        "constant": np.full(9, -3.0, np.float32),
        "tiny": laplace * np.float32(1e-33),
        "huge": laplace * np.float32(1e35),
    }
