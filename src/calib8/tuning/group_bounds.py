"""Bounds with a certainty of 95 % of figures that are no mean over samples, such as an average precision.

Delete-a-group jackknife over G = min(n, 20) groups, sample i in group i mod G:

    θ, θ_g    the figure of all samples, and without group g
    SE²       (G − 1)/G · Σ_g (θ_g − mean θ)²
    bound     θ − t·SE                     t: quantile of Student's distribution, G − 1 degrees of freedom

Samples that judge are ordered by the digests of what they hold, so groups are drawn as by lot, and are the
same ones every time. Where nothing failed in any group SE is 0, which proves nothing by itself. What counts
can tell is therefore a limit of the bound:

    shares (k of u boxes, lines)   1 − U(m)/u,  m = u·(1 − θ) of them failed
                                   U(m) = (m+1)·(1 − 1/(9(m+1)) + z/(3√(m+1)))³, the most that is likely to
                                   be expected where m are seen (Wilson and Hilferty's cube root)
    average precision              1 − U(0)/u, u true boxes: what is seen where nothing is lost
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from calib8.tuning.evidence import Z

GROUPS: Final = 20

_QUANTILES: Final = (
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753,
    1.746, 1.740, 1.734, 1.729,
)  # fmt: skip
"""Of Student's distribution for 95 %, one-sided; 1 … 19 degrees of freedom."""


def jackknife_bound(samples: int, figure: Callable[[Sequence[int]], float]) -> tuple[float, float]:
    """A figure and its lower bound; 0 where it cannot be told without one of the groups.

    Args:
        samples: how many there are, at least 2.
        figure: the figure of samples that count as often as the list says, 0 or 1 times each.
    """
    whole = figure([1] * samples)
    groups = min(samples, GROUPS)
    parts = [figure([int(index % groups != left) for index in range(samples)]) for left in range(groups)]
    if not all(map(math.isfinite, (whole, *parts))):
        return whole, 0.0
    centre = math.fsum(parts) / groups
    error = math.sqrt((groups - 1) / groups * math.fsum((part - centre) ** 2 for part in parts))
    return whole, whole - _QUANTILES[groups - 2] * error


def most_likely(failed: float) -> float:
    """U(m): so many failures may be expected where ``failed`` were seen."""
    count = max(failed, 0.0) + 1.0
    return count * (1.0 - 1.0 / (9.0 * count) + Z / (3.0 * math.sqrt(count))) ** 3


def counted_bound(share: float, units: int) -> float:
    """Lower bound of a share that was seen of so many units by counting alone; 0 without a unit."""
    return max(1.0 - most_likely(units * (1.0 - share)) / units, 0.0) if units else 0.0


def units_needed(share: float) -> float:
    """The fewest units that prove a share where none of them fails; inf for a share of 1."""
    return math.inf if share >= 1.0 else math.ceil(most_likely(0.0) / (1.0 - share) - 1e-9)


def mean_of(values: Sequence[float], copies: Sequence[int]) -> float:
    """The mean of values that count as often as ``copies`` says; NaN of none."""
    weights = np.asarray(copies)
    total = int(weights.sum())
    pairs = zip(values, copies, strict=True)
    return math.fsum(value * times for value, times in pairs) / total if total else math.nan
