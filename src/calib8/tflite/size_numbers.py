"""Numbers that a graph computes from nothing but sizes and constants, once the sizes are known.

SHAPE → STRIDED_SLICE → PACK → RESHAPE       the shape of the RESHAPE becomes a constant
"""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.tflite.graph import Graph, Operator
from calib8.tflite.sizes import Shape
from calib8.tflite.views import VIEWS, number

Array = npt.NDArray[Any]

MOST_NUMBERS: Final = 256
"""Of one tensor: what computes sizes is short."""

DTYPES: Final = ("int32", "int64", "float32")


def size_numbers(graph: Graph, operator: Operator, shapes: list[Shape]) -> list[Array] | None:
    """The elements of an operator's outputs, None where they depend on more than sizes.

    Args:
        graph: whose tensors before the operator have their sizes, and numbers where they are known.
        operator: of it.
        shapes: of its outputs.
    """
    inputs = [graph.tensors[place] for place in operator.inputs if place >= 0]
    outputs = [graph.tensors[place] for place in operator.outputs]
    known = [tensor.data for tensor in inputs if tensor.data is not None]
    if max(map(math.prod, shapes), default=0) > MOST_NUMBERS:
        return None
    arrays: list[Array]
    if operator.op == "SHAPE":
        arrays = [np.array(inputs[0].shape)]
    elif len(known) < len(inputs) or max((array.size for array in known), default=0) > MOST_NUMBERS:
        return None
    elif operator.op in VIEWS:
        place, view = VIEWS[operator.op]
        arrays = view(graph, operator, known[place])
    elif operator.op in NUMBERS and operator.options.get("fused_activation_function", "NONE") == "NONE":
        with np.errstate(all="ignore"):
            arrays = [NUMBERS[operator.op](operator, known)]
    else:
        return None
    if any(tensor.dtype not in DTYPES for tensor in outputs):
        return None
    with np.errstate(all="ignore"):  # numbers beyond the type become sizes that make no sense
        return [
            array.astype(tensor.dtype).reshape(shape)
            for array, tensor, shape in zip(arrays, outputs, shapes, strict=True)
        ]


def _binary(function: Callable[[Array, Array], Array]) -> Callable[[Operator, list[Array]], Array]:
    def apply(operator: Operator, known: list[Array]) -> Array:
        return function(known[0], known[1])

    return apply


def _divided(x: Array, y: Array) -> Array:
    """Whole numbers are cut off towards zero."""
    return np.divide(x, y, dtype=np.float32) if x.dtype.kind == "f" else np.trunc(np.divide(x, y))


def _same(operator: Operator, known: list[Array]) -> Array:
    return known[0]


def _product(operator: Operator, known: list[Array]) -> Array:
    product: Array = np.prod(known[0], axis=tuple(known[1].reshape(-1).tolist()))
    return np.asarray(product)


NUMBERS: Final[Mapping[str, Callable[[Operator, list[Array]], Array]]] = {
    **dict.fromkeys(("CAST", "RESHAPE", "SQUEEZE", "EXPAND_DIMS"), _same),
    "ADD": _binary(operators.add),
    "SUB": _binary(operators.sub),
    "MUL": _binary(operators.mul),
    "DIV": _binary(_divided),
    "FLOOR_DIV": _binary(operators.floordiv),
    "MAXIMUM": _binary(np.maximum),
    "MINIMUM": _binary(np.minimum),
    "REDUCE_PROD": _product,
    "PACK": lambda operator, known: np.stack(known, number(operator, "axis")),
    "CONCATENATION": lambda operator, known: np.concatenate(known, number(operator, "axis")),
    "GATHER": lambda operator, known: np.take(known[0], known[1], number(operator, "axis")),
}
"""Operator → its output, for the elements of its inputs."""
