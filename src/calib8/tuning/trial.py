"""One model that was tried: what it was made with, what it does, what it costs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Final

from calib8.tuning.judging import Figures
from calib8.tuning.promise import Promise

USUAL: Final = "usual"
"""Inputs of a Concat share a scale where the target wants it."""


@dataclass(frozen=True)
class Settings:
    """What decides about a model beside the data; the same settings make the same model.

    Attributes:
        effort: key of ``calib8.repair.repairs.EFFORTS``: ranges and repairs.
        concat: key of ``calib8.tuning.recipes.CONCAT``: whether the inputs of a Concat share a scale.
        floats: names of nodes in float beyond those that the user named, in ascending order.
    """

    effort: str
    concat: str = USUAL
    floats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trial:
    """A model that was made and judged.

    Attributes:
        settings: what it was made with.
        figures: what it does on the samples that judge.
        cost: share of the multiply-accumulates that are not in int8, 0 … 1.
        kept: figure and bound keep the promise.
        seconds: since the trial before it, or the start.
    """

    settings: Settings
    figures: Figures
    cost: float
    kept: bool
    seconds: float

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> Trial:
        """Reads what ``to_json`` wrote.

        Raises:
            ValueError, KeyError, TypeError: it is no such line.
        """
        fields: dict[str, Any] = json.loads(line)
        settings = fields["settings"]
        return cls(
            Settings(str(settings["effort"]), str(settings["concat"]), tuple(settings["floats"])),
            Figures(**fields["figures"]),
            float(fields["cost"]),
            bool(fields["kept"]),
            float(fields["seconds"]),
        )


def best_of(trials: list[Trial], promise: Promise) -> Trial | None:
    """The cheapest one that keeps the promise, else the closest; see ``_price`` for equals."""
    if not trials:
        return None
    if any(trial.kept for trial in trials):
        return min((trial for trial in trials if trial.kept), key=_price)
    return min(trials, key=lambda trial: closeness(trial, promise))


def closeness(trial: Trial, promise: Promise) -> tuple[float, float, float]:
    """What orders models that do not keep the promise, the closest first."""
    short = max(promise.shortfall(trial.figures.bound), promise.shortfall(trial.figures.value))
    return (short if math.isfinite(short) else math.inf, -trial.figures.sqnr_db, trial.cost)


def _price(trial: Trial) -> tuple[float, int, float]:
    """Of equal cost the one with fewer float nodes, of these the one with less noise."""
    return trial.cost, len(trial.settings.floats), -trial.figures.sqnr_db
