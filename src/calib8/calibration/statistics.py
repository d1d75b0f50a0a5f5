"""What is remembered of every tensor while images pass: exact counts that can be merged in any order.

    covered    |x| < 2^exponent                            exponent ≥ −100
    width      w = 2^(exponent − 12)
    bin of x   floor(|x| / w), 0 … 4095                    x > 0 and x < 0 apart, x = 0 in no bin
    growth     by k: new bin j = sum of the old bins j·2^k … (j + 1)·2^k − 1

Only integers are kept, and floor(floor(a) / 2^k) = floor(a / 2^k): whoever counts which values in which
order, the merged statistics are the same to the last bit.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8 import _core
from calib8.errors import CalibrationError, TableError, UsageError
from calib8.files import atomic_output

BINS: Final = 4096
BIN_BITS: Final = 12
SMALLEST_EXPONENT: Final = -100
LARGEST_EXPONENT: Final = 128

STATISTICS_FORMAT: Final = "calib8-statistics"
STATISTICS_VERSION: Final = 1

Bins = npt.NDArray[np.int64]

_COLUMNS: Final[dict[str, type[np.generic]]] = {
    "count": np.int64,
    "zeros": np.int64,
    "nans": np.int64,
    "positive_infs": np.int64,
    "negative_infs": np.int64,
    "minimum": np.float32,
    "maximum": np.float32,
    "exponent": np.int32,
    "positive": np.int64,
    "negative": np.int64,
}
"""Fields of ``TensorStatistics`` and their types in the file, one row per tensor."""


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

    def __post_init__(self) -> None:
        """Refuses counters that contradict each other (ValueError) and makes the bins read-only."""
        for bins in (self.positive, self.negative):
            if bins.shape != (BINS,) or bins.dtype != np.int64 or bins.min() < 0:
                raise ValueError(f"bins must be {BINS} int64 counts, not {bins.dtype} {list(bins.shape)}")
            bins.setflags(write=False)
        if not SMALLEST_EXPONENT <= self.exponent <= LARGEST_EXPONENT:
            raise ValueError(f"exponent {self.exponent} is not in {SMALLEST_EXPONENT} … {LARGEST_EXPONENT}")
        scalars = (self.zeros, self.nans, self.positive_infs, self.negative_infs)
        binned = int(self.positive.sum()) + int(self.negative.sum())
        if min(scalars) < 0 or sum(scalars) + binned != self.count:
            raise ValueError(f"{self.count} values, but {sum(scalars) + binned} in the counters")
        if self.finite > 0 and not (
            -math.inf < self.minimum <= self.maximum < math.inf and self.magnitude < 2.0**self.exponent
        ):
            raise ValueError(f"[{self.minimum}, {self.maximum}] does not fit exponent {self.exponent}")

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
        return cls(0, 0, 0, 0, 0, math.inf, -math.inf, SMALLEST_EXPONENT, none, none.copy())

    @classmethod
    def from_values(cls, values: npt.NDArray[np.float32]) -> TensorStatistics:
        """Statistics of one array of any shape: the definition that the native kernel must match.

        Raises:
            CalibrationError: the values are not float32.
        """
        if values.dtype != np.float32:
            raise CalibrationError("values", f"are {values.dtype}", "Give float32")
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
        )

    @classmethod
    def from_accumulator(cls, accumulator: _core.TensorAccumulator) -> TensorStatistics:
        """A frozen copy of what the native kernel has counted so far."""
        return cls(**{field.name: getattr(accumulator, field.name) for field in fields(cls)})

    def merge(self, other: TensorStatistics) -> TensorStatistics:
        """Statistics of the values of both; exact, associative and commutative."""
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
        """
        used = int(self.magnitude / self.width) + 1
        return self.positive[:used] + self.negative[:used], self.width

    def signed_histogram(self) -> tuple[Bins, float, int]:
        """Counts of x ≠ 0 along the real axis, the width w of a bin, and how many bins lie below 0.

        With m bins below zero, bin k ≥ m holds (k − m)·w ≤ x < (k − m + 1)·w and bin k < m holds
        (k − m)·w < x ≤ (k − m + 1)·w. The first and last bins hold the extrema.
        """
        below = int(-self.minimum / self.width) + 1 if self.negative.any() else 0
        above = int(self.maximum / self.width) + 1 if self.positive.any() else 0
        return np.concatenate([self.negative[:below][::-1], self.positive[:above]]), self.width, below


@dataclass(frozen=True)
class Statistics:
    """Statistics of the tensors of one prepared model.

    Attributes:
        model_hash: hash of the prepared float graph.
        tensors: tensor name → statistics.
    """

    model_hash: str
    tensors: Mapping[str, TensorStatistics]

    def merge(self, other: Statistics) -> Statistics:
        """Statistics of the images of both runs; exact, associative and commutative.

        Raises:
            CalibrationError: the two were made for different models or tensors.
        """
        if self.model_hash != other.model_hash:
            raise CalibrationError(
                "statistics",
                f"made for two models ({self.model_hash}, {other.model_hash})",
                "Calibrate one model",
            )
        odd = sorted(self.tensors.keys() ^ other.tensors.keys())
        if odd:
            raise CalibrationError(odd[0], "is in only one of two statistics", "Collect both in the same way")
        merged = {name: self.tensors[name].merge(other.tensors[name]) for name in sorted(self.tensors)}
        return Statistics(self.model_hash, merged)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one .npz archive; equal statistics give equal bytes.

        Raises:
            OutputError: the file cannot be written; an old file stays intact.
        """
        header = {
            "format": STATISTICS_FORMAT,
            "version": STATISTICS_VERSION,
            "model_hash": self.model_hash,
            "names": sorted(self.tensors),
        }
        ordered = [self.tensors[name] for name in sorted(self.tensors)]
        columns = {
            name: np.array([getattr(t, name) for t in ordered], dtype) for name, dtype in _COLUMNS.items()
        }
        columns["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        with atomic_output(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            for name, column in columns.items():
                entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, always
                entry.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(entry, "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, column, allow_pickle=False)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Reads a file written by ``save``.

        Raises:
            TableError: the file cannot be read, is no such file, of another version, or broken.
        """
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
                columns = {name: archive[name] for name in archive.files}
            header = json.loads(columns["header"].tobytes())
        except Exception as error:  # a damaged archive: NumPy and zipfile raise a dozen unrelated types
            raise TableError(
                str(path), f"cannot be read ({error})", "Give statistics that calib8 wrote"
            ) from error
        _check_header(header, str(path))
        try:
            tensors = {name: _row(columns, row) for row, name in enumerate(header["names"])}
            return cls(str(header["model_hash"]), tensors)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise TableError(str(path), f"is broken ({error})", "Calibrate again") from error


def counting_isa() -> str:
    """Name of the instruction set that counts on this machine.

    Raises:
        UsageError: the environment variable CALIB8_ISA names one that is unknown or not available here.
    """
    try:
        return _core.isa()
    except ValueError as error:
        choice = f"CALIB8_ISA={os.environ.get('CALIB8_ISA', '')}"
        known = ", ".join(_core.available_isas())
        raise UsageError(choice, str(error), f"Unset it or use one of {known}") from error


def _grown(bins: Bins, exponents: int) -> Bins:
    """The counts after the covered range was doubled ``exponents`` times."""
    step = 1 << min(exponents, BIN_BITS)
    grown = np.zeros(BINS, np.int64)
    grown[: BINS // step] = bins.reshape(-1, step).sum(axis=1)
    return grown


def _check_header(header: Any, source: str) -> None:
    if not isinstance(header, dict) or header.get("format") != STATISTICS_FORMAT:
        raise TableError(source, f"is not a {STATISTICS_FORMAT} file", "Give statistics that calib8 wrote")
    if header.get("version") != STATISTICS_VERSION:
        raise TableError(
            source,
            f"has version {header.get('version')}, not {STATISTICS_VERSION}",
            "Calibrate again or update calib8",
        )


def _row(columns: Mapping[str, Any], row: int) -> TensorStatistics:
    values: dict[str, Any] = {}
    for name, dtype in _COLUMNS.items():
        if columns[name].dtype != dtype:
            raise ValueError(f"'{name}' is {columns[name].dtype}, not {np.dtype(dtype)}")
        value = columns[name][row]
        values[name] = value.copy() if value.ndim else value.item()
    return TensorStatistics(**values)
