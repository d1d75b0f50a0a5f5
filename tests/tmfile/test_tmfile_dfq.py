"""Weights equalized as Tengine's DFQ does it: its loops written out, and what it gets wrong left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calib8.exporting.tmfile.dfq import equalized
from calib8.model.from_tmfile.translate import float_model
from calib8.tmfile.graph import Graph, Node, Tensor
from tmfile_cases import run
from tmfile_nets import CONV, Net

IMAGE = np.random.default_rng(2).normal(size=(1, 3, 8, 8)).astype(np.float32)


def chain(*kinds: str, between: str = "", activation: int = 0, seed: int = 0) -> Graph:
    """Layers one after the other: ``full`` convolutions and ``depth``wise ones, of 4 channels."""
    rng, net = np.random.default_rng(seed), Net()
    place, channels = net.input("x", IMAGE.shape), 3
    for number, kind in enumerate(kinds):
        group = 4 if kind == "depth" else 1
        shape = (4, channels // group, 3, 3)
        w = net.const(
            f"{number}.w", (rng.normal(size=shape) * rng.uniform(0.1, 3, (4, 1, 1, 1))).astype(np.float32)
        )
        b = net.const(f"{number}.b", rng.normal(size=4).astype(np.float32))
        options = {**CONV, "input_channel": channels, "group": group, "activation": activation}
        place = net.add(Tensor(str(number), (1, 4, 8, 8)), "Convolution", (place, w, b), **options)
        channels = 4
        if between and number == 0:
            slope = {"negative_slope": 0.0} if between == "ReLU" else {}
            place = net.add(Tensor("between", (1, 4, 8, 8)), between, (place,), **slope)
    return net.graph()


def data(graph: Graph, name: str) -> np.ndarray:
    return next(tensor.data for tensor in graph.tensors if tensor.name == name)


def tools_range(row: np.ndarray) -> np.float32:
    """Of an output channel: what the tool takes for the smallest weight is the last one below the largest."""
    largest = smallest = np.float32(0)
    for value in row.ravel():
        if value > largest:
            largest = value
        if value < largest:
            smallest = value
    return largest - smallest


def column_range(weight: np.ndarray, channel: int) -> np.float32:
    values = [np.float32(0), *weight[:, channel].ravel()]
    return max(values) - min(values)


@pytest.mark.parametrize("between", ["", "ReLU"])
def test_a_pair(between: str) -> None:
    graph = chain("full", "full", between=between, activation=-1 if between else 0)
    found = equalized(graph)
    first, bias, second = (data(graph, name) for name in ("0.w", "0.b", "1.w"))
    for c in range(4):
        ranges = tools_range(first[c]), column_range(second, c)
        mean = np.sqrt(ranges[0] * ranges[1])
        np.testing.assert_array_equal(data(found.graph, "0.w")[c], first[c] * (mean / ranges[0]))
        assert data(found.graph, "0.b")[c] == bias[c] * (mean / ranges[0])
        np.testing.assert_array_equal(data(found.graph, "1.w")[:, c], second[:, c] * (ranges[0] / mean))
    assert (found.layers, found.refused) == (("0", "1"), ())
    np.testing.assert_array_equal(data(found.graph, "1.b"), data(graph, "1.b"))


def test_three_with_a_depthwise_layer_between() -> None:
    graph = chain("full", "depth", "full")
    found = equalized(graph)
    weights = [data(graph, f"{number}.w") for number in range(3)]
    made = [data(found.graph, f"{number}.w") for number in range(3)]
    for c in range(4):
        ranges = [tools_range(weights[0][c]), tools_range(weights[1][c]), column_range(weights[2], c)]
        mean = np.float32(float(ranges[0] * ranges[1] * ranges[2]) ** (1 / 3))
        np.testing.assert_array_equal(made[0][c], weights[0][c] * (mean / ranges[0]))
        np.testing.assert_array_equal(made[1][c], weights[1][c] * (ranges[0] / mean) * (ranges[2] / mean))
        np.testing.assert_array_equal(made[2][:, c], weights[2][:, c] * (mean / ranges[2]))
        assert data(found.graph, "1.b")[c] == data(graph, "1.b")[c] * (ranges[2] / mean)
    assert found.layers == ("0", "1", "2")


@pytest.mark.parametrize(
    "kinds", [("full", "full"), ("full", "depth", "full"), ("full", "full", "depth", "full", "full")]
)
def test_the_network_computes_the_same(kinds: tuple[str, ...]) -> None:
    graph = chain(*kinds, seed=4)
    found = equalized(graph)
    assert found.layers
    before, after = (run(float_model(one, "net"), IMAGE) for one in (graph, found.graph))
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-3)


def test_channels_without_weights_stay() -> None:
    graph = chain("full", "full")
    first = data(graph, "0.w").copy()
    first[1] = 0
    tensors = [replace(t, data=first) if t.name == "0.w" else t for t in graph.tensors]
    found = equalized(replace(graph, tensors=tuple(tensors)))
    assert data(found.graph, "0.b")[1] == data(graph, "0.b")[1]
    np.testing.assert_array_equal(data(found.graph, "1.w")[:, 1], data(graph, "1.w")[:, 1])
    assert not np.array_equal(data(found.graph, "1.w")[:, 0], data(graph, "1.w")[:, 0])


@pytest.mark.parametrize(("activation", "between"), [(6, ""), (-1, "Sigmoid")])
def test_functions_that_no_factor_passes(activation: int, between: str) -> None:
    graph = chain("full", "full", activation=activation, between=between)
    found = equalized(graph)
    assert (found.layers, found.refused) == ((), ("1",))
    np.testing.assert_array_equal(data(found.graph, "0.w"), data(graph, "0.w"))


def test_what_two_layers_read_stays() -> None:
    graph = chain("full", "full")
    both = replace(
        graph, outputs=(*graph.outputs, next(n for n, node in enumerate(graph.nodes) if node.name == "0"))
    )
    assert equalized(both).layers == ()


@pytest.mark.parametrize("shared", ["w", "b"])
@pytest.mark.parametrize("kinds", [("full", "full"), ("full", "depth", "full")])
def test_layers_whose_constants_something_else_reads_stay(kinds: tuple[str, ...], shared: str) -> None:
    graph = chain(*kinds)
    place = next(at for at, tensor in enumerate(graph.tensors) if tensor.name == f"0.{shared}")
    reader = Node("other", "Sigmoid", (place,), (len(graph.tensors),))
    other = Tensor("other", graph.tensors[place].shape)
    found = equalized(replace(graph, tensors=(*graph.tensors, other), nodes=(*graph.nodes, reader)))
    assert (found.layers, found.refused) == ((), ())
    for name in ("0.w", "0.b", f"{len(kinds) - 1}.w"):
        np.testing.assert_array_equal(data(found.graph, name), data(graph, name))
