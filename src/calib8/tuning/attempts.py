"""Trials made real: a model is made, judged and noted, and written where it is the best so far."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from calib8.int8_model import int8_model
from calib8.model.metadata import write_metadata
from calib8.outcomes import Quantization
from calib8.tuning.costs import Unit, float_share, node_macs, units_of
from calib8.tuning.judging import Judge
from calib8.tuning.promise import Promise
from calib8.tuning.recipes import Recipes
from calib8.tuning.search import LAST_EFFORT
from calib8.tuning.sensitivities import merged, ordered_steps
from calib8.tuning.trial import Settings, Trial, best_of

GROWTH: Final = 4.0
"""The last effort takes so many times what the longest trial took, or more."""


class BudgetOver(Exception):  # noqa: N818 - nothing went wrong
    """The next trial would not fit into the budget."""


@dataclass
class Clock:
    """The time that all runs of a search took together.

    Attributes:
        budget: seconds, inf for as long as it takes.
        text: the budget as it was given.
    """

    budget: float
    text: str
    _mark: float = field(default_factory=lambda: time.monotonic())

    def lap(self) -> float:
        """Seconds since the last call, or since the start."""
        mark, self._mark = self._mark, time.monotonic()
        return round(self._mark - mark, 3)

    def spent(self, trials: Sequence[Trial]) -> float:
        """Seconds of the trials, and since the last ``lap``."""
        return sum(trial.seconds for trial in trials) + time.monotonic() - self._mark


class Attempts:
    """Makes the trials of a search.

    Attributes:
        clock: what time there is.
        notes: what is to be known of the way.
    """

    def __init__(
        self, recipes: Recipes, judge: Judge, promise: Promise, clock: Clock, output: Path, closest: Path
    ) -> None:
        """Begins.

        Args:
            recipes: what models are made from.
            judge: the samples that judge.
            promise: what has to be kept.
            clock: what time there is.
            output: where the best model that keeps the promise is written.
            closest: where the closest one is written while none does.
        """
        self.clock, self.notes = clock, list[str]()
        self._recipes, self._judge, self._promise = recipes, judge, promise
        self._output, self._closest = output, closest
        self._sample = recipes.samples.scored[0]
        self._macs = node_macs(recipes.prepared.model, self._sample)
        self._written: Trial | None = None

    def attempt(self, settings: Settings) -> Trial:
        """The trial of these settings, made unless it is known.

        Raises:
            BudgetOver: it would not fit into the budget.
            Calib8Error: a model cannot be made or run, or a file not be written.
        """
        folder = self._recipes.folder
        known = folder.known(settings)
        if known is not None:
            return known
        if self.clock.spent(folder.trials) + self._expected(settings) > self.clock.budget:
            raise BudgetOver
        made = self._made(settings)
        figures = self._judge.figures(made.model)
        kept = self._promise.kept(figures.value) and self._promise.kept(figures.bound)
        cost = float_share(self._macs, made.placement)
        trial = Trial(settings, figures, cost, kept, self.clock.lap())
        if best_of([*folder.trials, trial], self._promise) is trial:
            self._write(trial, made)
        folder.add(trial)
        return trial

    def written(self, best: Trial) -> Path:
        """The file of the best model, written unless this run did so already."""
        if self._written is not best:
            self._write(best, self._made(best.settings))
        return self._output if best.kept else self._closest

    def sharings(self) -> tuple[str, ...]:
        """Ways to share scales that differ; the usual one alone where the budget is over."""
        if self.clock.spent(self._recipes.folder.trials) > self.clock.budget:
            raise BudgetOver
        return self._recipes.sharings()

    def units(self, base: Settings) -> tuple[Unit, ...]:
        """The steps in which units become float, that which helps most in front; looked for once in a search.

        Raises:
            Calib8Error: a model cannot be run.
        """
        folder = self._recipes.folder
        stored = folder.read_json("units.json")
        _, done = self._recipes.made(base)
        placement = done.candidate.quantized().placement
        found = units_of(self._recipes.prepared.model, placement, self._sample)
        if stored is None:
            candidate, runs = done.candidate, self._recipes.samples.scored
            ordered, note = ordered_steps(
                candidate, found, runs, self._recipes.threads, self._recipes.progress
            )
            stored = {"steps": [list(step.nodes) for step in ordered], "note": note}
            folder.write("units.json", json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
        self.notes += [stored["note"]] if stored["note"] else []
        home = {node: unit for unit in found for node in unit.nodes}
        ways = [list(dict.fromkeys(home[node] for node in step)) for step in stored["steps"]]
        return tuple(merged(way) for way in ways)

    def _expected(self, settings: Settings) -> float:
        """Seconds that a trial takes at least, as far as those before it tell."""
        trials = self._recipes.folder.trials
        alike = [t for t in trials if t.settings.effort == settings.effort and t.settings.floats]
        if settings.floats:
            return max((trial.seconds for trial in alike[1:]), default=0.0)
        if settings.effort == LAST_EFFORT and math.isfinite(self.clock.budget):
            return GROWTH * max((t.seconds for t in trials if not t.settings.floats), default=0.0)
        return 0.0

    def _made(self, settings: Settings) -> Quantization:
        start, done = self._recipes.made(settings)
        return int8_model(start, done, self._recipes.prepared, self._recipes.dataset.preprocess, {})

    def _write(self, trial: Trial, made: Quantization) -> None:
        figures = {"promise": self._promise.text, "float_macs": f"{trial.cost:.6f}"}
        write_metadata(made.model, figures)
        made.save(self._output if trial.kept else self._closest)
        if trial.kept:
            self._closest.unlink(missing_ok=True)
        self._written = trial
