"""How much places count in front of a function that settles: by the square of its slope there.

    g(y) = (f(y + 1/2) − f(y − 1/2))²            y: what the layer in front of f yields in FP32
    weight of a place = rint(255 · mean over channels g(y) / g(0))

Of a mask nearly all pixels are far from its borders: whatever a layer adds to them, Sigmoid stays 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.model.graph import float_attribute
from calib8.ops.questions import is_convolution

STEPS: Final = 255
"""Weights are whole numbers, so that sums of products stay exact."""

Values = npt.NDArray[np.float64]


def place_weights(layer: ir.Node, function: ir.Node, result: npt.NDArray[Any]) -> Values:
    """The weight of every place of a layer's output, whole numbers in float64, in the order of ``columns``.

    Args:
        layer: what yields the output.
        function: one of ``layer_means.SETTLING`` behind it.
        result: the output in FP32; channels are axis 1 behind a convolution, else the last one.
    """
    rows = np.moveaxis(result, 1, -1) if is_convolution(layer) else result
    values = rows.reshape(-1, rows.shape[-1]).astype(np.float64)
    most = float(_squared_slope(function, np.zeros(1))[0])
    found: Values = np.rint(STEPS * _squared_slope(function, values).mean(axis=1) / most)
    return np.minimum(found, float(STEPS))


def _squared_slope(function: ir.Node, values: Values) -> Values:
    of = _FUNCTIONS[function.op_type]
    return np.square(of(function, values + 0.5) - of(function, values - 0.5))


def _sigmoid(_: ir.Node, values: Values) -> Values:
    found: Values = 0.5 + 0.5 * np.tanh(0.5 * values)
    return found


def _tanh(_: ir.Node, values: Values) -> Values:
    found: Values = np.tanh(values)
    return found


def _hard_sigmoid(function: ir.Node, values: Values) -> Values:
    alpha, beta = float_attribute(function, "alpha", 0.2), float_attribute(function, "beta", 0.5)
    return np.clip(alpha * values + beta, 0.0, 1.0)


_FUNCTIONS: Final[Mapping[str, Callable[[ir.Node, Values], Values]]] = {
    "HardSigmoid": _hard_sigmoid,
    "Sigmoid": _sigmoid,
    "Tanh": _tanh,
}
