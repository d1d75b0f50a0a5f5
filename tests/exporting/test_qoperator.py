"""QOperator models: which operators come out, and that they compute what the QDQ model does."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import onnxruntime
import numpy as np
import numpy.typing as npt
import pytest
from qdq_cases import CASES, CodedNet, Codes, case
from small_models import normal, ops
from small_nets import NETS, clean
from typing import Any

from calib8.errors import UnsupportedModelError
from calib8.exporting.qoperator import to_qoperator
from calib8.model.load import load_model
from calib8.model.save import model_bytes
from calib8.session import InferenceSession

Array = npt.NDArray[Any]
TYPES = (np.uint8, np.int8)
QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")
IMAGES = normal(6, 4, 8, 8, seed=3) * 3
EXACT_TARGETS = ("onnxruntime", "tflite")
"""Targets whose layers all have quantized results, in uint8 and in int8."""


def runtime(proto: onnx.ModelProto, *, optimized: bool, images: Array = IMAGES) -> list[Array]:
    """Outputs in ONNX Runtime, image by image, with its integer kernels for int8 too."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    runs = [session.run(None, {"x": image[None]}) for image in images]
    return [np.concatenate(outputs) for outputs in zip(*runs, strict=True)]


def engine(proto: onnx.ModelProto, images: Array = IMAGES) -> list[Array]:
    session = InferenceSession(proto)
    runs = [session.run(None, {"x": image[None]}) for image in images]
    return [np.concatenate(outputs) for outputs in zip(*runs, strict=True)]


def exported(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The QOperator form, checked."""
    result = ir.to_proto(to_qoperator(load_model(proto))[0])
    onnx.checker.check_model(result, full_check=True)
    return result


def assert_equal(actual: list[Array], expected: list[Array]) -> None:
    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", CASES)
def test_operators_compute_what_the_qdq_model_does(name: str, dtype: Any) -> None:
    proto, expected = case(name, dtype)
    result = exported(proto)
    operators = [node.op_type for node in result.graph.node if node.op_type not in QUANTIZERS]
    assert operators == list(expected)
    outputs = runtime(result, optimized=True)
    assert len(np.unique(outputs[0])) > 8
    assert_equal(runtime(result, optimized=False), outputs)
    assert_equal(engine(result), engine(proto))
    assert_equal(engine(result), outputs)
    assert_equal(runtime(proto, optimized=True), outputs)


@pytest.mark.parametrize("target", EXACT_TARGETS)
@pytest.mark.parametrize("name", NETS)
def test_whole_nets_give_the_bits_of_the_qdq_model_in_onnxruntime(name: str, target: str) -> None:
    proto = clean(name, target)
    result = exported(proto)
    expected = runtime(proto, optimized=True)
    assert_equal(runtime(result, optimized=True), expected)
    assert_equal(runtime(result, optimized=False), expected)
    assert_equal(engine(result), engine(proto))
