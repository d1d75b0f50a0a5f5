"""Where ONNX Runtime takes another kernel than the op suggests, profile ``onnx`` takes the same."""

from __future__ import annotations

import numpy as np
import pytest
from qdq_nets import Net, assert_equal, lowered, random_feeds, steps

from calib8.program.instructions import Add
from calib8.program.reference.executor import run_program


def test_an_average_pool_of_the_whole_image_is_a_mean() -> None:
    net = Net()
    pooled = net.op(f"AveragePool <kernel_shape = [9, 10]> ({net.coded('x', 0.05, 120)})")
    proto = net.proto("float[4,64,9,10] x", net.coded(pooled, 0.0013, 120))
    assert steps(assert_equal(proto)) == ["Quantize", "Mean", "Dequantize"]
    assert steps(lowered(proto, "single")) == ["Quantize", "AveragePool", "Dequantize"]


def test_an_average_pool_with_pads_stays_one() -> None:
    net = Net()
    attributes = "kernel_shape = [9, 10], pads = [1, 0, 0, 0]"
    pooled = net.op(f"AveragePool <{attributes}> ({net.coded('x', 0.05, 120)})")
    proto = net.proto("float[4,8,9,10] x", net.coded(pooled, 0.0013, 120))
    assert steps(assert_equal(proto)) == ["Quantize", "AveragePool", "Dequantize"]


def test_a_linear_resize_rounds_once_to_another_scale() -> None:
    net = Net()
    scales = net.constant([1.0, 1.0, 1.7, 2.0])
    resized = net.op(f'Resize <mode = "linear"> ({net.coded("x", 0.05, 120)}, , {scales})')
    proto = net.proto("float[2,3,7,6] x", net.coded(resized, 0.031, 100))
    assert steps(assert_equal(proto)) == ["Quantize", "ResizeLinear", "Dequantize"]
    assert steps(lowered(proto, "single")) == ["Quantize", "ResizeLinear", "Lookup", "Dequantize"]


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_resize_to_sizes_keeps_the_aspect_ratio_it_is_told(mode: str, policy: str) -> None:
    net = Net()
    sizes = net.constant([12, 20], np.int64)
    attributes = f'mode = "{mode}", axes = [2, 3], keep_aspect_ratio_policy = "{policy}"'
    resized = net.op(f"Resize <{attributes}> ({net.coded('x', 0.05, 120)}, , , {sizes})")
    proto = net.proto("float[2,3,7,6] x", net.coded(resized, 0.05, 120), opset=18)
    assert "Float" not in steps(assert_equal(proto))


def test_a_linear_resize_keeps_its_relu() -> None:
    net = Net()
    scales = net.constant([1.0, 1.0, 2.0, 2.0])
    resized = net.op(f'Resize <mode = "linear"> ({net.coded("x", 0.05, 120)}, , {scales})')
    proto = net.proto("float[2,3,7,6] x", net.coded(net.op(f"Relu ({resized})"), 0.05, 120))
    program = lowered(proto)
    [result] = run_program(program, random_feeds(program))
    assert result.min() == 0.0 < result.max()


def test_a_resize_to_the_own_size_is_a_copy() -> None:
    net = Net()
    scales = net.constant([1.0, 1.0, 1.1, 1.1])
    resized = net.op(f'Resize <mode = "linear"> ({net.coded("x", 0.05, 120)}, , {scales})')
    proto = net.proto("float[2,3,7,6] x", net.coded(resized, 0.05, 120))
    assert steps(assert_equal(proto)) == ["Quantize", "Dequantize"]


@pytest.mark.parametrize(
    ("left", "swapped"), [("2,3,1,1", True), ("1", True), ("2,3,9,1", True), ("1,1,9,10", False)]
)
def test_an_add_of_one_number_per_row_exchanges_its_operands(left: str, swapped: bool) -> None:
    """In about one code of a million the order of the operands decides: the rule is what is looked at."""
    net = Net()
    total = net.op(f"Add ({net.coded('s', 0.013, 77)}, {net.coded('x', 0.05, 120)})")
    proto = net.proto(f"float[{left}] s, float[2,3,9,10] x", net.coded(total, 0.041, 100))
    program = assert_equal(proto)
    (step,) = (step for step in program.instructions if isinstance(step, Add))
    scales = [program.slots[number].scale for number in step.inputs]
    assert scales == pytest.approx([0.05, 0.013] if swapped else [0.013, 0.05])


def test_one_number_at_the_end_has_no_axes_to_permute() -> None:
    net = Net()
    largest = net.op(f"ReduceMax <keepdims = 0> ({net.coded('x', 0.05, 120)})")
    proto = net.proto("float[1,3,4,4] x", net.coded(largest, 0.05, 120))
    program = lowered(proto)
    feeds = random_feeds(program)
    [result] = run_program(program, feeds)
    assert result.shape == () and abs(float(result) - feeds["x"].max()) <= 0.0251
