"""How ranges are chosen, as the user asked for it: one value for every command that chooses some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypedDict

from calib8.calibration.decide import AUTO, Wish, check_wish
from calib8.calibration.given import GivenRanges, check_mapping
from calib8.calibration.ranges import BEHIND
from calib8.requests import Request

STATISTICS_METHOD: Final = BEHIND
"""What chooses ranges from saved statistics, where nothing else is asked for."""


@dataclass(frozen=True)
class RangeChoice(Request):
    """How the range of every activation is chosen.

    Attributes:
        method: a key of ``calib8.calibration.ranges.METHODS``, or one that needs data: ``ema``, ``auto`` or
            a key of ``calib8.calibration.ranges.two_pass.TWO_PASS_METHODS``, which read them twice. None:
            ``auto`` with data, ``mse-behind`` with statistics.
        percent: for ``percentile``: share of the values to keep, 50 … 100; None for its default.
        decay: for ``ema``: weight of what was seen before, 0 … 1; None for 0.99.
        power_of_two: widen every range so that its scale is a power of two.
        ranges: pattern of tensor names → ``Range``, (low, high), or ``QParams`` of the type of the
            activations; of several patterns that match the last counts. They win over everything.

    Raises:
        UsageError: no such method, or options that do not fit it.
    """

    method: str | None = None
    percent: float | None = None
    decay: float | None = None
    power_of_two: bool = False
    ranges: GivenRanges | None = None

    def __post_init__(self) -> None:
        """Checks what does not depend on where the ranges come from."""
        super().__post_init__()
        check_mapping(self.ranges)
        if self.method is not None:
            check_wish(self._wish(self.method))

    def wish(self, *, from_statistics: bool = False) -> Wish:
        """The choice where ranges come from data, or from statistics.

        Raises:
            UsageError: a method that statistics cannot serve.
        """
        wish = self._wish(default_method(from_statistics=from_statistics))
        check_wish(wish, from_statistics=from_statistics)
        return wish

    def _wish(self, default: str) -> Wish:
        return Wish(self.method or default, self.percent, self.decay, self.power_of_two)


class RangeWords(TypedDict, total=False):
    """The fields of a ``RangeChoice`` as keywords."""

    method: str | None
    percent: float | None
    decay: float | None
    power_of_two: bool


def default_method(*, from_statistics: bool = False) -> str:
    """Name of the method that is used where none is asked for."""
    return STATISTICS_METHOD if from_statistics else AUTO
