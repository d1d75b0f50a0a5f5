"""Whether images go in with red and blue exchanged, judged by how sure a network is of its answers.

    entropy_i = −Σ_c p_ic ln p_ic              of the class probabilities of sample i
    d_i = entropy_i as fed − entropy_i with the channels reversed,   t = mean(d) / (std(d) / √n)

Trained networks are surer in the order of their training, though not on every image. So the other order is
suspected only where it is the surer one on most images, by much, and by far more than chance gives.
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

CERTAIN: Final = 2.5
"""t from which chance is ruled out: 1 in 100 of networks that do not care would reach it."""

SURER: Final = 0.8
"""Part of the mean entropy that may be left: outputs that are no class scores hardly change."""

COLOURS: Final = 3


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


def surer_reversed(fed: npt.NDArray[np.float64], reversed_: npt.NDArray[np.float64]) -> bool:
    """Whether a network is clearly surer with the channels reversed.

    Args:
        fed: entropies of some samples as they are fed.
        reversed_: of the same samples, with their channels reversed.
    """
    gains = fed - reversed_
    if len(gains) < FEWEST_SAMPLES or not np.all(np.isfinite(gains)):
        return False
    spread = float(np.std(gains, ddof=1)) / math.sqrt(len(gains))
    certain = float(np.mean(gains > 0)) >= MOST_SAMPLES and float(np.mean(gains)) > CERTAIN * spread > 0
    return certain and float(np.mean(reversed_)) <= SURER * float(np.mean(fed))
