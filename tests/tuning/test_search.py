"""The search, on made-up figures: which trials there are, and that nothing cheaper was passed over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from calib8.repair.unit_order import Noise, all_but_quietest, floatable, quietest, steps
from calib8.repair.units import Unit
from calib8.tuning.judging import Figures
from calib8.tuning.promise import Promise
from calib8.tuning.search import Search, Ways
from calib8.tuning.spot_steps import SpotStep
from calib8.tuning.trial import Settings, Trial, best_of, closeness

PROMISE = Promise("sqnr", 30.0)
UNITS = tuple(Unit((f"n{index}",), 10 + index, 20 + index) for index in range(12))
STEPS = tuple(SpotStep((f"t{index}",), 0.01 * index) for index in range(12))
EFFORTS = ("fast", "balanced", "best")


class World:
    """A network whose SQNR is ``quality(settings)``; remembers what was asked."""

    def __init__(self, quality: Callable[[Settings], float]) -> None:
        self.quality, self.asked, self.swept = quality, list[Trial](), 0
        self.most: Sequence[Unit] = UNITS
        self.spots: Sequence[SpotStep] = ()
        self.repaired: tuple[str, ...] = ()
        self.added = self.calls = 0

    def attempt(self, settings: Settings) -> Trial:
        self.calls += 1
        for trial in self.asked:
            if trial.settings == settings:
                return trial
        value = self.quality(settings)
        figures = Figures(value, value, None, None, value, 100)
        cost = sum(unit.macs for unit in UNITS if unit.nodes[0] in settings.floats) / 1000
        has = self.repaired if settings.spots is None else settings.spots
        wide = sum(step.price for step in STEPS if set(step.tensors) <= set(has))
        self.asked.append(Trial(settings, figures, cost, PROMISE.kept(value), 1.0, has, wide))
        return self.asked[-1]

    def units(self, base: Settings) -> Sequence[Unit]:
        self.swept += 1
        return UNITS

    def search(
        self,
        efforts: Sequence[str] = EFFORTS,
        sharings: Sequence[str] = (),
        additions: Sequence[str] = (),
    ) -> Trial:
        def asked_for_additions(base: Settings) -> Sequence[str]:
            self.added += 1
            return additions

        ways = Ways(
            lambda: sharings,
            asked_for_additions,
            self.units,
            lambda base: self.most,
            lambda base: self.spots,
        )
        Search(self.attempt, ways).run(efforts)
        best = best_of(self.asked, PROMISE)
        assert best is not None
        return best


def test_it_ends_with_the_first_all_int8_model_that_keeps_the_promise() -> None:
    world = World(lambda s: {"fast": 20.0, "balanced": 31.0, "best": 40.0}[s.effort])
    assert world.search().settings == Settings("balanced", "usual")
    assert [trial.settings.effort for trial in world.asked] == ["fast", "balanced"]
    assert world.swept == world.added == 0


@pytest.mark.parametrize("needed", range(1, 13))
def test_it_finds_the_fewest_units_with_few_trials(needed: int) -> None:
    names = {unit.nodes[0] for unit in UNITS[:needed]}

    def quality(s: Settings) -> float:
        return 20.0 + 10.0 * len(names & set(s.floats)) / needed

    world = World(quality)
    best = world.search(("fast",))
    assert best.kept and set(best.settings.floats) == names
    assert world.swept == 1
    bisected = [t for t in world.asked if t.settings.floats]
    assert len(bisected) <= 2 * 4 + needed


def test_units_that_do_not_help_are_given_back() -> None:
    world = World(lambda s: 31.0 if {"n2", "n6"} <= set(s.floats) else 20.0)
    assert world.search(("fast",)).settings.floats == ("n2", "n6")


def test_of_two_units_that_do_for_each_other_the_costlier_is_given_back() -> None:
    """n0 and n1 help alike, and n2 must be in float: what is left in float is the least work."""
    world = World(lambda s: 31.0 if "n2" in s.floats and {"n0", "n1"} & set(s.floats) else 20.0)
    best = world.search(("fast",))
    assert UNITS[0].work < UNITS[1].work
    assert best.kept and best.settings.floats == ("n0", "n2")
    cheapest = min(t.cost for t in world.asked if t.kept)
    assert best.cost == cheapest


def test_of_models_that_cost_the_same_the_one_with_fewer_float_nodes_is_taken() -> None:
    """Additions in float multiply nothing, and are work nevertheless."""
    world = World(lambda s: 31.0 + len(s.floats))
    for floats in (("sum",), (), ("other", "sum")):
        world.attempt(Settings("fast", floats=floats))
    assert {trial.cost for trial in world.asked} == {0.0}
    best = best_of(world.asked, PROMISE)
    assert best is not None and best.settings.floats == ()


def test_the_fewest_units_are_found_where_not_all_are_tried_in_int8_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    units = tuple(Unit((f"n{index:02}",), 100 - index, 100 - index) for index in range(40))
    for needed in (17, 18, 31, 32, 33, 39, 40):
        names = {unit.nodes[0] for unit in units[:needed]}
        world = World(lambda s, names=names: 31.0 if names <= set(s.floats) else 20.0)  # type: ignore[misc]
        monkeypatch.setattr(world, "units", lambda base: units)
        best = world.search(("fast",))
        assert best.kept and set(best.settings.floats) == names


def test_sixteen_units_at_most_are_tried_in_int8_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubling and bisection take eleven trials, the one without floats among them."""
    units = tuple(Unit((f"n{index:02}",), 100, 100) for index in range(40))
    world = World(lambda s: 31.0 if len(s.floats) == 40 else 20.0)
    monkeypatch.setattr(world, "units", lambda base: units)
    assert len(world.search(("fast",)).settings.floats) == 40
    assert len(world.asked) == 11 + 16


def test_a_stage_begins_with_the_least_noise_whatever_the_figure_of_the_promise() -> None:
    """Of agreements that all fall short one may be high by luck."""
    world = World(lambda s: 20.0 + 3.0 * ("sum" in s.floats) + len(set(s.floats) - {"sum"}))
    judged = world.attempt

    def lucky(settings: Settings) -> Trial:
        trial = judged(settings)
        return trial if settings.floats else replace(trial, figures=replace(trial.figures, value=29.0))

    world.attempt = lucky  # type: ignore[method-assign]
    assert "sum" in world.search(("fast",), additions=("sum",)).settings.floats


def test_units_become_float_with_the_closest_effort_alone() -> None:
    def quality(s: Settings) -> float:
        return {"fast": 20.0, "balanced": 26.0, "best": 25.0}[s.effort] + 1.0 * len(s.floats)

    world = World(quality)
    best = world.search()
    assert best.settings.effort == "balanced" and len(best.settings.floats) == 4
    assert {t.settings.effort for t in world.asked if t.settings.floats} == {"balanced"}


def test_more_effort_that_judges_worse_is_passed_over() -> None:
    """Few samples calibrate badly: what auto took from them is worse on those that judge."""

    def quality(s: Settings) -> float:
        return {"fast": 28.0, "balanced": 24.0, "best": 23.0}[s.effort] + 1.0 * len(s.floats)

    world = World(quality)
    best = world.search(sharings=("unify",), additions=("sum",))
    assert {t.settings.effort for t in world.asked if t.settings != Settings(t.settings.effort)} == {"fast"}
    assert best.kept and best.settings.effort == "fast"


def test_of_kept_promises_that_cost_the_same_the_one_with_less_noise_is_taken() -> None:
    world = World(lambda s: {"fast": 31.0, "balanced": 33.0, "best": 32.0}[s.effort])
    for effort in EFFORTS:
        world.attempt(Settings(effort))
    best = best_of(world.asked, PROMISE)
    assert best is not None and best.settings.effort == "balanced"


def test_a_stage_begins_with_the_least_noise_however_lucky_a_bound_is() -> None:
    world = World(lambda s: 20.0 + 3.0 * ("sum" in s.floats) + len(set(s.floats) - {"sum"}))
    judged = world.attempt

    def lucky(settings: Settings) -> Trial:
        trial = judged(settings)
        if settings.floats:
            return trial
        return replace(trial, figures=replace(trial.figures, bound=29.0))

    world.attempt = lucky  # type: ignore[method-assign]
    assert "sum" in world.search(("fast",), additions=("sum",)).settings.floats


def test_additions_become_float_before_anything_that_multiplies() -> None:
    world = World(lambda s: 31.0 if "sum" in s.floats else 20.0)
    best = world.search(additions=("sum",))
    assert best.settings.floats == ("sum",) and best.cost == 0.0
    assert world.swept == 0 and world.added == 1


@pytest.mark.parametrize("helps", [True, False])
def test_additions_stay_in_float_where_they_help(helps: bool) -> None:
    def quality(s: Settings) -> float:
        return 20.0 + (2.0 if helps else -2.0) * ("sum" in s.floats) + 2.0 * len(set(s.floats) - {"sum"})

    best = World(quality).search(("fast",), additions=("sum",))
    assert best.kept and ("sum" in best.settings.floats) == helps
    assert len(set(best.settings.floats) - {"sum"}) == (4 if helps else 5)


def test_ways_to_share_scales_are_tried_before_units_become_float() -> None:
    world = World(lambda s: 31.0 if s.concat == "unify" else 20.0)
    assert world.search(("fast",), ("requantize", "unify")).settings.concat == "unify"
    assert world.swept == 0


def test_what_cannot_be_kept_ends_and_names_the_closest() -> None:
    world = World(lambda s: 10.0 + 0.5 * len(s.floats))
    best = world.search()
    assert not best.kept and len(best.settings.floats) == len(UNITS)
    assert best is min(world.asked, key=lambda trial: closeness(trial, PROMISE))


def test_a_tensor_loses_its_noise_only_with_all_units_around_it() -> None:
    a, b, c = (Unit((name,), 100, 100) for name in "abc")
    noise = Noise({a: 0.0, b: 0.0, c: 0.1}, {frozenset({a, b}): 1.0})
    assert noise.gain(frozenset(), frozenset({a})) == 0.0
    assert noise.gain(frozenset(), frozenset({a, b})) == 1.0
    assert noise.gain(frozenset({a}), frozenset({b})) == 1.0
    first, second = steps((a, b, c), noise)
    assert first.nodes == ("a", "b") and first.macs == 200 and second.nodes == ("c",)
    assert floatable((first, second), (a, b, c)) == (first,)


def test_where_all_steps_fall_short_the_quietest_layer_stays_int8_in_place_of_the_last() -> None:
    """A layer that the order takes early, and that would make less noise than the one which it leaves."""
    world = World(lambda s: 31.0 if "last" in s.floats else 10.0 + 0.5 * len(s.floats))
    world.most = (*UNITS[1:], Unit(("last",), 10, 10))
    best = world.search(("fast",))
    assert best.kept and "last" in best.settings.floats and UNITS[0].nodes[0] not in best.settings.floats


@pytest.mark.parametrize("most", [(), UNITS, tuple(reversed(UNITS))])
def test_the_same_units_are_not_tried_again(most: Sequence[Unit]) -> None:
    world = World(lambda s: 10.0 + 0.5 * len(s.floats))
    world.most = most
    world.search(("fast",))
    assert world.calls == len(world.asked) and len(world.asked[-1].settings.floats) == len(UNITS)


def test_the_quietest_layer_is_left_out_of_most_and_the_order_takes_whole_steps() -> None:
    loud, large, quiet, mute = (
        Unit((name,), macs, 1 + macs)
        for name, macs in (("loud", 10), ("large", 10_000), ("quiet", 10), ("mute", 0))
    )
    units = (loud, large, quiet, mute)
    noise = Noise({loud: 1.0, large: 0.1, quiet: 0.01, mute: 0.0}, {frozenset({quiet, mute}): 0.001})
    ordered = steps(units, noise)
    assert [step.nodes for step in ordered][:2] == [("loud",), ("quiet",)]
    assert all_but_quietest(units, noise) == (loud, large, mute)
    left = floatable(ordered, units)
    assert left == ordered[: len(left)] and {"loud", "quiet"} <= {node for s in left for node in s.nodes}
    assert quietest(units, noise) is quiet
    assert quietest((large, quiet), Noise({large: 0.1, quiet: 0.1}, {})) is large
    assert quietest((large, quiet), Noise({large: 0.1, quiet: 0.0}, {frozenset({quiet}): 0.2})) is large
    assert floatable((mute,), (mute,)) == () == all_but_quietest((mute,), noise)


def test_the_cheaper_of_two_equal_units_comes_first() -> None:
    small, large = Unit(("small",), 10, 10), Unit(("large",), 1000, 1000)
    ordered = steps((large, small), Noise({small: 1.0, large: 1.0}, {}))
    assert [unit.nodes[0] for unit in ordered] == ["small", "large"]


def test_sums_over_units_do_not_depend_on_the_hashes_of_their_names() -> None:
    for seed in range(20):  # sets of such units are walked in different orders
        units = [Unit((f"{seed}.{index}",), 1, 1) for index in range(9)]
        noise = Noise(dict(zip(units, [2.0**53, *[1.0] * 8], strict=True)), {})
        assert noise.gain(frozenset(), frozenset(units)) - 2.0**53 == 8.0


def spots_of(settings: Settings, world: World) -> set[str]:
    return set(world.repaired if settings.spots is None else settings.spots)


@pytest.mark.parametrize("needed", range(1, 13))
def test_as_many_spots_as_it_takes_and_no_float(needed: int) -> None:
    names = {step.tensors[0] for step in STEPS[:needed]}
    world = World(lambda s: 20.0 + 10.0 * len(names & spots_of(s, world)) / needed)
    world.spots = STEPS
    best = world.search(("fast",), additions=("sum",))
    assert best.kept and set(best.spots) == names
    assert world.added == world.swept == 0 and not any(trial.settings.floats for trial in world.asked)


def test_spots_come_in_their_order_the_cheapest_number_first() -> None:
    world = World(lambda s: 31.0 if len(spots_of(s, world)) >= 4 else 20.0)
    world.spots = STEPS
    world.search(("fast",))
    asked = [trial.spots for trial in world.asked]
    assert asked[:4] == [(), ("t0",), ("t0", "t1"), ("t0", "t1", "t2", "t3")]


def test_spots_of_a_repair_that_are_not_needed_are_given_back() -> None:
    world = World(lambda s: 31.0 if s.effort == "balanced" and "t3" in spots_of(s, world) else 20.0)
    world.spots, world.repaired = STEPS, ("t2", "t3", "t7")
    best = world.search()
    assert best.spots == ("t3",) and best.settings == Settings("balanced", spots=("t3",))
    assert not any(trial.settings.effort == "best" for trial in world.asked)


def test_a_repair_whose_spots_are_needed_for_nothing_keeps_none() -> None:
    world = World(lambda s: 31.0 if s.effort == "balanced" else 20.0)
    world.spots, world.repaired = STEPS, ("t2", "t3")
    assert world.search().spots == ()


def test_of_two_spots_that_do_for_each_other_the_costlier_is_given_back() -> None:
    world = World(lambda s: 31.0 if {"t9"} < spots_of(s, world) else 20.0)
    world.spots = (STEPS[1], STEPS[5], STEPS[9])
    best = world.search(("fast",))
    assert best.spots == ("t1", "t9")
    assert best.wide == min(trial.wide for trial in world.asked if trial.kept)


def test_spots_that_are_not_enough_stay_beside_floats_as_far_as_they_help() -> None:
    def quality(s: Settings) -> float:
        return (
            20.0 + 3.0 * ("t1" in spots_of(s, world)) + 0.01 * len(spots_of(s, world)) + 2.0 * len(s.floats)
        )

    world = World(quality)
    world.spots = STEPS
    best = world.search(("fast",))
    assert best.kept and len(best.settings.floats) == 4
    assert best.spots == ("t0", "t1"), "t0 costs nothing and stays"
    assert not any(trial.kept for trial in world.asked if not trial.settings.floats)


def test_spots_are_cheaper_than_a_node_in_float() -> None:
    world = World(lambda s: 31.0)
    for settings in (Settings("fast", floats=("sum",)), Settings("fast", spots=("t3",))):
        world.attempt(settings)
    best = best_of(world.asked, PROMISE)
    assert best is not None and best.spots == ("t3",)
