"""Inputs and outputs of a Tengine model: names, types, sizes, and what their codes mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calib8.qparams import QParams
from calib8.tensors import TensorSpec
from calib8.tmfile.graph import Graph
from calib8.tmfile.kinds import is_codes


def port_specs(graph: Graph, places: Sequence[int]) -> tuple[TensorSpec, ...]:
    """Specs of tensors, as the file has their sizes."""
    tensors = (graph.tensors[place] for place in places)
    return tuple(
        TensorSpec(name, np.dtype(tensor.dtype), tensor.shape)
        for name, tensor in zip(port_names(graph, places), tensors, strict=True)
    )


def port_names(graph: Graph, places: Sequence[int]) -> list[str]:
    """Names of tensors, their places where they have none; one that occurs again has its place behind it."""
    names: list[str] = []
    for place in places:
        name = graph.tensors[place].name or f"tensor_{place}"
        names.append(f"{name}#{place}" if name in names else name)
    return names


def coded_ports(graph: Graph) -> dict[str, QParams]:
    """Scale and zero point of every input and output that holds codes, by name."""
    found: dict[str, QParams] = {}
    for places in (graph.input_tensors(), graph.output_tensors()):
        for name, place in zip(port_names(graph, places), places, strict=True):
            tensor = graph.tensors[place]
            if tensor.quantization is not None and is_codes(tensor):
                quantization = tensor.quantization
                found[name] = QParams(float(quantization.scales[0]), int(quantization.zero_points[0]))
    return found
