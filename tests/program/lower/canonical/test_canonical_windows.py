"""Padding in words becomes numbers; one axis of space becomes two."""

from __future__ import annotations

import numpy as np
import pytest
from canonical_checks import Net, canonical, node_of, op_types, path
from hypothesis import assume, given
from hypothesis import strategies as st

from calib8.model.graph import ints_attribute

AUTOMATIC = st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"])


@given(st.integers(5, 9), st.integers(1, 4), st.integers(1, 3), AUTOMATIC)
def test_automatic_padding_of_a_convolution(size: int, kernel: int, stride: int, mode: str) -> None:
    net = Net()
    weight = net.weight(4, 3, kernel, 2, axis=0)
    attributes = f'auto_pad = "{mode}", strides = [{stride}, 1]'
    value = net.op(f"Conv <{attributes}> ({net.coded('x')}, {weight})")
    model = canonical(net.model(f"float[1, 3, {size}, 6] x", net.coded(value, 0.2)))
    assert node_of(model, "Conv").attributes["kernel_shape"].as_ints() == (kernel, 2)


@given(st.integers(2, 5), st.integers(1, 4), st.integers(1, 3), st.sampled_from(["SAME_UPPER", "SAME_LOWER"]))
def test_automatic_padding_of_a_transposed_convolution(
    size: int, kernel: int, stride: int, mode: str
) -> None:
    net = Net()
    attributes = f'auto_pad = "{mode}", strides = [{stride}, {stride}]'
    value = net.op(
        f"ConvTranspose <{attributes}> ({net.coded('x')}, {net.weight(3, 4, kernel, kernel, axis=1)})"
    )
    canonical(net.model(f"float[1, 3, {size}, {size}] x", net.coded(value, 0.2)))


def test_a_stated_size_of_a_transposed_convolution() -> None:
    net = Net()
    attributes = "output_shape = [8, 9], strides = [2, 2]"
    value = net.op(f"ConvTranspose <{attributes}> ({net.coded('x')}, {net.weight(3, 4, 3, 3)})")
    model = canonical(net.model("float[1, 3, 4, 4] x", net.coded(value, 0.2)))
    assert ints_attribute(node_of(model, "ConvTranspose"), "pads", ()) == (1, 0, 0, 0)


@given(
    st.sampled_from(["MaxPool", "AveragePool", "AveragePool of pads"]),
    st.integers(4, 10),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 2),
)
def test_rounding_up(kind: str, size: int, kernel: int, stride: int, pad: int) -> None:
    assume(pad < kernel)
    net = Net()
    counted = ", count_include_pad = 1" if kind.endswith("pads") else ""
    attributes = (
        f"kernel_shape = [{kernel}, 2], strides = [{stride}, 2], pads = [{pad}, 1, {pad}, 0], ceil_mode = 1"
    )
    value = net.op(f"{kind.split()[0]} <{attributes}{counted}> ({net.coded('x')})")
    canonical(net.model(f"float[1, 2, {size}, 5] x", value), within=1e-5)


def test_what_stands_behind_a_pool_that_rounds_up_has_the_runtimes_size() -> None:
    net = Net()
    attributes = "kernel_shape = [2, 2], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1"
    value = net.op(f"MaxPool <{attributes}> ({net.coded('x')})")
    shape = net.op(f"Concat <axis = 0> ({net.constant([1], np.int64)}, {net.constant([-1], np.int64)})")
    model = canonical(net.model("float[1, 2, 5, 5] x", net.op(f"Reshape ({value}, {shape})")))
    assert model.graph.outputs[0].shape == [1, 18]


LINES = {
    "Conv <pads = [1, 2], strides = [2], dilations = [2]> ({x}, {conv}, {bias})": "Conv",
    'Conv <auto_pad = "SAME_UPPER", group = 2> ({x}, {grouped})': "Conv",
    "ConvTranspose <strides = [2], output_padding = [1]> ({x}, {transposed}, {bias})": "ConvTranspose",
    "MaxPool <kernel_shape = [3], strides = [2], ceil_mode = 1> ({x})": "MaxPool",
    "AveragePool <kernel_shape = [3], pads = [1, 1], count_include_pad = 1> ({x})": "AveragePool",
    "GlobalAveragePool ({x})": "GlobalAveragePool",
    "GlobalMaxPool ({x})": "GlobalMaxPool",
}


@pytest.mark.parametrize("line", LINES)
def test_one_axis_of_space_becomes_two(line: str) -> None:
    net = Net()
    names = {
        "x": net.coded("x"),
        "conv": net.weight(6, 4, 3, axis=0),
        "grouped": net.weight(6, 2, 3, axis=0),
        "transposed": net.weight(4, 6, 3, axis=1),
        "bias": net.constant(net.rng.standard_normal(6)),
    }
    value = net.op(f"Relu ({net.op(line.format(**names))})")
    model = canonical(net.model("float[1, 4, 10] x", net.coded(value, 0.1, 3)), within=0.1001)
    assert op_types(model) == ["Unsqueeze", LINES[line], "Relu", "Squeeze"]
    node = node_of(model, LINES[line])
    assert node.inputs[0] is not None and node.inputs[0].shape == [1, 4, 1, 10]
    producer = node.inputs[0].producer()
    assert producer is not None and producer.op_type == "DequantizeLinear"


def test_a_chain_over_one_axis_stays_in_two() -> None:
    net = Net()
    x = net.coded("x")
    first = net.op(f"Relu ({net.op(f'Conv ({x}, {net.weight(6, 4, 3)})')})")
    second = net.op(f"Conv ({net.coded(first, 0.1)}, {net.weight(5, 6, 3)})")
    model = canonical(net.model("float[1, 4, 10] x", net.coded(second, 0.2)))
    assert op_types(model) == ["Unsqueeze", "Conv", "Relu", "Conv", "Squeeze"]
    assert path(model)[-6:] == ["Conv", "Q", "DQ", "Squeeze", "Q", "DQ"]


def test_a_float_layer_over_one_axis_is_left_alone() -> None:
    net = Net()
    model = canonical(net.model("float[1, 4, 10] x", net.op(f"Conv (x, {net.constant(np.ones((2, 4, 3)))})")))
    assert op_types(model) == ["Conv"]


def test_a_pool_whose_indices_are_read_is_left_alone() -> None:
    net = Net()
    value, places = net.op(f"MaxPool <kernel_shape = [2]> ({net.coded('x')})", outputs=2).split(", ")
    model = canonical(net.model("float[1, 4, 10] x", net.coded(value), places, types=["float", "int64"]))
    assert op_types(model) == ["MaxPool"]
