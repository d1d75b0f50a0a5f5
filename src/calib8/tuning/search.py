"""The search for the cheapest model that keeps the promise: which trials, in which order.

1. repairs      all in int8, with more and more effort
2. sharing      all in int8, Concats that share their scale more, or less
3. spots        no float, but tensors with 16-bit codes, where the target has such: fewer than the repairs
                chose where these keep the promise, else 1, 2, 4, 8 … more, in the order of noise gone per
                work; then bisection, and each one back to 8 bits, the costliest first
4. additions    the additions in float: they multiply nothing, and what they add up stays unrounded
5. floats       units in float, in the order of their sensitivities: 1, 2, 4, 8 … of them until the promise is
                kept, then bisection between the last two numbers; where even all of them fall short, all but
                the quietest layer; then each one back to int8, the costliest first, where the promise stays
                kept without it; and as few spots beside them as do

Nodes that the file to be written cannot hold in float are left out of 4 and 5 (``float_forms``).

Every stage begins with the model of those before whose outputs have the highest SQNR: of figures that all
fall short it varies least from sample to sample. The search ends as soon as a model without a multiplication
in float keeps the promise, but for spots that are not needed: nothing is cheaper. Which trials there are
depends on the figures of those before alone, so a search that goes on with saved trials is the same search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from calib8.repair.units import Unit
from calib8.tuning.spot_steps import SpotStep
from calib8.tuning.trial import Settings, Trial

MOST_GIVEN_BACK: Final = 16
"""Units that are tried in int8 again, the costliest ones; as many steps of spots in 8 bits."""


@dataclass(frozen=True)
class Ways:
    """What a search asks about the network, each at most once and only when it is needed.

    Attributes:
        sharings: the keys of ``calib8.tuning.recipes.CONCAT`` that make a difference, but the usual one.
        additions: names of the additions that are in int8 with these settings.
        units: all that may be in float at once beside the floats of these settings, that which helps most
            in front.
        most: the same with the quietest layer in int8 in place of the one that ``units`` leaves.
        spots: tensors that may have 16-bit codes with these settings, those that have them too, that which
            helps most per work in front.
    """

    sharings: Callable[[], Sequence[str]]
    additions: Callable[[Settings], Sequence[str]]
    units: Callable[[Settings], Sequence[Unit]]
    most: Callable[[Settings], Sequence[Unit]]
    spots: Callable[[Settings], Sequence[SpotStep]]


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
        found, spots = self._spots(found)
        if not found.kept:
            found = self._best_base(self._with_additions(found.settings), found)
            if not found.kept:
                found = self._floats(found.settings, self._ways.units(found.settings)) or found
            if found.kept and spots:
                self._fewest_spots(found.settings, spots)

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

    def _spots(self, found: Trial) -> tuple[Trial, Sequence[SpotStep]]:
        """Tries fewer tensors with 16-bit codes where the promise is kept, else more.

        Returns:
            The trial that goes on, and its spots in their order.
        """
        if found.kept and not found.spots:
            return found, ()
        steps, has = self._ways.spots(found.settings), frozenset(found.spots)
        own = [step for step in steps if has.issuperset(step.tensors)]
        if not found.kept:
            return self._more_spots(found, own, [step for step in steps if step not in own])
        self._fewest_spots(found.settings, own)
        return found, own

    def _more_spots(
        self, found: Trial, own: Sequence[SpotStep], more: Sequence[SpotStep]
    ) -> tuple[Trial, Sequence[SpotStep]]:
        """Spots beside those that there are; of all that fall short that of the highest SQNR goes on."""
        best, taken = found, list(own)
        failed, count = 0, min(1, len(more))
        while count > failed:
            steps = [*own, *more[:count]]
            trial = self._with_spots(found.settings, steps)
            if trial.kept:
                self._fewest_spots(found.settings, steps, len(own) + failed)
                return trial, steps
            if trial.figures.sqnr_db > best.figures.sqnr_db:
                best, taken = trial, steps
            failed, count = count, min(2 * count, len(more))
        return best, taken

    def _fewest_spots(self, base: Settings, steps: Sequence[SpotStep], failed: int = -1) -> None:
        """As few spots as keep the promise.

        Args:
            base: all else.
            steps: spots that keep it.
            failed: so many of the first ones do not, as far as is known; −1 where nothing is known.
        """
        kept = list(steps[: _fewest(len(steps), failed, lambda n: self._with_spots(base, steps[:n]).kept)])
        costly = sorted((step for step in kept if step.price), key=lambda step: -step.price)
        for step in costly[:MOST_GIVEN_BACK]:
            rest = [other for other in kept if other is not step]
            if self._with_spots(base, rest).kept:
                kept = rest

    def _with_spots(self, base: Settings, steps: Iterable[SpotStep]) -> Trial:
        names = {name for step in steps for name in step.tensors}
        return self._attempt(replace(base, spots=tuple(sorted(names))))

    def _floats(self, base: Settings, units: Sequence[Unit]) -> Trial | None:
        """Tries units in float; the cheapest that keeps the promise, None where none does."""
        last = len(units)
        failed, count = 0, min(1, last)
        while count > failed and not self._with(base, units[:count]).kept:
            failed, count = count, min(2 * count, last)
        if count == failed:
            return self._most_floats(base, units)
        count = _fewest(count, failed, lambda n: self._with(base, units[:n]).kept)
        return self._give_back(base, units[:count])

    def _most_floats(self, base: Settings, units: Sequence[Unit]) -> Trial | None:
        """All but the quietest layer, where the units in their order leave another one."""
        most = self._ways.most(base)
        if most and _nodes(most) != _nodes(units) and self._with(base, most).kept:
            return self._give_back(base, most)
        return None

    def _with(self, base: Settings, units: Sequence[Unit]) -> Trial:
        return self._attempt(replace(base, floats=tuple(sorted({*base.floats, *_nodes(units)}))))

    def _give_back(self, base: Settings, units: Sequence[Unit]) -> Trial:
        """Each unit in turn in int8, the costliest first."""
        kept = list(units)
        for unit in sorted(units, key=lambda unit: -unit.work)[:MOST_GIVEN_BACK]:
            rest = [other for other in kept if other is not unit]
            if rest and self._with(base, rest).kept:
                kept = rest
        return self._with(base, kept)


def _fewest(count: int, failed: int, keeps: Callable[[int], bool]) -> int:
    """The least number that keeps the promise, between one that does not and ``count``, which does."""
    while count - failed > 1:
        middle = (failed + count) // 2
        if keeps(middle):
            count = middle
        else:
            failed = middle
    return count


def _nodes(units: Iterable[Unit]) -> set[str]:
    return {node for unit in units for node in unit.nodes}
