"""Functions of one quantized tensor as a tiny tree, evaluated in float32 or in float64.

float32 rounds after every operator, as a float32 runtime does:

    + − · / √ min max     IEEE operations, so the same bits everywhere
    exp, tanh, erf …      computed in float64 and rounded once: the same bits on every CPU whose float64
                          functions are within an ulp of the truth, but for one value in 2^28 or so
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.program.rules import F32

Floats = npt.NDArray[np.floating]
Attributes = Mapping[str, float | int | str]
Function = Callable[[tuple[Floats, ...], Attributes], Floats]


@dataclass(frozen=True)
class Source:
    """The quantized tensor itself."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A number, or one number per index of the last axis as the tensor lies in memory.

    Attributes:
        array: float32, one element of any shape or [channels].
    """

    array: F32


@dataclass(frozen=True, eq=False)
class Apply:
    """An ONNX operator on expressions.

    Attributes:
        op: a key of ``UNARY_FUNCTIONS`` or ``NARY_FUNCTIONS``.
        args: its inputs in ONNX's order. An omitted bound of Clip is ``Constant(∓inf)`` or left to the
            attributes ``min`` and ``max``.
        attributes: as ONNX names them; absent ones have ONNX's defaults.
    """

    op: str
    args: tuple[Expression, ...]
    attributes: Attributes = field(default_factory=lambda: MappingProxyType({}))


Expression = Source | Constant | Apply


def evaluate(expression: Expression, values: Floats) -> Floats:
    """The expression at ``values`` in their precision; not-a-number and ±inf come out as IEEE has them.

    Args:
        expression: constants that are vectors broadcast along the last axis of ``values``.
        values: float32 or float64.

    Returns:
        An array of the same dtype, of the broadcast shape.

    Raises:
        KeyError: an operator is neither in ``UNARY_FUNCTIONS`` nor in ``NARY_FUNCTIONS``.
    """
    if isinstance(expression, Source):
        return values
    if isinstance(expression, Constant):
        array = expression.array.astype(values.dtype)
        return array.reshape(-1) if array.size > 1 else array.reshape(())
    args = tuple(evaluate(arg, values) for arg in expression.args)
    function = UNARY_FUNCTIONS.get(expression.op) or NARY_FUNCTIONS[expression.op]
    with np.errstate(all="ignore"):
        return np.asarray(function(args, expression.attributes), values.dtype)


def channels(expression: Expression) -> int | None:
    """Length of the expression's vectors, None if all constants are single numbers.

    Raises:
        ValueError: two vectors have different lengths.
    """
    if isinstance(expression, Source):
        return None
    if isinstance(expression, Constant):
        return expression.array.size if expression.array.size > 1 else None
    found = {length for arg in expression.args if (length := channels(arg)) is not None}
    if len(found) > 1:
        raise ValueError(f"constants of {sorted(found)} channels do not fit together")
    return found.pop() if found else None


def number(attributes: Attributes, name: str, default: float, like: Floats) -> np.floating:
    """A float attribute as a float32 value in the precision of ``like``."""
    value: np.floating = like.dtype.type(np.float32(attributes.get(name, default)))
    return value


def _once(function: Callable[..., Floats], *parameters: tuple[str, float]) -> Function:
    """An operator evaluated as a whole in float64 and rounded once; parameters are attributes of it."""

    def apply(args: tuple[Floats, ...], attributes: Attributes) -> Floats:
        wide = [arg.astype(np.float64) for arg in args]
        given = [number(attributes, name, default, wide[0]) for name, default in parameters]
        return function(*wide, *given).astype(args[0].dtype)

    return apply


def _relu(args: tuple[Floats, ...], attributes: Attributes) -> Floats:
    return np.maximum(args[0], 0)


def _clip(args: tuple[Floats, ...], attributes: Attributes) -> Floats:
    x, *bounds = args
    low = bounds[0] if bounds else number(attributes, "min", -math.inf, x)
    high = bounds[1] if len(bounds) > 1 else number(attributes, "max", math.inf, x)
    return np.minimum(np.maximum(x, low), high)


def _leaky_relu(args: tuple[Floats, ...], attributes: Attributes) -> Floats:
    (x,) = args
    return np.where(x >= 0, x, x * number(attributes, "alpha", 0.01, x))


def _prelu(args: tuple[Floats, ...], attributes: Attributes) -> Floats:
    x, slope = args
    return np.where(x >= 0, x, x * slope)


def _thresholded_relu(args: tuple[Floats, ...], attributes: Attributes) -> Floats:
    (x,) = args
    return np.where(x > number(attributes, "alpha", 1.0, x), x, np.zeros_like(x))


def _hard_sigmoid(args: tuple[Floats, ...], attributes: Attributes) -> Floats:
    (x,) = args
    line = x * number(attributes, "alpha", 0.2, x) + number(attributes, "beta", 0.5, x)
    result: Floats = np.maximum(np.minimum(line, 1), 0)
    return result


def _hard_swish(args: tuple[Floats, ...], attributes: Attributes) -> Floats:
    return args[0] * _hard_sigmoid(args, {"alpha": 1 / 6, "beta": 0.5})


def _shrink(args: tuple[Floats, ...], attributes: Attributes) -> Floats:
    (x,) = args
    limit, bias = number(attributes, "lambd", 0.5, x), number(attributes, "bias", 0.0, x)
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, np.zeros_like(x)))


def _softsign(args: tuple[Floats, ...], attributes: Attributes) -> Floats:
    result: Floats = args[0] / (1 + np.abs(args[0]))
    return result


def _gelu(args: tuple[Floats, ...], attributes: Attributes) -> Floats:
    x = args[0].astype(np.float64)
    if attributes.get("approximate", "none") == "tanh":
        part = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    else:
        part = _erf(x / math.sqrt(2))
    return np.asarray(0.5 * x * (1 + part), args[0].dtype)


def _erf(x: Floats) -> Floats:
    return np.array([math.erf(value) for value in x.reshape(-1)], np.float64).reshape(x.shape)


def _sigmoid(x: Floats) -> Floats:
    result: Floats = 1 / (1 + np.exp(-x))
    return result


def _softplus(x: Floats) -> Floats:
    result: Floats = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return result


def _elu(x: Floats, alpha: np.floating) -> Floats:
    return np.where(x >= 0, x, alpha * np.expm1(x))


def _selu(x: Floats, alpha: np.floating, gamma: np.floating) -> Floats:
    return gamma * _elu(x, alpha)


def _celu(x: Floats, alpha: np.floating) -> Floats:
    return np.where(x >= 0, x, alpha * np.expm1(x / alpha))


def _swish(x: Floats, alpha: np.floating) -> Floats:
    return x * _sigmoid(alpha * x)


def _mish(x: Floats) -> Floats:
    return x * np.tanh(_softplus(x))


UNARY_FUNCTIONS: Final[Mapping[str, Function]] = {
    "Abs": lambda args, attributes: np.abs(args[0]),
    "Acos": _once(np.arccos),
    "Acosh": _once(np.arccosh),
    "Asin": _once(np.arcsin),
    "Asinh": _once(np.arcsinh),
    "Atan": _once(np.arctan),
    "Atanh": _once(np.arctanh),
    "Ceil": lambda args, attributes: np.ceil(args[0]),
    "Celu": _once(_celu, ("alpha", 1.0)),
    "Clip": _clip,
    "Cos": _once(np.cos),
    "Cosh": _once(np.cosh),
    "Elu": _once(_elu, ("alpha", 1.0)),
    "Erf": _once(_erf),
    "Exp": _once(np.exp),
    "Floor": lambda args, attributes: np.floor(args[0]),
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Identity": lambda args, attributes: args[0],
    "LeakyRelu": _leaky_relu,
    "Log": _once(np.log),
    "Mish": _once(_mish),
    "Neg": lambda args, attributes: -args[0],
    "PRelu": _prelu,
    "Reciprocal": lambda args, attributes: 1 / args[0],
    "Relu": _relu,
    "Round": lambda args, attributes: np.rint(args[0]),
    "Selu": _once(_selu, ("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)),
    "Shrink": _shrink,
    "Sigmoid": _once(_sigmoid),
    "Sign": lambda args, attributes: np.sign(args[0]),
    "Sin": _once(np.sin),
    "Sinh": _once(np.sinh),
    "Softplus": _once(_softplus),
    "Softsign": _softsign,
    "Sqrt": lambda args, attributes: np.sqrt(args[0]),
    "Swish": _once(_swish, ("alpha", 1.0)),
    "Tan": _once(np.tan),
    "Tanh": _once(np.tanh),
    "ThresholdedRelu": _thresholded_relu,
}
"""Operators of one tensor; what Clip and PRelu read besides are constants."""

NARY_FUNCTIONS: Final[Mapping[str, Function]] = {
    "Add": lambda args, attributes: args[0] + args[1],
    "Div": lambda args, attributes: args[0] / args[1],
    "Max": lambda args, attributes: _fold(np.maximum, args),
    "Min": lambda args, attributes: _fold(np.minimum, args),
    "Mul": lambda args, attributes: args[0] * args[1],
    "Pow": _once(np.power),
    "Sub": lambda args, attributes: args[0] - args[1],
}
"""Operators of several expressions of the same tensor, constants among them."""


def _fold(function: Callable[[Floats, Floats], Floats], args: tuple[Floats, ...]) -> Floats:
    result = args[0]
    for arg in args[1:]:
        result = function(result, arg)
    return result
