"""The scales of a Tengine model's tensors, as a table of Tengine's tools has them: a line per tensor.

    conv1 0.023142 0          tensor name, scale, zero point; in the order of the file

The scale of a model in int8 is what the table says, not what it was rounded from. Six decimals, as the tools
write them; nine digits where six decimals would keep fewer than four of them. A Softmax has 1/127, whatever
was seen. Names end at the first space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from calib8.errors import TableError
from calib8.exporting.tmfile.codes import CodedLayer
from calib8.qparams import INT8_SYMMETRIC, activation_qparams
from calib8.table import Range
from calib8.tmfile.graph import Graph

LEAST_WITH_DECIMALS: Final = 0.001
"""Of which six decimals keep four digits."""

OF_SOFTMAX: Final = 1 / 127

OF_SOFTMAX_UINT8: Final = 1 / 255

LARGEST_UINT8: Final = np.float32(255)


def scale_texts(graph: Graph, ranges: Mapping[str, Range], name: str = "model") -> dict[str, str]:
    """Name → scale of int8 codes as it stands in the table, of every tensor that is an input or computed.

    Args:
        graph: the float model.
        ranges: of its tensors, by the names of the file.
        name: of the model, for messages.

    Raises:
        TableError: a tensor without a range, or a name that such a table cannot hold.
    """
    return {
        tensor: scale_text(
            OF_SOFTMAX if found is None else activation_qparams(found.min, found.max, INT8_SYMMETRIC).scale
        )
        for tensor, found in _ranges(graph, ranges, name)
    }


def uint8_texts(
    graph: Graph, ranges: Mapping[str, Range], name: str = "model", *, symmetric: bool = False
) -> dict[str, tuple[str, int]]:
    """Name → scale as it stands in the table, and zero point, of uint8 codes; likewise.

    s = (max − min) / 255, the range with 0        z = ⌊−min / s⌋
    s = 2 T / 255                                  z = 127            symmetric: ACIQ
    s = 1                                          z = 0              where all is 0 (the tool has s = 0)
    """
    texts: dict[str, tuple[str, int]] = {}
    for tensor, found in _ranges(graph, ranges, name):
        if found is None:
            texts[tensor] = scale_text(OF_SOFTMAX_UINT8), 0
            continue
        low, high = np.float32(min(found.min, 0.0)), np.float32(max(found.max, 0.0))
        high = max(high, -low) if symmetric else high
        scale = np.float32(2) * high / LARGEST_UINT8 if symmetric else (high - low) / LARGEST_UINT8
        point = int((high if symmetric else -low) / scale) if scale else 0
        texts[tensor] = scale_text(float(scale) or 1.0), point
    return texts


def _ranges(graph: Graph, ranges: Mapping[str, Range], name: str) -> Iterator[tuple[str, Range | None]]:
    """Name and range of every tensor that is an input or computed; None behind a Softmax."""
    softmaxes = {place for node in graph.nodes if node.op == "Softmax" for place in node.outputs}
    for place, tensor in enumerate(graph.tensors):
        if tensor.role not in ("var", "input"):
            continue
        if tensor.name.split() != [tensor.name]:
            problem = f"tensor '{tensor.name}' of {name} has a name with spaces"
            raise TableError("the table of scales", problem, "Rename it in the model")
        found = ranges.get(tensor.name)
        if found is None and place not in softmaxes:
            problem = f"lacks the tensor '{tensor.name}' of {name}"
            raise TableError("the table of scales", problem, "Calibrate the same model again")
        yield tensor.name, None if place in softmaxes else found


def scale_text(scale: float) -> str:
    """A scale as the table writes it."""
    single = float(np.float32(scale))
    return f"{single:.6f}" if single >= LEAST_WITH_DECIMALS else f"{single:.9g}"


def table_text(texts: Mapping[str, str], points: Mapping[str, int]) -> str:
    """The table; a tensor without a zero point has 0."""
    return "".join(f"{name} {text} {points.get(name, 0)}\n" for name, text in texts.items())


def weight_text(layers: tuple[CodedLayer, ...]) -> str:
    """``scale_weight.txt``: a line per layer."""
    return "".join(_line(layer.weight, layer.weight_scales.tolist()) for layer in layers)


def bias_text(layers: tuple[CodedLayer, ...]) -> str:
    """``scale_bias.txt``: a line per layer with a bias."""
    return "".join(_line(layer.bias, layer.bias_scales.tolist()) for layer in layers if layer.bias)


def _line(name: str, scales: list[float]) -> str:
    return f"{name} {''.join(f'{scale:.8f} ' for scale in scales)}\n"
