"""Inputs and outputs of a TFLite graph: names, types, sizes, and what their codes mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calib8.qparams import QParams
from calib8.tensors import TensorSpec
from calib8.tflite.graph import Graph, Tensor

FREE = -1
"""Stands in a signature for a size that is not fixed."""


def port_specs(graph: Graph, places: Sequence[int]) -> tuple[TensorSpec, ...]:
    """Specs of tensors; a size that the signature leaves free is None."""
    names = port_names(graph, places)
    return tuple(_spec(graph.tensors[place], name) for place, name in zip(places, names, strict=True))


def port_names(graph: Graph, places: Sequence[int]) -> list[str]:
    """Names of tensors; one that is listed again, as outputs may be, has its place in the list behind it."""
    names = [graph.tensors[place].name for place in places]
    again = [place in places[:at] for at, place in enumerate(places)]
    return [f"{name}#{at}" if again[at] else name for at, name in enumerate(names)]


def coded_ports(graph: Graph) -> dict[str, QParams]:
    """Scale and zero point of every input and output that holds codes, by name."""
    tensors = [graph.tensors[place] for place in (*graph.inputs, *graph.outputs)]
    return {tensor.name: found for tensor in tensors if (found := qparams(tensor)) is not None}


def qparams(tensor: Tensor) -> QParams | None:
    """Scale and zero point of codes; None for plain numbers, and for one scale per channel."""
    quantization = tensor.quantization
    if quantization is None or quantization.scales.size != 1 or not tensor.dtype.startswith(("int", "uint")):
        return None
    return QParams(float(quantization.scales[0]), int(quantization.zero_points[0]))


def _spec(tensor: Tensor, name: str) -> TensorSpec:
    """Types that NumPy does not have count as objects."""
    try:
        dtype = np.dtype(tensor.dtype)
    except TypeError:
        dtype = np.dtype(object)
    free = tensor.signature if len(tensor.signature) == len(tensor.shape) else tensor.shape
    sizes = (None if size == FREE else known for known, size in zip(tensor.shape, free, strict=True))
    return TensorSpec(name, dtype, tuple(sizes))
