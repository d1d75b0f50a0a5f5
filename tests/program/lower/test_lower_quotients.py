"""Lowering of Div of two tensors and of ReduceL2: one instruction each between quantizers."""

from __future__ import annotations

import numpy as np
import pytest
from qdq_nets import Net, assert_same_outputs, lowered, steps

from calib8.program.instructions import Div, ReduceL2
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, FixedQuotient, FloatQuotient, Profile

INPUTS = ("float[2,3,9,10] x", "float[2,3,9,1] z")
STEP = 0.03


def divided(net: Net, before: str = "", *, out: float = STEP) -> str:
    """x by z, both in codes; divisors are 1 at least."""
    a, b = net.coded("x", 0.05, 120), net.coded("z", 0.02, 0)
    one = net.constant(1.0)
    divisor = net.op(before.format(b=b, one=one) if before else f"Add ({b}, {one})")
    return net.coded(net.op(f"Div ({a}, {divisor})"), out, 100)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("before", ["", "Max ({b}, {one})", "Exp ({b})"])
def test_a_quotient_takes_what_is_before_its_divisor_into_its_table(before: str, profile: Profile) -> None:
    net = Net()
    proto = net.proto(", ".join(INPUTS), divided(net, before))
    program = lowered(proto, profile, integer_only=True)
    assert steps(program) == ["Quantize", "Quantize", "Div", "Dequantize"]
    assert_same_outputs(program, proto, within=0.0 if profile == "onnx" else STEP)
    (step,) = (step for step in program.instructions if isinstance(step, Div))
    assert isinstance(step.rule, FloatQuotient if profile == "onnx" else FixedQuotient)


def test_a_relu_behind_a_quotient_is_a_clamp() -> None:
    net = Net()
    a, b = net.coded("x", 0.05, 120), net.coded("z", 0.02, 0)
    quotient = net.op(f"Div ({a}, {net.op(f'Add ({b}, {net.constant(1.0)})')})")
    proto = net.proto(", ".join(INPUTS), net.coded(net.op(f"Relu ({quotient})"), STEP, 100))
    program = lowered(proto, integer_only=True)
    assert steps(program) == ["Quantize", "Quantize", "Div", "Dequantize"]
    assert_same_outputs(program, proto)


def test_images_are_divided_as_they_lie() -> None:
    """A layer's result by one number per channel, nothing transposed."""
    net = Net()
    weight = net.weight(4, 3, 1, 1)
    layer = net.coded(net.op(f"Conv ({net.coded('x', 0.05, 120)}, {weight})"), 0.1, 120)
    mean = net.coded(net.op(f"GlobalAveragePool ({net.op(f'Abs ({layer})')})"), 0.05)
    divisor = net.op(f"Add ({mean}, {net.constant(0.5)})")
    proto = net.proto("float[2,3,9,10] x", net.coded(net.op(f"Div ({layer}, {divisor})"), STEP, 100))
    program = lowered(proto)
    assert "Transpose" not in steps(program)


def test_two_tensors_without_codes_stay_float() -> None:
    net = Net()
    quotient = net.op(f"Div (x, {net.op(f'Abs ({net.coded(chr(122), 0.02, 3)})')})")
    program = lowered(net.proto(", ".join(INPUTS), net.coded(quotient, STEP, 100)))
    assert program.float_instructions


def test_divisors_that_are_no_numbers_stay_float() -> None:
    net = Net()
    proto = net.proto(", ".join(INPUTS), divided(net, "Log ({b})"))
    program = lowered(proto)
    assert steps(program).count("Div") == 1  # the logarithm of 0 is −∞
    net = Net()
    a, b = net.coded("x", 0.05, 120), net.coded("z", 0.02, 100)
    proto = net.proto(", ".join(INPUTS), net.coded(net.op(f"Div ({a}, {net.op(f'Sqrt ({b})')})"), STEP, 9))
    program = lowered(proto)
    assert "Div" not in steps(program) and program.float_instructions


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("axes, kept", [([2, 3], 1), ([2, 3], 0), ([1], 1), ([-1], 0), ([0, 1, 2, 3], 1)])
def test_a_length_is_one_instruction(axes: list[int], kept: int, profile: Profile) -> None:
    net = Net()
    source = net.coded("x", 0.05, 120)
    length = net.op(f"ReduceL2 <axes = {axes}, keepdims = {kept}> ({source})")
    out = 0.2
    proto = net.proto("float[2,3,9,10] x", net.coded(length, out, 7))
    program = lowered(proto, profile, integer_only=True)
    assert [step for step in steps(program) if step != "Transpose"] == ["Quantize", "ReduceL2", "Dequantize"]
    assert_same_outputs(program, proto, within=out)
    assert any(isinstance(step, ReduceL2) for step in program.instructions)


def test_a_length_keeps_what_is_far_from_a_tie() -> None:
    """Feeds of equal codes: 3 · 4 · 0.05 is the length of nine of them."""
    net = Net()
    length = net.op(f"ReduceL2 <axes = [1]> ({net.coded('x', 0.05, 120)})")
    proto = net.proto("float[1,9] x", net.coded(length, 0.1, 7))
    program = lowered(proto)
    result = run_program(program, {"x": np.full((1, 9), 0.2, np.float32)})
    assert float(result[0].reshape(-1)[0]) == pytest.approx(0.6)
