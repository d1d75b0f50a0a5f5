"""The search for the cheapest model that keeps the promise: which trials, in which order.

1. repairs      all in int8, with more and more effort
2. sharing      all in int8, Concats that share their scale more, or less
3. additions    the additions in float: they multiply nothing, and what they add up stays unrounded
4. floats       units in float, in the order of their sensitivities: 1, 2, 4, 8 … of them until the promise is
                kept, then bisection between the last two numbers; where even all of them fall short, all but
                the quietest layer; then each one back to int8, the costliest first, where the promise stays
                kept without it

Every stage begins with the model of those before whose outputs have the highest SQNR: of figures that all
fall short it varies least from sample to sample. The search ends as soon as a model without a multiplication
in float keeps the promise: nothing is cheaper. Which trials there are depends on the figures of those before
alone, so a search that goes on with saved trials is the same search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from calib8.repair.units import Unit
from calib8.tuning.trial import Settings, Trial

MOST_GIVEN_BACK: Final = 16
"""Units that are tried in int8 again, the costliest ones."""


@dataclass(frozen=True)
class Ways:
    """What a search asks about the network, each at most once and only when it is needed.

    Attributes:
        sharings: the keys of ``calib8.tuning.recipes.CONCAT`` that make a difference, but the usual one.
        additions: names of the additions that are in int8 with these settings.
        units: all that may be in float at once beside the floats of these settings, that which helps most
            in front.
        most: the same with the quietest layer in int8 in place of the one that ``units`` leaves.
    """

    sharings: Callable[[], Sequence[str]]
    additions: Callable[[Settings], Sequence[str]]
    units: Callable[[Settings], Sequence[Unit]]
    most: Callable[[Settings], Sequence[Unit]]


class Search:
    """One search."""

    def __init__(self, attempt: Callable[[Settings], Trial], ways: Ways) -> None:
        """Begins.

        Args:
            attempt: makes and judges a model; may raise to end the search.
            ways: what there is to be tried.
        """
        self._attempt, self._ways = attempt, ways

    def run(self, efforts: Sequence[str]) -> None:
        """Tries what the top of the file says.

        Args:
            efforts: keys of ``calib8.repair.repairs.EFFORTS``, ascending, at least one.
        """
        found = self._best_base([Settings(effort) for effort in efforts])
        if not found.kept:
            found = self._best_base(
                (replace(found.settings, concat=name) for name in self._ways.sharings()), found
            )
        if not found.kept:
            found = self._best_base(self._with_additions(found.settings), found)
        if not found.kept:
            self._floats(found.settings, self._ways.units(found.settings))

    def _best_base(self, settings: Iterable[Settings], best: Trial | None = None) -> Trial:
        """The first that keeps the promise, else the one with the highest SQNR."""
        for one in settings:
            trial = self._attempt(one)
            if trial.kept:
                return trial
            if best is None or trial.figures.sqnr_db > best.figures.sqnr_db:
                best = trial
        assert best is not None, "there is an effort"
        return best

    def _with_additions(self, base: Settings) -> list[Settings]:
        names = self._ways.additions(base)
        return [replace(base, floats=tuple(sorted({*base.floats, *names})))] if names else []

    def _floats(self, base: Settings, units: Sequence[Unit]) -> None:
        """Tries units in float."""
        last = len(units)
        failed, count = 0, min(1, last)
        while count > failed and not self._with(base, units[:count]).kept:
            failed, count = count, min(2 * count, last)
        if count == failed:
            self._most_floats(base, units)
            return
        while count - failed > 1:
            middle = (failed + count) // 2
            if self._with(base, units[:middle]).kept:
                count = middle
            else:
                failed = middle
        self._give_back(base, units[:count])

    def _most_floats(self, base: Settings, units: Sequence[Unit]) -> None:
        """All but the quietest layer, where the units in their order leave another one."""
        most = self._ways.most(base)
        if most and _nodes(most) != _nodes(units) and self._with(base, most).kept:
            self._give_back(base, most)

    def _with(self, base: Settings, units: Sequence[Unit]) -> Trial:
        return self._attempt(replace(base, floats=tuple(sorted({*base.floats, *_nodes(units)}))))

    def _give_back(self, base: Settings, units: Sequence[Unit]) -> None:
        """Each unit in turn in int8, the costliest first."""
        kept = list(units)
        for unit in sorted(units, key=lambda unit: -unit.work)[:MOST_GIVEN_BACK]:
            rest = [other for other in kept if other is not unit]
            if rest and self._with(base, rest).kept:
                kept = rest


def _nodes(units: Iterable[Unit]) -> set[str]:
    return {node for unit in units for node in unit.nodes}
