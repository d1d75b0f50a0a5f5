"""What a number of samples says about all samples of their kind: bounds with a certainty of 95 %.

Bounds are one-sided (z = 1.645), and hold if all samples are drawn alike.

SQNR       R = Σ n_i / Σ s_i                        n_i: energy of the error, s_i: of the float outputs, run i
           SE = sd(n_i − R·s_i) / (mean(s) √n)      bound = −10 log10(R + z·SE)

Agreement  Counts say little: n samples without any difference prove no more than 0.05^(1/n), 98.5 % for
           n = 200. How far every sample is from another class says more:

           m_i   float score of the best class less the second best one's: the margin of sample i of N
           w_j   what the int8 model takes away of it in sample j of n; the class changes where w > m
           P     the share of samples whose class changes

           pairs  P = (1/(N·n)) Σ_i Σ_j g_i·[w_j > m_i]    the errors of every sample on every margin
           near   P = f·mean(max(w, 0))·mean(g),           f = (k − 1) / (N·m_(k)),  k = N^⅔
                  the k smallest margins tell how dense they lie near 0, where classes change
                  r²  = 1/(k − 1) + var(max(w, 0)) / (n·mean²)         of the logarithm of P, without g
                  SE² = P²·((exp(z·r) − 1)/z)² + (P/mean(g))²·var(g)/k

           pairs takes nothing for granted but varies widely, as few margins are that small; near varies
           little, and takes for granted that the k smallest margins lie no denser towards 0.
           change = max(pairs, near + z·SE), with g_i = 1; bound = 1 − change

           Margins need no int8 model: those of samples that calibrate count too, where all are of one kind.

Drop       g_i = 1 where the label is the float model's best class (to lose), −1 where it is the second best
           (to win), else 0; bound = change
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.tuning.promise import HIGHEST_DB

Z: Final = 1.645
"""Quantile of the normal distribution for 95 %, one-sided."""

LEVEL: Final = 0.95

F64 = npt.NDArray[np.float64]


def margins(reference: npt.NDArray[np.generic]) -> F64:
    """float64 [n], ≥ 0: of rows of float scores [n, classes], at least two classes."""
    real = reference.astype(np.float64)
    return _lead(real, np.argmax(real, axis=1))


def losses(reference: npt.NDArray[np.generic], scores: npt.NDArray[np.generic]) -> F64:
    """float64 [n]: what int8 scores take away of the margins of float ones; inf where one is not finite."""
    real, coded = reference.astype(np.float64), scores.astype(np.float64)
    best = np.argmax(real, axis=1)
    with np.errstate(invalid="ignore"):
        loss = _lead(real, best) - _lead(coded, best)
    return np.where(np.isfinite(coded).all(axis=1), loss, np.inf)


def runner_up(reference: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Best and second best class of every row; the lower one first among equals."""
    order = np.argsort(-reference.astype(np.float64), axis=1, kind="stable")
    return order[:, 0], order[:, 1]


def change_bound(margin: F64, gain: F64, loss: F64) -> float:
    """Upper bound of the mean of ``gain`` over the samples whose class changes, of all samples of the kind.

    Args:
        margin: float64 [N], see ``margins``.
        gain: float64 [N] of −1, 0 and 1; for agreement all 1.
        loss: float64 [n], see ``losses``; n need not be N.
    """
    if not np.all(np.isfinite(loss)):
        return float(np.max(np.abs(gain)))
    mean, error = _near(margin, gain, loss)
    return max(_pairs(margin, gain, loss), mean + Z * error)


def _pairs(margin: F64, gain: F64, loss: F64) -> float:
    steps = np.sort(loss)
    above = len(steps) - np.searchsorted(steps, margin, side="right")
    return float(np.mean(gain * above)) / len(steps)


def _near(margin: F64, gain: F64, loss: F64) -> tuple[float, float]:
    """Mean and its standard error."""
    k = max(2, int(len(margin) ** (2.0 / 3.0)))
    rows = np.argsort(margin, kind="stable")[:k]
    reach, taken = float(margin[rows[-1]]), np.maximum(loss, 0.0)
    mean = float(np.mean(taken))
    if mean == 0.0 or not math.isfinite(reach):
        return 0.0, 0.0
    if reach == 0.0:
        return float(np.max(np.abs(gain))), 0.0
    share, near = (k - 1) / (len(margin) * reach) * mean, gain[rows]
    ratio = math.sqrt(1.0 / (k - 1) + _variance(taken) / (len(loss) * mean * mean))
    relative = (math.exp(Z * ratio) - 1.0) / Z
    centre = float(np.mean(near))
    return share * centre, share * math.hypot(centre * relative, math.sqrt(_variance(near) / k))


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
    return _decibels(ratio), _decibels(ratio + Z * error)


def counted_limit(samples: int) -> float:
    """The highest share that so many samples without a difference prove by counting alone, 0 … 1."""
    return float((1.0 - LEVEL) ** (1.0 / samples))


def samples_to_count(share: float) -> int:
    """How many samples without a difference prove ``share`` by counting alone, 0 ≤ share < 1."""
    return 1 if share <= 1.0 - LEVEL else math.ceil(math.log(1.0 - LEVEL) / math.log(share))


def _lead(scores: F64, best: npt.NDArray[np.intp]) -> F64:
    """Score of the class ``best`` less that of the best other one."""
    rows, others = np.arange(len(scores)), scores.copy()
    others[rows, best] = -np.inf
    with np.errstate(invalid="ignore"):
        return np.asarray(scores[rows, best] - others.max(axis=1))


def _variance(values: F64) -> float:
    return float(np.var(values, ddof=1)) if len(values) > 1 else 0.0


def _decibels(ratio: float) -> float:
    limit = 10.0 ** (-HIGHEST_DB / 10.0)
    return min(HIGHEST_DB, -10.0 * math.log10(max(ratio, limit))) if ratio < 1 / limit else -HIGHEST_DB
