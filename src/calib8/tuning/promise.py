"""What the tuned model has to keep, and until when it may be looked for.

agreement   share of samples whose best class is the float model's, in percent; at least
drop        top-1 of the float model less that of the int8 one, in percentage points; at most
sqnr        10 log10( Σ r² / Σ (r − y)² ) over all float outputs, in dB; at least
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from calib8.errors import UsageError

Kind: TypeAlias = Literal["agreement", "drop", "sqnr"]

OPTIONS: Final[dict[Kind, str]] = {
    "agreement": "--min-agreement",
    "drop": "--max-drop",
    "sqnr": "--min-sqnr",
}

HIGHEST_DB: Final = 120.0
"""As good as equal; figures end here."""

_LIMITS: Final[dict[Kind, tuple[float, float, str, str]]] = {
    "agreement": (0.0, 100.0, "%", "Give a share of the samples, such as 99.5"),
    "drop": (0.0, 100.0, "points", "Give the percentage points that may be lost, such as 0.1"),
    "sqnr": (0.0, HIGHEST_DB, "dB", "Give decibels, such as 25"),
}

_SECONDS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Promise:
    """One figure, and where it has to stay.

    Attributes:
        kind: which figure, see the top of the file.
        value: in percent, percentage points or dB.
    """

    kind: Kind
    value: float

    def kept(self, figure: float) -> bool:
        """Whether a figure is on the right side."""
        return figure <= self.value if self.kind == "drop" else figure >= self.value

    def shortfall(self, figure: float) -> float:
        """How far a figure is on the wrong side, negative where it is on the right one; in its unit."""
        return figure - self.value if self.kind == "drop" else self.value - figure

    @property
    def noun(self) -> str:
        """Name of the figure."""
        return {"agreement": "agreement", "drop": "drop", "sqnr": "SQNR"}[self.kind]

    @property
    def unit(self) -> str:
        """Unit of the figure."""
        return _LIMITS[self.kind][2]

    @property
    def text(self) -> str:
        """Such as ``agreement of at least 99.5 %``."""
        return {
            "agreement": f"agreement of at least {self.value:g} %",
            "drop": f"top-1 at most {self.value:g} points below the float model's",
            "sqnr": f"SQNR of at least {self.value:g} dB",
        }[self.kind]


def promise_of(max_drop: float | None, min_agreement: float | None, min_sqnr: float | None) -> Promise:
    """The one promise that was given.

    Raises:
        UsageError: none, more than one, a value that no model can have, or an agreement of more than 0 and at
            most 1 %, which is a share and not in per cent.
    """
    given: dict[Kind, float | None] = {"agreement": min_agreement, "drop": max_drop, "sqnr": min_sqnr}
    found = [Promise(kind, value) for kind, value in given.items() if value is not None]
    if not found:
        cure = "Give --min-agreement 99.5, --max-drop 0.1 or --min-sqnr 25"
        raise UsageError("tune", "nothing is promised", cure)
    if len(found) > 1:
        both = f"{OPTIONS[found[0].kind]} and {OPTIONS[found[1].kind]}"
        raise UsageError(both, "are two promises", "Give the one that matters")
    [promise] = found
    low, high, unit, cure = _LIMITS[promise.kind]
    if not low <= promise.value <= high:  # NaN is not either
        problem = f"no model can have that: it must be in {low:g} … {high:g} {unit}"
        raise UsageError(f"{OPTIONS[promise.kind]} {promise.value:g}", problem, cure)
    if promise.kind == "agreement" and 0.0 < promise.value <= 1.0:
        problem = f"would be {promise.value:g} %: an agreement is given in per cent"
        cure = f"Give {100.0 * promise.value:g} if you mean that share of the samples"
        raise UsageError(f"{OPTIONS[promise.kind]} {promise.value:g}", problem, cure)
    return promise


def seconds_of(budget: str | float | None) -> float:
    """Seconds of a budget: a number of them, or ``90s``, ``10m``, ``1.5h``; None is as long as it takes.

    Raises:
        UsageError: no such text, or not above 0.
    """
    if budget is None:
        return math.inf
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([smh]?)\s*", str(budget).lower())
    seconds = 0.0 if match is None else float(match[1]) * _SECONDS[match[2]]
    if seconds <= 0.0:
        raise UsageError(f"--budget {budget}", "is no time", "Give one such as 90s, 10m or 1h")
    return seconds
