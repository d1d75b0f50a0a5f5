"""AdaRound: whether each weight goes up or down is learned, layer by layer.

    q(V)   = clip(⌊W/s⌋ + h(V), −limit, limit)       h(V) = clip(σ(V)(ζ − γ) + γ, 0, 1),  ζ = 1.1, γ = −0.1
    V₀     = −ln((ζ − γ)/(frac − γ) − 1)             so that h(V₀) = frac = W/s − ⌊W/s⌋
    loss   = d · e H eᵀ / (cost of plain rounding) + λ Σ (1 − |2h − 1|^β),   e = s·q(V) − W,   per row
    β      = 20 → 2 in a straight line behind the first fifth of the steps, in which λ counts as 0
    codes  = ⌊W/s⌋ + [h ≥ ½]

The squared error of a layer's outputs is a quadratic form in e, so the second moments H of its coded inputs
stand for all images and no step runs the layer. A row's cost is told in units of what plain rounding costs
it, per weight, so that λ means the same everywhere. Adam, one batch. A row that would not gain keeps its
codes.

Nagel, Amjad, van Baalen, Louizos and Blankevoort, "Up or Down?", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8._core import second_order
from calib8.progress import SampleCounter
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.coded_layers import coded_layers
from calib8.repair.layer_rows import (
    Floats,
    LayerRows,
    passed_over,
    rounded_layers,
    row_costs,
    with_rows,
)
from calib8.repair.second_order_rounding import damped_products

STEPS: Final = 1000
HIGH: Final = 1.1
LOW: Final = -0.1
WEIGHT: Final = 1.0
"""λ."""

WARM_UP: Final = 0.2
FIRST_BETA: Final = 20.0
LAST_BETA: Final = 2.0


@dataclass
class Adam:
    """The optimizer of Kingma and Ba: it changes its values in place."""

    values: Floats
    rate: float = 0.03
    first_decay: float = 0.9
    second_decay: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        """Begins with moments of 0."""
        self._first, self._second, self._steps = np.zeros_like(self.values), np.zeros_like(self.values), 0

    def step(self, gradient: Floats) -> None:
        """Moves the values against the gradient."""
        self._steps += 1
        self._first += (1.0 - self.first_decay) * (gradient - self._first)
        self._second += (1.0 - self.second_decay) * (gradient * gradient - self._second)
        first = self._first / (1.0 - self.first_decay**self._steps)
        second = self._second / (1.0 - self.second_decay**self._steps)
        self.values -= self.rate * first / (np.sqrt(second) + self.epsilon)


def ada_round(
    candidate: Candidate,
    data: RepairData,
    *,
    steps: int = STEPS,
    weight: float = WEIGHT,
) -> tuple[Candidate, RepairReport]:
    """Learns the rounding of all int8 layers.

    Args:
        candidate: see ``Candidate``; scales of its corrections are kept.
        data: what the layers' inputs are taken from.
        steps: of Adam, per layer.
        weight: λ.

    Raises:
        TableError: the table lacks a tensor.
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    changed: dict[str, LayerRows] = {}
    graph = candidate.quantized()
    layers = coded_layers(candidate, graph)
    counter = SampleCounter("learning to round", len(layers), data.progress)
    for layer, moments in rounded_layers(candidate, graph, layers, data):
        products = damped_products(moments)
        codes = layer.allowed(learned_codes(layer, products, steps, weight, data.threads), layer.scales)
        old = row_costs(layer, layer.scales, layer.codes, products, data.threads)
        better = row_costs(layer, layer.scales, codes, products, data.threads) < old
        if np.any(better):
            changed[layer.name] = replace(layer, codes=np.where(better[..., None], codes, layer.codes))
        counter(1)
    return with_rows(candidate, changed), RepairReport(tuple(changed), passed_over(layers))


def learned_codes(
    layer: LayerRows, products: Floats, steps: int, weight: float, threads: int
) -> npt.NDArray[np.int8]:
    """Codes [groups, rows, d] that AdaRound finds.

    Args:
        layer: weights and scales.
        products: H, [groups, d, d].
        steps: of Adam.
        weight: λ.
        threads: for the products; the result does not depend on it.
    """
    scales = layer.scales[..., None]
    floor = np.floor(layer.weights / scales)
    learned = Adam(first_values(layer.weights / scales - floor))
    plain = row_costs(layer, layer.scales, layer.rounded(layer.scales), products, threads)
    unit = layer.weights.shape[2] / np.where(plain > 0.0, plain, 1.0)[..., None]
    for step in range(steps):
        share, slope = soft(learned.values)
        soft_codes = np.clip(floor + share, -layer.limit, layer.limit)
        inside = soft_codes == floor + share
        errors = scales * soft_codes - layer.weights
        gradient = 2.0 * unit * second_order.multiply(errors, products, threads) * scales * inside
        if step >= WARM_UP * steps:
            gradient += weight * undecided_slope(share, _beta(step, steps))
        learned.step(gradient * slope)
    decided = floor + (soft(learned.values)[0] >= 0.5)
    codes: npt.NDArray[np.int8] = np.clip(decided, -layer.limit, layer.limit).astype(np.int8)
    return codes


def first_values(fraction: Floats) -> Floats:
    """V with h(V) = fraction, for fractions 0 … 1."""
    return np.asarray(-np.log((HIGH - LOW) / (fraction - LOW) - 1.0))


def soft(values: Floats) -> tuple[Floats, Floats]:
    """h(V) and its derivative, which is 0 where h is clipped."""
    sigmoid = 1.0 / (1.0 + np.exp(-values))
    wide = sigmoid * (HIGH - LOW) + LOW
    inside = (wide > 0.0) & (wide < 1.0)
    return np.clip(wide, 0.0, 1.0), (HIGH - LOW) * sigmoid * (1.0 - sigmoid) * inside


def undecided_slope(share: Floats, beta: float) -> Floats:
    """Derivative of 1 − |2h − 1|^β by h."""
    centred = 2.0 * share - 1.0
    return np.asarray(-2.0 * beta * np.abs(centred) ** (beta - 1.0) * np.sign(centred))


def _beta(step: int, steps: int) -> float:
    done = (step - WARM_UP * steps) / ((1.0 - WARM_UP) * steps)
    return FIRST_BETA + (LAST_BETA - FIRST_BETA) * done
