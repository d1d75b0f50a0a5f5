"""The floor under the scores of a detector: what plain ranges with corrected biases leave of them.

    SQNR of the scores          never below that of the plain model, a step at a time
    what stays found            in the end, of the scores above a threshold: 2·b / (f + i) of f that FP32
                                finds, i that int8 finds, b that both do

Repairs are chosen by what they do to all branches together. Whether a box is found at all hangs on its score
alone: a gain elsewhere does not outweigh that fewer are found than without any repair. Scores that all come
out a little low cost few decibels and many boxes; hence the second rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.autorange.check import Check
from calib8.tasks.branches import Meaning
from calib8.tasks.kept import FOUND, Array, Runs, as_shares
from calib8.tasks.kinds import LEADING

FEWER: Final = 0.02
"""So much less of what stays found is no reason to drop a gain elsewhere."""

Z: Final = 1.645
"""Standard errors of a one-sided certainty of 95 %."""


@dataclass(frozen=True)
class Floor:
    """The least that leading branches must keep.

    Attributes:
        least: name of a branch → figure in dB; empty where no branch leads.
    """

    least: dict[str, float]

    @classmethod
    def of(cls, meaning: Meaning | None, plain: Check) -> Floor:
        """What the plain model keeps."""
        branches = () if meaning is None or not meaning.several else meaning.judged
        leading = [branch.name for branch in branches if branch.kind in LEADING]
        return cls({name: figure for name in leading if (figure := figure_of(plain, name)) is not None})

    def holds(self, check: Check) -> bool:
        """Whether no leading branch is below."""
        return all((figure_of(check, name) or -math.inf) >= least for name, least in self.least.items())

    def allows(self, now: Check, before: Check) -> bool:
        """Whether a step may be taken: what is below the floor must at least not fall."""
        return all(
            (figure_of(now, name) or -math.inf) >= min(least, figure_of(before, name) or -math.inf)
            for name, least in self.least.items()
        )


@dataclass(frozen=True)
class Found:
    """How far what an int8 model finds is what FP32 finds.

    Attributes:
        counts: float64 [leading branches, runs, 2]: 2·b and f + i, of f scores that FP32 puts above
            ``FOUND``, i that int8 does, b that both do.
    """

    counts: npt.NDArray[np.float64]

    @classmethod
    def of(cls, meaning: Meaning, expected: Runs, outputs: Runs) -> Found:
        """Counts."""
        leading = [branch for branch in meaning.judged if branch.kind in LEADING]
        each = [
            [
                _counted(branch.of(left), branch.of(right))
                for left, right in zip(expected, outputs, strict=True)
            ]
            for branch in leading
        ]
        return cls(np.array(each, np.float64).reshape(len(leading), len(expected), 2))

    def share(self, without: int | None = None) -> npt.NDArray[np.float64]:
        """2·b / (f + i) of each branch over all runs, or without one of them; 1 where nothing is found."""
        counts = self.counts if without is None else np.delete(self.counts, without, axis=1)
        sums = counts.sum(axis=1)
        return np.asarray(np.where(sums[:, 1] > 0.0, sums[:, 0] / np.maximum(sums[:, 1], 1.0), 1.0))


def _counted(reference: Sequence[Array], outputs: Sequence[Array]) -> tuple[int, int]:
    both, each = 0, 0
    for left, right in zip(reference, outputs, strict=True):
        above = as_shares(left, left) > FOUND
        below = as_shares(right, left) > FOUND if left.shape == right.shape else np.zeros_like(above)
        both, each = both + int(np.sum(above & below)), each + int(np.sum(above)) + int(np.sum(below))
    return 2 * both, each


def finds_fewer(now: Found, plain: Found) -> bool:
    """Whether a model finds clearly less of what FP32 finds than the plain one, in any branch.

    That is: by more than ``FEWER``, and with a certainty of 95 %, which a jackknife over the runs tells: a
    few objects in a few dozen pictures are soon found by chance.
    """
    behind, runs = plain.share() - now.share(), now.counts.shape[1]
    parts = np.array([plain.share(without) - now.share(without) for without in range(runs)])
    error = np.sqrt((runs - 1) / runs * np.sum(np.square(parts - parts.mean(axis=0)), axis=0))
    return bool(np.any((behind > FEWER) & (behind > Z * error)))


NO_FLOOR: Final = Floor({})
"""Before the plain model is known."""


def figure_of(check: Check, name: str) -> float | None:
    """The mean of the typical figure and the total one of a branch, as ``Check.sqnr_db`` is of all."""
    branch = check.branch(name)
    return None if branch is None else (branch.typical_db + branch.sqnr_db) / 2.0
