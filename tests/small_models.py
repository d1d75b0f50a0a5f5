"""Small ONNX models written as text, and the way to run them outside of calib8."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime
from onnx import numpy_helper, parser

from exact_sums import with_uint8_weights

Array = npt.NDArray[np.generic]


def onnx_model(
    inputs: str, outputs: str, body: str, constants: Mapping[str, Array] | None = None, opset: int = 17
) -> onnx.ModelProto:
    """A checked model from the text form of its graph; ``constants`` become initializers."""
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> net ({inputs}) => ({outputs}) {{ {body} }}'
    model = parser.parse_model(text)
    for name, array in (constants or {}).items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    onnx.checker.check_model(model)
    return model


def graph(
    inputs: str, outputs: str, body: str, constants: Mapping[str, Array] | None = None, opset: int = 17
) -> ir.Model:
    """The same as an onnx_ir graph with inferred shapes, its nodes called after their outputs."""
    proto = onnx.shape_inference.infer_shapes(onnx_model(inputs, outputs, body, constants, opset))
    model = ir.from_proto(proto)
    for node in model.graph:
        node.name = node.name or node.outputs[0].name
    return model


def proto_of(model: ir.Model | onnx.ModelProto) -> onnx.ModelProto:
    return ir.to_proto(model) if isinstance(model, ir.Model) else model


def run(model: ir.Model | onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Outputs of the model in ONNX Runtime without any graph optimization."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    data = with_uint8_weights(proto_of(model)).SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    outputs: list[Array] = session.run(None, dict(feeds))
    return outputs


def relative_difference(expected: list[Array], actual: list[Array]) -> float:
    """Largest difference of any output, divided by the largest magnitude of that output."""
    largest = 0.0
    assert len(expected) == len(actual)
    for left, right in zip(expected, actual, strict=True):
        assert left.shape == right.shape and left.dtype == right.dtype
        distance = np.max(np.abs(left.astype(np.float64) - right), initial=0.0)
        largest = max(largest, float(distance) / max(float(np.max(np.abs(left), initial=0.0)), 1e-30))
    return largest


def ops(model: ir.Model | onnx.ModelProto) -> Counter[str]:
    """How often each op occurs."""
    return Counter(node.op_type for node in proto_of(model).graph.node)


def ops_in_file(path: Path) -> Counter[str]:
    return ops(onnx.load(path))


def normal(*shape: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Reproducible float32 values of a normal distribution."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
