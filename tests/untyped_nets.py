"""Graphs as text whose output has the shape that its nodes give it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx_ir as ir
from onnx import numpy_helper, parser

from small_models import Array


def untyped(inputs: str, body: str, constants: Mapping[str, Array]) -> ir.Model:
    """A graph with the float output y; constants that the body does not name are left out."""
    text = f'<ir_version: 8, opset_import: ["" : 17]> net ({inputs}) => (float[] y) {{ {body} }}'
    model = parser.parse_model(text)
    for name, array in constants.items():
        if any(name in node.input for node in model.graph.node):
            model.graph.initializer.append(numpy_helper.from_array(array, name))
    found = ir.from_proto(onnx.shape_inference.infer_shapes(model, strict_mode=True))
    for node in found.graph:
        node.name = node.outputs[0].name
    return found
