"""A function of a layer's result as a curve of integers: where its segments lie, what is in them, how near.

    x = v·δ,   F(x) = f(x) / s_y + z_y − lowest code,   y ≈ 64·F(x) + 32        (``rules.CurveRescale``)
               F(x) = (f(x) / s_y + z_y − lowest code) / 256,   y ≈ 64·F(x)      of 16-bit codes

A code below is one of 8 bits: of 16-bit codes the 256th part of their range.

δ is chosen so that 16 bits reach as far as the codes change. For every width of a segment its polynomial
goes through F at the three nodes of Chebyshev, which is close to the best one; 32 segments side by side are
taken where they, and a straight line on either side of them, are nearest to F. A corner of F (HardSwish at
±3) is put between two segments by the choice of δ. Among all widths the smallest error counts, measured at
every v, for real numbers up to half a step beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import UnsupportedModelError
from calib8.program.ops.rescale import curve_values
from calib8.program.program import Slot
from calib8.program.rounding.linear import layer_rescale
from calib8.program.rules import (
    CURVE_FRACTION_BITS,
    CURVE_SEGMENTS,
    CURVE_SHIFT_MAX,
    F32,
    I16,
    CurveRescale,
    FloatRescale,
    Profile,
)

Floats = npt.NDArray[np.float64]
Function = Callable[[Floats], npt.NDArray[Any]]

MAX_ERROR: Final = 0.25
"""In codes: a curve that is farther from its function is none."""

GOOD_ERROR: Final = 0.07
"""In codes: no better curve is looked for."""

WIDE_GOOD_ERROR: Final = 0.0
"""Of 16-bit codes all curves are compared."""

FLAT: Final = 0.02
"""In codes: how much a function may still change where it counts as constant."""

WIDE_FLAT: Final = 0.002
"""The same of 16-bit codes."""

FAR: Final = 256.0
"""Codes beyond the range of the type up to which a function is followed."""

NEAR: Final = 8.0
"""Codes beyond the clamp up to which a corner counts."""

ONE: Final = 1 << CURVE_FRACTION_BITS
INT16: Final = 1 << 15
SHIFTS: Final = range(CURVE_SHIFT_MAX, 6, -1)
POINTS: Final = 16
"""Per segment, at which a polynomial is compared."""

NODES: Final = np.float64(0.5) - 0.5 * np.cos((2.0 * np.arange(3) + 1.0) * (np.pi / 6.0))
THROUGH_NODES: Final = np.linalg.inv(np.vander(NODES, increasing=True))


@dataclass(frozen=True)
class Aim:
    """What a curve is to be near.

    Attributes:
        codes: real numbers → codes above the lowest one, not rounded.
        low, high: the clamp of the codes, above the lowest one.
        wide: the codes have 16 bits.
        beyond: how far outside the clamp codes are still told apart, in codes of the type; -0.5 where only
            those that round to different codes are.
    """

    codes: Callable[[Floats], Floats]
    low: float
    high: float
    wide: bool = False
    beyond: float = 0.5

    @property
    def unit(self) -> int:
        """Codes of the type in one as they are counted here."""
        return 256 if self.wide else 1

    @property
    def half(self) -> int:
        """What ``value`` has to have more, in 64ths of a code, so that what is cut off is rounded."""
        return 0 if self.wide else ONE // 2

    def clamped(self, codes: Floats) -> Floats:
        """What rounding and the clamp can tell apart."""
        return np.clip(codes, self.low - self.beyond / self.unit, self.high + self.beyond / self.unit)

    def followed(self, x: Floats) -> Floats:
        """Codes at real numbers, finite."""
        with np.errstate(all="ignore"):
            codes = self.codes(x)
        return np.clip(np.nan_to_num(codes, nan=-FAR), self.low - FAR, self.high + FAR)


@dataclass(frozen=True, eq=False)
class LayerSums:
    """The sums that a curve begins with.

    Attributes:
        input_scale, weight_scales: their steps are worth ``input_scale · weight_scales[c]``.
        reach: the largest magnitude of a real number that they can stand for.
        fully_connected, wide_sums: as ``layer_rescale`` takes them.
    """

    input_scale: float
    weight_scales: F32
    reach: float
    fully_connected: bool = False
    wide_sums: int | None = None


def curve_rescale(
    profile: Profile, function: Function, sums: LayerSums, target: Slot, low: int, high: int
) -> CurveRescale | None:
    """The curve of a function; None where there is none within ``MAX_ERROR``.

    Args:
        profile: the rounding rules of the step before the curve.
        function: of real numbers, as an array.
        sums: of the layer.
        target: slot of the codes.
        low, high: their clamp.
    """
    aim = _aim(function, target, low, high)
    return _best(profile, sums, aim) or _best(profile, sums, replace(aim, beyond=-0.5))


def _best(profile: Profile, sums: LayerSums, aim: Aim) -> CurveRescale | None:
    good = WIDE_GOOD_ERROR if aim.wide else GOOD_ERROR
    best: CurveRescale | None = None
    for step, shift in _candidates(aim, _range(aim, sums.reach)):
        found = _fitted(profile, sums, aim, step, shift)
        if found is not None and (best is None or found.error < best.error):
            best = found
        if best is not None and best.error <= 1000 * good * aim.unit:
            break
    return best if best is not None and best.error <= 1000 * MAX_ERROR * aim.unit else None


def _aim(function: Function, target: Slot, low: int, high: int) -> Aim:
    lowest = int(np.iinfo(target.dtype).min)
    unit = 256 if target.is_wide else 1
    scale, zero = unit * target.scale, (target.zero_point - lowest) / unit
    ends = (low - lowest) / unit, (high - lowest) / unit
    return Aim(lambda x: function(x).astype(np.float64) / scale + zero, *ends, target.is_wide)


def _range(aim: Aim, reach: float) -> float:
    """How far from 0 the codes still change."""
    distances = np.geomspace(reach, reach * 2.0**-24, 3000)
    ends = []
    for sign in (1.0, -1.0):
        codes = aim.clamped(aim.followed(sign * distances))
        changed = np.nonzero(np.abs(codes - codes[0]) > (WIDE_FLAT if aim.wide else FLAT))[0]
        ends.append(distances[max(changed[0] - 1, 0)] if changed.size else distances[-1])
    return float(max(ends))


def _candidates(aim: Aim, far: float) -> Iterator[tuple[float, int]]:
    """Steps δ, float32 values, with widths of segments: those that put corners between segments first."""
    corners = _corners(aim, far)
    for shift in SHIFTS:
        for corner in corners:
            count = int(corner * 2.0 ** (15 - shift) / far)  # segments from 0 to the corner
            if count:
                yield float(np.float32(corner / count / (1 << shift))), shift
    for stretch in (1.0, 1.25, 1.5):
        for shift in SHIFTS:
            yield float(np.float32(far * stretch / (INT16 - 1))), shift


def _corners(aim: Aim, far: float) -> list[float]:
    """Magnitudes of up to two places, 0 aside, where the slope of the function jumps."""
    places: list[float] = []
    x = np.linspace(-1.05 * far, 1.05 * far, 2049)
    codes = aim.followed(x)
    told = np.abs(codes - aim.clamped(codes))[1:-1] < NEAR
    bends = np.abs(np.diff(codes, 2)) * told
    around = np.lib.stride_tricks.sliding_window_view(np.pad(bends, 8, mode="edge"), 17)
    sharp = (bends > FLAT) & (bends >= around.max(axis=1)) & (bends > 4 * np.median(around, axis=1))
    for index in np.nonzero(sharp)[0]:
        low, high = x[index], x[index + 2]
        for _ in range(8):
            near = np.linspace(low, high, 17)
            sharpest = int(np.abs(np.diff(aim.followed(near), 2)).argmax())
            low, high = near[sharpest], near[sharpest + 2]
        place = abs(low + high) / 2
        if place > far * 1e-3 and not any(abs(place - other) < far * 1e-3 for other in places):
            places.append(float(place))
    return sorted(places)[:2]


@dataclass(frozen=True, eq=False)
class Polynomials:
    """F on all segments of one width that 16 bits hold, a segment's length counted as 1.

    Attributes:
        parts: [segments, 3], constant first.
        ends: F at the first place of every segment, and behind the last one.
        errors: of every polynomial.
    """

    parts: Floats
    ends: Floats
    errors: Floats


def _polynomials(aim: Aim, width: float, shift: int) -> Polynomials:
    count = 1 << (16 - shift)
    first = np.arange(-count // 2, count // 2)[:, None]
    parts = aim.followed((first + NODES) * width) @ THROUGH_NODES.T
    inside = np.arange(POINTS + 1) / POINTS
    wanted = aim.followed((first + inside) * width)
    found = parts @ np.vander(inside, 3, increasing=True).T
    errors = np.abs(aim.clamped(found) - aim.clamped(wanted)).max(axis=1)
    return Polynomials(parts, np.append(wanted[:, 0], wanted[-1, -1]), errors)


def _fitted(profile: Profile, sums: LayerSums, aim: Aim, step: float, shift: int) -> CurveRescale | None:
    """The best curve with a step and a width of segments."""
    try:
        steps = layer_rescale(
            profile,
            sums.input_scale,
            sums.weight_scales,
            step,
            fully_connected=sums.fully_connected,
            wide_sums=sums.wide_sums,
        )
    except UnsupportedModelError:
        return None
    if isinstance(steps, FloatRescale) and not steps.factor.any():
        return None
    polynomials = _polynomials(aim, step * (1 << shift), shift)
    place, slopes = _window(aim, polynomials, shift)
    parts = polynomials.parts[place : place + CURVE_SEGMENTS]
    value, slope, bend = (np.rint(ONE * part) for part in parts.T)
    if (np.abs(slope) + np.abs(bend)).max() >= INT16:
        return None
    first = place - (1 << (15 - shift))
    below, above = (round(end * _steepest(shift)) for end in slopes)
    rows = {"value": _int16(value + aim.half), "slope": _int16(slope), "bend": _int16(bend)}
    return _measured(CurveRescale(steps, shift, first, **rows, below=below, above=above, error=0), aim, step)


def _int16(numbers: Floats) -> I16:
    return np.clip(numbers, -INT16, INT16 - 1).astype(np.int16)


def _steepest(shift: int) -> float:
    """A slope of one code per segment, as parts of 2^15 per step."""
    return float(ONE * INT16 / (1 << shift))


def _window(aim: Aim, polynomials: Polynomials, shift: int) -> tuple[int, tuple[float, float]]:
    """The first of the 32 segments, and the slopes before and behind them in codes per segment."""
    errors = np.lib.stride_tricks.sliding_window_view(polynomials.errors, CURVE_SEGMENTS).max(axis=1)
    best, place, slopes = np.inf, 0, (0.0, 0.0)
    for start in np.argsort(errors, kind="stable"):
        if errors[start] >= best:
            break
        below = _straight(aim, polynomials, int(start), -1, shift)
        above = _straight(aim, polynomials, int(start) + CURVE_SEGMENTS, 1, shift)
        error = max(errors[start], below[0], above[0])
        if error < best:
            best, place, slopes = error, int(start), (below[1], above[1])
    return place, slopes


def _straight(aim: Aim, polynomials: Polynomials, end: int, side: int, shift: int) -> tuple[float, float]:
    """Error and slope of the line from the border of a segment to the end of 16 bits."""
    ends = polynomials.ends
    places = np.arange(end, len(ends)) if side > 0 else np.arange(end, -1, -1)
    if len(places) == 1:
        return 0.0, 0.0
    start = polynomials.parts[end - 1].sum() if side > 0 else polynomials.parts[end, 0]
    wanted, distance = ends[places], (places - end).astype(np.float64)
    middle = len(places) // 2
    slopes = [0.0, *((wanted[at] - start) / distance[at] for at in (middle, -1))]
    limit = (INT16 - 1) / _steepest(shift)
    tried = np.clip(slopes, -limit, limit)
    lines = start + tried[:, None] * distance
    errors = np.abs(aim.clamped(lines) - aim.clamped(wanted)).max(axis=1)
    least = int(errors.argmin())
    return float(errors[least]), float(tried[least])


def _measured(rule: CurveRescale, aim: Aim, step: float) -> CurveRescale:
    """The rule with its error: at every v, against real numbers that are rounded to it."""
    v = np.arange(-INT16, INT16)
    codes = aim.clamped((curve_values(v, rule) - aim.half) / ONE)
    borders = np.arange(-INT16, INT16 + 1).astype(np.float64) - 0.5
    beside = aim.clamped(aim.followed(borders * step))
    error = max(np.abs(codes - beside[:-1]).max(), np.abs(codes - beside[1:]).max())
    return replace(rule, error=math.ceil(1000 * error * aim.unit))
