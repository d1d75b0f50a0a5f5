"""What a Tengine model is: float, quantized, or neither."""

from __future__ import annotations

import os
from typing import Final, Literal

from calib8.errors import ModelError
from calib8.tmfile.graph import Graph, Tensor
from calib8.tmfile.read import read_tmfile

Kind = Literal["float", "quantized", "half"]

CODES: Final = frozenset({"int8", "uint8", "int16"})
"""Types that hold codes where there is a scale."""

LAYERS: Final = frozenset({"Convolution", "Deconvolution", "FullyConnected"})
"""Operators with weights: input, weights, perhaps bias."""


def is_codes(tensor: Tensor) -> bool:
    """Whether a tensor holds codes."""
    return tensor.dtype in CODES and tensor.quantization is not None


def kind_of_file(path: str | os.PathLike[str]) -> Kind | None:
    """That of a file; None for one that is damaged."""
    try:
        return kind(read_tmfile(path))
    except ModelError:
        return None


def kind(graph: Graph) -> Kind:
    """``quantized`` if an activation is in codes, ``half`` if one is in float16, else ``float``."""
    live = [tensor for tensor in graph.tensors if tensor.role in ("var", "input")]
    if any(map(is_codes, live)):
        return "quantized"
    return "half" if any(tensor.dtype == "float16" for tensor in live) else "float"
