"""Lowering of InstanceNormalization and GroupNormalization: one instruction between quantizers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from qdq_nets import Net, assert_same_outputs, float_nodes, lowered, steps

from calib8.program.instructions import GroupNorm
from calib8.program.program import Program
from calib8.program.rules import PROFILES, FixedGroupNorm, FloatGroupNorm, Profile

IMAGE = "float[2,6,9,10] x"
STEP = 0.03
ONE = ["Quantize", "GroupNorm", "Dequantize"]


def random(net: Net, *shape: int) -> str:
    return net.constant(net.rng.normal(0, 1, shape))


def instance(net: Net, attributes: str = "") -> str:
    stated = f" <{attributes}>" if attributes else ""
    return net.op(
        f"InstanceNormalization{stated} ({net.coded('x', 0.05, 20)}, {random(net, 6)}, {random(net, 6)})"
    )


def spelled(
    net: Net, scale: tuple[int, ...] | None = (6, 1, 1), bias: tuple[int, ...] | None = (6, 1, 1)
) -> str:
    """A GroupNormalization of three groups as PyTorch writes it."""
    x = net.op(f"Reshape ({net.coded('x', 0.05, 20)}, {net.constant([0, 3, -1], np.int64)})")
    x = net.op(f"InstanceNormalization ({x}, {random(net, 3)}, {random(net, 3)})")
    x = net.op(f"Reshape ({x}, {net.constant([2, 6, 9, 10], np.int64)})")
    x = x if scale is None else net.op(f"Mul ({x}, {random(net, *scale)})")
    return x if bias is None else net.op(f"Add ({random(net, *bias)}, {x})")


def coded(net: Net, result: str, image: str = IMAGE, opset: int = 17) -> onnx.ModelProto:
    return net.proto(image, net.coded(result, STEP, 100), opset=opset)


def sole(program: Program) -> GroupNorm:
    (found,) = (step for step in program.instructions if isinstance(step, GroupNorm))
    return found


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("attributes", ["", "epsilon = 0.25"])
def test_channels_between_quantizers_are_one_instruction(attributes: str, profile: Profile) -> None:
    net = Net()
    proto = coded(net, instance(net, attributes))
    program = lowered(proto, profile)
    assert steps(program) == ONE
    assert_same_outputs(program, proto, within=STEP)
    step = sole(program)
    assert step.groups == 6 and program.slots[step.inputs[0]].shape == (2, 9, 10, 6)
    assert isinstance(step.rule, FloatGroupNorm if profile == "onnx" else FixedGroupNorm)


@pytest.mark.parametrize("image", ["float[2,6,11] x", "float[1,6,3,4,5] x"])
def test_other_than_four_axes_become_four(image: str) -> None:
    net = Net()
    proto = coded(net, instance(net), image)
    program = lowered(proto)
    assert steps(program) == ["Quantize", "Reshape", "GroupNorm", "Reshape", "Dequantize"]
    assert_same_outputs(program, proto, within=STEP)


@pytest.mark.parametrize("profile", PROFILES)
def test_groups_have_a_scale_for_each_channel(profile: Profile) -> None:
    net = Net()
    inputs = f"{net.coded('x', 0.05, 20)}, {random(net, 6)}, {random(net, 6)}"
    proto = coded(net, net.op(f"GroupNormalization <num_groups = 3> ({inputs})"), opset=21)
    program = lowered(proto, profile)
    assert steps(program) == ONE and sole(program).groups == 3
    assert_same_outputs(program, proto, within=STEP)


def test_groups_of_operator_set_18_have_a_scale_for_each_group() -> None:
    """The checker of onnx calls that form deprecated; ONNX Runtime runs it."""
    net = Net()
    inputs = f"{net.coded('x', 0.05, 20)}, {random(net, 3)}, {random(net, 3)}"
    proto = coded(net, net.op(f"GroupNormalization <num_groups = 3> ({inputs})"), opset=21)
    proto.opset_import[0].version = 18
    program = lowered(proto)
    assert steps(program) == ONE and sole(program).groups == 3
    assert_same_outputs(program, proto, within=STEP)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("scale", "bias"),
    [((6, 1, 1), (6, 1, 1)), ((1, 6, 1, 1), (1,)), ((6, 1, 1), None), (None, (6, 1, 1)), ((), (6, 1, 1))],
)
def test_what_pytorch_spells_out_is_one_instruction(
    scale: tuple[int, ...] | None, bias: tuple[int, ...] | None, profile: Profile
) -> None:
    """Nothing is reshaped or transposed: channels stay last."""
    net = Net()
    proto = coded(net, spelled(net, scale, bias))
    program = lowered(proto, profile)
    assert steps(program) == ONE and sole(program).groups == 3
    assert_same_outputs(program, proto, within=STEP)


def test_a_relu_behind_it_is_its_clamp() -> None:
    for made in (instance, spelled):
        net = Net()
        proto = coded(net, net.op(f"Relu ({made(net)})"))
        program = lowered(proto)
        assert steps(program) == ONE
        assert (sole(program).low, sole(program).high) == (100, 255)
        assert_same_outputs(program, proto, within=STEP)


@pytest.mark.parametrize(
    ("scale", "bias"), [((9, 10), None), ((1, 1, 10), None), ((2, 1, 1, 1), None), ((6, 9, 10), None)]
)
def test_other_constants_are_no_part_of_it(scale: tuple[int, ...], bias: tuple[int, ...] | None) -> None:
    """Their product with what is not coded stays float."""
    net = Net()
    program = lowered(coded(net, spelled(net, scale, bias)))
    assert "GroupNorm" not in steps(program)


def test_another_shape_behind_it_is_no_group_norm() -> None:
    net = Net()
    x = net.op(f"Reshape ({net.coded('x', 0.05, 20)}, {net.constant([0, 3, -1], np.int64)})")
    x = net.op(f"InstanceNormalization ({x}, {random(net, 3)}, {random(net, 3)})")
    x = net.op(f"Reshape ({x}, {net.constant([2, 6, 10, 9], np.int64)})")
    program = lowered(coded(net, net.op(f"Mul ({x}, {random(net, 6, 1, 1)})")))
    assert "GroupNorm" not in steps(program)


def float_case(name: str) -> Net:
    """The graph of which the last tensor is normalized, and coded unless it is the case."""
    net = Net()
    x, ones = net.coded("x", 0.05, 20), net.constant(np.ones(6))
    computed = net.op(f"ReduceMax <axes = [0, 2, 3], keepdims = 0> ({x})")
    nan = net.constant(np.full(6, np.nan))
    lines = {
        "computed scale": f"InstanceNormalization ({x}, {computed}, {ones})",
        "computed bias": f"InstanceNormalization ({x}, {ones}, {computed})",
        "no codes before it": f"InstanceNormalization (x, {ones}, {ones})",
        "NaN": f"InstanceNormalization ({x}, {nan}, {ones})",
    }
    net.coded(net.op(lines[name]), STEP, 100)
    return net


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("computed scale", "one of its parameters is computed"),
        ("computed bias", "one of its parameters is computed"),
        ("no codes before it", "its input is not quantized"),
        ("NaN", "its scale at output scale 0.03 is out of its range"),
    ],
)
def test_what_stays_float_says_why(name: str, reason: str) -> None:
    net = float_case(name)
    assert reason in float_nodes(net.proto(IMAGE, f"t{len(net.lines) - 1}")).values()


def test_without_a_quantizer_behind_it_it_stays_float() -> None:
    net = Net()
    proto = net.proto(IMAGE, instance(net))
    assert list(float_nodes(proto).values()) == ["its result is not quantized"]
