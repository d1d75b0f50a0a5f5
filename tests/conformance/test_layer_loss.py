"""The loss of every layer of EfficientNet-lite0: plausible as it is, and it points at a planted fault."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import numpy_helper
from real_networks import NETWORKS

from calib8.analysis.compare import Comparison, compare
from calib8.data.batches import batches
from calib8.data.opening import open_dataset
from calib8.judge import evaluate
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.model.taps import tapped_model
from calib8.pipeline import quantize

Array = npt.NDArray[Any]

NETWORK = NETWORKS["efficientnet_lite0"]
FACTOR = 8
EVERY = 7
"""Layers between those that get a fault; 50 in all."""


@pytest.fixture(scope="module")
def int8(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compare") / "int8.onnx"
    data = shared_data / NETWORK.calibration
    quantize(
        shared_data / NETWORK.file, data, preprocess=NETWORK.preprocess, samples=16, repair=("none",)
    ).save(path)
    return path


@pytest.fixture(scope="module")
def images(shared_data: Path) -> list[dict[str, Array]]:
    inputs = graph_inputs(load_model(shared_data / NETWORK.file))
    dataset = open_dataset(shared_data / NETWORK.evaluation, inputs, NETWORK.preprocess, samples=2)
    return [dict(batch.inputs) for batch in batches(dataset, 1, 1)]


@pytest.fixture(scope="module")
def sound(shared_data: Path, int8: Path, images: list[dict[str, Array]]) -> Comparison:
    return compare(shared_data / NETWORK.file, int8, images)


@pytest.mark.slow
def test_every_tensor_of_a_sound_model_is_told(sound: Comparison, int8: Path) -> None:
    ops = [node.op_type for node in onnx.load(int8).graph.node]
    assert [tensor.node for tensor in sound.tensors if tensor.scale is None] == ["/_fc/Gemm"]
    assert len(sound.tensors) == ops.count("QuantizeLinear") + 1 and sound.left_out == ()
    figures = [tensor.local.sqnr_db for tensor in sound.tensors]
    assert figures == sorted(figures)
    assert figures[0] > 20
    exact = [tensor.tensor for tensor in sound.tensors if math.isinf(tensor.local.sqnr_db)]
    assert exact == ["input"], "pixels are codes already"
    weights = [tensor.weight_sqnr_db for tensor in sound.tensors if tensor.op_type in ("Conv", "Gemm")]
    assert len(weights) == ops.count("Conv") + ops.count("Gemm")
    assert all(weight is not None and 35 < weight < 55 for weight in weights)


def test_the_narrow_linear_layers_are_the_worst(sound: Comparison) -> None:
    """No ReLU6 bounds what a projection gives: its few large values make the steps coarse for all others."""
    worst = [tensor.node or "" for tensor in sound.tensors[:10]]
    assert "_project_conv" in worst[0]
    assert sum("_project_conv" in node or node.endswith("/Add") for node in worst) >= 8, worst


@pytest.mark.slow
def test_the_outputs_are_those_that_evaluate_sees(shared_data: Path, int8: Path) -> None:
    model, data = shared_data / NETWORK.file, shared_data / NETWORK.evaluation
    found = compare(model, int8, data, samples=12, batch=4)
    _, judged = evaluate([model, int8], data, samples=12, batch=4)
    assert found.images == judged.images == 12
    assert found.agreement == judged.agreement
    assert found.outputs.sqnr_db == pytest.approx(judged.sqnr_db, abs=1e-3)


@pytest.mark.slow  # tests/analysis/test_compare.py plants them in small networks
def test_a_planted_fault_comes_out_on_top(
    shared_data: Path, int8: Path, images: list[dict[str, Array]], sound: Comparison
) -> None:
    proto = onnx.load(int8)
    made_by = {output: node for node in proto.graph.node for output in node.output}
    layers = [node for node in proto.graph.node if node.op_type in ("Conv", "Gemm")]
    before = {tensor.node: tensor.local.sqnr_db for tensor in sound.tensors}
    chosen = [*layers[::EVERY], layers[-1]]
    channels = _audible_channels(shared_data / NETWORK.file, chosen, proto, made_by, images)
    for layer, channel in zip(chosen, channels, strict=True):
        scales = _stored(proto, made_by[layer.input[1]].input[1])
        original = scales.SerializeToString()
        values = numpy_helper.to_array(scales).copy()
        values[channel] *= FACTOR
        scales.CopyFrom(numpy_helper.from_array(values, scales.name))
        found = compare(shared_data / NETWORK.file, proto, images)
        scales.ParseFromString(original)
        assert found.tensors[0].node == layer.name
        assert found.tensors[0].local.sqnr_db < before[layer.name] - 10


def _audible_channels(
    model: Path,
    layers: list[onnx.NodeProto],
    proto: onnx.ModelProto,
    made_by: dict[str, onnx.NodeProto],
    images: list[dict[str, Array]],
) -> list[int]:
    """Per layer the channel that the fault changes most; one that ReLU6 clips anyway would not show it.

    ``8 · Σ w·x + bias``, clipped to [0, 6] where a ReLU6 follows, against the same without the 8.
    """
    names = [layer.output[0].removesuffix("/float") for layer in layers]
    before_clip = {node.input[0] for node in proto.graph.node if node.op_type == "Clip"}
    float_model = load_model(model)
    session = open_session(tapped_model(float_model, names))
    changes: list[Any] = [0.0] * len(layers)
    for feeds in images:
        for index, values in enumerate(session.run(feeds)):
            layer, axes = layers[index], (0, *range(2, values.ndim))
            bias = _bias(proto, made_by[layer.input[2]]).reshape(1, -1, *[1] * (values.ndim - 2))
            low, high = (0.0, 6.0) if layer.output[0] in before_clip else (-np.inf, np.inf)
            loud = np.clip(FACTOR * (values - bias) + bias, low, high)
            changes[index] = changes[index] + np.sum((loud - np.clip(values, low, high)) ** 2, axis=axes)
    return [int(np.argmax(change)) for change in changes]


def _bias(proto: onnx.ModelProto, dequantize: onnx.NodeProto) -> Array:
    codes, scales = (numpy_helper.to_array(_stored(proto, name)) for name in dequantize.input[:2])
    return codes * scales.astype(np.float64)


def _stored(proto: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(tensor for tensor in proto.graph.initializer if tensor.name == name)
