"""What of a TFLite model is in codes: constants that stand for floats, and what makes it no float model."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calib8.errors import UnsupportedModelError
from calib8.model.from_tflite.builder import Builder
from calib8.parameters import with_both
from calib8.tflite.graph import Graph, Operator, Tensor
from calib8.tflite.uses import USES

LAYERS: Final = {
    "CONV_2D": (0, 1), "DEPTHWISE_CONV_2D": (0, 1), "TRANSPOSE_CONV": (2, 1), "FULLY_CONNECTED": (0, 1),
    "BATCH_MATMUL": (0, 1), "SVDF": (0, 1), "RNN": (0, 1), "LSTM": (0, 2),
    "UNIDIRECTIONAL_SEQUENCE_RNN": (0, 1), "UNIDIRECTIONAL_SEQUENCE_LSTM": (0, 2),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (0, 2),
}  # fmt: skip
"""Operators that take 8-bit weights beside float activations: places of these and of a weight."""

CODES: Final = ("int8", "uint8", "int16", "int4")


def fold(builder: Builder, operator: Operator) -> None:
    """A DEQUANTIZE of a constant becomes a constant of that name.

    Raises:
        NoFormError: what it makes has more or fewer axes than its tensor in the file.
    """
    source, place = operator.inputs[0], operator.outputs[0]
    array = _dequantized(builder.tensor(source), builder.constant(source))
    builder.check_axes(place, array.ndim)
    builder.arrays[place] = array
    builder.rename(place, source)


def _dequantized(tensor: Tensor, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """float16 made wider, or ``scale · (code − zero_point)``."""
    if tensor.quantization is None or tensor.dtype == "float16":
        return values.astype(np.float32)
    shape = [1] * values.ndim
    quantization = tensor.quantization
    if quantization.scales.size > 1:
        shape[quantization.axis] = -1
    codes = values.astype(np.int32) - quantization.zero_points.astype(np.int32).reshape(shape)
    return codes.astype(np.float32) * quantization.scales.reshape(shape)


def is_hybrid(graph: Graph, operator: Operator) -> bool:
    """A layer of 8-bit weights and float activations: it quantizes its input while it runs."""
    places = LAYERS.get(operator.op)
    if places is None or len(operator.inputs) <= max(places) or -1 in (operator.inputs[at] for at in places):
        return False
    x, weight = (graph.tensors[operator.inputs[at]] for at in places)
    return x.dtype == "float32" and weight.dtype in CODES


def refuse_codes(graph: Graph, name: str) -> None:
    """Refuses models that compute with codes.

    Raises:
        UnsupportedModelError: a quantized model, or one with dynamic-range layers.
    """
    cure = "Give the float model that it was made from"
    hybrid = [operator for operator in graph.operators if is_hybrid(graph, operator)]
    if hybrid:
        raise UnsupportedModelError(
            name,
            f"is a dynamic-range model: {described(graph, hybrid)} float activations and 8-bit weights",
            f"{cure}; {with_both(USES['hybrid'])}",
        )
    places = [place for operator in graph.operators for place in operator.outputs]
    tensors = [graph.tensors[place] for place in (*graph.inputs, *places)]
    coded = [tensor for tensor in tensors if _holds_codes(tensor)]
    if coded:
        raise UnsupportedModelError(
            name,
            f"is quantized already: {len(coded)} of {len(tensors)} tensors hold codes",
            f"{cure}; {with_both(USES['quantized'])}",
        )


def described(graph: Graph, layers: list[Operator]) -> str:
    """``3 layers, such as 'dense' (FULLY_CONNECTED), have``."""
    first = f"'{graph.tensors[layers[0].outputs[0]].name}' ({layers[0].op})"
    return f"{first} has" if len(layers) == 1 else f"{len(layers)} layers, such as {first}, have"


def _holds_codes(tensor: Tensor) -> bool:
    return tensor.dtype in CODES and tensor.quantization is not None
