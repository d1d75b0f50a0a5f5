"""What a graph is: float, quantized, or with integer weights alone."""

from __future__ import annotations

import os
from typing import Final, Literal

from calib8.errors import ModelError
from calib8.tflite.graph import Graph, Operator, Tensor
from calib8.tflite.read import read_tflite

Kind = Literal["float", "quantized", "hybrid"]

CODES: Final = frozenset({"int8", "uint8", "int16", "int4"})
"""Types that hold codes where there is a scale."""

WITH_WEIGHTS: Final = frozenset(
    {"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL"}
)
"""Layers that LiteRT computes from float activations and integer weights as well."""


MIXED: Final = WITH_WEIGHTS | {
    "SVDF", "RNN", "LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN", "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "BIDIRECTIONAL_SEQUENCE_LSTM",
}  # fmt: skip
"""Those, and recurrent ones that LiteRT computes so."""


def kind(graph: Graph) -> Kind:
    """``quantized`` if an activation is in codes, ``hybrid`` if weights alone are and meet float ones."""
    live = [*graph.inputs, *(place for operator in graph.operators for place in operator.outputs)]
    if any(_is_codes(graph.tensors[place]) for place in live if place >= 0):
        return "quantized"
    if any(_mixes(graph, operator) for operator in graph.operators):
        return "hybrid"
    return "float"


def kind_of_file(path: str | os.PathLike[str]) -> Kind | None:
    """That of a file; None for one that is damaged."""
    try:
        return kind(read_tflite(path))
    except ModelError:
        return None


def _mixes(graph: Graph, operator: Operator) -> bool:
    given = [graph.tensors[place] for place in operator.inputs if place >= 0]
    return operator.op in MIXED and any(tensor.data is not None and _is_codes(tensor) for tensor in given)


def _is_codes(tensor: Tensor) -> bool:
    return tensor.dtype in CODES and tensor.quantization is not None
