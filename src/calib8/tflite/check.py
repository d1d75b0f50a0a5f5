"""Does a graph make sense? Asked once after reading, so that what comes after need not ask again.

tensors      sizes ≥ 0, fewer than 2³¹ elements; a signature that belongs to the shape
scales       finite and above 0; zero points in the range of the type; one per index of their axis
operators    name tensors that exist; each is written once, before it is read, and is no constant or input
ports        exist; inputs are no constants, and are named once
states       are read from a tensor that nothing writes, and written to one that is computed or an input
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from calib8.errors import ModelError
from calib8.tflite.graph import Graph, Operator, Quantization, Tensor

CURE: Final = "Export or download the model again"

MOST_ELEMENTS: Final = 1 << 31
"""Tensors have fewer, so that an int32 can name each."""

MOST_AXES: Final = 32
"""Axes of an array in every NumPy."""

LEFT_OUT: Final = -1
"""Place of an input that an operator goes without."""

CODES: Final = ("int4", "int8", "uint8", "int16", "uint16", "int32", "int64")
"""Types of which scale and zero point say what the numbers mean."""


def check(graph: Graph, name: str = "model") -> None:
    """Refuses a graph that contradicts itself.

    Args:
        graph: as it was read.
        name: of the model, for messages.

    Raises:
        ModelError: names the tensor or operator and what is wrong with it.
    """
    for place, tensor in enumerate(graph.tensors):
        problem = _shape_problem(tensor) or _quantization_problem(tensor)
        if problem is not None:
            raise ModelError(name, f"tensor {place} '{tensor.name}' has {problem}", CURE)
    problem = _ports_problem(graph) or _states_problem(graph) or _order_problem(graph)
    if problem is not None:
        raise ModelError(name, problem, CURE)


def _shape_problem(tensor: Tensor) -> str | None:
    shape, signature = tensor.shape, tensor.signature
    if len(shape) > MOST_AXES:
        return f"{len(shape)} axes; the most are {MOST_AXES}"
    if min(shape, default=0) < 0:
        return f"shape {list(shape)}: a size is below 0"
    if math.prod(shape) >= MOST_ELEMENTS:
        return f"shape {list(shape)}, {math.prod(shape)} elements; the most are 2^31 - 1"
    if signature and (len(signature) != len(shape) or min(signature) < -1):
        return f"shape {list(shape)}, and the signature {list(signature)[:MOST_AXES]} for it"
    return None


def _quantization_problem(tensor: Tensor) -> str | None:
    quantization = tensor.quantization
    if quantization is None or tensor.dtype not in CODES:
        return None
    scales, zero_points = quantization.scales, quantization.zero_points
    bad = scales[~(np.isfinite(scales) & (scales > 0))]
    if bad.size:
        return f"the scale {bad[0]}; scales are finite and above 0"
    if scales.size != zero_points.size:
        return f"{scales.size} scales and {zero_points.size} zero points"
    limits = _limits(tensor.dtype)
    outside = zero_points[(zero_points < limits[0]) | (zero_points > limits[1])]
    if outside.size:
        return f"the zero point {outside[0]}; {tensor.dtype} needs {limits[0]} … {limits[1]}"
    return _axis_problem(tensor.shape, quantization) if scales.size > 1 else None


def _limits(dtype: str) -> tuple[int, int]:
    if dtype == "int4":
        return -8, 7
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _axis_problem(shape: tuple[int, ...], quantization: Quantization) -> str | None:
    axis, count = quantization.axis, quantization.scales.size
    if not 0 <= axis < len(shape):
        return f"{count} scales along axis {axis} of shape {list(shape)}"
    if shape[axis] != count:
        return f"{count} scales along axis {axis}, whose size is {shape[axis]}"
    if quantization.zero_points.any():
        point = next(point for point in quantization.zero_points.tolist() if point)
        return f"{count} scales and the zero point {point}; with several scales all are 0"
    return None


def _ports_problem(graph: Graph) -> str | None:
    """Inputs and outputs of the model."""
    for what, places in (("input", graph.inputs), ("output", graph.outputs)):
        wrong = _missing(graph, places)
        if wrong is not None:
            return f"{what} {wrong} is none of its {len(graph.tensors)} tensors"
        if what == "input" and len(set(places)) != len(places):
            twice = next(place for place in places if places.count(place) > 1)
            return f"tensor {twice} '{graph.tensors[twice].name}' is its {what} twice"
    for place in graph.inputs:
        if graph.tensors[place].data is not None:
            return f"its input {place} '{graph.tensors[place].name}' is a constant"
    return None if graph.outputs else "it has no outputs"


def _states_problem(graph: Graph) -> str | None:
    """States by themselves; who writes them is asked in the order of execution."""
    read = [state.read for state in graph.states]
    wrong = _missing(graph, (*read, *(state.written for state in graph.states)))
    if wrong is not None:
        return f"a state names tensor {wrong} of {len(graph.tensors)}"
    for state in graph.states:
        tensor = graph.tensors[state.read]
        title = f"{state.read} '{tensor.name}'"
        if state.read in graph.inputs or read.count(state.read) > 1 or tensor.data is not None:
            return f"tensor {title} of state '{state.name}' is an input, a constant or of another state too"
        if state.initial.shape != tensor.shape or state.initial.dtype.name != tensor.dtype:
            return f"state '{state.name}' begins with another type or shape than tensor {title} has"
    return None


def _missing(graph: Graph, places: Iterable[int]) -> int | None:
    return next((place for place in places if not 0 <= place < len(graph.tensors)), None)


def _order_problem(graph: Graph) -> str | None:
    """Who writes and reads what, in the order of execution."""
    inputs = {*graph.inputs, *(state.read for state in graph.states)}
    written = set(inputs)
    for number, operator in enumerate(graph.operators):
        problem = _reads_problem(graph, operator, written) or _writes_problem(
            graph, operator, written, inputs
        )
        if problem is not None:
            return f"operator {number} ({operator.op}) {problem}"
    for place in graph.outputs:
        if place not in written and not _has_value(graph.tensors[place]):
            return f"nothing computes its output {place} '{graph.tensors[place].name}'"
    for state in graph.states:
        if state.written not in written:
            return f"nothing computes '{graph.tensors[state.written].name}', which state '{state.name}' takes"
    return None


def _reads_problem(graph: Graph, operator: Operator, written: set[int]) -> str | None:
    given = [place for place in operator.inputs if place != LEFT_OUT]
    wrong = _missing(graph, (*given, *operator.intermediates))
    if wrong is not None:
        return f"reads tensor {wrong} of {len(graph.tensors)}"
    for place in given:
        if place not in written and not _has_value(graph.tensors[place]):
            return f"reads tensor {place} '{graph.tensors[place].name}' before it is computed"
    return None


def _has_value(tensor: Tensor) -> bool:
    """Constants, what earlier runs left, and what has no elements."""
    return tensor.data is not None or tensor.is_variable or 0 in tensor.shape


def _writes_problem(graph: Graph, operator: Operator, written: set[int], inputs: set[int]) -> str | None:
    """What is written joins ``written``."""
    if not operator.outputs:
        return "writes nothing"
    wrong = _missing(graph, operator.outputs)
    if wrong is not None:
        return f"writes tensor {wrong} of {len(graph.tensors)}"
    for place in operator.outputs:
        title = f"{place} '{graph.tensors[place].name}'"
        if graph.tensors[place].data is not None:
            return f"writes the constant {title}"
        if place in inputs:
            return f"writes the model's input {title}"
        if place in written:
            return f"writes tensor {title}, which is written already"
        written.add(place)
    return None
