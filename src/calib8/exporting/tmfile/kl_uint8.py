"""Ranges of uint8 codes by KL, as Tengine's quant_tool_uint8 chooses them (-a 1).

    low, high   smallest and largest value seen, w = (high − low) / 2047
    bin of x    ⌊x / w + ⌊−low / w⌋⌋ of 2048, both cut off towards 0; x = 0 in none
    edge[k]     (k + ½) · (high − low) / 2048 + low
    t           the bins kept from below, of the smallest KL of 256 levels, as for magnitudes
                (``calibration/ranges/entropy_tengine``)
    u           the same of the bins t … 0 in this order
    range       edge[t − u + 1] … edge[t], and 0

Numbers are float32. That bins are w wide and edges are those of 2048 bins is the tool's, and that t counts
from the lowest value seen, not from 0. Where all values are one, all lie in the first bin.
Source: OAID Tengine, quant_tool (``quant_tool_uint8.cpp``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.calibration.ranges.entropy_tengine import bins_kept
from calib8.model.runtime import Arrays
from calib8.model.taps import Taps
from calib8.progress import Progress, SampleCounter
from calib8.table import Range

BINS: Final = 2048
LEVELS: Final = 256

Bins = npt.NDArray[np.int64]


def counted(
    model: ir.Model,
    seen: Mapping[str, Range],
    runs: Iterable[Arrays],
    threads: int,
    progress: Progress,
) -> dict[str, Bins]:
    """Values of tensors in bins.

    Args:
        model: the float model; not changed.
        seen: tensor → smallest and largest value of these runs.
        runs: inputs of single runs.
        threads: for the model.
        progress: told how many runs are done.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    taps = Taps(model, seen, threads)
    found = {name: np.zeros(BINS, np.int64) for name in seen}
    counter = SampleCounter("calibrating, second pass", None, progress)
    for feeds in runs:
        values = taps.values(feeds)
        for name, limits in seen.items():
            found[name] += in_bins(values[name], limits)
        counter(1)
    return found


def in_bins(values: npt.NDArray[Any], seen: Range) -> Bins:
    """Counts [2048] of an array in the bins of its limits."""
    some = values[values != 0].astype(np.float32, copy=False)
    width = (np.float32(seen.max) - np.float32(seen.min)) / np.float32(BINS - 1)
    if not width:
        return np.bincount(np.zeros(some.size, np.int64), minlength=BINS).astype(np.int64)
    start = np.float32(int(np.float32(-seen.min) / width))
    places = np.clip(np.trunc(some / width + start), 0, BINS - 1)
    return np.bincount(places.astype(np.int64), minlength=BINS).astype(np.int64)


def kl_range(counts: Bins, seen: Range) -> Range:
    """The range of a tensor.

    Args:
        counts: of its values in bins.
        seen: smallest and largest of them; where both are 0, so is the range.
    """
    if not counts.any():
        return Range(0.0, 0.0)
    top = bins_kept(counts, LEVELS)
    bottom = top - bins_kept(counts[: top + 1][::-1], LEVELS) + 1
    low, high = (_edge(place, seen) for place in (bottom, top))
    return Range(min(low, 0.0), max(high, 0.0))


def _edge(place: int, seen: Range) -> float:
    step = (np.float32(seen.max) - np.float32(seen.min)) / np.float32(BINS)
    return float(np.float32(float(step) * (place + 0.5) + seen.min))
