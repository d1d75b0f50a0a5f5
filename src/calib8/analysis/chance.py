"""Whether a model is right hardly more often than by guessing, so that what it is fed must be wrong.

    c = 1 / classes                   share that guessing gets right
    p = (1 + c) / 2                   share of a model halfway between guessing and always right

Two things are asked for: what the model has beyond guessing is less than a tenth of what there is to have,
(hits / n − c) < (1 − c) / 10, and the halfway model would do as badly on n samples less than once in 100
times, Σ_{i ≤ hits} C(n, i) pⁱ (1 − p)ⁿ⁻ⁱ < 0.01; few samples say nothing so.
"""

from __future__ import annotations

import math
from typing import Final

_BEYOND_GUESSING: Final = 0.1
_RARELY: Final = 0.01


def hardly_better_than_guessing(hits: int, samples: int, classes: int) -> bool:
    """Whether so few hits say that data or labels do not fit the model.

    Args:
        hits: samples whose best class is their label, 0 … ``samples``.
        samples: those with a label.
        classes: number of scores, 2 or more.
    """
    if samples < 1:
        return False
    chance = 1.0 / classes
    if hits / samples - chance >= _BEYOND_GUESSING * (1.0 - chance):
        return False
    return _at_most(hits, samples, (1.0 + chance) / 2.0) < _RARELY


def doubt(hits: int, samples: int) -> str:
    """What to say then."""
    return (
        f"FP32 is right on {100 * hits / samples:.2f} % of these samples: preprocessing or labels do not fit "
        "this model; compare mean, scale, colour order and class numbers with those of its training"
    )


def _at_most(hits: int, samples: int, share: float) -> float:
    """Probability of so many hits or fewer, summed in logarithms: many samples have tiny terms."""
    return sum(
        math.exp(
            math.lgamma(samples + 1) - math.lgamma(count + 1) - math.lgamma(samples - count + 1)
            + count * math.log(share) + (samples - count) * math.log1p(-share)
        )
        for count in range(hits + 1)
    )  # fmt: skip
