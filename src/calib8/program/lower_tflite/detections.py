"""Codes that TFLite_Detection_PostProcess reads as they are, as files from before int8 have them.

codes ─► PostProcess        codes ─► DEQUANTIZE ─► PostProcess
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calib8.tflite.custom import DETECTIONS, is_custom
from calib8.tflite.graph import Graph, Operator, Tensor

CODES: Final = "uint8"
"""Type of the codes that LiteRT's kernel takes."""


def with_real_boxes(graph: Graph) -> Graph:
    """The graph with a DEQUANTIZE before each input of codes of a TFLite_Detection_PostProcess."""
    if not any(is_custom(operator, DETECTIONS) for operator in graph.operators):
        return graph
    tensors, operators = list(graph.tensors), list[Operator]()
    for operator in graph.operators:
        if is_custom(operator, DETECTIONS):
            inputs = tuple(_real(tensors, operators, place) for place in operator.inputs)
            operator = replace(operator, inputs=inputs)
        operators.append(operator)
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators))


def _real(tensors: list[Tensor], operators: list[Operator], place: int) -> int:
    """The tensor of the real numbers of codes; any other input as it is."""
    tensor = tensors[place] if place >= 0 else None
    if tensor is None or tensor.dtype != CODES or tensor.quantization is None:
        return place
    tensors.append(Tensor(f"{tensor.name}/real", tensor.shape, "float32"))
    operators.append(Operator("DEQUANTIZE", (place,), (len(tensors) - 1,)))
    return len(tensors) - 1
