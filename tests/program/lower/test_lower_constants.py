"""Lowering of constants in codes as tensors: positions that are added, tokens that are joined."""

from __future__ import annotations

import numpy as np
import pytest
from qdq_nets import Net, assert_equal, assert_same_outputs, counted, lowered, steps

from bits import assert_native_gives
from calib8.program.instructions import Constant
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.program.rules import PROFILES, Profile

PLACES = "float[2,150,250] x"


def constant_of(program: Program) -> Constant:
    [step] = [step for step in program.instructions if isinstance(step, Constant)]
    return step


def runs_natively(program: Program) -> None:
    rng = np.random.default_rng(3)
    feeds = {
        port.name: rng.normal(0, 3, program.slots[port.slot].shape).astype(np.float32)
        for port in program.inputs
    }
    assert_native_gives(program, feeds, run_program(program, feeds), threads=(1, 2, 3))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("first", [True, False])
def test_a_constant_of_many_places_is_an_operand(op: str, first: bool) -> None:
    """Of 37,500 places; with the bits of the kernel that ONNX Runtime fuses."""
    net = Net()
    codes = net.constant(net.rng.integers(0, 256, (1, 150, 250)), np.uint8)
    constant, x = net.dequantize(codes, 0.013, 90), net.coded("x", 0.05, 131)
    result = net.op(f"{op} ({constant}, {x})" if first else f"{op} ({x}, {constant})")
    program = assert_equal(net.proto(PLACES, net.coded(result, 0.04, 101)))
    assert sorted(steps(program)) == sorted(["Quantize", "Constant", op, "Dequantize"])
    assert constant_of(program).values.shape == (1, 150, 250)
    runs_natively(program)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("op", "dtype"), [("Add", np.int8), ("Sub", np.uint8), ("Mul", np.int8)])
def test_elsewhere_it_stays_within_a_code(op: str, dtype: type, profile: Profile) -> None:
    net = Net()
    codes = net.constant(net.rng.integers(-100 if dtype is np.int8 else 0, 100, (150, 250)), dtype)
    constant = net.dequantize(codes, 0.013, 20, dtype)
    result = net.op(f"{op} ({net.coded('x', 0.05, 21, dtype)}, {constant})")
    program = assert_equal(net.proto(PLACES, net.coded(result, 0.04, 11, dtype)), profile, within=0.04)
    assert counted(program)["Constant"] == 1
    runs_natively(program)


def test_it_lies_as_the_image_that_it_is_added_to() -> None:
    net = Net()
    grid = net.dequantize(net.constant(net.rng.integers(0, 256, (3, 110, 120)), np.uint8), 0.02, 128)
    result = net.op(f"Add ({net.coded('x', 0.05, 120)}, {grid})")
    program = assert_equal(net.proto("float[2,3,110,120] x", net.coded(result, 0.06, 100)))
    assert constant_of(program).values.shape == (1, 110, 120, 3)
    assert "Transpose" not in steps(program)
    runs_natively(program)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("scale", [0.05, 0.011])
def test_a_token_is_joined_with_others(place: int, scale: float) -> None:
    """With codes of its own it is brought to those of the result."""
    net = Net()
    codes = net.constant(net.rng.integers(0, 256, (2, 1, 7)), np.uint8)
    token, x = net.dequantize(codes, scale, 120), net.coded("x", 0.05, 120)
    parts = ", ".join((token, x) if place == 0 else (x, token))
    joined = net.coded(net.op(f"Concat <axis = 1> ({parts})"), 0.05, 120)
    program = assert_equal(net.proto("float[2,5,7] x", joined))
    assert {"Constant", "Concat"} <= set(steps(program))
    runs_natively(program)


def test_a_float_reader_gets_its_values() -> None:
    """Div of two tensors has no integer form."""
    net = Net()
    codes = net.constant(net.rng.integers(1, 256, (2, 5, 7)), np.uint8)
    constant, x = net.dequantize(codes, 0.013, 0), net.coded("x", 0.05, 120)
    joined = net.coded(net.op(f"Concat <axis = 1> ({x}, {constant})"), 0.05, 120)
    quotient = net.coded(net.op(f"Div ({joined}, {joined})"), 0.05, 120)
    proto = net.proto("float[2,5,7] x", quotient)
    program = lowered(proto)
    assert "Float" in steps(program)
    assert_same_outputs(program, proto, within=0.05)
    runs_natively(program)
