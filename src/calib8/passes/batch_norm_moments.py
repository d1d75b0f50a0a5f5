"""What batch normalizations tell of the activations without any data: mean and spread of every channel.

    y = γ · (x − μ) / √(σ² + ε) + β         mean β, deviation |γ|, taken as a normal distribution

Clipped at a and b (Relu: 0 and ∞), with α = (a − m)/s, β' = (b − m)/s, φ and Φ of the standard normal:

    E[clip]  = s (φ(α) − φ(β')) + m (Φ(β') − Φ(α)) + a Φ(α) + b (1 − Φ(β'))
    E[clip²] = (m² + s²) (Φ(β') − Φ(α)) + s² (α φ(α) − β' φ(β')) + 2 m s (φ(α) − φ(β'))
               + a² Φ(α) + b² (1 − Φ(β'))

Other functions of one tensor are summed over a grid of the normal distribution. Sums add means, and squared
deviations as of independent terms; averages keep means. Layers without a normalization behind them, maxima
and products of activations tell nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes import common as ir_passes

from calib8.model.graph import constant, float_attribute, int_attribute, is_activation, rank
from calib8.ops.groups import CLAMPS
from calib8.ops.questions import divides, multiplies, normalizes, subtracts
from calib8.passes.fold_affine import fold_affine, fold_gemm_factors
from calib8.passes.fold_rows import fold_behind_bias, fold_behind_reshape
from calib8.passes.place import clip_limits
from calib8.passes.prepare import PREPARE
from calib8.passes.rewrite_leftovers import batch_norm_to_conv

Vector = npt.NDArray[np.float64]

FOLDING: Final = (
    fold_affine,
    fold_behind_reshape,
    fold_behind_bias,
    fold_gemm_factors,
    batch_norm_to_conv,
)
"""The passes of a preparation that would make batch normalizations vanish."""

GRID: Final = np.linspace(-8.0, 8.0, 1601)
"""Where functions of a standard normal variable are looked at."""


@dataclass(frozen=True)
class Moments:
    """Distribution of the channels of a tensor (axis 1) over images and pixels.

    Attributes:
        mean: float64 [channels].
        deviation: float64 [channels], ≥ 0; None where only the mean is known.
    """

    mean: Vector
    deviation: Vector | None = None

    def scaled(self, factors: Vector) -> Moments:
        """Those of ``factors · x``, factors per channel [channels] or one [1]."""
        deviation = None if self.deviation is None else np.abs(factors) * self.deviation
        return Moments(factors * self.mean, deviation)


def batch_norm_moments(original: ir.Model) -> dict[str, Moments]:
    """Name of a tensor → what the batch normalizations before it tell; without those they tell nothing of.

    The names are those of the prepared model too, wherever the tensor is still there.

    Args:
        original: a loaded float model with its batch normalizations; not changed.
    """
    model = original.clone()
    for step in PREPARE:
        if step not in FOLDING:
            step(model)
    ir_passes.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    found: dict[str, Moments] = {}
    for node in model.graph:
        moments = _behind(node, found)
        if moments is not None:
            found[node.outputs[0].name or ""] = moments
    return found


def clipped_normal(mean: Vector, deviation: Vector, low: float, high: float) -> Moments:
    """Mean and deviation of a normal variable clipped to [low, high]; the limits may be infinite.

    Args:
        mean, deviation: of the variable, float64 of one shape, deviation ≥ 0.
        low, high: the limits, low ≤ high.
    """
    spread = np.maximum(deviation, 1e-12 * (1.0 + np.abs(mean)))
    alpha, beta = (low - mean) / spread, (high - mean) / spread
    below, above = _probability(alpha), 1.0 - _probability(beta)
    inside = np.maximum(1.0 - below - above, 0.0)
    slope = _density(alpha) - _density(beta)
    first = spread * slope + mean * inside + _times(low, below) + _times(high, above)
    edge = _edge(alpha) - _edge(beta)
    second = (mean**2 + spread**2) * inside + spread**2 * edge + 2.0 * mean * spread * slope
    second = second + _times(low * low, below) + _times(high * high, above)
    return Moments(first, np.sqrt(np.maximum(second - first**2, 0.0)))


def _density(x: Vector) -> Vector:
    return np.asarray(np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi))


def _probability(x: Vector) -> Vector:
    return np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in x.reshape(-1)]).reshape(x.shape)


def _edge(x: Vector) -> Vector:
    """x · φ(x), 0 at infinity."""
    return np.where(np.isinf(x), 0.0, x) * _density(x)


def _times(limit: float, share: Vector) -> Vector:
    """limit · share, 0 for an infinite limit, which nothing reaches."""
    return np.zeros_like(share) if math.isinf(limit) else limit * share


def _behind(node: ir.Node, found: Mapping[str, Moments]) -> Moments | None:
    """Moments of a node's first output."""
    if normalizes(node):
        return _of_batch_norm(node)
    known = [
        found.get(value.name or "") for value in node.inputs if value is not None and is_activation(value)
    ]
    if not known or any(moments is None for moments in known):
        return None
    terms = [moments for moments in known if moments is not None]
    if node.op_type in _COMBINING:
        return _COMBINING[node.op_type](node, terms)
    return _function(node, terms[0]) if len(terms) == 1 else None


def _of_batch_norm(node: ir.Node) -> Moments | None:
    gamma, beta, variance = (constant(node.inputs[index]) for index in (1, 2, 4))
    if gamma is None or beta is None or variance is None or int_attribute(node, "training_mode", 0):
        return None
    wide = variance.astype(np.float64)
    share = np.sqrt(wide / (wide + float_attribute(node, "epsilon", 1e-5)))
    return Moments(beta.astype(np.float64), np.abs(gamma.astype(np.float64)) * share)


def _sum(node: ir.Node, terms: list[Moments]) -> Moments | None:
    """Of an Add, a Sub or a Sum, constants per channel included."""
    sign = -1.0 if subtracts(node) else 1.0
    mean, variance, known = np.zeros(1), np.zeros(1), True
    if any(rank(value) != rank(node.outputs[0]) for value in node.inputs if constant(value) is None):
        return None
    waiting = iter(terms)
    for index, value in enumerate(node.inputs):
        factor = sign if index else 1.0
        array = constant(value)
        vector = None if array is None else _per_channel(node, array)
        if array is not None and vector is None:
            return None
        term = Moments(vector, np.zeros(1)) if vector is not None else next(waiting)
        mean = mean + factor * term.mean
        known = known and term.deviation is not None
        variance = variance + (0.0 if term.deviation is None else term.deviation**2)
    return Moments(mean, np.sqrt(variance) if known else None)


def _product(node: ir.Node, terms: list[Moments]) -> Moments | None:
    """Of a Mul with, or a Div by, a constant per channel."""
    array = constant(node.inputs[1] if divides(node) else node.inputs[0])
    if array is None and multiplies(node):
        array = constant(node.inputs[1])
    vector = None if array is None or len(terms) != 1 else _per_channel(node, array)
    if vector is None or (divides(node) and not np.all(vector)):
        return None
    return terms[0].scaled(1.0 / vector if divides(node) else vector)


def _per_channel(node: ir.Node, array: npt.NDArray[np.generic]) -> Vector | None:
    """A constant operand as a vector over axis 1 of the output, None if it varies along another axis."""
    axes = rank(node.outputs[0])
    if axes is None or axes < 2 or array.ndim > axes or array.dtype.kind != "f":
        return np.asarray(array, np.float64).reshape(-1) if array.size == 1 else None
    shape = (1,) * (axes - array.ndim) + array.shape
    return np.asarray(array, np.float64).reshape(-1) if array.size == shape[1] else None


def _average(node: ir.Node, terms: list[Moments]) -> Moments | None:
    return Moments(terms[0].mean)


def _kept(node: ir.Node, terms: list[Moments]) -> Moments | None:
    """Of an op that moves values within their channel; the channels must still be axis 1."""
    source, result = node.inputs[0], node.outputs[0]
    shapes = [None if value is None or value.shape is None else value.shape for value in (source, result)]
    channels = terms[0].mean.size
    for shape in shapes:
        if shape is None or shape.rank() < 2 or shape[1] != channels:
            return None
    return terms[0]


def _joined(node: ir.Node, terms: list[Moments]) -> Moments | None:
    """Of a Concat along the channels, of computed tensors only."""
    axes = rank(node.outputs[0])
    if axes is None or int_attribute(node, "axis", 0) % axes != 1 or len(terms) != len(node.inputs):
        return None
    deviations = [term.deviation for term in terms]
    whole = [deviation for deviation in deviations if deviation is not None]
    joined = np.concatenate(whole) if len(whole) == len(terms) else None
    return Moments(np.concatenate([term.mean for term in terms]), joined)


_COMBINING: Final[dict[str, Callable[[ir.Node, list[Moments]], Moments | None]]] = {
    "Add": _sum,
    "Sub": _sum,
    "Sum": _sum,
    "Mul": _product,
    "Div": _product,
    "Concat": _joined,
    "AveragePool": _average,
    "GlobalAveragePool": _average,
    "Flatten": _kept,
    "Reshape": _kept,
    "Squeeze": _kept,
    "Resize": _kept,
}


def _function(node: ir.Node, moments: Moments) -> Moments | None:
    """Of a function of one tensor."""
    if moments.deviation is None:
        return None
    if node.op_type in CLAMPS:
        low, high = clip_limits(node)
        return clipped_normal(moments.mean, moments.deviation, low, high)
    function = _FUNCTIONS.get(node.op_type)
    if function is None:
        return None
    values = function(node, moments.mean[:, None] + moments.deviation[:, None] * GRID)
    weights = _density(GRID) / np.sum(_density(GRID))
    mean = values @ weights
    return Moments(mean, np.sqrt(np.maximum((values * values) @ weights - mean * mean, 0.0)))


def _hard_sigmoid(node: ir.Node, x: Vector) -> Vector:
    alpha, beta = float_attribute(node, "alpha", 0.2), float_attribute(node, "beta", 0.5)
    return np.clip(alpha * x + beta, 0.0, 1.0)


def _hard_swish(node: ir.Node, x: Vector) -> Vector:
    return np.asarray(x * np.clip(x / 6.0 + 0.5, 0.0, 1.0))


def _leaky(node: ir.Node, x: Vector) -> Vector:
    return np.where(x < 0.0, float_attribute(node, "alpha", 0.01) * x, x)


def _sigmoid(node: ir.Node, x: Vector) -> Vector:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * x))


def _tanh(node: ir.Node, x: Vector) -> Vector:
    return np.tanh(x)


_FUNCTIONS: Final[dict[str, Callable[[ir.Node, Vector], Vector]]] = {
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky,
    "Sigmoid": _sigmoid,
    "Tanh": _tanh,
}
