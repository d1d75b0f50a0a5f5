"""Operators whose numbers TFLite's kernels refuse or misread: an error that says why, never other bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from single_op import Net, quantized

from calib8.errors import UnsupportedModelError
from calib8.program.lower_tflite.lower import lower_tflite
from calib8.tflite.graph import Graph, Option, Quantization

POOL: dict[str, Option] = {
    "padding": "VALID", "stride_h": 1, "stride_w": 1, "filter_height": 1, "filter_width": 1,
    "fused_activation_function": "NONE",
}  # fmt: skip
CONV: dict[str, Option] = {
    "padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1,
    "fused_activation_function": "NONE",
}  # fmt: skip


def _conv(weight: np.ndarray, kind: Quantization, **changes: Option) -> Graph:
    net = Net()
    x = net.codes((1, 3, 3, 4), "int8", 0.1, 0)
    w = net.constant(weight, kind)
    y = net.output((1, 3, 3, len(weight)), "int8", quantized(0.1, 0))
    return net.graph("CONV_2D", [x, w], [y], 3, **CONV | changes)


def _pair(op: str, second: Quantization, dtype: str = "int8") -> Graph:
    net = Net()
    a = net.codes((4,), "int8", 0.1, 0)
    b = net.codes((4,), dtype, float(second.scales[0]), int(second.zero_points[0]))
    return net.graph(op, [a, b], [net.output((4,), "int8", quantized(0.1, 0))], 2)


def _constants() -> Graph:
    net, ones = Net(), np.ones(4, np.int8)
    net.codes((4,), "int8", 0.1, 0)
    k = [net.constant(ones, quantized(0.1, 0)) for _ in range(2)]
    return net.graph("ADD", k, [net.output((4,), "int8", quantized(0.1, 0))], 2)


def _one(op: str, kind: Quantization, **options: Option) -> Graph:
    net = Net()
    x = net.codes((1, 2, 2, 4), "int8", 0.1, 0)
    return net.graph(op, [x], [net.output((1, 2, 2, 4), "int8", kind)], 2, **options)


def _mean(axes: list[int]) -> Graph:
    net = Net()
    x, k = net.codes((2, 3), "int8", 0.1, 0), net.constant(np.array(axes, np.int32))
    return net.graph("MEAN", [x, k], [net.output((2,), "int8", quantized(0.1, 0))], 2, keep_dims=False)


def _computed_weights() -> Graph:
    net = Net()
    x, w = (net.codes((2, 3), "int8", 0.1, 0) for _ in range(2))
    return net.graph("FULLY_CONNECTED", [x, w, -1], [net.output((2, 2), "int8", quantized(0.1, 0))], 5)


SYMMETRIC = quantized(0.1, 0)
FILTERS = np.ones((2, 1, 1, 4), np.int8)
WRONG_AXIS = Quantization(np.ones(4, np.float32), np.zeros(4, np.int64), 3)

REFUSED: dict[str, tuple[Callable[[], Graph], str]] = {
    "zero point of weights": (lambda: _conv(FILTERS, quantized(0.1, 3)), "zero point 3"),
    "type of weights": (lambda: _conv(FILTERS.view(np.uint8), SYMMETRIC), "weighs with uint8"),
    "weights without scale": (lambda: _conv(FILTERS.astype(np.float32), SYMMETRIC), "weights are float32"),
    "depth of filters": (lambda: _conv(np.ones((2, 1, 1, 3), np.int8), SYMMETRIC), "3 deep, its input 4"),
    "axis of scales": (lambda: _conv(FILTERS, WRONG_AXIS), "along axis 3"),
    "stride": (lambda: _conv(FILTERS, SYMMETRIC, stride_w=0), "stride_h and stride_w are 1 and 0"),
    "activation": (lambda: _conv(FILTERS, SYMMETRIC, fused_activation_function="TANH"), "TANH is fused"),
    "computed weights": (_computed_weights, "computed, where a constant is needed"),
    "types of operands": (lambda: _pair("ADD", SYMMETRIC, "uint8"), "reads uint8 and writes int8"),
    "scales that are compared": (lambda: _pair("MAXIMUM", quantized(0.2, 0)), "differ in scale"),
    "two constants": (_constants, "both of its inputs are constant"),
    "scale of a pool": (lambda: _one("MAX_POOL_2D", quantized(0.2, 0), **POOL), "differ in scale"),
    "scale of a join": (lambda: _one("CONCATENATION", quantized(0.2, 0), axis=3), "differ in scale"),
    "axis of a join": (lambda: _one("CONCATENATION", SYMMETRIC, axis=4), "axis is 4"),
    "axis of a mean": (lambda: _mean([2]), r"reduces the axes \[2\]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    build, why = REFUSED[case]
    with pytest.raises(UnsupportedModelError, match=why):
        lower_tflite(build())
