"""Profile ``onnx`` against ONNX Runtime's kernels: pools, means, Softmax, Resize, code for code.

Where a kernel is not reproduced bit for bit, the share of codes that differ is bounded, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from fused_cases import CASES, Array, Case, cases, kernel, nhwc, run_onnx
from qdq_nets import Net, lowered, runtime_outputs

from calib8.model.runtime import as_written, open_session
from calib8.program.expressions import Attributes
from calib8.program.instructions import AveragePool, MaxPool, Mean, ResizeLinear, ResizeNearest, Softmax
from calib8.program.ops import pools, resize, softmax
from calib8.program.reference.executor import run_program
from calib8.program.rounding.pools import average_rule, mean_rule
from calib8.program.rounding.resize import linear_axis, nearest_indices
from calib8.program.rounding.softmax import softmax_rule
from calib8.qparams import QParams


def windows(case: Case) -> dict[str, Any]:
    kernel_shape = case.rng.integers(1, 4, 2).tolist()
    pads = [int(case.rng.integers(0, kernel_shape[axis % 2])) for axis in range(4)]
    return {"kernel_shape": kernel_shape, "strides": case.rng.integers(1, 4, 2).tolist(), "pads": pads}


def image(case: Case) -> Array:
    """Larger than every window, else AveragePool is a global one."""
    return case.codes(2, int(case.rng.integers(1, 6)), *case.rng.integers(4, 10, 2))


def test_max_pool() -> None:
    for case in cases(same=True):
        window, data = windows(case), image(case)
        window["dilations"] = case.rng.integers(1, 3, 2).tolist()
        window["ceil_mode"] = int(case.rng.integers(2))
        expected = nhwc(run_onnx(case, "MaxPool", data, window))
        step = MaxPool("p", (0,), (1,), *_geometry(window), tuple(window["dilations"]))
        assert np.array_equal(kernel(case, pools.max_pool, step, nhwc(data), expected.shape), expected)


def _geometry(window: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return tuple(window["kernel_shape"]), tuple(window["strides"]), tuple(window["pads"])


def average_pools(case: Case, window: Mapping[str, Any], data: Array, shape: Sequence[int]) -> Array:
    rule = average_rule("onnx", case.x, case.y, int(np.prod(window["kernel_shape"])))
    info = np.iinfo(case.dtype)
    count_pads = bool(window["count_include_pad"])
    step = AveragePool("p", (0,), (1,), *_geometry(window), count_pads, rule, info.min, info.max)
    return kernel(case, pools.average_pool, step, nhwc(data), shape)


def test_average_pool() -> None:
    """QLinearAveragePool."""
    for case in cases():
        window, data = windows(case), image(case)
        window["count_include_pad"] = int(case.rng.integers(2))
        window["ceil_mode"] = 0 if window["count_include_pad"] else int(case.rng.integers(2))
        expected = nhwc(run_onnx(case, "AveragePool", data, window))
        assert np.array_equal(average_pools(case, window, data, expected.shape), expected)


def test_windows_beyond_the_padding() -> None:
    """QLinearAveragePool divides by the whole kernel there, against ONNX; its float kernel does not."""
    wrong = total = fused_differs = 0
    for case in cases():
        # with an even zero point it does not matter that the fused kernel adds it before it rounds
        even = Case(case.rng, case.dtype, case.x, QParams(case.y.scale, case.y.zero_point & ~1))
        window, data = windows(even), image(even)
        window["count_include_pad"] = window["ceil_mode"] = 1
        expected = nhwc(run_onnx(even, "AveragePool", data, window, fused=False))
        result = average_pools(even, window, data, expected.shape)
        difference = np.abs(result.astype(int) - expected)
        assert difference.max() <= 1
        wrong, total = wrong + np.count_nonzero(difference), total + result.size
        fused_differs += not np.array_equal(nhwc(run_onnx(even, "AveragePool", data, window)), result)
    # ties, which float sums in another order miss; a tap too many would differ by far more
    assert wrong <= 0.01 * total
    assert 0 < fused_differs < CASES / 2


def means(case: Case, data: Array, axes: tuple[int, ...], shape: Sequence[int], kind: str = "mean") -> Array:
    count = int(np.prod([data.shape[axis] for axis in axes]))
    rule = mean_rule("onnx", case.x.scale, case.y.scale, count, kind)
    info = np.iinfo(case.dtype)
    return kernel(case, pools.mean, Mean("m", (0,), (1,), axes, rule, info.min, info.max), data, shape)


def test_global_average_pool() -> None:
    """QLinearGlobalAveragePool, and QLinearAveragePool with a window as large as the image."""
    for case in cases():
        data = image(case)
        expected = run_onnx(case, "GlobalAveragePool", data)
        assert np.array_equal(means(case, data, (2, 3), expected.shape), expected)
        window = {"kernel_shape": list(data.shape[2:])}
        assert np.array_equal(run_onnx(case, "AveragePool", data, window), expected)


@pytest.mark.parametrize(("op", "kind"), [("ReduceMean", "mean"), ("ReduceSum", "sum")])
def test_mean_and_sum_over_axes(op: str, kind: str) -> None:
    """There is no fused kernel: ONNX Runtime adds float32 numbers in an order of its own.

    0.4 % of the means differ, by one, on ties above all: a mean of few codes with the scale of its input.
    """
    wrong = total = 0
    for number, case in enumerate(cases()):
        axes = ((2, 3), (1,), (1, 2, 3))[number % 3]
        data = case.codes(2, 5, *case.rng.integers(3, 9, 2))
        expected = run_onnx(case, op, data, {}, {"axes": np.array(axes, np.int64)}).astype(int)
        difference = np.abs(means(case, data, axes, expected.shape, kind).astype(int) - expected)
        assert difference.max() <= 1
        wrong, total = wrong + np.count_nonzero(difference), total + difference.size
    assert wrong <= 0.01 * total


def test_softmax() -> None:
    """QLinearSoftmax; with e[i] as usual products leave float32 where 1/s_y exceeds 148 · classes."""
    for number, case in enumerate(cases(output=(0.002, 0.02))):
        lowest, scale = int(np.iinfo(case.dtype).min), float(np.float32(10 ** case.rng.uniform(-5, -2)))
        other = QParams(1 / 256, lowest) if number % 2 else QParams(scale, lowest)
        shares = case if number % 3 == 0 else Case(case.rng, case.dtype, case.x, other)
        classes = int(case.rng.choice([1, 2, 3, 4, 5, 7, 10, 50, 300, 1000]))
        data = shares.codes(16, classes)
        expected = run_onnx(shares, "Softmax", data, {"axis": -1})
        rule = softmax_rule("onnx", shares.x.scale, case.dtype, shares.y, case.dtype, classes)
        step = Softmax("s", (0,), (1,), rule)
        assert np.array_equal(kernel(shares, softmax.softmax, step, data, data.shape), expected)


def resized(case: Case, data: Array, attributes: Attributes) -> tuple[Array, list[float]]:
    """ONNX Runtime's result (NHWC) by sizes or by scales, and the two scales.

    An output of the input's shape is a copy, whatever the coordinates say; lowering sees to that.
    """
    height, width = data.shape[2:]
    omitted = np.zeros(0, np.float32)
    if case.rng.integers(2):
        sizes = case.rng.integers(1, 24, 2)
        scales = [float(np.float32(s) / np.float32(n)) for s, n in zip(sizes, (height, width), strict=True)]
        wanted = np.array([*data.shape[:2], *sizes], np.int64)
        inputs = {"roi": omitted, "scales": omitted, "sizes": wanted}
    else:
        scales = [float(np.float32(s)) for s in case.rng.choice([0.6, 1, 1.3, 1.5, 2, 3], 2)]
        inputs = {"roi": omitted, "scales": np.array([1, 1, *scales], np.float32)}
    return nhwc(run_onnx(case, "Resize", data, attributes, inputs)), scales


MODES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric")


@pytest.mark.parametrize("nearest_mode", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_resize_nearest(nearest_mode: str) -> None:
    for number, case in enumerate(cases(same=True)):
        mode, data = MODES[number % len(MODES)], case.codes(1, 2, *case.rng.integers(2, 14, 2))
        attributes = {
            "mode": "nearest",
            "coordinate_transformation_mode": mode,
            "nearest_mode": nearest_mode,
        }
        expected, scales = resized(case, data, attributes)
        if expected.shape == nhwc(data).shape:
            assert np.array_equal(expected, nhwc(data))
            continue
        axes = zip(data.shape[2:], expected.shape[1:3], scales, strict=True)
        rows, columns = (nearest_indices(*sizes, scale, mode, nearest_mode) for *sizes, scale in axes)
        step = ResizeNearest("r", (0,), (1,), rows, columns)
        result = kernel(case, resize.resize_nearest, step, nhwc(data), expected.shape)
        assert np.array_equal(result, expected), (mode, scales)


@pytest.mark.parametrize("same", [True, False])
def test_resize_linear(same: bool) -> None:
    for number, case in enumerate(cases(same=same)):
        mode, data = MODES[number % len(MODES)], case.codes(2, 3, *case.rng.integers(2, 14, 2))
        expected, scales = resized(case, data, {"mode": "linear", "coordinate_transformation_mode": mode})
        if expected.shape == nhwc(data).shape:
            assert not same or np.array_equal(expected, nhwc(data))
            continue
        axes = zip(data.shape[2:], expected.shape[1:3], scales, strict=True)
        rows, columns = (linear_axis("onnx", *sizes, scale, mode) for *sizes, scale in axes)
        step = ResizeLinear("r", (0,), (1,), rows, columns)
        result = kernel(case, resize.resize_linear, step, nhwc(data), expected.shape)
        assert np.array_equal(result, expected), (mode, scales)


def test_means_on_a_tie_are_where_onnxruntime_differs_from_itself() -> None:
    """Pad → AveragePool → Relu in its fused kernel, which calib8 follows, and in its float kernel."""
    net = Net(0)
    x = net.coded("x", 0.05, 120)
    amounts = net.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    padded = net.op(f"Pad ({x}, {amounts}, {net.constant(0.0)})")
    mean = net.op(f"AveragePool <kernel_shape = [3, 3]> ({padded})")
    y = net.quantize(net.op(f"Relu ({mean})"), 0.02, 0)
    proto = net.proto("float[1,3,32,32] x", f"uint8 {y}")
    feeds = {"x": np.random.default_rng(0).normal(0, 2, (1, 3, 32, 32)).astype(np.float32)}
    [fused] = runtime_outputs(proto, feeds)
    [mine] = run_program(lowered(proto), feeds)
    np.testing.assert_array_equal(mine, fused)
    [alone] = open_session(proto.SerializeToString(), threads=1, configure=as_written).run(feeds)
    codes = np.clip(np.rint(feeds["x"] / np.float32(0.05)) + 120, 0, 255).astype(np.int64) - 120
    places = np.pad(codes, ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums = np.lib.stride_tricks.sliding_window_view(places, (3, 3), axis=(2, 3)).sum((4, 5))
    differ = fused != alone
    assert 0 < differ.sum() < 0.02 * differ.size
    assert np.all(sums[differ] * 5 % 18 == 9), "sums · 0.05 / (9 · 0.02) = sums · 5 / 18 is half a code"
