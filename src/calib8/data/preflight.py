"""A look at the first batches before calibrating: does the preprocessing match what the model sees?

    implied range of a channel = (0 − mean)·scale … (255 − mean)·scale
    used share                 = observed (max − min) / implied (max − min), over all channels

A wrong mean or scale seldom fails; it shows as values far from the implied range.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.data.batches import Batch
from calib8.data.preprocess import Preprocess, value_range
from calib8.data.recipes import RECIPES, odd_recipe
from calib8.errors import DataError

LOW_USE: Final = 0.25
"""A used share below this is worth a warning: photographs fill nearly all of 0 … 255."""

FAR: Final = 300.0
"""A magnitude that arrays of three channels reach by no recipe for images."""

_COLORS: Final = 3

_TOLERANCE: Final = 1e-3  # of the implied range, for values computed elsewhere in another order


@dataclass(frozen=True)
class InputCheck:
    """What was observed at one input; tuples have one entry per channel.

    Attributes:
        input: its name.
        rows: entries of axis 0 seen.
        minimum, maximum, mean, std: of the finite values seen (std of the population); NaN where there
            were none.
        not_finite: number of NaN and infinite values.
        implied: (low, high) that mean and scale allow; None without preprocessing or where the number of
            channels differs.
        used: used share, 0 … ; None where ``implied`` is None.
        warnings: sentences about what looks wrong.
    """

    input: str
    rows: int
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    not_finite: int
    implied: tuple[tuple[float, float], ...] | None
    used: float | None
    warnings: tuple[str, ...]


@dataclass
class _Observed:
    """Running sums of one input, arrays of shape (channels,), float64."""

    rows: int
    count: npt.NDArray[np.float64]
    total: npt.NDArray[np.float64]
    squares: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    not_finite: int


def check_inputs(batches: Iterable[Batch], preprocess: Preprocess | None) -> tuple[InputCheck, ...]:
    """Statistics and warnings for every input, over all the batches given (a few are enough).

    Args:
        batches: the inputs as the model gets them.
        preprocess: what the images went through, or what they should look like; None: nothing is implied.

    Returns:
        One check per input, in the order of the model's inputs.

    Raises:
        DataError: there is no batch.
    """
    seen: dict[str, _Observed] = {}
    for batch in batches:
        for name, array in batch.inputs.items():
            values = _by_channel(array, preprocess)
            observed = _observe(values, len(array) if array.ndim else 1)
            seen[name] = _added(seen[name], observed, name) if name in seen else observed
    if not seen:
        raise DataError("input check", "there is no batch to look at", "Give at least one sample")
    return tuple(_checked(name, observed, preprocess) for name, observed in seen.items())


def _by_channel(array: npt.NDArray[np.generic], p: Preprocess | None) -> npt.NDArray[np.float64]:
    """Values as (channels, n); an array that is no image is one channel."""
    values = array.astype(np.float64)
    if values.ndim not in (3, 4) or (values.ndim == 3 and p is None):
        return values.reshape(1, -1)
    if p is not None:
        last = p.layout == "NHWC"
    else:
        last = values.shape[-1] in (1, 3) and values.shape[1] not in (1, 3)
    axis = values.ndim - 1 if last else values.ndim - 3
    return np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def _observe(values: npt.NDArray[np.float64], rows: int) -> _Observed:
    finite = np.isfinite(values)
    known = np.where(finite, values, 0.0)
    return _Observed(
        rows=rows,
        count=finite.sum(axis=1).astype(np.float64),
        total=known.sum(axis=1),
        squares=np.square(known).sum(axis=1),
        low=np.where(finite, values, np.inf).min(axis=1),
        high=np.where(finite, values, -np.inf).max(axis=1),
        not_finite=int(values.size - finite.sum()),
    )


def _added(a: _Observed, b: _Observed, name: str) -> _Observed:
    if a.count.shape != b.count.shape:
        problem = f"has {b.count.size} channels after {a.count.size}"
        raise DataError(f"input '{name}'", problem, "Give samples of one kind")
    return _Observed(
        rows=a.rows + b.rows,
        count=a.count + b.count,
        total=a.total + b.total,
        squares=a.squares + b.squares,
        low=np.minimum(a.low, b.low),
        high=np.maximum(a.high, b.high),
        not_finite=a.not_finite + b.not_finite,
    )


def _checked(name: str, seen: _Observed, p: Preprocess | None) -> InputCheck:
    count = np.where(seen.count > 0, seen.count, np.nan)
    mean = seen.total / count
    std = np.sqrt(np.maximum(seen.squares / count - np.square(mean), 0.0))
    low, high = (np.where(seen.count > 0, bound, np.nan) for bound in (seen.low, seen.high))
    implied = value_range(p) if p is not None and p.channels == seen.count.size else None
    used = None if implied is None else _used(low, high, np.array(implied))
    return InputCheck(
        input=name,
        rows=seen.rows,
        minimum=_floats(low),
        maximum=_floats(high),
        mean=_floats(mean),
        std=_floats(std),
        not_finite=seen.not_finite,
        implied=implied,
        used=used,
        warnings=tuple(_warnings(seen, p, implied, used)),
    )


def _used(
    low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], implied: npt.NDArray[np.float64]
) -> float | None:
    if np.isnan(low).all():
        return None
    spans = implied[:, 1] - implied[:, 0]
    return float(np.nansum(high - low) / spans.sum())


def _warnings(
    seen: _Observed, p: Preprocess | None, implied: tuple[tuple[float, float], ...] | None, used: float | None
) -> list[str]:
    found: list[str] = []
    if seen.not_finite:
        found.append(f"{seen.not_finite} values are NaN or infinite")
    if not seen.count.any():
        return found
    low, high = float(seen.low.min()), float(seen.high.max())
    shown = f"observed {low:.4g} … {high:.4g}"
    # One value per row, such as a sampling rate, may well be constant.
    constant = np.flatnonzero((seen.low == seen.high) & (seen.count > seen.rows))
    if constant.size == seen.count.size:
        found.append(f"all channels are constant ({shown})")
    elif constant.size:
        found.append(f"channels {', '.join(map(str, constant))} are constant")
    if implied is not None and used is not None:
        found.extend(_range_warnings(seen, implied, used, shown))
    odd = "" if p is None or implied is None else odd_recipe(p)
    if odd:
        found.append(odd)
    if p is None and seen.count.size == _COLORS and max(abs(low), abs(high)) > FAR:
        found.append(f"{shown} lies far outside of what images become: {RECIPES}")
    untouched = p is None or (p.dtype == "float32" and not any(p.mean) and set(p.scale) == {1})
    if untouched and low >= 0 and 16 < high <= 255:
        found.append(f"{shown} looks like raw pixels 0 … 255: right only if the model was trained on them")
    return found


def _range_warnings(
    seen: _Observed, implied: tuple[tuple[float, float], ...], used: float, shown: str
) -> list[str]:
    found: list[str] = []
    bounds = np.array(implied)
    slack = _TOLERANCE * (bounds[:, 1] - bounds[:, 0])
    outside = np.flatnonzero((seen.low < bounds[:, 0] - slack) | (seen.high > bounds[:, 1] + slack))
    allowed = f"{bounds[:, 0].min():.4g} … {bounds[:, 1].max():.4g}"
    if outside.size:
        channels = ", ".join(map(str, outside))
        found.append(f"{shown}, outside of the {allowed} that mean and scale allow (channels {channels})")
    elif used < LOW_USE and (seen.low < seen.high).any():
        found.append(f"{shown} uses {100 * used:.0f} % of the {allowed} that mean and scale allow")
    return found


def _floats(values: npt.NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
