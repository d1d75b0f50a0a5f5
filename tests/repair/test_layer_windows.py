"""Rows times columns is what the layer computes; moments are exact sums over the columns."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import pytest

from calib8.model.graph import constant
from calib8.model.layer import Layer
from calib8.model.runtime import Arrays
from calib8.qparams import INT8_SYMMETRIC, UINT8, QParams, quantize
from calib8.repair import moments as module
from calib8.repair.candidate import RepairData
from calib8.repair.moments import EXACT_FLOAT32, POSITIONS, layer_moments
from calib8.repair.windows import columns, from_rows, spread, to_rows
from small_models import graph, normal, run

ALL = 1 << 20
CASES = {
    "conv": ("Conv", "", (2, 3, 9, 8), (5, 3, 3, 2)),
    "1x1": ("Conv", "", (1, 4, 5, 6), (3, 4, 1, 1)),
    "pads, strides, dilations": (
        "Conv", "pads=[2,1,0,3], strides=[2,3], dilations=[2,1]", (1, 3, 11, 10), (4, 3, 3, 3),
    ),
    "groups": ("Conv", "group=2, pads=[1,1,1,1]", (1, 6, 7, 7), (8, 3, 3, 3)),
    "depthwise": ("Conv", "group=6, pads=[1,1,1,1], strides=[2,2]", (1, 6, 7, 8), (6, 1, 3, 3)),
    "one axis": ("Conv", "pads=[1,2]", (2, 3, 12), (4, 3, 4)),
    "three axes": ("Conv", "pads=[1,0,1,1,0,0]", (1, 2, 5, 4, 6), (3, 2, 2, 2, 3)),
    "same upper": ("Conv", 'auto_pad="SAME_UPPER", strides=[2,2]', (1, 3, 8, 9), (4, 3, 3, 4)),
    "same lower": ("Conv", 'auto_pad="SAME_LOWER", strides=[2,1]', (1, 3, 8, 9), (4, 3, 4, 2)),
    "valid": ("Conv", 'auto_pad="VALID"', (1, 3, 8, 9), (4, 3, 3, 3)),
    "transposed": ("ConvTranspose", "strides=[2,2]", (1, 3, 4, 5), (3, 4, 2, 2)),
    "transposed, all at once": (
        "ConvTranspose",
        "group=2, strides=[3,2], pads=[1,0,2,1], dilations=[1,2], output_padding=[1,1]",
        (2, 4, 5, 4), (4, 3, 4, 3),
    ),
    "transposed, more cut off": ("ConvTranspose", "pads=[2,2,2,2]", (1, 2, 6, 6), (2, 3, 3, 3)),
    "transposed, same": ("ConvTranspose", 'auto_pad="SAME_UPPER", strides=[2,2]', (1, 2, 4, 4), (2, 3, 3, 3)),
    "transposed, stated": (
        "ConvTranspose", "strides=[2,2], output_shape=[8,9]", (1, 2, 4, 4), (2, 3, 3, 3),
    ),
    "gemm": ("Gemm", "", (3, 6), (6, 4)),
    "gemm, transposed": ("Gemm", "transB=1", (3, 6), (4, 6)),
    "matmul": ("MatMul", "", (2, 3, 5), (5, 7)),
}  # fmt: skip


def case(name: str) -> tuple[ir.Node, ir.Model, np.ndarray]:
    op, attributes, shape, weight = CASES[name]
    text = f"y = {op}<{attributes}>(x, w)" if attributes else f"y = {op}(x, w)"
    inputs = f"float[{','.join(map(str, shape))}] x"
    model = graph(inputs, "float y", text, {"w": np.rint(9 * normal(*weight))})
    return model.graph[0], model, np.rint(20 * normal(*shape, seed=3)).astype(np.int16)


def rows_of(node: ir.Node) -> np.ndarray:
    weight = constant(node.inputs[1])
    assert weight is not None
    return to_rows(Layer(node), weight)


@pytest.mark.parametrize("name", CASES)
def test_rows_times_columns_is_the_layer(name: str) -> None:
    node, model, codes = case(name)
    expected = run(model, {"x": codes.astype(np.float32)})[0]
    found = rows_of(node) @ columns(Layer(node), codes, ALL, 0)
    if node.op_type in ("Gemm", "MatMul"):
        assert np.array_equal(found[0].T.reshape(expected.shape), expected)
    else:
        samples, channels = expected.shape[:2]
        by_channel = found.reshape(channels, samples, *expected.shape[2:])
        assert np.array_equal(np.moveaxis(by_channel, 1, 0), expected)


@pytest.mark.parametrize("name", CASES)
def test_rows_turn_back_into_weights(name: str) -> None:
    node, _, _ = case(name)
    weight = constant(node.inputs[1])
    assert weight is not None
    rows = to_rows(Layer(node), weight)
    assert len(rows) == Layer(node).groups
    assert np.array_equal(from_rows(Layer(node), rows, weight.shape), weight)


@pytest.mark.parametrize("name", ["conv", "groups", "transposed, all at once", "matmul"])
def test_few_positions_are_some_of_all(name: str) -> None:
    node, _, codes = case(name)
    every, some = columns(Layer(node), codes, ALL, 2), columns(Layer(node), codes, 5, 2)
    assert np.array_equal(some, every[:, :, spread(every.shape[2], 5, 2)])


def test_positions_are_spread_and_move_from_run_to_run() -> None:
    assert spread(5, 7, 3).tolist() == [0, 1, 2, 3, 4]
    for run_number in range(9):
        found = spread(1000, 10, run_number)
        assert len(found) == 10 and found.max() < 1000 and set(np.diff(found)) <= {99, 100, 101}
    assert len({int(spread(1000, 10, number)[0]) for number in range(9)}) == 9


NET = "a = Conv<pads=[1,1,1,1]>(x, w) b = Conv<group=4>(a, v) y = ConvTranspose<strides=[2,2]>(b, u)"
NET_CODES = {"x": QParams(0.05, 117), "a": QParams(0.1, 130), "b": QParams(0.3, 90)}


def net() -> tuple[ir.Model, list[ir.Node], tuple[Arrays, ...]]:
    weights = {"w": normal(4, 3, 3, 3), "v": normal(4, 1, 3, 3), "u": normal(4, 2, 2, 2)}
    model = graph("float[1,3,8,8] x", "float y", NET, weights)
    runs = tuple({"x": 2 * normal(1, 3, 8, 8, seed=seed)} for seed in range(5))
    return model, list(model.graph), runs


def test_moments_are_the_sums_over_the_columns() -> None:
    model, layers, runs = net()
    inner = [run(graph("float[1,3,8,8] x", f"float {name}", NET, constants(model)), r)
             for r in runs for name in ("a", "b")]  # fmt: skip
    found = list(layer_moments(model, layers, NET_CODES, UINT8, RepairData(runs)))
    for index, (node, moments) in enumerate(found):
        assert node is layers[index]
        source = [r["x"] for r in runs] if index == 0 else [pair[0] for pair in inner[index - 1 :: 2]]
        code = NET_CODES["xab"[index]]
        codes = [quantize(x, code.scale, code.zero_point, UINT8).astype(np.int64) - code.zero_point
                 for x in source]  # fmt: skip
        every = np.concatenate(
            [columns(Layer(node), one, POSITIONS, n) for n, one in enumerate(codes)], axis=2
        )
        wide = every.astype(np.int64)
        assert moments.count == every.shape[2]
        assert np.array_equal(moments.second, wide @ wide.transpose(0, 2, 1))
        assert np.array_equal(moments.products(), moments.second / moments.count)


SETTLED = {
    "Sigmoid": lambda y: 1.0 / (1.0 + math.exp(-y)),
    "Tanh": math.tanh,
    "HardSigmoid": lambda y: min(max(0.2 * y + 0.5, 0.0), 1.0),
}


@pytest.mark.parametrize("function", SETTLED)
@pytest.mark.parametrize("layer", ["Conv", "ConvTranspose", "MatMul"])
def test_places_count_by_slope_before_a_function_that_settles(function: str, layer: str) -> None:
    """Written out place by place; those far from 0 count for next to nothing."""
    size, shape = ("[1,2,5,5]", (2, 3, 1, 1)) if layer == "ConvTranspose" else ("[1,2,5,5]", (3, 2, 1, 1))
    if layer == "MatMul":
        size, shape = "[7,2]", (2, 3)
    model = graph(f"float{size} x", "float y", f"a = {layer}(x, w) y = {function}(a)", {"w": normal(*shape)})
    sizes = [int(one) for one in size[1:-1].split(",")]
    runs = tuple({"x": 9 * normal(*sizes, seed=seed)} for seed in range(3))
    code = QParams(0.1, 120)
    ((node, moments),) = layer_moments(model, [next(iter(model.graph))], {"x": code}, UINT8, RepairData(runs))
    second, all_weights, f = np.zeros((2, 2)), [], SETTLED[function]
    for feeds in runs:
        x = feeds["x"].reshape(sizes[0], 2, -1)
        weight = rows_of(node)[0]
        for sample in range(sizes[0]):
            for place in range(x.shape[2]):
                seen = [float(y) for y in weight.astype(np.float64) @ x[sample, :, place].astype(np.float64)]
                slopes = [(f(y + 0.5) - f(y - 0.5)) ** 2 / (f(0.5) - f(-0.5)) ** 2 for y in seen]
                each = round(255 * sum(slopes) / len(slopes))
                c = quantize(x[sample, :, place], code.scale, code.zero_point, UINT8).astype(float) - 120
                second += each * np.outer(c, c)
                all_weights.append(each)
    assert min(all_weights) < 5 and max(all_weights) > 100
    assert np.array_equal(moments.second[0], second)
    assert moments.count == int(sum(all_weights) ** 2 / sum(each**2 for each in all_weights))


def constants(model: ir.Model) -> dict[str, np.ndarray]:
    return {name: np.asarray(value.const_value.numpy()) for name, value in model.graph.initializers.items()}  # type: ignore[union-attr]


def test_neither_threads_nor_memory_change_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    model, layers, runs = net()
    together = [m for _, m in layer_moments(model, layers, NET_CODES, UINT8, RepairData(runs, 2))]
    monkeypatch.setattr(module, "LARGEST_BYTES", 1)
    alone = [m for _, m in layer_moments(model, layers, NET_CODES, UINT8, RepairData(runs, 1))]
    for left, right in zip(together, alone, strict=True):
        assert left.count == right.count
        assert np.array_equal(left.second, right.second)


def test_sums_of_the_largest_codes_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POSITIONS", 256)
    model = graph("float[1,2,40,40] x", "float y", "y = Conv(x, w)", {"w": normal(3, 2, 1, 1)})
    runs = tuple({"x": np.full((1, 2, 40, 40), 1e9, np.float32)} for _ in range(3))
    for code, spec, top in ((QParams(0.1, 0), UINT8, 255), (QParams(0.1, 0), INT8_SYMMETRIC, 127)):
        ((_, moments),) = layer_moments(model, list(model.graph), {"x": code}, spec, RepairData(runs))
        assert moments.count == 768 and 768 * top * top > EXACT_FLOAT32 // 2
        assert np.all(moments.second == 768 * top * top)
