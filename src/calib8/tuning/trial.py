"""One model that was tried: what it was made with, what it does, what it costs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Final

from calib8.number_texts import count
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
        spots: names of tensors with 16-bit codes, in ascending order; None: those that the repairs chose.
    """

    effort: str
    concat: str = USUAL
    floats: tuple[str, ...] = ()
    spots: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Trial:
    """A model that was made and judged.

    Attributes:
        settings: what it was made with.
        figures: what it does on the samples that judge.
        cost: share of the multiply-accumulates that are not in int8, 0 … 1.
        kept: figure and bound keep the promise.
        seconds: since the trial before it, or the start.
        spots: names of all tensors with 16-bit codes, those that share a scale with one included, ascending.
        wide: share of the multiply-accumulates that read them, and are done twice, 0 … 1.
    """

    settings: Settings
    figures: Figures
    cost: float
    kept: bool
    seconds: float
    spots: tuple[str, ...] = ()
    wide: float = 0.0

    @property
    def name(self) -> str:
        """What it was made with, in a few words."""
        joined = "" if self.settings.concat == USUAL else f", Concat {self.settings.concat}"
        wide = f", {count(len(self.spots), 'spot')}" if self.spots else ""
        return f"{self.settings.effort}{joined}{wide}"

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
        asked = settings["spots"]
        return cls(
            Settings(
                str(settings["effort"]), str(settings["concat"]), tuple(settings["floats"]),
                None if asked is None else tuple(asked),
            ),
            Figures(**fields["figures"]),
            float(fields["cost"]),
            bool(fields["kept"]),
            float(fields["seconds"]),
            tuple(fields["spots"]),
            float(fields["wide"]),
        )  # fmt: skip


def best_of(trials: list[Trial], promise: Promise) -> Trial | None:
    """The cheapest one that keeps the promise, else the closest; see ``_price`` for equals."""
    if not trials:
        return None
    if any(trial.kept for trial in trials):
        return min((trial for trial in trials if trial.kept), key=_price)
    return min(trials, key=lambda trial: closeness(trial, promise))


def closeness(trial: Trial, promise: Promise) -> tuple[float, float, float]:
    """What orders models that do not keep the promise, the closest first; of equals the cheapest."""
    short = max(promise.shortfall(trial.figures.bound), promise.shortfall(trial.figures.value))
    return (short if math.isfinite(short) else math.inf, trial.cost, -trial.figures.sqnr_db)


def _price(trial: Trial) -> tuple[float, int, float, int, float]:
    """Of equal cost the one with fewer float nodes, of these that with less work done twice, then less noise.

    A layer that reads 16-bit codes multiplies twice, in integers: less than a layer in float takes.
    """
    floats = len(trial.settings.floats)
    return trial.cost, floats, trial.wide, len(trial.spots), -trial.figures.sqnr_db
