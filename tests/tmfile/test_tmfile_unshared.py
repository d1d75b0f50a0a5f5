"""Constants that layers of a tmfile share: each layer has its own where their codes differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from calib8 import InferenceSession
from calib8.exporting.tmfile.codes import in_codes
from calib8.exporting.tmfile.unshared import unshared
from calib8.tmfile.graph import Graph, Tensor
from calib8.tmfile.write import write_tmfile
from tmfile_nets import CONV, Net


def twice(*, apart: bool) -> Graph:
    """A Convolution on its own result, which has another scale; ``apart``: each with its own constants."""
    rng, net = np.random.default_rng(0), Net()
    weight, bias = (rng.normal(size=shape).astype(np.float32) / 6 for shape in ((4, 4, 3, 3), (4,)))
    w, b = net.const("w", weight), net.const("b", bias)
    second = (net.const("w2", weight), net.const("b2", bias)) if apart else (w, b)
    options = {**CONV, "input_channel": 4, "activation": -1}
    place = net.input("x", (1, 4, 8, 8))
    for name, constants in (("y", (w, b)), ("z", second)):
        place = net.add(Tensor(name, (1, 4, 8, 8)), "Convolution", (place, *constants), **options)
    return net.graph()


def test_layers_that_share_a_bias_have_one_each(tmp_path: Path) -> None:
    """It is in steps of the weights' and the input's scale, and the inputs differ."""
    scales, found = {"x": 0.01, "y": 0.1, "z": 0.1}, {}
    for apart in (False, True):
        found[apart] = in_codes(twice(apart=apart), scales)
        write_tmfile(found[apart].graph, tmp_path / f"{apart}.tmfile")
    one, other = (layer.bias_scales for layer in found[False].layers)
    np.testing.assert_allclose(other / one, 10, rtol=1e-6)
    assert [tensor.name for tensor in found[False].graph.tensors if tensor.role == "const"] == [
        "w",
        "b",
        "b_1",
    ]
    codes = np.random.default_rng(1).integers(-127, 128, (1, 4, 8, 8)).astype(np.int8)
    results = [
        InferenceSession(tmp_path / f"{apart}.tmfile").run(None, {"x": codes})[0] for apart in (False, True)
    ]
    np.testing.assert_array_equal(*results)


def test_a_graph_that_shares_weights_alone_stays_as_it_is() -> None:
    graph = twice(apart=True)
    assert unshared(graph)[0] is graph
    nodes = tuple(
        replace(node, inputs=(node.inputs[0], 0, node.inputs[2])) if node.op == "Convolution" else node
        for node in graph.nodes
    )
    shared = replace(graph, nodes=nodes)
    found, origins = unshared(shared)
    assert (found, origins) == (shared, {})


def test_weights_that_are_something_else_too_are_two_constants() -> None:
    net = Net()
    w = net.const("w", np.float32([[1, 2], [3, 4]]))
    place = net.add(Tensor("y", (2, 2)), "FullyConnected", (net.input("x", (2, 2)), w), num_output=2)
    net.add(Tensor("z", (2, 2)), "Eltwise", (place, w), type=2, caffe=0, shift=0.0, power=0.0, scale=0.0)
    graph, origins = unshared(net.graph())
    assert origins == {"w_1": "w"}
    assert [graph.tensors[place].name for node in graph.nodes[-2:] for place in node.inputs] == [
        "x",
        "w",
        "y",
        "w_1",
    ]
    assert [graph.nodes[place].name for place in (*graph.inputs, *graph.outputs)] == ["x", "z"]
    made = in_codes(net.graph(), {"x": 1.0, "y": 1.0, "z": 1.0}).graph
    sizes = {
        tensor.name: tensor.quantization.scales.size for tensor in made.tensors if tensor.role == "const"
    }
    assert sizes == {"w": 2, "w_1": 1}
