"""Lowering at the borders: float parts, 8-bit inputs and outputs, refusals."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from qdq_nets import (
    Net,
    assert_equal,
    assert_same_outputs,
    counted,
    float_nodes,
    lowered,
    random_feeds,
    runtime_outputs,
    steps,
)

from calib8.errors import UnsupportedModelError
from calib8.program.instructions import Lookup
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile

IMAGE = "float[1,3,6,5] x"


def conv(net: Net, x: str, channels: int = 3) -> str:
    return net.coded(net.op(f"Conv ({x}, {net.weight(3, channels, 1, 1)})"), 0.03, 110)


def test_codes_go_in_and_out_as_they_are() -> None:
    net = Net()
    x = net.dequantize("x", 0.05, 7, np.int8)
    result = net.quantize(net.op(f"Conv ({x}, {net.weight(4, 3, 1, 1)})"), 0.03, -5, np.int8)
    program = assert_equal(net.proto("int8[1,3,6,5] x", f"int8 {result}"))
    assert steps(program) == ["Transpose", "Conv", "Transpose"]
    slot = program.slots[program.inputs[0].slot]
    assert (slot.dtype, slot.scale, slot.zero_point) == ("int8", float(np.float32(0.05)), 7)


def test_preprocessing_of_pixels_is_a_table_per_channel() -> None:
    net = Net()
    mean, scale = (
        net.constant(np.array(v).reshape(3, 1, 1)) for v in ([104.0, 117, 123], [0.02, 0.017, 0.01])
    )
    centred = net.op(f"Sub ({net.op('Cast <to = 1> (x)')}, {mean})")
    result = conv(net, net.coded(net.op(f"Mul ({centred}, {scale})"), 0.02, 128))
    program = assert_equal(net.proto("uint8[1,3,6,5] x", result))
    assert steps(program) == ["Transpose", "Lookup", "Conv", "Dequantize"]
    (table,) = (step for step in program.instructions if isinstance(step, Lookup))
    assert table.table.shape == (3, 256)


def test_one_input_read_with_two_scales() -> None:
    net = Net()
    both = net.op(f"Add ({net.dequantize('x', 0.05, 7)}, {net.dequantize('x', 0.02, 200)})")
    program = assert_equal(net.proto("uint8[4,5] x", net.coded(both, 0.06, 100)))
    assert steps(program) == ["Lookup", "Add", "Dequantize"]


@pytest.mark.parametrize("profile", PROFILES)
def test_float_nodes_between_integer_ones_form_one_group(profile: Profile) -> None:
    net = Net()
    first = conv(net, net.coded("x", 0.05, 120))
    odd = net.op(f"LRN <size = 3> ({first})")
    even = net.op(f"CumSum ({first}, {net.constant(2, np.int64)})")
    joined = conv(net, net.coded(net.op(f"Add ({odd}, {even})"), 0.1, 120))
    proto = net.proto(IMAGE, joined)
    program = lowered(proto, profile)
    expected = ["Quantize", "Conv", "Dequantize", "Float", "Quantize", "Conv", "Dequantize"]
    assert steps(program) == expected
    assert_same_outputs(program, proto, within=0.09)
    reasons = float_nodes(proto, profile)
    assert sorted(reasons.values()) == ["its input is not quantized", *["the op has no integer form"] * 2]


def test_independent_float_nodes_share_an_instruction_whatever_their_order() -> None:
    net = Net()
    x = net.coded("x", 0.05, 120)
    results = []
    for _ in range(3):
        summed = net.op(f"CumSum ({conv(net, x)}, {net.constant(2, np.int64)})")
        results.append(conv(net, net.coded(summed, 0.1, 120)))
    proto = net.proto(IMAGE, *results)
    program = lowered(proto)
    assert counted(program)["Float"] == 1
    assert_same_outputs(program, proto, within=0.06)


def test_float_nodes_in_a_row_of_integer_ones_need_an_instruction_each() -> None:
    net = Net()
    value = net.coded("x", 0.05, 120)
    for _ in range(2):
        value = conv(net, net.coded(net.op(f"CumSum ({value}, {net.constant(2, np.int64)})"), 0.1, 120))
    assert counted(lowered(net.proto(IMAGE, value)))["Float"] == 2


def test_what_float_nodes_read_is_not_lost_for_integer_ones() -> None:
    net = Net()
    x, y = net.coded("x", 0.05, 120), net.coded("y", 0.05, 120)
    relu = net.op(f"Relu ({net.op(f'Add ({x}, {y})')})")
    summed = net.op(f"CumSum ({relu}, {net.constant(2, np.int64)})")
    proto = net.proto(f"{IMAGE}, float[1,3,6,5] y", net.coded(relu, 0.05), summed)
    program = lowered(proto)
    assert counted(program) == {"Quantize": 2, "Add": 1, "Dequantize": 3, "Float": 1}
    assert_same_outputs(program, proto, within=0.05, fused=False)
    reasons = float_nodes(proto)
    assert len(reasons) == 3 and "float nodes or outputs read its result" in reasons.values()


def test_preparation_of_float_inputs_is_float() -> None:
    net = Net()
    scaled = net.op(f"Mul (x, {net.constant(0.5)})")
    proto = net.proto(IMAGE, conv(net, net.coded(scaled, 0.05, 120)))
    program = lowered(proto)
    assert steps(program) == ["Float", "Quantize", "Conv", "Dequantize"]
    assert_same_outputs(program, proto)


def test_dead_nodes_do_not_count() -> None:
    net = Net()
    x = net.coded("x", 0.05, 120)
    net.op(f"CumSum ({x}, {net.constant(2, np.int64)})")
    assert counted(lowered(net.proto(IMAGE, conv(net, x))))["Float"] == 0


def test_integer_only_lists_all_nodes_and_their_reasons() -> None:
    net = Net()
    x = net.coded("x", 0.05, 120)
    summed = net.op(f"CumSum ({conv(net, x)}, {net.constant(2, np.int64)})")
    later = conv(net, net.coded(summed, 0.1, 120))
    softmax = net.op(f"Softmax ({later})")
    proto = net.proto(IMAGE, softmax)
    with pytest.raises(UnsupportedModelError) as caught:
        lowered(proto, "single", integer_only=True)
    message = str(caught.value)
    assert "2 nodes have no integer form" in message
    assert "(CumSum): the op has no integer form" in message
    assert "(Softmax): its result is not quantized" in message


def test_integer_only_accepts_what_is_integer() -> None:
    net = Net()
    proto = net.proto(IMAGE, conv(net, net.coded("x", 0.05, 120)))
    program = lowered(proto, "single", integer_only=True)
    assert steps(program) == ["Quantize", "Conv", "Dequantize"]


def test_operators_that_nothing_can_run_are_all_named() -> None:
    nodes = [
        helper.make_node("Twist", ["x"], ["a"], name="first", domain="my.ops"),
        helper.make_node("Turn", ["a"], ["y"], name="second", domain="my.ops"),
    ]
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 2]) for name in "xy"]
    graph = helper.make_graph(nodes, "net", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(UnsupportedModelError, match=r"first \(my\.ops\.Twist\), second \(my\.ops\.Turn\)"):
        lowered(proto)


def test_operators_of_onnxruntime_run_as_float() -> None:
    node = helper.make_node("Gelu", ["x"], ["y"], name="gelu", domain="com.microsoft")
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 2]) for name in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "net", value[:1], value[1:])
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    program = lowered(proto)
    feeds = random_feeds(program)
    np.testing.assert_array_equal(run_program(program, feeds)[0], runtime_outputs(proto, feeds)[0])


def test_dynamic_axes_take_the_given_sizes() -> None:
    net = Net()
    proto = net.proto("float[N,3,H,W] x", conv(net, net.coded("x", 0.05, 120)))
    program = lowered(proto, x=(2, 3, 4, 7))
    assert program.slots[program.outputs[0].slot].shape == (2, 3, 4, 7)
    assert_same_outputs(program, proto)


def test_slots_carry_the_names_of_tensors_once() -> None:
    net = Net()
    result = conv(net, net.coded("x", 0.05, 120))
    program = lowered(net.proto(IMAGE, result))
    names = [slot.name for slot in program.slots]
    assert len(set(names)) == len(names)
    assert names[0] == "x" and "x/codes" in names and result in names


def test_codes_that_are_moved_as_integers_stay_codes() -> None:
    net = Net()
    pooled = net.op(f"MaxPool <kernel_shape = [2, 2]> ({net.quantize('x', 0.05, 120)})")
    moved = net.op(f"Transpose <perm = [0, 2, 1, 3]> ({pooled})")
    program = assert_equal(net.proto(IMAGE, net.dequantize(moved, 0.05, 120)))
    assert steps(program) == ["Quantize", "MaxPool", "Dequantize"]


def test_arithmetic_on_codes_as_integers_is_float() -> None:
    net = Net()
    halved = net.op(f"Div ({net.quantize('x', 0.05, 120)}, {net.constant(2, np.uint8)})")
    proto = net.proto(IMAGE, net.coded(net.op(f"Relu ({net.dequantize(halved, 0.05, 60)})"), 0.05, 60))
    program = lowered(proto)
    assert steps(program) == ["Quantize", "Float", "Quantize", "Dequantize"]
    assert "it computes with 8-bit integers as such" in float_nodes(proto).values()
    assert_same_outputs(program, proto)
