"""Inputs and outputs of a Tengine model: names, types, sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calib8.tensors import TensorSpec
from calib8.tmfile.graph import Graph


def port_specs(graph: Graph, places: Sequence[int]) -> tuple[TensorSpec, ...]:
    """Specs of tensors, as the file has their sizes."""
    tensors = (graph.tensors[place] for place in places)
    return tuple(TensorSpec(tensor.name, np.dtype(tensor.dtype), tensor.shape) for tensor in tensors)
