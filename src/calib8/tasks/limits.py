"""From which figure on a model counts as kept, and below which as ruined; and how many objects tell it.

    kept      figure ≥ min(enough, 1 − one)          one: what a single object makes of the figure
    ruined    figure < min(least, 1 − 2·one)

What one object decides is chance: of 25 objects one may be lost. Shares of fewer than ``FEWEST`` objects tell
nothing: 22 is the least number n for which a model that loses one in five, and is ruined, passes for kept
with less than one chance in twenty,

    0.8^n + n·0.2·0.8^(n−1) < 0.05

How far a model is from kept is measured by what it loses, where losses are alike for all figures:

    excess    (1 − figure) / (1 − enough) of shares,  10^((enough − figure) / 20) of dB     1: just kept
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from calib8.tasks.kinds import Kind

State: TypeAlias = Literal["kept", "damaged", "ruined", "unknown"]
Limits: TypeAlias = tuple[float, float]
"""At least so much is kept, less than so much is ruined."""

FEWEST: Final = 22

FOUND_AGAIN: Final = (0.97, 0.8)
"""Of objects and of lines, those that INT8 loses and those that it makes up alike: one in thirty lies at the
border of what counts; where it is one in five, every user sees it."""

CLASSES: Final = (0.95, 0.8)
"""Of samples that keep their class, and of single scores: one in twenty lies at the border between two."""

AT_ANY_SCORE: Final = (0.99, 0.9)
"""mAP@.5: what it loses no other threshold of scores brings back. 0.99 is what deployments ask of INT8; at
0.9 one object in ten is gone whatever the threshold."""

EXACT_BOXES: Final = (0.9, 0.5)
"""mAP@[.5:.95], ten measures of overlap: boxes that all have an IoU of .9 with FP32's pass nine of them, and
hands that label a picture agree no better; with .7 half of them."""

COSINES: Final = (0.998, 0.95)
"""Mean cosine: at 0.998 the cosines of pairs, and so what a threshold says, move by less than 0.01; at 0.95
the error is a third of the vector."""

OVERLAPS: Final = (0.985, 0.85)
"""IoU of regions: 0.985 is the border of a region of 100 points across moved by less than half a point; at
0.85 by four points, and shapes differ."""

POINTS: Final = (0.97, 0.6)
"""OKS, exp(−d²/(8σ²A)): points moved by half of what those who label them differ (d = σ√A/2), and by twice of
it."""

BOXES: Final = (25.0, 15.0)
"""dB of coordinates over the whole picture: 6 % and 18 % of their size; at 18 % boxes miss IoU 0.5."""

HEARD: Final = (0.98, 0.9)
"""Of decisions per frame: one in fifty lies at the border of a word, and what listens waits for more than one
frame; where it is one in ten, words are cut."""

SIGNALS: Final = (20.0, 10.0)
"""dB of all else: a hundredth and a tenth of the energy is noise. Detectors with 20 dB of scores and more
kept 95 to 99 % of their objects, with 10 dB 75 %; classifiers with 20 dB 95 % of their classes."""

CHARACTERS: Final = (30.0, 20.0)
"""dB of the scores of characters: a line is wrong with one wrong character. Recognisers read 90 % of the
lines as before with 26 dB, 78 % with 20."""

LIMITS: Final[Mapping[Kind, Limits]] = {
    "scores": CLASSES,
    "objectness": CLASSES,
    "logits": CLASSES,
    "probabilities": CLASSES,
    "ctc": FOUND_AGAIN,
    "decisions": HEARD,
    "embedding": COSINES,
    "map": OVERLAPS,
    "boxes": BOXES,
    "keypoints": BOXES,
}
"""Of the figures of ``calib8.tasks.kept``, per kind; others have ``SIGNALS``."""

SIGNAL_LIMITS: Final[Mapping[Kind, Limits]] = {"boxes": BOXES, "keypoints": BOXES, "ctc": CHARACTERS}
"""Of the SQNR, per kind; others have ``SIGNALS``."""

FIGURE_LIMITS: Final[Mapping[str, Limits]] = {
    "recall": FOUND_AGAIN,
    "precision": FOUND_AGAIN,
    "map50": AT_ANY_SCORE,
    "map": EXACT_BOXES,
    "miou": OVERLAPS,
    "cosine": COSINES,
    "lines": FOUND_AGAIN,
    "oks": POINTS,
    "found": FOUND_AGAIN,
    "agreement": CLASSES,
    "decisions": HEARD,
    "sqnr_db": SIGNALS,
    "si_sdr_db": SIGNALS,
}
"""Of the figures of judges (``calib8.tasks.judges.interface.FIGURES``)."""

_ROUNDING: Final = 1e-9
_ORDER: Final[tuple[State, ...]] = ("ruined", "damaged", "unknown", "kept")


def state_by(limits: Limits, value: float | None, one: float = 0.0) -> State:
    """The word for a figure; see the top of the file."""
    if value is None:
        return "unknown"
    enough, least = limits
    if one > 0.0:
        enough, least = min(enough, 1.0 - one), min(least, 1.0 - 2.0 * one)
    return "kept" if value >= enough - _ROUNDING else "damaged" if value >= least else "ruined"


def excess(limits: Limits, value: float | None, one: float = 0.0) -> float:
    """How many times as much is lost as a kept model loses at most; see the top of the file. 0: not known.

    Args:
        limits: of shares, which are 1 at most, or of dB, which are more.
        value: the figure; −∞ dB counts as 10^100.
        one: what a single object makes of a share.
    """
    if value is None:
        return 0.0
    enough = min(limits[0], 1.0 - one) if one > 0.0 else limits[0]
    if enough > 1.0:
        return float(10.0 ** min((enough - value) / 20.0, 100.0))
    return (1.0 - value) / (1.0 - enough)


def badness(state: State) -> int:
    """0 for the worst word."""
    return _ORDER.index(state)


def worst(states: list[State]) -> State:
    """Of those that are known; ``unknown`` without any."""
    return min((state for state in states if state != "unknown"), key=badness, default="unknown")
