"""What was tried at once on the way to a repaired model, and what it gained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calib8.autorange.check import Check

UNKNOWN: Final = Check("", math.nan, math.nan, math.nan, 0, math.nan)
"""Quality where nothing judged."""


@dataclass(frozen=True)
class Step:
    """What was tried at once: a repair, several in turn, or other ranges.

    Attributes:
        names: of the repairs in the order in which they were carried out, or of the ranges tried alone.
        before, after: quality without and with it, see the top of the file; NaN where it was not judged,
            −inf where an output was not finite.
        kept: it is part of the result.
        layers: names of the layers that it changed.
        notes: what else there is to know.
    """

    names: tuple[str, ...]
    before: Check
    after: Check
    kept: bool
    layers: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The names as one, for people."""
        return ", ".join(self.names)

    @property
    def before_db(self) -> float:
        """What decided, without it."""
        return self.before.sqnr_db

    @property
    def after_db(self) -> float:
        """What decided, with it."""
        return self.after.sqnr_db


def worth_trying(names: tuple[str, ...], steps: Sequence[Step]) -> bool:
    """Whether repairs may gain something: not tried yet, or left out before something else was kept."""
    tried = [place for place, step in enumerate(steps) if step.names == names]
    if not tried:
        return True
    return not steps[tried[-1]].kept and any(step.kept for step in steps[tried[-1] + 1 :])
