"""Lowering of LayerNormalization: one instruction between quantizers, and what stays float."""

from __future__ import annotations

import numpy as np
import pytest
from qdq_nets import Net, assert_same_outputs, float_nodes, lowered, random_feeds, runtime_outputs, steps

from calib8.program.instructions import LayerNorm
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, FixedNorm, FloatNorm, Profile

IMAGE = "float[2,3,9,10] x"
STEP = 0.03


def norm(net: Net, source: str, channels: int, attributes: str = "", bias: bool = True) -> str:
    scale = net.constant(net.rng.normal(0, 1, channels))
    end = f", {net.constant(net.rng.normal(0, 1, channels))}" if bias else ""
    stated = f" <{attributes}>" if attributes else ""
    return net.op(f"LayerNormalization{stated} ({source}, {scale}{end})")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("attributes", ["", "axis = -1, epsilon = 0.25", "axis = 3"])
@pytest.mark.parametrize("bias", [True, False])
def test_rows_between_quantizers_are_one_instruction(bias: bool, attributes: str, profile: Profile) -> None:
    net = Net()
    result = norm(net, net.coded("x", 0.05, 20), 10, attributes, bias)
    proto = net.proto(IMAGE, net.coded(result, STEP, 100))
    program = lowered(proto, profile)
    assert steps(program) == ["Quantize", "LayerNorm", "Dequantize"]
    assert_same_outputs(program, proto, within=STEP)
    (step,) = (step for step in program.instructions if isinstance(step, LayerNorm))
    assert isinstance(step.rule, FloatNorm if profile == "onnx" else FixedNorm)
    assert program.slots[step.inputs[0]].shape[-1] == 10


def test_transposes_around_channels_move_nothing() -> None:
    net = Net()
    image = net.op(f"Transpose <perm = [0, 2, 3, 1]> ({net.coded('x', 0.05, 20)})")
    result = net.coded(norm(net, image, 3), STEP, 100)
    proto = net.proto(IMAGE, net.op(f"Transpose <perm = [0, 3, 1, 2]> ({result})"))
    program = lowered(proto)
    assert steps(program) == ["Quantize", "LayerNorm", "Dequantize"]
    assert program.slots[1].shape == (2, 9, 10, 3)
    assert_same_outputs(program, proto, within=STEP)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("axis", [0, 1, 2, -2, -3])
def test_several_axes_are_one_row(axis: int, profile: Profile) -> None:
    """In the order in which they lie; scales and biases are put in that order."""
    net, sizes = Net(), (2, 3, 9, 10)[axis:]
    scale, bias = net.constant(net.rng.normal(0, 1, sizes)), net.constant(net.rng.normal(0, 1, sizes))
    result = net.op(f"LayerNormalization <axis = {axis}> ({net.coded('x', 0.05, 20)}, {scale}, {bias})")
    proto = net.proto(IMAGE, net.coded(result, STEP, 100))
    program = lowered(proto, profile)
    assert steps(program) == ["Quantize", "Reshape", "LayerNorm", "Reshape", "Dequantize"]
    assert_same_outputs(program, proto, within=STEP)
    (step,) = (step for step in program.instructions if isinstance(step, LayerNorm))
    assert program.slots[step.inputs[0]].shape[-1] == np.prod(sizes)


def test_scales_of_several_axes_may_be_one_for_a_channel() -> None:
    net = Net()
    scale = net.constant(net.rng.normal(0, 1, (3, 1, 1)))
    result = net.op(f"LayerNormalization <axis = 1> ({net.coded('x', 0.05, 20)}, {scale})")
    proto = net.proto(IMAGE, net.coded(result, STEP, 100))
    assert_same_outputs(lowered(proto), proto, within=STEP)


def test_a_relu_behind_it_is_its_clamp() -> None:
    net = Net()
    result = net.op(f"Relu ({norm(net, net.coded('x', 0.05, 20), 10)})")
    proto = net.proto(IMAGE, net.coded(result, STEP, 100))
    program = lowered(proto)
    assert steps(program) == ["Quantize", "LayerNorm", "Dequantize"]
    step = program.instructions[1]
    assert isinstance(step, LayerNorm) and (step.low, step.high) == (100, 255)
    assert_same_outputs(program, proto, within=STEP)


def test_one_number_is_the_scale_of_all_channels() -> None:
    net = Net()
    result = net.op(f"LayerNormalization ({net.coded('x', 0.05, 20)}, {net.constant([1.5])})")
    program = lowered(net.proto(IMAGE, net.coded(result, STEP, 100)))
    step = program.instructions[1]
    assert isinstance(step, LayerNorm) and isinstance(step.rule, FloatNorm)
    np.testing.assert_array_equal(step.rule.factor, np.full(10, np.float32(1.5) / np.float32(STEP)))
    np.testing.assert_array_equal(step.rule.offset, np.zeros(10, np.float32))


def test_a_scale_in_codes_is_a_constant_too() -> None:
    net = Net()
    scale = net.dequantize(net.constant(net.rng.integers(1, 100, 10), np.uint8), 0.02)
    result = net.op(f"LayerNormalization ({net.coded('x', 0.05, 20)}, {scale})")
    proto = net.proto(IMAGE, net.coded(result, STEP, 100))
    program = lowered(proto)
    assert steps(program) == ["Quantize", "LayerNorm", "Dequantize"]
    assert_same_outputs(program, proto, within=STEP)


def test_two_quantizers_behind_it_are_two_instructions() -> None:
    net = Net()
    result = norm(net, net.coded("x", 0.05, 20), 10)
    proto = net.proto(IMAGE, net.coded(result, STEP, 100), net.coded(result, 2 * STEP, 90))
    program = lowered(proto)
    assert sorted(steps(program)) == ["Dequantize", "Dequantize", "LayerNorm", "LayerNorm", "Quantize"]
    assert_same_outputs(program, proto, within=2 * STEP)


def test_codes_differ_rarely_from_onnx_runtimes_float_kernel() -> None:
    """Its sums are float32: what lies next to a tie may fall on the other side."""
    wrong = total = 0
    for seed, channels in enumerate((3, 17, 40, 96, 384, 768)):
        net = Net(seed)
        result = norm(net, net.coded("x", 0.05, 120), channels)
        proto = net.proto(f"float[64,{channels}] x", f"uint8 {net.quantize(result, STEP, 100)}")
        program = lowered(proto)
        feeds = random_feeds(program, seed, spread=1.5)
        (made,), (expected,) = run_program(program, feeds), runtime_outputs(proto, feeds)
        difference = np.abs(made.astype(int) - expected.astype(int))
        assert difference.max() <= 1
        wrong, total = wrong + np.count_nonzero(difference), total + difference.size
    assert wrong < 2e-4 * total


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("axis", [-1, -2, 1, 0])
def test_rows_with_a_mean_square_of_1(axis: int, profile: Profile) -> None:
    """The zero point of the input counts: the mean stays."""
    net = Net()
    scale = net.constant(net.rng.normal(0, 1, (2, 3, 9, 10)[axis:]))
    result = net.op(
        f"RMSNormalization <axis = {axis}, epsilon = 0.001> ({net.coded('x', 0.05, 20)}, {scale})"
    )
    proto = net.proto(IMAGE, net.coded(result, STEP, 100), opset=23)
    program = lowered(proto, profile)
    assert [name for name in steps(program) if name != "Reshape"] == ["Quantize", "LayerNorm", "Dequantize"]
    (step,) = (step for step in program.instructions if isinstance(step, LayerNorm))
    assert not step.centred
    assert_same_outputs(program, proto, within=STEP)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("axis", [-1, 1, 2])
def test_rows_of_length_1(axis: int, profile: Profile) -> None:
    """The axis is laid out last."""
    net, step = Net(), 0.008
    result = net.op(f"LpNormalization <axis = {axis}> ({net.coded('x', 0.05, 20)})")
    proto = net.proto(IMAGE, net.coded(result, step, 128))
    program = lowered(proto, profile)
    assert "LayerNorm" in steps(program) and "Float" not in steps(program)
    assert_same_outputs(program, proto, within=step)


def test_a_sum_of_magnitudes_of_1_stays_float() -> None:
    net = Net()
    result = net.op(f"LpNormalization <p = 1> ({net.coded('x', 0.05, 20)})")
    proto = net.proto(IMAGE, net.coded(result, 0.008, 128))
    assert "it adds up magnitudes, not squares" in float_nodes(proto).values()


def float_case(name: str) -> Net:
    """The graph of which the last tensor is normalized, and coded unless it is the case."""
    net = Net()
    x, ones = net.coded("x", 0.05, 20), net.constant(np.ones(10))
    computed = net.op(f"ReduceMax <axes = [0, 1, 2], keepdims = 0> ({x})")
    lines = {
        "another shape": f"LayerNormalization <axis = 1> ({x}, {net.constant(np.ones((2, 1, 1)))})",
        "one for each image": f"LayerNormalization ({x}, {net.constant(np.ones((2, 1, 1, 10)))})",
        "computed scale": f"LayerNormalization ({x}, {computed})",
        "computed bias": f"LayerNormalization ({x}, {ones}, {computed})",
        "no codes before it": f"LayerNormalization (x, {ones})",
        "NaN": f"LayerNormalization ({x}, {net.constant(np.full(10, np.nan))})",
    }
    net.coded(net.op(lines[name]), STEP, 100)
    return net


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("another shape", "it has parameters of float32 and shape [2, 1, 1]"),
        ("one for each image", "it has parameters of float32 and shape [2, 1, 1, 10]"),
        ("computed scale", "one of its parameters is computed"),
        ("computed bias", "one of its parameters is computed"),
        ("no codes before it", "its input is not quantized"),
        ("NaN", "its scale at output scale 0.03 is out of its range"),
    ],
)
def test_what_stays_float_says_why(name: str, reason: str) -> None:
    net = float_case(name)
    assert reason in float_nodes(net.proto(IMAGE, f"t{len(net.lines) - 1}")).values()


def test_a_mean_that_somebody_reads_keeps_it_in_float() -> None:
    net = Net()
    source, ones = net.coded("x", 0.05, 20), net.constant(np.ones(10))
    result = net.op(f"LayerNormalization ({source}, {ones})", outputs=2)
    proto = net.proto(IMAGE, net.coded(f"{result}_0", STEP, 100), f"{result}_1")
    assert "somebody reads its mean or its spread" in float_nodes(proto).values()


def test_without_a_quantizer_behind_it_it_stays_float() -> None:
    net = Net()
    proto = net.proto(IMAGE, norm(net, net.coded("x", 0.05, 20), 10))
    assert list(float_nodes(proto).values()) == ["its result is not quantized"]
