"""The floor under the scores of a detector: what plain ranges with corrected biases leave of them.

    SQNR of the scores          never below that of the plain model, a step at a time
    share that stays found      in the end, of the scores above a threshold (``calib8.tasks.kept``)

Repairs are chosen by what they do to all branches together. Whether a box is found at all hangs on its score
alone: a gain elsewhere does not outweigh that fewer are found than without any repair. Scores that all come
out a little low cost few decibels and many boxes; hence the second rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from calib8.autorange.check import Check
from calib8.tasks.branches import Meaning
from calib8.tasks.kept import Runs, kept
from calib8.tasks.kinds import LEADING

FEWER: Final = 0.02
"""So much less of the scores that stay found is chance on a few dozen objects."""


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


def share_found(meaning: Meaning, expected: Runs, outputs: Runs) -> float | None:
    """The least share of scores that stay found, of all leading branches; None where there is nothing."""
    leading = [branch for branch in meaning.judged if branch.kind in LEADING]
    values = [kept(branch, expected, outputs).value for branch in leading]
    return min((value for value in values if value is not None), default=None)


def finds_fewer(now: float | None, plain: float | None) -> bool:
    """Whether a model finds clearly less than the plain one."""
    return now is not None and plain is not None and now < plain - FEWER


NO_FLOOR: Final = Floor({})
"""Before the plain model is known."""


def figure_of(check: Check, name: str) -> float | None:
    """The mean of the typical figure and the total one of a branch, as ``Check.sqnr_db`` is of all."""
    branch = check.branch(name)
    return None if branch is None else (branch.typical_db + branch.sqnr_db) / 2.0
