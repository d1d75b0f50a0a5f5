"""Lowering of pools, reductions, Softmax and Resize."""

from __future__ import annotations

import numpy as np
import pytest
from qdq_nets import Net, assert_equal, assert_same_outputs, float_nodes, lowered, steps

from calib8.program.instructions import AveragePool, MaxPool, Mean, ResizeNearest
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile

IMAGE = "float[2,3,9,10] x"


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_max_pool_keeps_the_codes(dtype: type) -> None:
    net = Net()
    attributes = (
        "kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1], dilations = [1, 2], ceil_mode = 1"
    )
    pooled = net.op(f"MaxPool <{attributes}> ({net.coded('x', 0.05, 20, dtype)})")
    program = assert_equal(net.proto(IMAGE, net.coded(pooled, 0.05, 20, dtype)))
    assert steps(program) == ["Quantize", "MaxPool", "Dequantize"]
    assert isinstance(program.instructions[1], MaxPool)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("count_pads", [0, 1])
def test_average_pool(count_pads: int, profile: Profile) -> None:
    net = Net()
    attributes = (
        f"kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], count_include_pad = {count_pads}"
    )
    pooled = net.op(f"AveragePool <{attributes}> ({net.coded('x', 0.05, 120)})")
    proto = net.proto(IMAGE, net.coded(net.op(f"Relu ({pooled})"), 0.02))
    program = assert_equal(proto, profile, within=0.0 if profile == "onnx" else 0.041)
    assert steps(program) == [
        "Quantize",
        "AveragePool",
        *(["Lookup"] if profile == "tflite" else []),
        "Dequantize",
    ]
    (step,) = (step for step in program.instructions if isinstance(step, AveragePool))
    assert step.count_pads == bool(count_pads)


@pytest.mark.parametrize("profile", PROFILES)
def test_average_pool_that_keeps_its_scale_is_one_instruction(profile: Profile) -> None:
    net = Net()
    pooled = net.op(f"AveragePool <kernel_shape = [2, 2]> ({net.coded('x', 0.05, 120)})")
    program = assert_equal(net.proto(IMAGE, net.coded(pooled, 0.05, 120)), profile, within=0.05)
    assert steps(program) == ["Quantize", "AveragePool", "Dequantize"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "text",
    [
        "GlobalAveragePool ({0})",
        "ReduceMean <axes = [2, 3], keepdims = 0> ({0})",
        "ReduceMean <axes = [1]> ({0})",
        "ReduceSum <keepdims = 0> ({0}, {axes})",
    ],
)
def test_means_and_sums(text: str, profile: Profile) -> None:
    net = Net()
    result = net.op(text.format(net.coded("x", 0.05, 120), axes=net.constant([-1], np.int64)))
    proto = net.proto(IMAGE, net.coded(result, 0.11, 77))
    exact = profile == "onnx" and text.startswith("Global")
    program = assert_equal(proto, profile, within=0.0 if exact else 0.11)
    assert steps(program) == ["Quantize", "Mean", "Dequantize"]


def test_a_mean_over_channels_names_the_axis_as_it_lies() -> None:
    net = Net()
    mean = net.op(f"ReduceMean <axes = [1], keepdims = 0> ({net.coded('x', 0.05, 120)})")
    program = lowered(net.proto(IMAGE, net.coded(mean, 0.05, 120)))
    step = program.instructions[1]
    assert isinstance(step, Mean) and step.axes == (3,)
    assert program.slots[step.outputs[0]].shape == (2, 9, 10)


@pytest.mark.parametrize(
    "text",
    ["GlobalMaxPool ({0})", "ReduceMax <axes = [2], keepdims = 0> ({0})", "ReduceMin <axes = [1, 3]> ({0})"],
)
def test_extremes_keep_the_codes(text: str) -> None:
    net = Net()
    program = assert_equal(net.proto(IMAGE, net.op(text.format(net.coded("x", 0.05, 120)))))
    assert steps(program) == ["Quantize", "ReduceMin" if "Min" in text else "ReduceMax", "Dequantize"]


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize(("keep", "last"), [(0, 0), (1, 0), (1, 1)])
@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_arg_max_and_arg_min_give_indices_in_the_order_of_the_model(
    kind: str, axis: int, keep: int, last: int
) -> None:
    net = Net()
    attributes = f"axis = {axis}, keepdims = {keep}, select_last_index = {last}"
    result = net.op(f"{kind} <{attributes}> ({net.coded('x', 0.5, 120)})")
    program = assert_equal(net.proto(IMAGE, f"int64 {result}"))
    assert kind in steps(program) and "Dequantize" not in steps(program)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("axis", [1, -1])
def test_softmax_lies_along_the_last_axis(axis: int, profile: Profile) -> None:
    net = Net()
    result = net.op(f"Softmax <axis = {axis}> ({net.coded('x', 0.1, 120)})")
    program = assert_equal(net.proto(IMAGE, net.coded(result, 1 / 256)), profile, within=1 / 256)
    assert steps(program) == ["Quantize", "Softmax", "Dequantize"]


def test_softmax_of_tflite_has_its_own_scale() -> None:
    net = Net()
    result = net.op(f"Softmax ({net.coded('x', 0.1, 120)})")
    program = assert_equal(net.proto(IMAGE, net.coded(result, 1 / 200, 3)), "tflite", within=1 / 100)
    assert steps(program) == ["Quantize", "Softmax", "Lookup", "Dequantize"]
    assert program.slots[program.instructions[1].outputs[0]].scale == 1 / 256


@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners"])
@pytest.mark.parametrize("size", ["scales", "sizes"])
def test_nearest_resize(mode: str, size: str) -> None:
    net = Net()
    target = net.constant([1, 1, 2, 1.5]) if size == "scales" else net.constant([2, 3, 18, 15], np.int64)
    inputs = f", , {target}" if size == "scales" else f", , , {target}"
    attributes = f'mode = "nearest", coordinate_transformation_mode = "{mode}", nearest_mode = "floor"'
    result = net.op(f"Resize <{attributes}> ({net.coded('x', 0.05, 120)}{inputs})")
    program = assert_equal(net.proto(IMAGE, net.coded(result, 0.05, 120)))
    assert steps(program) == ["Quantize", "ResizeNearest", "Dequantize"]
    assert isinstance(program.instructions[1], ResizeNearest)


def test_nearest_resize_of_other_axes_picks_indices() -> None:
    net = Net()
    result = net.op(
        f'Resize <mode = "nearest"> ({net.coded("x", 0.05, 120)}, , {net.constant([2, 1, 1, 1])})'
    )
    program = assert_equal(net.proto(IMAGE, net.coded(result, 0.05, 120)))
    assert steps(program) == ["Quantize", "Gather", "Dequantize"]


@pytest.mark.parametrize("profile", PROFILES)
def test_linear_resize(profile: Profile) -> None:
    net = Net()
    result = net.op(f'Resize <mode = "linear"> ({net.coded("x", 0.05, 120)}, , {net.constant([1, 1, 2, 2])})')
    proto = net.proto(IMAGE, net.coded(result, 0.05, 120))
    program = lowered(proto, profile)
    assert steps(program) == ["Quantize", "ResizeLinear", "Dequantize"]
    assert_same_outputs(program, proto, within=0.05, fused=False)


def test_pools_without_integer_form_say_why() -> None:
    net = Net()
    mean = net.op(f"GlobalAveragePool ({net.coded('x', 0.05, 120)})")
    assert list(float_nodes(net.proto(IMAGE, mean)).values()) == ["its result is not quantized"]

    net = Net()
    pooled = net.op(f"MaxPool <kernel_shape = [2, 2]> ({net.coded('x', 0.05, 120)})", outputs=2)
    proto = net.proto(IMAGE, f"{pooled}_0", f"int64 {pooled}_1")
    assert list(float_nodes(proto).values()) == ["somebody reads its indices"]
    program = lowered(proto)
    assert_same_outputs(program, proto)

    net = Net()
    cubic = net.op(f'Resize <mode = "cubic"> ({net.coded("x", 0.05, 120)}, , {net.constant([1, 1, 2, 2])})')
    assert list(float_nodes(net.proto(IMAGE, cubic)).values()) == ["no integer form with mode cubic"]


def test_softmax_over_probabilities_of_the_graph_is_float() -> None:
    net = Net()
    proto = net.proto("float[1,4] x", net.op(f"Softmax ({net.coded('x', 0.05, 120)})"))
    program = lowered(proto)
    assert steps(program) == ["Quantize", "Dequantize", "Float"]
    feeds = {"x": np.zeros((1, 4), np.float32)}
    np.testing.assert_allclose(run_program(program, feeds)[0], np.full((1, 4), 0.25), rtol=1e-6)
