"""Guessing is told from knowing, with few samples and with many."""

from __future__ import annotations

from math import comb

import pytest

from calib8.analysis.chance import hardly_better_than_guessing


@pytest.mark.parametrize(
    ("hits", "samples", "classes"),
    [(0, 32, 1000), (3, 32, 1000), (0, 8, 1000), (3, 32, 10), (17, 32, 2), (5, 5000, 1000), (520, 1000, 2)],
)
def test_guessing_is_seen(hits: int, samples: int, classes: int) -> None:
    assert hardly_better_than_guessing(hits, samples, classes)


@pytest.mark.parametrize(
    ("hits", "samples", "classes"),
    [(0, 0, 10), (0, 6, 1000), (4, 32, 1000), (14, 32, 10), (4, 8, 2), (18, 32, 2), (32, 32, 10)],
)
def test_knowing_and_too_few_samples_are_not_guessing(hits: int, samples: int, classes: int) -> None:
    assert not hardly_better_than_guessing(hits, samples, classes)


@pytest.mark.parametrize(("samples", "classes"), [(9, 2), (12, 3), (40, 2), (7, 1000)])
def test_both_conditions_as_they_are_written(samples: int, classes: int) -> None:
    chance = 1 / classes
    halfway = (1 + chance) / 2
    below = 0.0
    for hits in range(samples + 1):
        below += comb(samples, hits) * halfway**hits * (1 - halfway) ** (samples - hits)
        close = hits / samples - chance < (1 - chance) / 10
        assert hardly_better_than_guessing(hits, samples, classes) == (close and below < 0.01)
