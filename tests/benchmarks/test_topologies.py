"""The networks that speed is measured with are the published ones, and something lives in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from layers import Drawing
from quantized import quantized
from topologies import TOPOLOGIES, draw

SMALL = 64
"""Pixels: enough for every layer to have some."""


@pytest.fixture
def weightless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only shapes are drawn; VGG's weights alone take seconds."""
    monkeypatch.setattr(Drawing, "_he", lambda self, shape, fan_in: None)
    monkeypatch.setattr(Drawing, "_constant", lambda self, values: "constant")


@pytest.mark.usefixtures("weightless")
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_multiplications_are_the_published_ones(name: str) -> None:
    _, macs = draw(name)
    # YOLO's table counts what is not multiplied by weights too; timm's has two digits
    tolerance = 0.01 if name.startswith(("yolo", "convnext")) else 0.0015
    assert macs == pytest.approx(1e9 * TOPOLOGIES[name].gmacs, rel=tolerance)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "name", ["mobilenet_v2", "resnet18", "googlenet", "densenet121", "convnext_atto", "yolov5n"]
)
def test_models_are_valid_and_their_activations_alive(name: str) -> None:
    model, _ = draw(name, SMALL)
    onnx.checker.check_model(model, full_check=True)
    made = [node.output[0] for node in model.graph.node if node.op_type in ("Relu", "Clip", "Mul", "Add")]
    outputs = [value.name for value in model.graph.output]
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in [*made, *outputs])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    image = np.random.default_rng(0).standard_normal((2, 3, SMALL, SMALL), np.float32)
    for tensor, array in zip([*made, *outputs], session.run(None, {"input": image}), strict=True):
        assert 0.1 < array.std() < 100, tensor
        assert np.mean(array != 0) > 0.2, tensor


def test_the_same_network_is_drawn_again() -> None:
    first, second = (draw("squeezenet1_1", SMALL)[0] for _ in range(2))
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)


def test_quantized_networks_are_made_once_in_the_form_that_peers_like(tmp_path: Path) -> None:
    path = quantized("squeezenet1_1", tmp_path / "new", SMALL)
    before = path.stat().st_mtime_ns
    model = onnx.load(path)
    stored = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    points = {
        stored[node.input[2]]
        for node in model.graph.node
        if node.op_type == "QuantizeLinear" and node.input[0] not in stored
    }
    weights = {
        stored[node.input[0]]
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in stored
    }
    assert points == {onnx.TensorProto.UINT8}
    assert onnx.TensorProto.INT8 in weights
    assert onnx.TensorProto.UINT8 not in weights
    assert quantized("squeezenet1_1", tmp_path / "new", SMALL) == path
    assert path.stat().st_mtime_ns == before
