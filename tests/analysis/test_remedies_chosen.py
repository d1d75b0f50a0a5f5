"""Which of the remedies that were tried are told, and which one first."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from calib8.autorange.check import Check
from calib8.progress import SampleCounter, silent
from calib8.remedies import Clinic, Remedy, Wish

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
