"""Operators of float Tengine models as ONNX nodes, every one against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calib8.model.from_tmfile.operators import TRANSLATE
from calib8.model.from_tmfile.translate import float_model
from calib8.tmfile.graph import Tensor
from tmfile_cases import COLUMN, IMAGE, PER_CHANNEL, RNG, cases, convolved, one_node, run
from tmfile_nets import CONV, Net


@pytest.mark.parametrize("name", cases())
def test_operators_compute_what_they_are_defined_by(name: str) -> None:
    graph, x, expected = cases()[name]
    found = run(float_model(graph, "net"), x)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_every_translation_is_tried() -> None:
    elsewhere = {
        "Convolution",
        "Deconvolution",
        "Split",
        "Interp",
        "Pooling",
        "Eltwise",
        "Unary",
        "Reduction",
    }
    assert set(TRANSLATE) - elsewhere <= {name.split()[0] for name in cases()}


@pytest.mark.parametrize(("activation", "limits"), [(-1, (-np.inf, np.inf)), (0, (0, np.inf)), (6, (0, 6))])
def test_activations_that_are_fused(activation: int, limits: tuple[float, float]) -> None:
    weight = RNG.normal(size=(4, 4, 3, 3)).astype(np.float32)
    options = {**CONV, "input_channel": 4, "activation": activation}
    graph = one_node("Convolution", IMAGE, (1, 4, 5, 6), weight, PER_CHANNEL, **options)
    expected = np.clip(convolved(IMAGE, weight, (1, 1)) + COLUMN, *limits)
    np.testing.assert_allclose(run(float_model(graph, "net"), IMAGE), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("flag", "pads"), [(-1, (0, 1)), (-2, (1, 0))])
def test_padding_that_keeps_the_size(flag: int, pads: tuple[int, int]) -> None:
    square = IMAGE[:, :, :, :5].copy()
    weight = RNG.normal(size=(4, 4, 2, 2)).astype(np.float32)
    options = {**CONV, "kernel_h": 2, "kernel_w": 2, "activation": -1}
    options |= dict.fromkeys(("pad_h0", "pad_w0", "pad_h1", "pad_w1"), flag)
    graph = one_node("Convolution", square, (1, 4, 5, 5), weight, **options)
    expected = convolved(square, weight, pads)
    np.testing.assert_allclose(run(float_model(graph, "net"), square), expected, rtol=1e-4, atol=1e-5)


def test_split_gives_the_parts_that_the_file_states() -> None:
    net = Net()
    x = net.input("x", IMAGE.shape)
    first = net.add(
        Tensor("a", (1, 1, 5, 6)),
        "Split",
        (x,),
        axis=1,
        split_dim=2,
        is_caffe=False,
        is_onnx=True,
        split_sizes=(),
    )
    net.tensors.append(Tensor("b", (1, 3, 5, 6)))
    net.nodes[-1] = replace(net.nodes[-1], outputs=(first, first + 1))
    graph = net.graph()
    session_outputs = float_model(graph, "net").graph.outputs
    assert [value.name for value in session_outputs] == ["a", "b"]
    np.testing.assert_array_equal(run(float_model(graph, "net"), IMAGE), IMAGE[:, :1])
