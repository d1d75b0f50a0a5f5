"""Room of int32 sums against plain loops, biases that do not fit, and channels of zeros."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from one_layer_models import Array, coded

from calib8.analysis.dead_channels import dead_channels
from calib8.analysis.inspect import inspect_model
from calib8.analysis.sum_margins import SumMargin, sum_margins
from calib8.model.load import load_model
from calib8.quantization.qdq import readable_copy
from small_nets import NETS, Net, clean

INT32_MAX = 2**31 - 1


def margin(proto: onnx.ModelProto) -> SumMargin:
    [found] = sum_margins(readable_copy(load_model(proto)))
    return found


def bounds(weight: Array, bias: int, low: int, high: int) -> tuple[int, int]:
    """Smallest and largest Σ (a − z)·w + b, product by product."""
    ends = [sorted((int(w) * low, int(w) * high)) for w in weight.reshape(-1)]
    return sum(end[0] for end in ends) + bias, sum(end[1] for end in ends) + bias


@pytest.mark.parametrize(
    ("op_type", "shape", "size", "axis", "attributes"),
    [
        ("Conv", (4, 3, 3, 3), ("N", 3, 5, 5), 0, {}),
        ("Conv", (4, 1, 3, 3), ("N", 2, 5, 5), 0, {"group": 2}),
        ("ConvTranspose", (3, 4, 2, 2), ("N", 3, 5, 5), 1, {}),
        ("Gemm", (4, 6), ("N", 6), 0, {"transB": 1}),
        ("Gemm", (6, 4), ("N", 6), 1, {}),
    ],
)
@pytest.mark.parametrize("signed", [False, True])
def test_the_bounds_are_those_of_plain_loops(
    op_type: str, shape: tuple[int, ...], size: tuple[Any, ...], axis: int, attributes: dict[str, Any],
    signed: bool,
) -> None:  # fmt: skip
    rng = np.random.default_rng(len(shape))
    weight = rng.integers(-127, 128, shape).astype(np.int8)
    bias = rng.integers(-(2**28), 2**28, 4).astype(np.int32)
    proto = coded(
        op_type, weight, size, bias=bias, weight_scale=np.full(4, 0.25), signed=signed, **attributes
    )
    low, high = (-128 - 3, 127 - 3) if signed else (0 - 3, 255 - 3)
    expected = [bounds(np.take(weight, channel, axis), int(bias[channel]), low, high) for channel in range(4)]
    sizes = [max(-low, high) for low, high in expected]
    worst = int(np.argmax(sizes))
    found = margin(proto)
    assert (found.layer, found.channel, found.bias) == ("layer", worst, int(bias[worst]))
    assert (found.low, found.high) == expected[worst]
    assert found.bits == pytest.approx(31 - math.log2(sizes[worst]))
    assert not found.overflows and not found.cut_biases and found.warning() == ""


def test_channels_of_a_grouped_transposed_layer_are_told_group_by_group() -> None:
    weight = np.zeros((4, 2, 1, 1), np.int8)
    weight[2, 1] = 100  # group 1, second output: channel 3
    found = margin(coded("ConvTranspose", weight, ("N", 4, 3, 3), group=2))
    assert (found.channel, found.low, found.high) == (3, -300, 25200)


def test_the_zero_point_of_weights_counts() -> None:
    proto = coded("Gemm", np.uint8([[200, 100]]), ("N", 2), transB=1)
    for tensor in proto.graph.initializer:
        if tensor.name == "wz":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.uint8(150), "wz"))
    assert (margin(proto).low, margin(proto).high) == (-3 * 50 - 252 * 50, 252 * 50 + 3 * 50)


def test_a_sum_that_can_overflow_is_told() -> None:
    bias = np.int32([0, INT32_MAX - 25_199])
    proto = coded("Gemm", np.int8([[100], [100]]), ("N", 1), bias=bias, transB=1)
    found = margin(proto)
    assert (found.channel, found.high, found.overflows) == (1, INT32_MAX + 1, True)
    assert found.bits <= 0.0
    assert "channel 1 can overflow int32" in found.warning()
    fits = margin(coded("Gemm", np.int8([[100]]), ("N", 1), bias=bias[1:] - 1, transB=1))
    assert fits.high == INT32_MAX and not fits.overflows
    assert "bits of int32 left" in fits.warning()


@pytest.mark.parametrize("end", [INT32_MAX, -INT32_MAX - 1])
def test_a_bias_at_the_end_of_int32_was_cut(end: int) -> None:
    proto = coded("Gemm", np.int8([[1], [1], [1]]), ("N", 1), bias=np.int32([5, end, end]), transB=1)
    assert margin(proto).cut_biases == (1, 2)
    assert "2 channels (1, 2) does not fit" in margin(proto).warning()


def test_a_float_bias_is_taken_as_it_will_be_rounded() -> None:
    """s_x · s_w = 0.125: 1000 becomes 8000, 1e9 does not fit."""
    proto = coded("Gemm", np.int8([[0], [0]]), ("N", 1), bias=np.float32([1000, -50]), transB=1)
    assert (margin(proto).bias, margin(proto).cut_biases) == (8000, ())
    proto = coded("Gemm", np.int8([[0], [0]]), ("N", 1), bias=np.float32([1000, 1e9]), transB=1)
    assert margin(proto).cut_biases == (1,) and margin(proto).float_bias
    assert "in a runtime that rounds it" in margin(proto).warning()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("net", NETS)
def test_our_own_models_have_room(net: str, tmp_path: Path) -> None:
    onnx.save(clean(net, "onnxruntime"), tmp_path / "model.onnx")
    found = inspect_model(tmp_path / "model.onnx")
    layers = [layer.name for layer in found.layers if layer.op_type in ("Conv", "Gemm", "MatMul")]
    assert {margin.layer for margin in found.margins} >= set(layers)
    assert all(margin.bits > 1.0 and not margin.overflows for margin in found.margins)


def test_the_warning_is_among_those_of_inspect(tmp_path: Path) -> None:
    proto = coded("Gemm", np.int8([[1]]), ("N", 1), bias=np.int32([INT32_MAX]), transB=1)
    onnx.save(proto, tmp_path / "model.onnx")
    assert any(
        "does not fit into int32" in warning for warning in inspect_model(tmp_path / "model.onnx").warnings
    )


def test_dead_channels_of_a_float_model_are_those_without_weights() -> None:
    net = Net()
    first, second = net.rng.normal(0, 1, (4, 4, 3, 3)), net.rng.normal(0, 1, (6, 3))
    first[[1, 3]] = 0.0
    second[:, 2] = 0.0
    y = net.op("Conv", "x", net.const(first), name="first")
    y = net.op("Conv", y, net.weight(6, 4, 1, 1), name="alive")
    y = net.op("Flatten", net.op("GlobalAveragePool", y))
    model = load_model(net.model(net.op("Gemm", y, net.const(second), name="scores")))
    assert dead_channels(readable_copy(model)) == {"first": (1, 3), "scores": (2,)}


def test_a_channel_may_die_by_rounding() -> None:
    weight = np.int8([[3, 0], [0, 0], [0, -1]])
    model = load_model(coded("Gemm", weight, ("N", 2), transB=1))
    assert dead_channels(readable_copy(model)) == {"layer": (1,)}
