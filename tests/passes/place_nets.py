"""Networks that are placed, and what tests ask of a placement."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from calib8.passes.place import (
    Placement,
)
from calib8.scheme import TARGETS
from small_models import Array, graph, normal

ORT = TARGETS["onnxruntime"]
TFLITE = TARGETS["tflite"]
TENSORRT = TARGETS["tensorrt"]

IMAGE = "float[N,4,8,8] x"
ANY = "float[A,B,C,D] y"
WEIGHTS: dict[str, Array] = {"w": normal(4, 4, 3, 3), "v": normal(4, 4, 3, 3, seed=1)}
CONV = "Conv<pads=[1,1,1,1]>"


def image(body: str, constants: Mapping[str, Array] | None = None, outputs: str = ANY) -> ir.Model:
    used = {name: array for name, array in WEIGHTS.items() if f", {name}" in body}
    return graph(IMAGE, outputs, body, {**used, **(constants or {})})


def reasons(placement: Placement) -> dict[str, str]:
    return {decision.node: decision.reason for decision in placement.decisions if not decision.quantized}


def carriers(model: ir.Model, placement: Placement) -> list[str]:
    order = [value.name for value in model.graph.inputs]
    order += [value.name for node in model.graph for value in node.outputs]
    assert sorted(placement.readers, key=order.index) == list(placement.readers), "not in graph order"
    return list(placement.readers)
