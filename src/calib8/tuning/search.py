"""The search for the cheapest model that keeps the promise: which trials, in which order.

1. repairs    all in int8, with more and more effort, up to balanced
2. sharing    all in int8, Concats that share their scale more, or less
3. floats     units in float, in the order of their sensitivities: 1, 2, 4, 8 … of them until the promise is
              kept, then bisection between the last two numbers; then each one back to int8, the costliest
              first, where the promise stays kept without it
4. best       the effort best, and 3. again with no more units than were needed before

It ends as soon as a model that is all int8 keeps the promise: nothing is cheaper. Which trials there are
depends on the figures of those before alone, so a search that goes on with saved trials is the same search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from calib8.tuning.costs import Unit
from calib8.tuning.promise import Promise
from calib8.tuning.trial import Settings, Trial, closeness

MOST_GIVEN_BACK: Final = 16
"""Units that are tried in int8 again, the costliest ones."""

LAST_EFFORT: Final = "best"


class Search:
    """One search."""

    def __init__(
        self,
        attempt: Callable[[Settings], Trial],
        units: Callable[[Settings], Sequence[Unit]],
        promise: Promise,
    ) -> None:
        """Begins.

        Args:
            attempt: makes and judges a model; may raise to end the search.
            units: all that may be in float at once, first that which helps most; asked at most once.
            promise: what has to be kept.
        """
        self._attempt, self._ask_units, self._promise = attempt, units, promise
        self._units: Sequence[Unit] | None = None

    def run(self, efforts: Sequence[str], sharings: Sequence[str]) -> None:
        """Tries what the top of the file says.

        Args:
            efforts: keys of ``calib8.repair.repairs.EFFORTS``, ascending.
            sharings: keys of ``calib8.tuning.recipes.CONCAT``, first what is usual.
        """
        early = [effort for effort in efforts if effort != LAST_EFFORT] or list(efforts)
        found = self._int8([Settings(effort, sharings[0]) for effort in early])
        if found.kept:
            return
        found = self._int8([replace(found.settings, concat=name) for name in sharings[1:]], found)
        if found.kept:
            return
        needed = self._floats(found.settings, None)
        if LAST_EFFORT in efforts and LAST_EFFORT not in early:
            last = self._attempt(replace(found.settings, effort=LAST_EFFORT))
            if not last.kept and (self._closer(last, found) or needed is None):
                self._floats(last.settings, needed)

    def _closer(self, left: Trial, right: Trial) -> bool:
        return closeness(left, self._promise) < closeness(right, self._promise)

    def _int8(self, settings: Sequence[Settings], best: Trial | None = None) -> Trial:
        """The first that keeps the promise, else the closest one."""
        for one in settings:
            trial = self._attempt(one)
            if trial.kept:
                return trial
            if best is None or self._closer(trial, best):
                best = trial
        assert best is not None, "there is an effort"
        return best

    def _floats(self, base: Settings, most: int | None) -> int | None:
        """Tries units in float; the number of units in order that keep the promise, None where none does."""
        if self._units is None:
            self._units = self._ask_units(base)
        last = len(self._units) if most is None else most
        failed, count = 0, min(1, last)
        while count > failed and not self._first(base, count).kept:
            failed, count = count, min(2 * count, last)
        if count == failed:
            return None
        while count - failed > 1:
            middle = (failed + count) // 2
            if self._first(base, middle).kept:
                count = middle
            else:
                failed = middle
        self._give_back(base, self._units[:count])
        return count

    def _first(self, base: Settings, count: int) -> Trial:
        return self._with(base, (self._units or ())[:count])

    def _with(self, base: Settings, units: Sequence[Unit]) -> Trial:
        return self._attempt(
            replace(base, floats=tuple(sorted(node for unit in units for node in unit.nodes)))
        )

    def _give_back(self, base: Settings, units: Sequence[Unit]) -> None:
        """Each unit in turn in int8, the costliest first."""
        kept = list(units)
        for unit in sorted(units, key=lambda unit: -unit.work)[:MOST_GIVEN_BACK]:
            rest = [other for other in kept if other is not unit]
            if rest and self._with(base, rest).kept:
                kept = rest
