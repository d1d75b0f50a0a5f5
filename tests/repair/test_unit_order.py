"""The order of steps is that of the definition, looked up anew for every step, on graphs of any shape."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from calib8.repair.unit_order import LEAST_WORK, Noise, merged, steps
from calib8.repair.units import Unit


def gain(noise: Noise, chosen: frozenset[Unit], more: frozenset[Unit]) -> float:
    both = chosen | more
    inside = [value for around, value in noise.tensors.items() if around <= both and around & more]
    return math.fsum([*(noise.weights.get(unit, 0.0) for unit in more), *inside])


def slow_steps(units: list[Unit], noise: Noise) -> tuple[Unit, ...]:
    least = max(LEAST_WORK * sum(unit.work for unit in units), 1.0)
    chosen, found = frozenset[Unit](), list[Unit]()
    while len(chosen) < len(units):
        left = {group - chosen for group in [*(frozenset({unit}) for unit in units), *noise.tensors]}

        def price(group: frozenset[Unit]) -> float:
            return math.fsum(unit.work + least for unit in group)

        best = min(
            (group for group in left if group),
            key=lambda group: (-gain(noise, chosen, group) / price(group), sorted(map(units.index, group))),
        )
        chosen |= best
        found.append(merged(sorted(best, key=units.index)))
    return tuple(found)


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_that_of_the_definition(seed: int) -> None:
    draw = random.Random(seed)
    units = [Unit((f"n{index}",), 8, draw.choice([1, 10, 100])) for index in range(draw.randint(1, 24))]
    tensors = {
        frozenset(draw.sample(units, min(draw.randint(0, 4), len(units)))): draw.choice(
            [0.0, 1.0, draw.random()]
        )
        for _ in range(draw.randint(0, 40))
    }
    noise = Noise({unit: draw.choice([0.0, draw.random()]) for unit in units}, tensors)
    assert steps(units, noise) == slow_steps(units, noise)


def test_a_thousand_units_are_ordered_at_once() -> None:
    """Every step looks anew at what the one before changed, not at all that is left."""
    units = [Unit((f"n{index}",), 8, 1 + index % 7) for index in range(1000)]
    tensors = {frozenset(pair): 1.0 + index % 5 for index, pair in enumerate(pairwise(units))}
    looked_at = 0
    original = Noise.gain

    def counted(self: Noise, chosen: frozenset[Unit], more: frozenset[Unit]) -> float:
        nonlocal looked_at
        looked_at += 1
        return original(self, chosen, more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noise, "gain", counted)
        assert len(steps(units, Noise({}, tensors))) <= 1000
    assert looked_at < 20 * len(units)
