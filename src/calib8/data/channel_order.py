"""Whether images go in as a network wants them, judged by how sure it is of its answers.

    entropy_i = −Σ_c p_ic ln p_ic              of the class probabilities of sample i
    entropy_i = −ln mean of the ten best scores of the places of sample i       of a detector
    d_i = entropy_i as fed − entropy_i prepared in another way,   t = mean(d) / (std(d) / √n)

Trained networks are surer of images as they had them in training, in the order of channels too, though not of
every image. So another way is suspected only where it is the surer one on most images, by much, and by far
more than chance gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FEWEST_SAMPLES: Final = 16
"""Fewer prove nothing."""

MOST_SAMPLES: Final = 0.6
"""Share of them on which the other order has to be the surer one."""

CERTAIN: Final = 3.0
"""t from which chance is ruled out: 1 in 200 of networks that do not care would reach it."""

SURER: Final = 6.0 / 7.0
"""Part of the mean entropy that may be left: outputs that are no class scores hardly change."""

COLOURS: Final = 3

BEST: Final = 10
"""Scores that tell how sure a detector is: one object has several."""


def colour_axis(shape: Sequence[int | str | None] | None) -> int | None:
    """The axis of an image input's three channels, 1 or 3; None where that cannot be told."""
    if shape is None or len(shape) != 4 or (shape[1] == COLOURS) == (shape[3] == COLOURS):
        return None
    return 1 if shape[1] == COLOURS else 3


def reversed_channels(images: Array, axis: int) -> Array:
    """RGB ↔ BGR; channels of their own mean and scale keep what was done to them."""
    return np.ascontiguousarray(np.flip(images, axis))


def entropies(scores: Array) -> npt.NDArray[np.float64]:
    """Of every row of [samples, classes]: probabilities as they are, other scores through a softmax."""
    rows = scores.astype(np.float64)
    if not (np.all(rows >= 0) and np.allclose(rows.sum(axis=1), 1.0, atol=1e-2)):
        rows = np.exp(rows - rows.max(axis=1, keepdims=True))
        rows /= rows.sum(axis=1, keepdims=True)
    found: npt.NDArray[np.float64] = -np.sum(rows * np.log(np.maximum(rows, 1e-30)), axis=1)
    return found


def doubts(scores: Array) -> npt.NDArray[np.float64]:
    """What stands for the entropy of a detector: −ln of the mean of the best scores, float64 [samples].

    Args:
        scores: [samples, places, classes]; where any of them leaves 0 … 1, all go through a sigmoid. Most
            places hold nothing, so that logits show themselves below 0 whatever the images are.
    """
    logits = float(scores.min()) < 0.0 or float(scores.max()) > 1.0
    best = np.sort(scores.astype(np.float64).max(axis=2), axis=1)[:, -BEST:]
    if logits:
        best = 1.0 / (1.0 + np.exp(-best))
    found: npt.NDArray[np.float64] = -np.log(np.maximum(best.mean(axis=1), 1e-30))
    return found


def clearly_surer(fed: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> bool:
    """Whether a network is clearly surer of images that are prepared in another way.

    Args:
        fed: entropies of some samples as they are fed.
        other: of the same samples, prepared in the other way.
    """
    gains = fed - other
    if len(gains) < FEWEST_SAMPLES or not np.all(np.isfinite(gains)):
        return False
    spread = float(np.std(gains, ddof=1)) / math.sqrt(len(gains))
    certain = float(np.mean(gains > 0)) >= MOST_SAMPLES and float(np.mean(gains)) >= CERTAIN * spread > 0
    return certain and float(np.mean(other)) <= SURER * float(np.mean(fed))
