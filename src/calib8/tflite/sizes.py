"""The shape that TFLite gives a result, for operators whose function takes the output's shape from the file.

SAME         ceil(in / stride)
VALID        ceil((in − (size − 1)·dilation) / stride)
reductions   the axes of the constant, dropped or kept as 1
sizes        what the constant of the operator says
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from calib8.tflite.graph import Graph, Operator

Shape = tuple[int, ...]


def wrong_shape(graph: Graph, operator: Operator) -> str | None:
    """How the output's shape differs from the one that TFLite computes, None if it does not.

    Args:
        graph: checked.
        operator: of it, with as many tensors as it takes.
    """
    rule = SHAPES.get(operator.op)
    computed = None if rule is None else rule(graph, operator)
    y = graph.tensors[operator.outputs[0]]
    if computed is None or computed == y.shape:
        return None
    return f"its output '{y.name}' has shape {list(y.shape)}, where TFLite makes {list(computed)}"


def _shape(graph: Graph, operator: Operator, place: int = 0) -> Shape:
    return graph.tensors[operator.inputs[place]].shape


def _constant(graph: Graph, operator: Operator, place: int) -> list[int] | None:
    """The numbers of a constant; None of a tensor that is computed."""
    data = graph.tensors[operator.inputs[place]].data
    if data is None or data.dtype.kind not in "iu":
        return None
    return [int(value) for value in data.reshape(-1)]


def _number(operator: Operator, name: str, default: int = 1) -> int:
    return int(operator.options.get(name, default))  # type: ignore[arg-type]


def _windows(operator: Operator, image: Shape, kernel: tuple[int, int], channels: int) -> Shape | None:
    sizes = []
    for size, taps, axis in zip(image[1:3], kernel, "hw", strict=True):
        stride, dilation = _number(operator, f"stride_{axis}"), _number(operator, f"dilation_{axis}_factor")
        if stride < 1:  # the operator's function says so
            return None
        span = 0 if operator.options.get("padding") == "SAME" else (taps - 1) * dilation
        sizes.append(-(-(size - span) // stride))
    return (image[0], *sizes, channels)


def _conv(graph: Graph, operator: Operator) -> Shape | None:
    channels, rows, columns, _ = _shape(graph, operator, 1)
    return _windows(operator, _shape(graph, operator), (rows, columns), channels)


def _depthwise(graph: Graph, operator: Operator) -> Shape | None:
    _, rows, columns, channels = _shape(graph, operator, 1)
    return _windows(operator, _shape(graph, operator), (rows, columns), channels)


def _pool(graph: Graph, operator: Operator) -> Shape | None:
    image = _shape(graph, operator)
    kernel = _number(operator, "filter_height"), _number(operator, "filter_width")
    return _windows(operator, image, kernel, image[3])


def _fully_connected(graph: Graph, operator: Operator) -> Shape | None:
    x, (units, depth) = _shape(graph, operator), _shape(graph, operator, 1)
    if operator.options.get("keep_num_dims"):
        return (*x[:-1], units)
    return (math.prod(x) // depth, units) if depth and math.prod(x) % depth == 0 else None


def _reduction(graph: Graph, operator: Operator) -> Shape | None:
    x, axes = _shape(graph, operator), _constant(graph, operator, 1)
    if axes is None:
        return None
    gone = {axis + len(x) if axis < 0 else axis for axis in axes}
    if operator.options.get("keep_dims"):
        return tuple(1 if axis in gone else size for axis, size in enumerate(x))
    return tuple(size for axis, size in enumerate(x) if axis not in gone)


def _resize(graph: Graph, operator: Operator) -> Shape | None:
    x, sizes = _shape(graph, operator), _constant(graph, operator, 1)
    return None if sizes is None else (x[0], *sizes, x[3])


def _squeeze(graph: Graph, operator: Operator) -> Shape:
    """Without axes: all of size 1 go."""
    x, axes = _shape(graph, operator), operator.options.get("squeeze_dims", ())
    gone = {axis % len(x) for axis in axes} if isinstance(axes, tuple) and x else set()
    return tuple(size for axis, size in enumerate(x) if not (axis in gone if gone else size == 1))


def _expand_dims(graph: Graph, operator: Operator) -> Shape | None:
    x, axes = _shape(graph, operator), _constant(graph, operator, 1)
    if axes is None or len(axes) != 1:
        return None
    axis = axes[0] + len(x) + 1 if axes[0] < 0 else axes[0]
    return (*x[:axis], 1, *x[axis:])


def _reshape(graph: Graph, operator: Operator) -> Shape | None:
    """One size may be −1; a list of int32 goes before the option, of which [0] is a scalar."""
    option = operator.options.get("new_shape", ())
    sizes = list(option) if isinstance(option, tuple) and option != (0,) else []
    listed = [graph.tensors[place] for place in operator.inputs[1:2] if place >= 0]
    if listed and len(listed[0].shape) == 1 and listed[0].dtype == "int32":
        if listed[0].data is None:
            return None
        sizes = [int(size) for size in listed[0].data]
    known = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known:
        sizes[sizes.index(-1)] = math.prod(_shape(graph, operator)) // known
    return tuple(sizes)


def _first_says(graph: Graph, operator: Operator) -> Shape | None:
    sizes = _constant(graph, operator, 0)
    return None if sizes is None else tuple(sizes)


def _second_says(graph: Graph, operator: Operator) -> Shape | None:
    sizes = _constant(graph, operator, 1)
    return None if sizes is None else tuple(sizes)


SHAPES: Final[Mapping[str, Callable[[Graph, Operator], Shape | None]]] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _first_says,
    "FULLY_CONNECTED": _fully_connected,
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), _pool),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"), _reduction),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), _reduction),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), _resize),
    "BROADCAST_TO": _second_says,
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand_dims,
}
"""Operator → the shape of its output; None where a tensor that is computed decides."""
