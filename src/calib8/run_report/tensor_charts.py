"""Activations before and after quantization, and weights by channel: the numbers that are drawn.

n(v)        how many values lie below v: the counts of bins added up, a bin filled evenly
code q      stands for the values from s·(q − z − ½) to s·(q − z + ½); the first and the last one for all
            that is clipped too
codes[q]    n(upper end) − n(lower end), zeros to the code of 0
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.tensor_codes import TensorCode
from calib8.analysis.weight_noise import stored_weight
from calib8.calibration.ranges import clipped_share
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.model.graph import constant
from calib8.model.layer import layer_of
from calib8.report.pictures import drawn_histogram
from calib8.run_report.told import Channels, TensorShown
from calib8.table import Range, TableEntry

BARS: Final = 256
"""Bars of a histogram at most; codes of 16 bits are added up to so many."""

CHANNELS: Final = 128
"""Entries of weights at most; more channels are joined with their neighbours."""

F64 = npt.NDArray[np.float64]


def tensor_shown(
    name: str, counts: TensorStatistics | None, code: TensorCode | None, entry: TableEntry | None
) -> TensorShown:
    """What is drawn of an activation.

    Args:
        name: of the tensor.
        counts: what was seen of it, float32 values of the float model; None: nothing.
        code: its codes; None: it has none. Codes by channel are told, not drawn.
        entry: its line in the table, None without.
    """
    chosen = None if code is None else code.representable
    method = "" if entry is None else entry.method
    if counts is None or not counts.finite:
        observed = None if entry is None or not entry.count else _ends(entry.observed)
        clipped = None if entry is None or not entry.count else entry.clipped
        return TensorShown(name, observed, chosen, _in_words(code), method, clipped)
    clipped = None if chosen is None else clipped_share(counts, Range(*chosen).widened_to_zero())
    observed = _ends(Range(counts.minimum, counts.maximum))
    if not counts.binned:
        return TensorShown(name, observed, chosen, _in_words(code), method, clipped, counts.finite)
    drawn = code is not None and len(code.scale) == 1
    codes, together = codes_taken(counts, code) if drawn and code is not None else ((), 1)
    return TensorShown(
        name, observed, chosen, _in_words(code), method, clipped, counts.finite, counts.zeros,
        drawn_histogram(counts, BARS), codes, 0 if code is None else code.spec.qmin, together,
    )  # fmt: skip


def codes_taken(counts: TensorStatistics, code: TensorCode) -> tuple[tuple[float, ...], int]:
    """How many values get each code, see the top of the file; and how many codes an entry stands for.

    Args:
        counts: with bins.
        code: one scale for all.
    """
    bins, width, below = counts.signed_histogram()
    edges = (np.arange(bins.size + 1) - below) * width
    below_edge = np.concatenate([[0.0], np.cumsum(bins, dtype=np.float64)])
    spec, scale, point = code.spec, code.scale[0], code.zero_point[0]
    inner = scale * (np.arange(spec.qmin + 1, spec.qmax + 1) - point - 0.5)
    reached = np.interp(inner, edges, below_edge) if bins.size else np.zeros(inner.size)
    total = float(below_edge[-1])
    taken: F64 = np.diff(np.concatenate([[0.0], reached, [total]]))
    taken[min(max(point, spec.qmin), spec.qmax) - spec.qmin] += counts.zeros
    together = -(-taken.size // BARS)
    padded = np.zeros(-(-taken.size // together) * together)
    padded[: taken.size] = taken
    return tuple(padded.reshape(-1, together).sum(axis=1).tolist()), together


def channels_of(node: ir.Node | None) -> Channels | None:
    """Smallest and largest weight of every output channel of a layer, as it is stored; None without any."""
    layer = layer_of(node)
    if layer is None:
        return None
    array = stored_weight(layer)
    if array is None:
        plain = constant(layer.weight)
        if plain is None or plain.dtype.kind != "f":
            return None
        array = plain.astype(np.float32)
    if not array.size:
        return None
    split = layer.by_channel(array)
    rows = split.reshape(split.shape[0] * split.shape[1], -1)
    low, high = rows.min(axis=1), rows.max(axis=1)
    together = -(-len(rows) // CHANNELS)
    starts = np.arange(0, len(rows), together)
    return Channels(
        len(rows), tuple(np.minimum.reduceat(low, starts).tolist()),
        tuple(np.maximum.reduceat(high, starts).tolist()), together,
    )  # fmt: skip


def _ends(range_: Range) -> tuple[float, float]:
    whole = range_.widened_to_zero()
    return whole.min, whole.max


def _in_words(code: TensorCode | None) -> str:
    """Such as ``uint8, scale 0.0235, zero point 114``."""
    if code is None:
        return ""
    if len(code.scale) > 1:
        return f"{code.spec.dtype.name}, {len(code.scale)} scales"
    return f"{code.spec.dtype.name}, scale {code.scale[0]:.4g}, zero point {code.zero_point[0]}"
