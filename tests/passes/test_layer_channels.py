"""Weights by group, output, input and tap: the same function after factors are moved through any layout."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.passes.layer_channels import layer_channels
from small_models import graph, normal, run

LAYERS = {
    "conv": ("float[2,6,9,9] x", "y = Conv(x, w, b)", (4, 6, 3, 3), 4),
    "grouped": ("float[2,6,9,9] x", "y = Conv<group=2>(x, w, b)", (4, 3, 3, 3), 4),
    "depthwise": ("float[2,6,9,9] x", "y = Conv<group=6>(x, w, b)", (6, 1, 3, 3), 6),
    "depth multiplier": ("float[2,6,9,9] x", "y = Conv<group=6>(x, w, b)", (12, 1, 3, 3), 12),
    "one axis": ("float[2,6,9] x", "y = Conv(x, w, b)", (4, 6, 3), 4),
    "transposed": ("float[2,6,9,9] x", "y = ConvTranspose(x, w, b)", (6, 4, 2, 2), 4),
    "transposed, grouped": ("float[2,6,9,9] x", "y = ConvTranspose<group=3>(x, w, b)", (6, 4, 2, 2), 12),
    "gemm": ("float[2,6] x", "y = Gemm(x, w, b)", (6, 4), 4),
    "gemm, transposed": ("float[2,6] x", "y = Gemm<transB=1>(x, w, b)", (4, 6), 4),
    "square gemm": ("float[2,6] x", "y = Gemm(x, w, b)", (6, 6), 6),
    "matmul": ("float[2,6] x", "y = MatMul(x, w)", (6, 4), 4),
}


def model_of(kind: str) -> ir.Model:
    inputs, text, shape, channels = LAYERS[kind]
    constants = {"w": normal(*shape), "b": normal(channels, seed=1)}
    if "b)" not in text:
        del constants["b"]
    return graph(inputs, "float y", text, constants)


def node_of(model: ir.Model) -> ir.Node:
    return next(iter(model.graph))


def along_channels(vector: np.ndarray, like: np.ndarray) -> np.ndarray:
    return vector.reshape(1, -1, *[1] * (like.ndim - 2)).astype(np.float32)


@pytest.mark.parametrize("kind", LAYERS)
def test_factors_on_outputs_and_inputs_act_as_on_the_tensors(kind: str) -> None:
    model = model_of(kind)
    sample = normal(*[int(size) for size in LAYERS[kind][0].split("[")[1].split("]")[0].split(",")], seed=3)
    before = run(model, {"x": sample})[0]
    layer = layer_channels(node_of(model))
    assert layer is not None
    assert (layer.inputs, layer.outputs) == (6, LAYERS[kind][3])
    inputs, outputs = np.linspace(0.5, 3.0, layer.inputs), np.linspace(2.0, 0.25, layer.outputs)
    layer.scaled(inputs=inputs, outputs=outputs).write(model.graph)
    after = run(model, {"x": sample / along_channels(inputs, sample)})[0]
    np.testing.assert_allclose(after, before * along_channels(outputs, before), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", LAYERS)
def test_magnitudes_are_those_of_the_channels(kind: str) -> None:
    """A layer whose weights are powers of ten by channel tells which is which."""
    layer = layer_channels(node_of(model_of(kind)))
    assert layer is not None
    ones = layer.scaled()
    for name, count in (("inputs", layer.inputs), ("outputs", layer.outputs)):
        factors = np.linspace(1.0, 2.0, count)
        scaled = layer.scaled(**{name: factors})
        found, plain = (getattr(each, f"{name[:-1]}_magnitudes")() for each in (scaled, ones))
        np.testing.assert_allclose(found, plain * factors)


def test_depthwise_is_one_output_per_input() -> None:
    depthwise = {kind for kind in LAYERS if getattr(layer_channels(node_of(model_of(kind))), "depthwise")}  # noqa: B009
    assert depthwise == {"depthwise"}


def test_constants_that_others_read_stay() -> None:
    weight = normal(4, 4, 1, 1)
    model = graph("float[1,4,5,5] x", "float y", "a = Conv(x, w) y = Conv(a, w)", {"w": weight})
    layer = layer_channels(node_of(model))
    assert layer is not None
    layer.scaled(outputs=np.full(4, 2.0)).write(model.graph)
    second = layer_channels(list(model.graph)[1])
    assert second is not None
    np.testing.assert_array_equal(second.weight.reshape(weight.shape), weight)


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        ("y = Relu(x)", {}),
        ("y = Gemm<transA=1>(x, w)", {"w": normal(2, 4)}),
        ("y = Gemm<alpha=0.5>(x, w)", {"w": normal(6, 4)}),
        ("y = Gemm(x, w, c)", {"w": normal(6, 4), "c": normal(2, 4)}),
        ("y = MatMul(x, w)", {"w": normal(3, 6, 4)}),
        ("y = MatMul(x, w)", {"w": np.full((6, 4), np.inf, np.float32)}),
        ("w = Transpose(x) y = MatMul(x, w)", {}),
    ],
)
def test_what_is_unusual_is_left_alone(text: str, constants: dict[str, np.ndarray]) -> None:
    model = graph("float[2,6] x", "float y", text, constants)
    assert layer_channels(list(model.graph)[-1]) is None
