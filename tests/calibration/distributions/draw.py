"""Draws the sample distributions of the range tests and writes their statistics beside this file.

    python tests/calibration/distributions/draw.py

40,000 values each (the constant one 100), in four samples. The files are kept, so that tests do not
depend on a generator of random numbers; ``stored.py`` reads them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from calib8.calibration.tensor_statistics import TensorStatistics

SIZE = 40_000
SAMPLES = 4


def draw() -> dict[str, npt.NDArray[np.float64]]:
    rng = np.random.default_rng(20261121)
    normal = rng.standard_normal(SIZE)
    outlier, far_outlier = rng.standard_normal(SIZE), rng.laplace(size=SIZE)
    outlier[777], far_outlier[777] = 30.0, 60.0
    return {
        "normal": normal,
        "half_normal_zeros": np.maximum(normal, 0.0),
        "constant": np.full(100, 0.7),
        "outlier_30": outlier,
        "laplace_outlier_60": far_outlier,
        "relu6": np.clip(3 * normal, 0.0, 6.0),
        "lognormal": np.exp(1.2 * rng.standard_normal(SIZE)),
        "uniform": rng.uniform(-1.0, 2.0, SIZE),
        "negative": -(np.abs(rng.standard_normal(SIZE)) ** 1.5),
        "tiny": 1e-30 * rng.standard_normal(SIZE),
        "huge": 1e30 * rng.laplace(size=SIZE),
    }


def main() -> None:
    for name, values in draw().items():
        found = TensorStatistics.from_values(values.astype(np.float32), SAMPLES)
        np.savez_compressed(
            Path(__file__).with_name(f"{name}.npz"),
            positive=np.trim_zeros(found.positive, "b").astype(np.uint32),
            negative=np.trim_zeros(found.negative, "b").astype(np.uint32),
            zeros=found.zeros,
            extrema=np.array([found.minimum, found.maximum], np.float32),
            exponent=found.exponent,
            samples=found.samples,
            sums=np.array([str(found.minima), str(found.maxima)]),
        )


if __name__ == "__main__":
    main()
