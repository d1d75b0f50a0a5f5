"""The sample distributions in ``distributions/``, as statistics."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calib8.calibration.tensor_statistics import BINS, TensorStatistics

FOLDER = Path(__file__).parent / "distributions"
NAMES = sorted(path.stem for path in FOLDER.glob("*.npz"))


@cache
def stored(name: str) -> TensorStatistics:
    with np.load(FOLDER / f"{name}.npz") as file:
        positive, negative = _all_bins(file["positive"]), _all_bins(file["negative"])
        return TensorStatistics(
            count=int(positive.sum() + negative.sum() + file["zeros"]),
            zeros=int(file["zeros"]),
            nans=0,
            positive_infs=0,
            negative_infs=0,
            minimum=float(file["extrema"][0]),
            maximum=float(file["extrema"][1]),
            exponent=int(file["exponent"]),
            positive=positive,
            negative=negative,
            samples=int(file["samples"]),
            minima=int(str(file["sums"][0])),
            maxima=int(str(file["sums"][1])),
        )


def _all_bins(counts: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    bins = np.zeros(BINS, np.int64)
    bins[: counts.size] = counts
    return bins
