"""Figures of branches from the energies of signal and noise, and the one figure that a search climbs.

    d(i, b)      10 log10( Σ r² / Σ (r − y)² )          run i, branch b: r in FP32, y in INT8
    typical(b)   mean over i of d(i, b)
    total(b)     10 log10( Σ_i Σ r² / Σ_i Σ (r − y)² )
    soft minimum of figures f(b):  −5 log10( Σ_b 10^(−f(b) / 5) )

The soft minimum is that of the worst branch where it is far behind, less where others are near it (1.5 dB
for two of the same figure), and never more. A branch that is worse by 10 dB counts a hundred times as much:
what it gains is not outweighed by what others gain, and what others lose is not for nothing either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Energies = npt.NDArray[np.float64]

LARGEST_DB: Final = 120.0
"""As good as equal."""

QUIET: Final = 0.01
"""A run whose signal is less than this share of a branch's mean tells nothing of a typical run: nothing is
there to be found."""


@dataclass(frozen=True)
class BranchFigures:
    """What became of one branch.

    Attributes:
        name: of the branch.
        sqnr_db: over all runs, −120 … 120; −inf where it was not finite, 120 without a difference.
        typical_db: the mean over runs.
    """

    name: str
    sqnr_db: float
    typical_db: float


def decibels(energies: Energies) -> Energies:
    """10 log10(signal / noise) of rows [n, 2] with a signal, −120 … 120."""
    limit = 10.0 ** (LARGEST_DB / 10.0)
    ratio = energies[:, 0] / np.maximum(energies[:, 1], energies[:, 0] / limit)
    return np.asarray(10.0 * np.log10(np.maximum(ratio, 1.0 / limit)))


def soft_minimum(figures: Sequence[float]) -> float:
    """See the top of the file; of one figure it is that figure, of none 0."""
    if len(figures) < 2:
        return float(figures[0]) if len(figures) else 0.0
    worst = min(figures)
    if not np.isfinite(worst):
        return float(worst)
    others = sum(10.0 ** ((worst - figure) / 5.0) for figure in sorted(figures))
    return float(max(worst - 5.0 * np.log10(others), -LARGEST_DB))


def typical_db(energies: Energies) -> float:
    """The mean over runs [n, 2] that have a signal to speak of; there is one at least."""
    loud = energies[:, 0] > QUIET * float(np.mean(np.sort(energies[:, 0])))
    return float(np.mean(np.sort(decibels(energies[loud]))))


def branch_figures(names: Sequence[str], energies: Energies) -> tuple[BranchFigures, ...]:
    """Of branches with a signal, from energies [runs, branches, 2]."""
    found = []
    for name, rows in zip(names, np.moveaxis(energies, 1, 0), strict=True):
        sums = np.sort(rows, axis=0).sum(axis=0)
        if not np.all(np.isfinite(sums)):
            found.append(BranchFigures(name, -np.inf, -np.inf))
        elif sums[0] > 0.0:
            found.append(BranchFigures(name, float(decibels(sums[None])[0]), typical_db(rows)))
    return tuple(found)


def energies_of(
    reference: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]
) -> list[tuple[float, float]]:
    """Signal and noise of arrays; one of another shape, which only values can decide, is all noise."""
    found = []
    for left, right in zip(reference, outputs, strict=True):
        wide = left.astype(np.float64).reshape(-1)
        signal = float(np.sum(wide * wide))
        if left.shape != right.shape:
            found.append((signal, signal))
            continue
        with np.errstate(invalid="ignore"):
            difference = wide - right.reshape(-1)
        found.append((signal, float(np.sum(difference * difference))))
    return found
