"""Inputs and outputs of a TFLite graph: names, types, sizes, and what their codes mean."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from calib8.qparams import QParams
from calib8.tensors import TensorSpec
from calib8.tflite.graph import Graph, Tensor

FREE = -1
"""Stands in a signature for a size that is not fixed."""


def port_specs(graph: Graph, places: Iterable[int]) -> tuple[TensorSpec, ...]:
    """Specs of tensors; a size that the signature leaves free is None."""
    return tuple(_spec(graph.tensors[place]) for place in places)


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


def _spec(tensor: Tensor) -> TensorSpec:
    """Types that NumPy does not have count as objects."""
    try:
        dtype = np.dtype(tensor.dtype)
    except TypeError:
        dtype = np.dtype(object)
    free = tensor.signature if len(tensor.signature) == len(tensor.shape) else tensor.shape
    sizes = (None if size == FREE else known for known, size in zip(tensor.shape, free, strict=True))
    return TensorSpec(tensor.name, dtype, tuple(sizes))
