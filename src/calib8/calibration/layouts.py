"""Histograms with the very bins of another tool, which depend on the largest magnitude of a first pass.

With a = max |x| of the tensor, every step rounded as the tool rounds it:

    TENSORRT   floor(2048 · |x| / a)                       |x| = a in the last bin, x = 0 in none, exact
    NCNN       floor((|x| / a) · 2048)                     same, each step a float32
    TENGINE    |x| / (a / 2047), nearest integer           ties away from zero, x = 0 in none, float32
    PYTHON     2048 equal bins over [0, a]                 numpy.histogram: edges rounded to float32,
    MXNET      8001 equal bins over [−a, a]                the last bin holds its upper edge, zeros count

A bin of each of them is an interval of float32 values. With an integer key for every float32 that ascends as
the values do (its bits; those below the sign flipped where x < 0), the smallest key of each bin is its exact
edge, so the native kernel compares integers and gives what the definition here gives, on every CPU.

Counts of equal layout and limit are added: exact, in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8._core import layouts as native
from calib8.errors import CalibrationError

Values = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
Keys = npt.NDArray[np.int64]
Bins = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """How a tool makes the histogram of a tensor.

    Attributes:
        name: of the tool, for messages.
        bins: number of bins.
        magnitudes: the bin depends on |x| alone; else negative values lie below positive ones.
        below: share of the bins that lie below 0, 0 or ½.
        index: bins of float32 values |x| ≤ limit for a limit > 0; −1 for a value that is left out because
            it lies below the first bin. It ascends with the values.
    """

    name: str
    bins: int
    magnitudes: bool
    below: float
    index: Callable[[Values, float], Indices]

    def counter(self, limit: float) -> native.KeyCounter:
        """An empty native counter whose bins are those of ``index``.

        Args:
            limit: largest magnitude, a float32 value > 0.
        """
        per_unit = (1.0 - self.below) * self.bins / limit
        edges = self.edges(limit).astype(np.int32)
        return native.KeyCounter(edges, self.magnitudes, per_unit, self.below * self.bins)

    def edges(self, limit: float) -> Keys:
        """Smallest key of each bin, and behind them the first key beyond ``limit``: [bins + 1], ascending.

        Found by halving an interval of keys, a short one around equal bins if it will do.
        """
        largest = int(_keys(np.array([limit], np.float32))[0])
        lowest = 0 if self.magnitudes else -1 - largest
        wanted = np.arange(self.bins)
        nearby = (wanted - self.below * self.bins) / ((1.0 - self.below) * self.bins) * limit
        near = _keys(nearby.astype(np.float32))
        low, high = np.maximum(near - 9, lowest - 1), np.minimum(near + 9, largest + 1)
        low = np.where(self._reached(low, limit, lowest, largest), lowest - 1, low)
        high = np.where(self._reached(high, limit, lowest, largest), high, largest + 1)
        while (high - low > 1).any():
            middle = (low + high) // 2
            reached = self._reached(middle, limit, lowest, largest)
            high = np.where(reached & (middle > low), middle, high)
            low = np.where(reached, low, middle)
        return np.append(high, largest + 1)

    def _reached(self, keys: Keys, limit: float, lowest: int, largest: int) -> npt.NDArray[np.bool_]:
        """Whether the value of key i lies in bin i or higher: those below ``lowest`` do not, those above
        ``largest`` do."""
        found = self.index(_values(np.clip(keys, lowest, largest)), limit) >= np.arange(self.bins)
        return np.where(keys < lowest, False, found | (keys > largest))


@dataclass(frozen=True, eq=False)
class LayoutCounts:
    """The histogram of one tensor in the bins of a layout.

    Attributes:
        layout: whose bins.
        limit: the largest magnitude that they were made for; 0: nothing but zeros, and no bins.
        bins: int64 counts [layout.bins], all 0 where the limit is 0.
    """

    layout: Layout
    limit: float
    bins: Bins

    def __post_init__(self) -> None:
        """Refuses counts that do not fit the layout (ValueError) and makes them read-only."""
        if self.bins.shape != (self.layout.bins,) or self.bins.dtype != np.int64 or self.bins.min() < 0:
            raise ValueError(f"{self.layout.name}: bins are {self.bins.dtype} {list(self.bins.shape)}")
        self.bins.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        """Equal in layout, limit and every count."""
        if not isinstance(other, LayoutCounts):
            return NotImplemented
        same = self.layout == other.layout and self.limit == other.limit
        return same and np.array_equal(self.bins, other.bins)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def from_values(cls, layout: Layout, limit: float, values: Values) -> LayoutCounts:
        """Counts of an array of any shape: the definition that the native kernel must match.

        Raises:
            CalibrationError: a value is no finite float32 or lies beyond ``limit``.
        """
        if values.dtype != np.float32 or not (np.abs(values) <= np.float32(limit)).all():
            raise CalibrationError(
                "values", f"are not all float32 up to {limit}", "Give the limit of these very values"
            )
        if limit == 0.0:
            return cls(layout, 0.0, np.zeros(layout.bins, np.int64))
        found = layout.index(values.ravel(), limit)
        return cls(layout, limit, np.bincount(found[found >= 0], minlength=layout.bins).astype(np.int64))

    def merge(self, other: LayoutCounts) -> LayoutCounts:
        """Counts of the values of both; exact, associative and commutative.

        Raises:
            CalibrationError: the two have different bins.
        """
        if self.layout != other.layout or self.limit != other.limit:
            mine, theirs = (f"{c.layout.name} up to {c.limit}" for c in (self, other))
            raise CalibrationError(
                "counts", f"of {mine} and of {theirs} do not add up", "Count both with the same bins"
            )
        return LayoutCounts(self.layout, self.limit, self.bins + other.bins)


def _keys(values: Values) -> Keys:
    """Integers in the order of the values, −0.0 directly below 0.0; those of |x| are the same."""
    bits = values.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -1 - (bits & 0x7FFFFFFF), bits)


def _values(keys: Keys) -> Values:
    """The float32 of each key."""
    bits = np.where(keys < 0, (-1 - keys) | 0x80000000, keys)
    return bits.astype(np.uint32).view(np.float32)


def _tensorrt(values: Values, limit: float) -> Indices:
    magnitudes = np.abs(values).astype(np.float64)
    # Exact: the distance of a quotient of float32 numbers from an integer is never lost in float64.
    found = np.minimum(magnitudes * 2048.0 / limit, 2047.0).astype(np.int64)
    return np.where(magnitudes > 0, found, -1)


def _ncnn(values: Values, limit: float) -> Indices:
    magnitudes = np.abs(values)
    found = magnitudes / np.float32(limit) * np.float32(2048)
    return np.where(magnitudes > 0, np.minimum(found, np.float32(2047)).astype(np.int64), -1)


def _tengine(values: Values, limit: float) -> Indices:
    magnitudes = np.abs(values)
    nonzero = np.maximum(magnitudes, np.finfo(np.float32).smallest_subnormal)
    with np.errstate(divide="ignore", over="ignore"):  # a limit of few denormal steps
        quotient = np.minimum(nonzero / (np.float32(limit) / np.float32(2047)), np.float32(2047))
    nearest = np.floor(quotient.astype(np.float64) + 0.5).astype(np.int64)
    return np.where(magnitudes > 0, nearest, -1)


def _equal_bins(values: Values, low: float, high: float, bins: int) -> Indices:
    """The bin of ``numpy.histogram`` with NumPy 1: edges computed in float64, rounded to float32."""
    found = np.searchsorted(equal_edges(low, high, bins), values, side="right") - 1
    return np.minimum(found, bins - 1).astype(np.int64)


def equal_edges(low: float, high: float, bins: int) -> Values:
    """Edges [bins + 1] of equal bins as NumPy makes them for float32 values."""
    edges = np.arange(bins + 1) * ((high - low) / bins) + low
    edges[-1] = high
    return edges.astype(np.float32)


def _python(values: Values, limit: float) -> Indices:
    return _equal_bins(values, 0.0, limit, 2048)


def _mxnet(values: Values, limit: float) -> Indices:
    return _equal_bins(values, -limit, limit, 8001)


TENSORRT: Final = Layout("TensorRT", 2048, True, 0.0, _tensorrt)
NCNN: Final = Layout("ncnn", 2048, True, 0.0, _ncnn)
TENGINE: Final = Layout("Tengine", 2048, True, 0.0, _tengine)
PYTHON: Final = Layout("the Python form", 2048, False, 0.0, _python)
MXNET: Final = Layout("MXNet", 8001, False, 0.5, _mxnet)
LAYOUTS: Final = (TENSORRT, NCNN, TENGINE, PYTHON, MXNET)
