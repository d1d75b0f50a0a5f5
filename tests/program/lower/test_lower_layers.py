"""Lowering of layers with weights: one instruction with its activation, or sums where several read them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from qdq_nets import Net, assert_equal, assert_same_outputs, counted, float_nodes, lowered, slot_named, steps

from calib8.program.instructions import (
    Conv,
    ConvTranspose,
    DepthwiseConv,
    FullyConnected,
    Requantize,
    Weighted,
)
from calib8.program.program import Program
from calib8.program.rules import PROFILES, Profile

IMAGE = "float[1,6,9,8] x"
SIGNED = [(np.uint8, 121, np.int8, 0), (np.int8, -7, np.int8, 0), (np.uint8, 121, np.uint8, 130)]
"""Activation type and zero point, weight type and zero point."""


def layer(program: Program) -> Weighted:
    (found,) = (step for step in program.instructions if isinstance(step, Weighted))
    return found


@pytest.mark.parametrize(("x_type", "x_zero", "w_type", "w_zero"), SIGNED)
@pytest.mark.parametrize("per_channel", [True, False])
def test_conv_with_bias_and_relu_is_one_instruction(
    x_type: type, x_zero: int, w_type: type, w_zero: int, per_channel: bool
) -> None:
    net = Net()
    x = net.coded("x", 0.05, x_zero, x_type)
    weight = net.weight(5, 6, 3, 3, axis=0 if per_channel else None, dtype=w_type, zero_point=w_zero)
    bias = net.bias(5, weight, 0.05)
    conv = net.op(f"Conv <strides = [2, 1], pads = [1, 0, 0, 2], dilations = [1, 2]> ({x}, {weight}, {bias})")
    low = 0 if x_type is np.uint8 else -128
    proto = net.proto(IMAGE, net.coded(net.op(f"Relu ({conv})"), 0.04, low, x_type))
    program = assert_equal(proto, within=0.0 if x_type is np.uint8 else 0.04)  # int8 is not fused there
    assert steps(program) == ["Quantize", "Conv", "Dequantize"]
    step = layer(program)
    assert isinstance(step, Conv)
    assert (step.strides, step.pads, step.dilations, step.groups) == ((2, 1), (1, 0, 0, 2), (1, 2), 1)
    assert step.weight.shape == (5, 3, 3, 6)
    assert program.slots[step.outputs[0]].shape == (1, 4, 6, 5)


def test_relu_and_clip_become_the_clamp_of_the_codes() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 128), net.weight(4, 6, 1, 1)
    clip = net.op(f"Clip ({net.op(f'Conv ({x}, {weight})')}, {net.constant(-1.0)}, {net.constant(3.0)})")
    program = assert_equal(net.proto(IMAGE, net.coded(net.op(f"Relu ({clip})"), 0.05, 50)))
    assert (layer(program).low, layer(program).high) == (50, 110)
    assert " + " in layer(program).name


def test_depthwise_conv_with_a_multiplier() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(12, 1, 3, 3)
    conv = net.op(f"Conv <group = 6, pads = [1, 1, 1, 1]> ({x}, {weight})")
    program = assert_equal(net.proto(IMAGE, net.coded(conv, 0.03, 100)))
    step = layer(program)
    assert isinstance(step, DepthwiseConv) and step.weight.shape == (3, 3, 12)


def test_grouped_conv() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(4, 3, 3, 3)
    program = assert_equal(net.proto(IMAGE, net.coded(net.op(f"Conv <group = 2> ({x}, {weight})"), 0.1, 100)))
    step = layer(program)
    assert isinstance(step, Conv) and step.groups == 2 and step.weight.shape == (4, 3, 3, 3)


@pytest.mark.parametrize("axis", [None, 1])
def test_conv_transpose(axis: int | None) -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(6, 2, 3, 2, axis=axis)
    scale = net.constants[net.lines[-1].split(", ")[1]]
    bias_codes = net.rng.integers(-500, 500, 6)
    bias_scale = np.float32(0.05) * (scale if axis is None else np.tile(scale, 3))
    bias = net.dequantize(net.constant(bias_codes, np.int32), bias_scale, 0, np.int32)
    attributes = "group = 3, strides = [2, 3], pads = [1, 0, 0, 1], output_padding = [1, 0]"
    result = net.op(f"ConvTranspose <{attributes}> ({x}, {weight}, {bias})")
    program = assert_equal(net.proto(IMAGE, net.coded(result, 0.05, 110)), within=0.05)
    step = layer(program)
    assert isinstance(step, ConvTranspose) and step.groups == 3 and step.weight.shape == (6, 3, 2, 2)


def test_logits_that_no_quantizer_reads_are_dequantized_sums() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(10, 7)
    logits = net.op(f"Gemm <transB = 1> ({x}, {weight}, {net.bias(10, weight, 0.05)})")
    program = assert_equal(net.proto("float[3,7] x", logits), within=1e-5)
    assert steps(program) == ["Quantize", "FullyConnected", "Dequantize"]
    slot = program.slots[layer(program).outputs[0]]
    assert slot.dtype == "int32" and slot.scales.shape == (10,)


def test_gemm_reads_its_input_transposed() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(7, 4, axis=1)
    result = net.op(f"Gemm <transA = 1> ({x}, {weight})")
    program = assert_equal(net.proto("float[7,3] x", net.coded(result, 0.05, 110)), within=0.05)
    assert program.slots[layer(program).inputs[0]].shape == (3, 7)


def test_matmul_of_three_axes_takes_the_addition_behind_it_as_bias() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(7, 4, axis=1)
    bias = net.constant(net.rng.normal(size=4))
    result = net.op(f"Add ({bias}, {net.op(f'MatMul ({x}, {weight})')})")
    program = assert_equal(net.proto("float[2,5,7] x", net.coded(result, 0.05, 110)), within=0.05)
    assert steps(program) == ["Quantize", "FullyConnected", "Dequantize"]
    step = layer(program)
    assert isinstance(step, FullyConnected) and np.all(step.bias != 0)


def test_a_constant_per_channel_behind_a_conv_is_its_bias() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(4, 6, 1, 1)
    conv = net.op(f"Conv ({x}, {weight}, {net.bias(4, weight, 0.05)})")
    result = net.op(f"Relu ({net.op(f'Add ({conv}, {net.constant(net.rng.normal(size=(4, 1, 1)))})')})")
    program = assert_equal(net.proto(IMAGE, net.coded(result, 0.05)), within=0.05)
    assert steps(program) == ["Quantize", "Conv", "Dequantize"]


@pytest.mark.parametrize("profile", PROFILES)
def test_two_quantizers_of_one_layer_share_its_sums(profile: Profile) -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(4, 6, 1, 1)
    relu = net.op(f"Relu ({net.op(f'Conv ({x}, {weight})')})")
    proto = net.proto(IMAGE, net.coded(relu, 0.02), net.coded(relu, 0.05))
    program = assert_equal(proto, profile, within=0.05)
    assert counted(program)["Conv"] == 1 and counted(program)["Requantize"] == 2
    assert all(step.low == 0 for step in program.instructions if isinstance(step, Requantize))


def test_a_layer_that_is_also_an_output_gives_sums_for_both() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(4, 6, 1, 1)
    conv = net.op(f"Conv ({x}, {weight})")
    program = assert_equal(net.proto(IMAGE, conv, net.coded(conv, 0.02, 9)), within=0.02)
    assert counted(program) == {"Quantize": 1, "Conv": 1, "Requantize": 1, "Dequantize": 2}
    assert program.slots[slot_named(program, conv)].dtype == "int32"


def test_product_of_two_activations() -> None:
    net = Net()
    a, b = net.coded("x", 0.05, 120), net.coded("y", 0.03, 90)
    product = net.op(f"MatMul ({a}, {b})")
    program = assert_equal(net.proto("float[2,3,4,5] x, float[3,5,6] y", net.coded(product, 0.1, 100)))
    assert steps(program) == ["Quantize", "Quantize", "MatMul", "Dequantize"]


def test_product_of_two_activations_without_quantizer_gives_sums() -> None:
    net = Net()
    product = net.op(f"MatMul ({net.coded('x', 0.05, 120)}, {net.coded('y', 0.03, 90)})")
    program = assert_equal(net.proto("float[4,5] x, float[5,6] y", product), within=1e-4)
    assert program.slots[slot_named(program, product)].dtype == "int32"


def test_reshaped_logits_stay_integer_up_to_the_border() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(10, 6, 9, 8)
    flat = net.op(f"Flatten ({net.op(f'Conv ({x}, {weight})')})")
    program = assert_equal(net.proto(IMAGE, flat), within=1e-4)
    assert steps(program) == ["Quantize", "Conv", "Dequantize", "Reshape"]


def test_float_bias_of_a_coded_layer_becomes_steps_of_its_sums() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(4, 6, 1, 1)
    conv = net.op(f"Conv ({x}, {weight}, {net.constant(net.rng.normal(size=4))})")
    program = assert_equal(net.proto(IMAGE, net.coded(conv, 0.02, 9)), within=0.02)
    assert layer(program).bias.dtype == np.int32 and np.all(layer(program).bias != 0)


def refused(net: Net, text: str, inputs: str = IMAGE) -> tuple[str, Program]:
    """Reason for which the node stays float; the program must still compute the right thing."""
    result = net.op(text)
    proto = net.proto(inputs, net.coded(result, 0.1, 100))
    program = lowered(proto)
    assert_same_outputs(program, proto, within=0.1, fused=False)
    (reason,) = float_nodes(proto).values()
    return reason, program


def test_layers_without_integer_form_say_why() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.constant(net.rng.normal(size=(4, 6, 1, 1)))
    assert refused(net, f"Conv ({x}, {weight})")[0] == "its weight is not quantized"

    net = Net()
    assert refused(net, f"Conv (x, {net.weight(4, 6, 1, 1)})")[0] == "its input is not quantized"

    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(7, 4, axis=0)
    assert "one scale per output channel" in refused(net, f"MatMul ({x}, {weight})", "float[3,7] x")[0]

    net = Net()
    x, column = net.coded("x", 0.05, 120), net.constant(np.arange(4).reshape(4, 1))
    reason, _ = refused(net, f"Gemm ({x}, {net.weight(7, 4, axis=1)}, {column})", "float[4,7] x")
    assert reason == "its bias is not one number per channel"


def test_a_layer_whose_sums_could_overflow_stays_float() -> None:
    net = Net()
    count = 70_000
    weight = net.dequantize(net.constant(np.full((count, 2), 127), np.int8), 1e-6, 0, np.int8)
    reason, _ = refused(net, f"MatMul ({net.coded('x', 0.05, 120)}, {weight})", f"float[1,{count}] x")
    assert "beyond int32" in reason


@pytest.mark.parametrize("factor", [1e-43, 1e38])
def test_a_factor_that_leaves_no_float32_scale_is_not_folded(factor: float) -> None:
    net = Net()
    x = net.coded("x", 0.05, 120)
    weight = net.dequantize(net.constant(np.full((4, 6, 1, 1), 3), np.int8), [1e-5] * 4, 0, np.int8)
    product = net.op(f"Mul ({net.op(f'Conv ({x}, {weight})')}, {net.constant(factor)})")
    program = lowered(net.proto(IMAGE, product))
    assert "Conv" in steps(program)


def test_scales_along_a_column_of_a_one_dimensional_weight_stay_float() -> None:
    net = Net()
    x, weight = net.coded("x", 0.05, 120), net.weight(5, 6, 3, axis=2)
    reason, _ = refused(net, f"Conv ({x}, {weight})", "float[2,6,9] x")
    assert reason == "its weight does not have one scale per output channel"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (ml_dtypes.int4, "its weight is int4"),
        (ml_dtypes.float8_e4m3fn, "its codes are float8e4m3fn"),
    ],
)
def test_weights_of_other_types_than_bytes_stay_float(kind: Any, reason: str) -> None:
    net = Net()
    x = net.coded("x", 0.05, 120)
    weight = net.dequantize(net.constant(net.rng.integers(-7, 8, (7, 4)), kind), 0.1, 0, kind)
    proto = net.proto("float[3,7] x", net.coded(net.op(f"MatMul ({x}, {weight})"), 0.1, 100), opset=21)
    assert reason in float_nodes(proto).values()


def test_an_operand_of_4_bits_is_a_constant() -> None:
    net = Net()
    operand = net.dequantize(net.constant([[3], [-2]], ml_dtypes.int4), 0.25, 0, ml_dtypes.int4)
    product = net.op(f"Mul ({net.coded('x', 0.05, 120)}, {operand})")
    proto = net.proto("float[2,7] x", net.coded(product, 0.1, 100), opset=21)
    assert float_nodes(proto) == {} and "Lookup" in steps(lowered(proto))
