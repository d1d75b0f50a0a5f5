"""What a search may do, and for how long, as one value."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from calib8.calibration.given import GivenRanges, check_mapping
from calib8.repair.repairs import EFFORTS
from calib8.repair.wanted import effort_called
from calib8.requests import Request
from calib8.tuning.promise import seconds_of

LAST_EFFORT: Final = tuple(EFFORTS)[-1]
"""The most that can be tried."""


@dataclass(frozen=True)
class SearchChoice(Request):
    """How ``tune`` searches.

    Attributes:
        effort: a key of ``calib8.repair.repairs.EFFORTS``: the most that is tried.
        keep_float: names of nodes that are in float anyway.
        ranges: see ``calib8.quantize``; they win over all methods.
        power_of_two: the scales of all activations are powers of two.
        budget: seconds for all runs together, or ``90s``, ``10m``, ``1h``; see ``calib8.tuning.clock``.
        work: the folder of the search, None: the output with ``.tune`` behind it.
        measure_latency: behind the search, all its models are timed, in turns, in the runtime that judged
            them. It decides nothing, and its time is not part of the budget.

    Raises:
        UsageError: no such effort, a budget that is not a time.
    """

    effort: str = LAST_EFFORT
    keep_float: Sequence[str] = ()
    ranges: GivenRanges | None = None
    power_of_two: bool = False
    budget: str | float | None = None
    work: str | os.PathLike[str] | None = None
    measure_latency: bool = False

    def __post_init__(self) -> None:
        """Checks what can be checked without the model."""
        super().__post_init__()
        effort_called(self.effort)
        check_mapping(self.ranges)
        seconds_of(self.budget)


class SearchWords(TypedDict, total=False):
    """The fields of a ``SearchChoice`` as keywords."""

    effort: str
    keep_float: Sequence[str]
    ranges: GivenRanges | None
    power_of_two: bool
    budget: str | float | None
    work: str | os.PathLike[str] | None
    measure_latency: bool
