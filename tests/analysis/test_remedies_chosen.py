"""Which of the remedies that were tried are told, and which one first."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from calib8.autorange.check import Check
from calib8.progress import SampleCounter, silent
from calib8.remedies import Clinic, Remedy, Wish
from calib8.remedies.clinic import gained
from calib8.tasks.figures import BranchFigures

BEFORE = 10.0
"""Figure of the model that was diagnosed, in dB."""

BIAS = Wish(repairs=("bias",))
BOTH = Wish(repairs=("cle", "bias"))
ROUND = Wish(repairs=("round",))
FLOAT = Wish(keep_float=("layer",))
TOGETHER = Wish(repairs=("bias",), keep_float=("layer",))


class Known(Clinic):
    """What every wish gains is known; what keeps a layer in float costs something."""

    def __init__(self, gains: Mapping[Wish, float]) -> None:
        self.gains = gains

    def remedy(self, wish: Wish) -> Remedy:
        gain = self.gains[wish]
        figure = BEFORE + gain
        return Remedy(
            wish, Check("", figure, figure, figure, 8, figure), gain, 0.5 if wish.keep_float else 0.0
        )


def told(gains: Mapping[Wish, float]) -> list[Wish]:
    wishes = [wish for wish in gains if wish != TOGETHER]
    tried = Known(gains).tried(wishes, SampleCounter("trying", len(wishes), silent))
    return [remedy.wish for remedy in tried]


@pytest.mark.parametrize(
    ("gains", "wanted"),
    [
        ({BIAS: 5.0, BOTH: 5.05}, [BIAS]),
        ({BIAS: 5.0, BOTH: 4.0}, [BIAS]),
        ({BIAS: 5.0, BOTH: 5.2}, [BOTH, BIAS]),
        ({BIAS: 5.0, ROUND: 5.05}, [ROUND, BIAS]),
        ({BIAS: 0.9, ROUND: 1.1}, [ROUND]),
        ({BIAS: 0.9, BOTH: 0.95}, []),
    ],
)
def test_more_repairs_that_gain_next_to_nothing_are_not_told(
    gains: Mapping[Wish, float], wanted: list[Wish]
) -> None:
    """Nor is what gains less than a decibel."""
    assert told(gains) == wanted


@pytest.mark.parametrize(
    ("gains", "first", "number"),
    [
        ({BIAS: 5.0, FLOAT: 5.5, TOGETHER: 5.9}, BIAS, 2),
        ({BIAS: 5.0, FLOAT: 25.0, TOGETHER: 25.5}, FLOAT, 2),
        ({BIAS: 5.0, FLOAT: 25.0, TOGETHER: 27.0}, TOGETHER, 3),
    ],
)
def test_layers_in_float_must_be_worth_what_they_cost(
    gains: Mapping[Wish, float], first: Wish, number: int
) -> None:
    """With repairs as well they are told where the two gain a decibel more than each alone."""
    found = told(gains)
    assert found[0] == first and len(found) == number


@pytest.mark.parametrize(
    ("before", "now", "gain"),
    [
        ((13.8, 16.9), (12.1, 21.5), -1.7),
        ((13.8, 16.9), (14.0, 16.5), 3.5),
        ((13.8, 16.9), (17.5, 13.8), 3.5),
        ((13.8, 16.9), (17.5, 13.7), -0.1),
        ((), (), 3.5),
    ],
)
def test_what_the_worst_branch_loses_is_no_gain(
    before: tuple[float, ...], now: tuple[float, ...], gain: float
) -> None:
    """Whatever the figure that joins the branches says."""
    checks = [
        Check(
            "",
            joined,
            joined,
            joined,
            8,
            joined,
            tuple(BranchFigures(f"{n}", db, db) for n, db in enumerate(of)),
        )
        for joined, of in ((10.0, before), (13.5, now))
    ]
    assert gained(*checks) == pytest.approx(gain)
