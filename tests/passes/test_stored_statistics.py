"""Statistics of batch normalizations as text: read back exactly, and refused where they do not fit."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

from calib8.errors import ModelError
from calib8.model.graph import constant
from calib8.model.load import load_model
from calib8.passes.stored_statistics import put_statistics, statistics_text
from small_models import normal, onnx_model, run

FEEDS = {"x": normal(2, 3, 4, 4, seed=9)}


def net(seed: int) -> onnx.ModelProto:
    """Two normalizations whose statistics depend on ``seed``."""
    constants = {"g": normal(3), "b": normal(3, seed=1)}
    for index in (1, 2):
        constants[f"m{index}"] = normal(3, seed=seed + index)
        constants[f"v{index}"] = np.abs(normal(3, seed=seed + 10 * index)) + np.float32(1e-7)
    body = "a = BatchNormalization(x, g, b, m1, v1) r = Relu(a) y = BatchNormalization(r, g, b, m2, v2)"
    return onnx_model("float[N,3,4,4] x", "float[N,3,4,4] y", body, constants)


def test_the_model_is_the_other_one_to_the_last_bit() -> None:
    model, other = load_model(net(20)), load_model(net(60))
    text = statistics_text(other)
    assert put_statistics(model, text, "int8") == 2
    assert statistics_text(model) == text
    for left, right in zip(model.graph, other.graph, strict=True):
        for index in range(1, len(left.inputs)):
            np.testing.assert_array_equal(constant(left.inputs[index]), constant(right.inputs[index]))
    np.testing.assert_array_equal(run(model, FEEDS)[0], run(other, FEEDS)[0])
    assert np.any(run(load_model(net(20)), FEEDS)[0] != run(other, FEEDS)[0])


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "3", '{"a": 3}', '{"a": {"mean": [0, 0, 0]}}', '{"a": {"mean": ["x"], "variance": [1]}}',
        '{"a": {"mean": [0, 0, 0], "variance": [1, 1, -1]}}',
        '{"a": {"mean": [0, 0, NaN], "variance": [1, 1, 1]}}',
    ],
)  # fmt: skip
def test_broken_text_is_told(text: str) -> None:
    with pytest.raises(ModelError, match="int8: its metadata 'batch_norms' are broken"):
        put_statistics(load_model(net(20)), text, "int8")


@pytest.mark.parametrize(("name", "channels"), [("nobody", 3), ("r", 3), ("a", 2)])
def test_statistics_of_another_model_are_refused(name: str, channels: int) -> None:
    text = json.dumps({name: {"mean": [0.0] * channels, "variance": [1.0] * channels}})
    with pytest.raises(ModelError, match=f"batch normalization '{name}' that the float model does not have"):
        put_statistics(load_model(net(20)), text, "int8")
