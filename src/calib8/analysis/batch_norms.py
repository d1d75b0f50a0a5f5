"""Finds batch normalizations that scale one channel out of all proportion.

    y = k_c · x + b'_c,    k_c = γ_c / √(σ²_c + ε),    b'_c = β_c − μ_c · k_c

A channel that is (nearly) constant before the normalization has σ² near 0, so that its k explodes: the
channel then dominates every range that it shares with the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import constant
from calib8.ops.questions import normalizes
from calib8.passes.fold_affine import batch_norm_affine
from calib8.quantization.qdq import label, nodes

MAX_RATIO: Final = 100.0
"""Largest |k| over median |k| that passes."""

MIN_VARIANCE: Final = 1e-4
"""Smallest σ² that passes."""

WORST: Final = 3
"""So many are named in a line about all."""

_CURE: Final = (
    "A channel that is almost constant before the normalization can take up the whole range of its tensor: "
    "train in the order conv, normalization, activation, or set γ of dead channels to 0 and β to what they "
    "give"
)


@dataclass(frozen=True)
class BatchNormInspection:
    """What one BatchNormalization does to its channels.

    Attributes:
        name: the node.
        k_min, k_max: smallest and largest factor k.
        shift_min, shift_max: smallest and largest shift b'.
        channel: the channel of the largest |k|.
        gamma, variance, mean: γ, σ² and μ of that channel.
        ratio: its |k| over the median |k|; inf where the median is 0 and it is not.
        smallest_variance: smallest σ² of any channel.
        constant_channels: those with σ² < ``MIN_VARIANCE``, in ascending order.
    """

    name: str
    k_min: float
    k_max: float
    shift_min: float
    shift_max: float
    channel: int
    gamma: float
    variance: float
    mean: float
    ratio: float
    smallest_variance: float
    constant_channels: tuple[int, ...]

    @property
    def suspicious(self) -> bool:
        """One channel dominates, or one is constant."""
        return self.ratio > MAX_RATIO or self.smallest_variance < MIN_VARIANCE

    def warning(self) -> str:
        """What is wrong with it, in one line."""
        times = "many" if math.isinf(self.ratio) else f"{self.ratio:.3g}"
        return (
            f"{self.name}: k = γ/√(σ²+ε) spans {self.k_min:.3g} … {self.k_max:.3g}, the shift "
            f"{self.shift_min:.3g} … {self.shift_max:.3g}; channel {self.channel} has {times} times the "
            f"median |k| (γ={self.gamma:.3g}, σ²={self.variance:.3g}, μ={self.mean:.3g}), the smallest σ² is "
            f"{self.smallest_variance:.3g}. {_CURE}"
        )

    def shortly(self) -> str:
        """Its name and the channel that is the matter, for a list."""
        if self.ratio > MAX_RATIO:
            times = "many" if math.isinf(self.ratio) else f"{self.ratio:.3g}"
            return f"'{self.name}' (channel {self.channel}: {times} times the median |k|)"
        return f"'{self.name}' (σ² {self.smallest_variance:.3g} at the least)"


def batch_norm_warning(norms: Sequence[BatchNormInspection]) -> str | None:
    """What is wrong with the normalizations of a model, in one line however many they are; None: nothing.

    Args:
        norms: all of them.
    """
    bad = sorted(
        (norm for norm in norms if norm.suspicious), key=lambda norm: (-norm.ratio, norm.smallest_variance)
    )
    if len(bad) < 2:
        return bad[0].warning() if bad else None
    return (
        f"{len(bad)} of {len(norms)} BatchNormalizations have a channel that is almost constant or that they "
        f"scale out of proportion, worst {', '.join(norm.shortly() for norm in bad[:WORST])}. {_CURE} "
        "(all of them: batch_norms of the JSON file or of the result in Python)"
    )


def inspect_batch_norms(model: ir.Model) -> tuple[BatchNormInspection, ...]:
    """Every BatchNormalization with constant parameters, in graph order."""
    found = (_inspect(node) for node in nodes(model) if normalizes(node))
    return tuple(inspection for inspection in found if inspection is not None)


def _inspect(node: ir.Node) -> BatchNormInspection | None:
    affine = batch_norm_affine(node)
    if affine is None or affine.k.size == 0:
        return None
    gamma, mean, variance = (np.asarray(constant(node.inputs[index]), np.float64) for index in (1, 3, 4))
    size = np.abs(affine.k)
    channel, median = int(np.argmax(size)), float(np.median(size))
    largest = float(size[channel])
    ratio = largest / median if median > 0 else (math.inf if largest > 0 else 1.0)
    return BatchNormInspection(
        name=label(node),
        k_min=float(affine.k.min()),
        k_max=float(affine.k.max()),
        shift_min=float(affine.d.min()),
        shift_max=float(affine.d.max()),
        channel=channel,
        gamma=float(gamma[channel]),
        variance=float(variance[channel]),
        mean=float(mean[channel]),
        ratio=ratio,
        smallest_variance=float(variance.min()),
        constant_channels=tuple(map(int, np.flatnonzero(variance < MIN_VARIANCE))),
    )
