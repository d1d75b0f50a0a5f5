"""What a number of samples says about others of their kind: bounds of what as many others will show.

A bound holds with a probability of 95 %, one-sided (z = 1.645), if all samples are drawn alike.

SQNR       R = Σ n_i / Σ s_i                        n_i: energy of the error, s_i: of the float outputs, run i
           SE = sd(n_i − R·s_i) / (mean(s) √n)      bound = −10 log10(R + z·√2·SE), √2 for two sets

Agreement  Counts say little: n samples without any difference prove no more than 1 − 0.05^(1/n), 98.5 % for
           n = 200. How far every sample is from another class says more:

           m_i   float score of the best class less the second best one's: the margin
           w_i   what the int8 model takes away of it; the class changes where w_i > m_i
           σ_i   standard deviation of the errors of the scores of sample i; t = m/σ, u = w/σ

           pairs  P = (1/n²) Σ_i Σ_j g_i·[u_j ≥ t_i]       the errors of every sample on the margin of every
                  SE² = (var_i + var_j of the row and column means) / n
           near   P = f·mean(max(u, 0))·mean(g),  f = (k − 1) / (n·t_(k)),  k = n/4
                  the k smallest margins tell how dense they lie near 0, where classes change
                  SE² = P²·(1/(k − 1) + var(max(u, 0)) / (n·mean²)) + (P/mean(g))²·var(g)/k

           Of the two the one with the larger P + z·SE counts, with g_i = 1.
           rate     P + z·SE                     the share of all samples whose class changes
           others   a/n, the least a with        X: how many of n others change, negative binomial
                    Prob(X ≤ a) ≥ 0.95           (Poisson, its mean a gamma variable n·P ± n·SE)
           bound = 1 − max(rate, others)

Drop       g_i = 1 where the label is the float model's best class (to lose), −1 where it is the second best
           (to win), else 0: the rate is that of g, X the losses less the wins, the bound max(rate, others).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.tuning.promise import HIGHEST_DB

Z: Final = 1.645
"""Quantile of the normal distribution for 95 %, one-sided."""

LEVEL: Final = 0.95

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Margins:
    """Rows of class scores of both models, as far as they decide about classes.

    Attributes:
        margin: float64 [n], ≥ 0, see the top of the file.
        loss: float64 [n], what the int8 model takes away of the margin; inf where a score is not finite.
        spread: float64 [n], ≥ 0, standard deviation of the errors of the scores.
    """

    margin: F64
    loss: F64
    spread: F64


def margins(reference: npt.NDArray[np.generic], scores: npt.NDArray[np.generic]) -> Margins:
    """Of rows [n, classes], at least two classes, in float and in int8."""
    real, coded = reference.astype(np.float64), scores.astype(np.float64)
    rows = np.arange(len(real))
    best = np.argmax(real, axis=1)
    before, after = _lead(real, rows, best), _lead(coded, rows, best)
    with np.errstate(invalid="ignore"):
        loss, spread = before - after, np.std(coded - real, axis=1)
    broken = ~np.isfinite(coded).all(axis=1)
    return Margins(before, np.where(broken, np.inf, loss), np.where(broken, 1.0, spread))


def runner_up(reference: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Best and second best class of every row; the lower one first among equals."""
    order = np.argsort(-reference.astype(np.float64), axis=1, kind="stable")
    return order[:, 0], order[:, 1]


def change_bound(found: Margins, gain: F64) -> float:
    """Upper bound of the mean of ``gain`` over samples whose class changes, of all and of as many others.

    Args:
        found: of the samples, n of them.
        gain: float64 [n] of −1, 0 and 1; for agreement all 1.
    """
    if not np.all(np.isfinite(found.loss)):
        return float(np.max(np.abs(gain)))
    safe = np.where(found.spread > 0.0, found.spread, 1.0)
    distance = np.where(found.spread > 0.0, found.margin / safe, np.inf)
    step = np.where(found.spread > 0.0, found.loss / safe, 0.0)
    n = len(gain)
    lost = _counts(_rate(distance, step, (gain > 0.0).astype(np.float64)), n)
    won = _counts(_rate(distance, step, (gain < 0.0).astype(np.float64)), n)
    likely = np.cumsum(np.convolve(lost, won[::-1]))
    others = int(np.searchsorted(likely, LEVEL)) - (len(won) - 1)
    return max(_upper(_rate(distance, step, gain)), others / n)


def _rate(distance: F64, step: F64, gain: F64) -> tuple[float, float]:
    """Mean of ``gain`` over changes and its standard error, by the estimate that says worse."""
    return max(_pairs(distance, step, gain), _near(distance, step, gain), key=_upper)


def _upper(rate: tuple[float, float]) -> float:
    mean, error = rate
    return mean + Z * error


def _counts(rate: tuple[float, float], n: int) -> F64:
    """Probabilities of 0, 1, 2 … changes among n samples."""
    mean, error = n * rate[0], n * rate[1]
    if mean <= 0.0:
        return np.ones(1)
    most = min(n, int(mean + 12.0 * math.sqrt(mean + error * error)) + 12)
    shape = (mean / error) ** 2 if error > 0.0 else math.inf
    if shape > 1e8:  # Poisson
        logs = [x * math.log(mean) - mean - math.lgamma(x + 1) for x in range(most + 1)]
    else:
        stay, go = -math.log1p(mean / shape), math.log(mean / (shape + mean))
        logs = [
            math.lgamma(x + shape) - math.lgamma(shape) - math.lgamma(x + 1) + shape * stay + x * go
            for x in range(most + 1)
        ]
    found = np.exp(np.array(logs))
    return np.asarray(found / np.sum(found))


def _pairs(distance: F64, step: F64, gain: F64) -> tuple[float, float]:
    n = len(distance)
    steps, rows = np.sort(step), np.argsort(distance, kind="stable")
    row_means = gain * (n - np.searchsorted(steps, distance, side="left")) / n
    passed = np.concatenate([[0.0], np.cumsum(gain[rows])])
    column_means = passed[np.searchsorted(distance[rows], step, side="right")] / n
    variance = (_variance(row_means) + _variance(column_means)) / n
    return float(np.mean(row_means)), math.sqrt(variance)


def _near(distance: F64, step: F64, gain: F64) -> tuple[float, float]:
    n = len(distance)
    k = max(2, n // 4)
    rows = np.argsort(distance, kind="stable")[:k]
    reach, taken = float(distance[rows[-1]]), np.maximum(step, 0.0)
    mean = float(np.mean(taken))
    if not math.isfinite(reach) or mean == 0.0:
        return 0.0, 0.0
    if reach == 0.0:
        return float(np.max(np.abs(gain))), 0.0
    share, near = (k - 1) / (n * reach) * mean, gain[rows]
    relative = 1.0 / (k - 1) + _variance(taken) / (n * mean * mean)
    centre = float(np.mean(near))
    error = share * math.sqrt(centre * centre * relative + _variance(near) / k)
    return share * centre, error


def ratio_bound_db(signal: F64, noise: F64) -> tuple[float, float]:
    """SQNR in dB and its lower bound, from energies of single runs [n]; −120 … 120."""
    total = float(np.sum(np.sort(signal)))
    if not np.all(np.isfinite(noise)) or not math.isfinite(total):
        return -HIGHEST_DB, -HIGHEST_DB
    if total == 0.0:
        found = HIGHEST_DB if not np.any(noise) else -HIGHEST_DB
        return found, found
    ratio, n = float(np.sum(np.sort(noise))) / total, len(signal)
    error = math.sqrt(_variance(noise - ratio * signal) / n) * n / total
    return _decibels(ratio), _decibels(ratio + Z * math.sqrt(2.0) * error)


def counted_limit(samples: int) -> float:
    """The highest share that so many samples without a difference prove by counting alone, 0 … 1."""
    return float((1.0 - LEVEL) ** (1.0 / samples))


def samples_to_count(share: float) -> int:
    """How many samples without a difference prove ``share`` by counting alone, 0 ≤ share < 1."""
    return 1 if share <= 1.0 - LEVEL else math.ceil(math.log(1.0 - LEVEL) / math.log(share))


def _lead(scores: F64, rows: npt.NDArray[np.intp], best: npt.NDArray[np.intp]) -> F64:
    """Score of the class ``best`` less that of the best other one."""
    others = scores.copy()
    others[rows, best] = -np.inf
    with np.errstate(invalid="ignore"):
        return np.asarray(scores[rows, best] - others.max(axis=1))


def _variance(values: F64) -> float:
    return float(np.var(values, ddof=1)) if len(values) > 1 else 0.0


def _decibels(ratio: float) -> float:
    limit = 10.0 ** (-HIGHEST_DB / 10.0)
    return min(HIGHEST_DB, -10.0 * math.log10(max(ratio, limit))) if ratio < 1 / limit else -HIGHEST_DB
