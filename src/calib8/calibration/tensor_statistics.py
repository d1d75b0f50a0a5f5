"""What is remembered of one tensor while images pass: exact counts that can be merged in any order.

    covered    |x| < 2^exponent                            exponent ≥ −100
    width      w = 2^(exponent − 12)
    bin of x   floor(|x| / w), 0 … 4095                    x > 0 and x < 0 apart, x = 0 in no bin
    growth     by k: new bin j = sum of the old bins j·2^k … (j + 1)·2^k − 1

Beside the bins there are the exact sums of the smallest and of the largest value of every sample.

Only integers are kept, and floor(floor(a) / 2^k) = floor(a / 2^k): whoever counts which values in which
order, the merged statistics are the same to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8 import _core
from calib8.calibration import exact_sum
from calib8.errors import CalibrationError

BINS: Final = 4096
BIN_BITS: Final = 12
SMALLEST_EXPONENT: Final = -100
LARGEST_EXPONENT: Final = 128

Bins = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TensorStatistics:
    """Counts of the float32 values of one tensor.

    Attributes:
        count: all values seen, NaN and infinities included.
        zeros: exact zeros of either sign.
        nans: NaNs; like infinities they are in no bin and not in the extrema.
        positive_infs: +inf values.
        negative_infs: −inf values.
        minimum: smallest finite value, a float32; +inf while there is none.
        maximum: largest finite value, a float32; −inf while there is none.
        exponent: the bins cover magnitudes below 2^exponent, −100 … 128.
        positive: counts of the values > 0, int64 [4096].
        negative: counts of the values < 0 by magnitude, int64 [4096].
        samples: how many samples had a finite value. A sample is an entry of the batch axis.
        minima: exact sum of the smallest finite values of the samples, in units of 2^−149.
        maxima: same of the largest.
        binned: False where nothing went into the bins, which are all 0 then: only counts and extrema are
            known, and the methods that need a histogram refuse.
    """

    count: int
    zeros: int
    nans: int
    positive_infs: int
    negative_infs: int
    minimum: float
    maximum: float
    exponent: int
    positive: Bins
    negative: Bins
    samples: int
    minima: int
    maxima: int
    binned: bool = True

    def __post_init__(self) -> None:
        """Refuses counters that contradict each other (ValueError) and makes the bins read-only."""
        for bins in (self.positive, self.negative):
            if bins.shape != (BINS,) or bins.dtype != np.int64 or bins.min() < 0:
                raise ValueError(f"bins must be {BINS} int64 counts, not {bins.dtype} {list(bins.shape)}")
            bins.setflags(write=False)
        if not SMALLEST_EXPONENT <= self.exponent <= LARGEST_EXPONENT:
            raise ValueError(f"exponent {self.exponent} is not in {SMALLEST_EXPONENT} … {LARGEST_EXPONENT}")
        scalars = (self.zeros, self.nans, self.positive_infs, self.negative_infs)
        above, below = (sum(map(int, bins[bins > 0])) for bins in (self.positive, self.negative))
        known = sum(scalars) + above + below
        if min(scalars) < 0 or (known != self.count if self.binned else known > self.count):
            raise ValueError(f"{self.count} values, but {known} in the counters")
        self._check_extrema()
        signs = (self.minimum < 0, self.maximum > 0)
        if self.binned and self.finite > 0 and signs != (below > 0, above > 0):
            raise ValueError(f"[{self.minimum}, {self.maximum}], {below} values below 0 and {above} above")

    def _check_extrema(self) -> None:
        largest = self.magnitude
        fitting = max(math.frexp(largest)[1], SMALLEST_EXPONENT) if largest else SMALLEST_EXPONENT
        covered = not self.binned or self.exponent == fitting
        if self.finite > 0 and not (-math.inf < self.minimum <= self.maximum < math.inf and covered):
            raise ValueError(f"[{self.minimum}, {self.maximum}] does not fit exponent {self.exponent}")
        if not min(self.finite, 1) <= self.samples <= self.finite:
            raise ValueError(f"{self.samples} samples of {self.finite} finite values")
        low, high = (exact_sum.units([x] * min(self.finite, 1)) for x in (self.minimum, self.maximum))
        if not self.samples * low <= self.minima <= self.maxima <= self.samples * high:
            raise ValueError(f"extrema of samples beyond [{self.minimum}, {self.maximum}]")

    def __eq__(self, other: object) -> bool:
        """Equal in every counter."""
        if not isinstance(other, TensorStatistics):
            return NotImplemented
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def empty(cls) -> TensorStatistics:
        """Nothing seen: the neutral element of ``merge``."""
        none = np.zeros(BINS, np.int64)
        return cls(0, 0, 0, 0, 0, math.inf, -math.inf, SMALLEST_EXPONENT, none, none.copy(), 0, 0, 0)

    @classmethod
    def from_values(cls, values: npt.NDArray[np.float32], samples: int = 1) -> TensorStatistics:
        """Statistics of one array of any shape: the definition that the native kernel must match.

        Args:
            values: float32, of any shape.
            samples: of so many samples, one after the other, of the same size.

        Raises:
            CalibrationError: the values are not float32, or cannot be those of so many samples.
        """
        if values.dtype != np.float32:
            raise CalibrationError("values", f"are {values.dtype}", "Give float32")
        if samples < 1 or values.size % samples:
            raise CalibrationError("values", f"are {values.size}, no {samples} samples", "Give whole samples")
        rows = [row[np.isfinite(row)] for row in values.reshape(samples, -1 if values.size else 0)]
        rows = [row for row in rows if row.size]
        finite = values[np.isfinite(values)].ravel()
        minimum = float(finite.min(initial=np.inf)) + 0.0
        maximum = float(finite.max(initial=-np.inf)) + 0.0
        largest = float(np.abs(finite).max(initial=0))
        exponent = max(math.frexp(largest)[1], SMALLEST_EXPONENT) if largest else SMALLEST_EXPONENT
        width = math.ldexp(1.0, exponent - BIN_BITS)
        index = (np.abs(finite.astype(np.float64)) / width).astype(np.int64)
        return cls(
            count=values.size,
            zeros=int(np.count_nonzero(finite == 0)),
            nans=int(np.count_nonzero(np.isnan(values))),
            positive_infs=int(np.count_nonzero(values == np.inf)),
            negative_infs=int(np.count_nonzero(values == -np.inf)),
            minimum=minimum,
            maximum=maximum,
            exponent=exponent,
            positive=np.bincount(index[finite > 0], minlength=BINS).astype(np.int64),
            negative=np.bincount(index[finite < 0], minlength=BINS).astype(np.int64),
            samples=len(rows),
            minima=exact_sum.units(float(row.min()) for row in rows),
            maxima=exact_sum.units(float(row.max()) for row in rows),
        )

    @classmethod
    def from_accumulator(cls, accumulator: _core.TensorAccumulator) -> TensorStatistics:
        """A frozen copy of what the native kernel has counted so far."""
        found = {field.name: getattr(accumulator, field.name) for field in fields(cls)}
        found |= {name: exact_sum.from_parts(found[name].tolist()) for name in ("minima", "maxima")}
        return cls(**found)

    def merge(self, other: TensorStatistics) -> TensorStatistics:
        """Statistics of the values of both; exact, associative and commutative.

        Raises:
            CalibrationError: only one of them has bins.
        """
        if self.binned != other.binned and self.count and other.count:
            raise CalibrationError("statistics", "with and without bins", "Collect both in the same way")
        exponent = max(self.exponent, other.exponent)
        return TensorStatistics(
            count=self.count + other.count,
            zeros=self.zeros + other.zeros,
            nans=self.nans + other.nans,
            positive_infs=self.positive_infs + other.positive_infs,
            negative_infs=self.negative_infs + other.negative_infs,
            minimum=min(self.minimum, other.minimum),
            maximum=max(self.maximum, other.maximum),
            exponent=exponent,
            positive=_grown(self.positive, exponent - self.exponent)
            + _grown(other.positive, exponent - other.exponent),
            negative=_grown(self.negative, exponent - self.exponent)
            + _grown(other.negative, exponent - other.exponent),
            samples=self.samples + other.samples,
            minima=self.minima + other.minima,
            maxima=self.maxima + other.maxima,
            binned=self.binned and other.binned,
        )

    @property
    def finite(self) -> int:
        """Number of values that are neither NaN nor infinite."""
        return self.count - self.nans - self.positive_infs - self.negative_infs

    @property
    def magnitude(self) -> float:
        """Largest |x| of the finite values; 0 while there is none."""
        return max(-self.minimum, self.maximum) if self.finite else 0.0

    @property
    def mean_minimum(self) -> float:
        """Mean over the samples of their smallest finite values, rounded once; 0 without any."""
        return exact_sum.mean(self.minima, self.samples) if self.samples else 0.0

    @property
    def mean_maximum(self) -> float:
        """Mean over the samples of their largest finite values, rounded once; 0 without any."""
        return exact_sum.mean(self.maxima, self.samples) if self.samples else 0.0

    @property
    def is_degenerate(self) -> bool:
        """No finite value other than zero was seen."""
        return self.magnitude == 0.0

    @property
    def width(self) -> float:
        """Width of a bin, a power of two."""
        return math.ldexp(1.0, self.exponent - BIN_BITS)

    def magnitude_histogram(self) -> tuple[Bins, float]:
        """Counts of |x| > 0 and the width of a bin; bin k holds k·w ≤ |x| < (k + 1)·w.

        There are floor(amax / w) + 1 bins, so the last one holds the largest magnitude.

        Raises:
            CalibrationError: there are no bins.
        """
        self._require_bins()
        used = int(self.magnitude / self.width) + 1
        return self.positive[:used] + self.negative[:used], self.width

    def signed_histogram(self) -> tuple[Bins, float, int]:
        """Counts of x ≠ 0 along the real axis, the width w of a bin, and how many bins lie below 0.

        With m bins below zero, bin k ≥ m holds (k − m)·w ≤ x < (k − m + 1)·w and bin k < m holds
        (k − m)·w < x ≤ (k − m + 1)·w. The first and last bins hold the extrema.

        Raises:
            CalibrationError: there are no bins.
        """
        self._require_bins()
        below = int(-self.minimum / self.width) + 1 if self.negative.any() else 0
        above = int(self.maximum / self.width) + 1 if self.positive.any() else 0
        return np.concatenate([self.negative[:below][::-1], self.positive[:above]]), self.width, below

    def _require_bins(self) -> None:
        if not self.binned:
            raise CalibrationError(
                "statistics", "hold extrema but no histogram", "Collect with bins, or use the method minmax"
            )


def _grown(bins: Bins, exponents: int) -> Bins:
    """The counts after the covered range was doubled ``exponents`` times."""
    step = 1 << min(exponents, BIN_BITS)
    grown = np.zeros(BINS, np.int64)
    grown[: BINS // step] = bins.reshape(-1, step).sum(axis=1)
    return grown
