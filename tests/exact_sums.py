"""ONNX Runtime in tests: x86 without VNNI, where products of 8 bits saturate, gives what other CPUs do.

Its setting is one of the optimizer. Where that is off, or has no kernel, uint8 weights in place of int8 ones
are the same products:

    (a − z_a) (w − z_w) = (a − z_a) ((w + 128) − (z_w + 128))
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from calib8.model.runtime import EXACT_SUMS

WEIGHTS: Final = {
    "QLinearConv": (3, 5, 2),
    "QLinearMatMul": (3, 5, 2),
    "QGemm": (3, 5, 2),
    "MatMulInteger": (1, 3, 2),
    "MatMulIntegerToFloat": (1, 5, 4),
}
"""Op → inputs with the weight, its zero point, and the zero point of what it is multiplied with."""


def exact(options: onnxruntime.SessionOptions | None = None) -> onnxruntime.SessionOptions:
    """The options, or the defaults, with sums of 8-bit products that do not saturate."""
    options = onnxruntime.SessionOptions() if options is None else options
    options.add_session_config_entry(EXACT_SUMS, "1")
    return options


def with_uint8_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network, its operators on uint8 codes with uint8 weights."""
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    found = onnx.ModelProto()
    found.CopyFrom(model)
    made = dict[str, np.ndarray]()
    for node in found.graph.node:
        places = WEIGHTS.get(node.op_type)
        if places is None or any(place >= len(node.input) for place in places):
            continue
        weight, point, beside = (held.get(node.input[place]) for place in places)
        if weight is None or point is None or beside is None:
            continue
        if (weight.data_type, beside.data_type) == (onnx.TensorProto.INT8, onnx.TensorProto.UINT8):
            for place, tensor in zip(places, (weight, point), strict=False):
                node.input[place] = f"{tensor.name} as uint8"
                made[node.input[place]] = (numpy_helper.to_array(tensor).astype(np.int16) + 128).astype(
                    np.uint8
                )
    found.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in made.items())
    return found
