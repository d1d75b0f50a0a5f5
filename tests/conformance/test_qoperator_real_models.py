"""Real networks as QOperator models: ONNX Runtime gives the bits of the QDQ model, and so does the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from real_networks import NETWORKS, Quantized

from calib8.data.batches import batches
from calib8.data.opening import open_dataset
from calib8.exporting.qoperator import to_qoperator
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.model.save import save_model
from calib8.session import InferenceSession
from slow_cases import slow_but

FLOAT_OPS = {
    "ultraface": {"Add", "Concat", "Exp", "Flatten", "Mul", "Reshape", "Slice", "Softmax", "Sub"},
    "ocr_detector": {"Add", "ConvTranspose", "HardSigmoid", "HardSwish", "Mul", "Relu"},
    "ocr_direction": {"HardSigmoid", "HardSwish", "Softmax"},
}
"""Kinds of ops without an operator on codes, and of those behind the last quantizer."""

Array = npt.NDArray[Any]


def outputs(path: Path, feeds: dict[str, Array], *, optimized: bool = True) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, feeds)
    return found


def in_engine(path: Path, feeds: dict[str, Array]) -> list[Array]:
    shapes = {name: array.shape for name, array in feeds.items()}
    return InferenceSession(path, shapes=shapes).run(None, feeds)


@pytest.mark.parametrize("name", slow_but(["resnet8", "squeezenet"], NETWORKS))
def test_the_bits_are_those_of_the_qdq_model(
    name: str, quantized: Quantized, shared_data: Path, tmp_path: Path
) -> None:
    path, result = quantized(name), tmp_path / "qoperator.onnx"
    model, report = to_qoperator(load_model(path))
    save_model(model, result)
    onnx.checker.check_model(str(result), full_check=True)
    assert {kept.op_type for kept in report.kept} == FLOAT_OPS.get(name, set())
    network = NETWORKS[name]
    dataset = open_dataset(
        shared_data / network.evaluation, graph_inputs(model), network.preprocess, samples=2
    )
    for batch in batches(dataset, 1, 2):
        expected = outputs(path, batch.inputs)
        assert_equal(outputs(result, batch.inputs), expected)
        assert_equal(outputs(result, batch.inputs, optimized=False), expected)
        assert_equal(in_engine(result, batch.inputs), in_engine(path, batch.inputs))


def assert_equal(actual: list[Array], expected: list[Array]) -> None:
    for left, right in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(left, right)
