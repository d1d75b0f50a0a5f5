"""Lowering of elementwise operators: instructions for two tensors, tables for functions of one."""

from __future__ import annotations

import numpy as np
import pytest
from qdq_nets import Net, assert_equal, assert_same_outputs, counted, float_nodes, lowered, steps

from calib8.program.instructions import AddSums, Lookup, Maximum
from calib8.program.program import Program
from calib8.program.rules import PROFILES, Profile

TWO = "float[2,3,4,5] x, float[2,3,4,5] y"
ONE = "float[2,3,4,5] x"


def tables(program: Program) -> list[Lookup]:
    return [step for step in program.instructions if isinstance(step, Lookup)]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("op", "instruction"), [("Add", "Add"), ("Sub", "Sub"), ("Mul", "Mul")])
def test_arithmetic_of_two_tensors(op: str, instruction: str, dtype: type) -> None:
    zero = 0 if dtype is np.int8 else 128
    net = Net()
    a, b = net.coded("x", 0.05, zero + 3, dtype), net.coded("y", 0.031, zero - 9, dtype)
    proto = net.proto(TWO, net.coded(net.op(f"{op} ({a}, {b})"), 0.07, zero + 5, dtype))
    program = assert_equal(proto, within=0.0 if dtype is np.uint8 else 0.07)  # int8 is not fused there
    assert steps(program) == ["Quantize", "Quantize", instruction, "Dequantize"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_other_profiles_stay_within_a_code(op: str, profile: Profile) -> None:
    net = Net()
    a, b = net.coded("x", 0.05, 131), net.coded("y", 0.031, 119)
    relu = net.op(f"Relu ({net.op(f'{op} ({a}, {b})')})")
    program = assert_equal(net.proto(TWO, net.coded(relu, 0.07, 20)), profile, within=0.07)
    assert program.instructions[2].low == 20  # type: ignore[attr-defined]


def test_a_gate_per_channel_is_laid_out_like_its_image() -> None:
    net = Net()
    x = net.coded("x", 0.05, 120)
    pooled = net.coded(net.op(f"GlobalAveragePool ({x})"), 0.02, 128)
    gate = net.coded(net.op(f"Sigmoid ({pooled})"), 1 / 256)
    program = assert_equal(net.proto(ONE, net.coded(net.op(f"Mul ({x}, {gate})"), 0.05, 120)))
    assert steps(program) == ["Quantize", "Mean", "Lookup", "Mul", "Dequantize"]


def test_an_operand_of_lower_rank_is_reshaped() -> None:
    net = Net()
    a, b = net.coded("x", 0.05, 120), net.coded("y", 0.03, 120)
    program = assert_equal(net.proto(f"{ONE}, float[4,5] y", net.coded(net.op(f"Add ({b}, {a})"), 0.1, 120)))
    assert counted(program)["Reshape"] == 1 and counted(program)["Transpose"] == 0


def test_the_larger_of_two_tensors_takes_the_scale_of_its_quantizer() -> None:
    net = Net()
    a, b = net.coded("x", 0.05, 131), net.coded("y", 0.031, 119)
    program = assert_equal(net.proto(TWO, net.coded(net.op(f"Max ({a}, {b})"), 0.07, 128)), within=0.07)
    assert counted(program) == {"Quantize": 2, "Lookup": 2, "Maximum": 1, "Dequantize": 1}


def test_the_smaller_of_two_tensors_of_one_scale_needs_no_quantizer() -> None:
    net = Net()
    a, b = net.coded("x", 0.05, 131), net.coded("y", 0.05, 131)
    program = assert_equal(net.proto(TWO, net.op(f"Min ({a}, {b})")))
    assert steps(program) == ["Quantize", "Quantize", "Minimum", "Dequantize"]
    assert not any(isinstance(step, Maximum) for step in program.instructions)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_residual_of_an_unquantized_conv_is_added_to_its_sums(profile: Profile) -> None:
    net = Net()
    x = net.coded("x", 0.05, 120)
    conv = net.op(f"Conv ({x}, {net.weight(3, 3, 1, 1)})")
    result = net.coded(net.op(f"Relu ({net.op(f'Add ({conv}, {x})')})"), 0.04)
    program = assert_equal(net.proto(ONE, result), profile, within=0.04)
    assert steps(program) == ["Quantize", "Conv", "AddSums", "Dequantize"]
    (step,) = (step for step in program.instructions if isinstance(step, AddSums))
    assert step.low == 0 and program.slots[step.inputs[0]].scales.shape == (3,)


UNARY = [
    "Sigmoid ({0})", "Tanh ({0})", "HardSwish ({0})", "LeakyRelu <alpha = 0.2> ({0})", "Relu ({0})",
    "Clip ({0}, {low}, {high})", "Elu <alpha = 0.7> ({0})", "HardSigmoid <alpha = 0.3> ({0})",
    "Softplus ({0})", "Abs ({0})", "Neg ({0})", "Exp ({0})", "PRelu ({0}, {slope})", "Pow ({0}, {square})",
]  # fmt: skip


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("text", UNARY)
def test_functions_of_one_tensor_are_tables(text: str, profile: Profile) -> None:
    net = Net()
    slope = net.constant(np.array([0.1, -0.3, 0.7]).reshape(3, 1, 1))
    constants = {"low": net.constant(-0.5), "high": net.constant(1.5), "square": net.constant(2, np.int64)}
    result = net.op(text.format(net.coded("x", 0.05, 120), slope=slope, **constants))
    program = assert_equal(net.proto(ONE, net.coded(result, 0.03, 60)), profile, within=0.03)
    assert steps(program) == ["Quantize", "Lookup", "Dequantize"]
    (table,) = tables(program)
    assert table.table.shape == ((3, 256) if "slope" in text else (256,))
    assert table.function == text.split()[0]


def test_a_function_spelled_out_is_one_table() -> None:
    net = Net()
    x = net.coded("x", 0.05, 120)
    shifted = net.op(f"Add ({x}, {net.constant(3.0)})")
    clipped = net.op(f"Clip ({shifted}, {net.constant(0.0)}, {net.constant(6.0)})")
    divided = net.op(f"Div ({net.op(f'Mul ({x}, {clipped})')}, {net.constant(6.0)})")
    program = assert_equal(net.proto(ONE, net.coded(divided, 0.03, 20)), within=0.03)
    assert steps(program) == ["Quantize", "Lookup", "Dequantize"]


def test_a_function_with_quantizers_inside_stays_a_product() -> None:
    net = Net()
    x = net.coded("x", 0.05, 120)
    gate = net.coded(net.op(f"Sigmoid ({x})"), 1 / 256)
    program = assert_equal(net.proto(ONE, net.coded(net.op(f"Mul ({x}, {gate})"), 0.05, 10)))
    assert steps(program) == ["Quantize", "Lookup", "Mul", "Dequantize"]


def test_constants_per_channel_make_one_table_per_channel() -> None:
    net = Net()
    scale = net.constant(np.array([0.5, 2.0, -1.0]).reshape(1, 3, 1, 1))
    offset = net.constant(np.array([1.0, -1.0, 0.25]).reshape(3, 1, 1))
    scaled = net.op(f"Mul ({net.coded('x', 0.05, 120)}, {scale})")
    result = net.op(f"Add ({scaled}, {offset})")
    program = assert_equal(net.proto(ONE, net.coded(result, 0.06, 100)), within=0.06)
    assert steps(program) == ["Quantize", "Lookup", "Dequantize"]
    assert tables(program)[0].table.shape == (3, 256)


def test_constants_along_rows_bring_the_rows_last() -> None:
    net = Net()
    result = net.op(
        f"Mul ({net.coded('x', 0.05, 120)}, {net.constant(np.linspace(0.5, 2, 4).reshape(4, 1))})"
    )
    program = assert_equal(net.proto(ONE, net.coded(result, 0.06, 100)), within=0.06)
    assert steps(program) == ["Quantize", "Lookup", "Dequantize"]
    assert tables(program)[0].table.shape == (4, 256)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("first", [True, False])
def test_constants_in_codes_give_the_bits_of_the_fused_kernel(op: str, first: bool) -> None:
    net = Net()
    codes = net.constant(np.array([3, 200, 77]).reshape(3, 1, 1), np.uint8)
    constant, x = net.dequantize(codes, 0.013, 90), net.coded("x", 0.05, 131)
    result = net.op(f"{op} ({constant}, {x})" if first else f"{op} ({x}, {constant})")
    program = assert_equal(net.proto(ONE, net.coded(result, 0.04, 101)))
    assert steps(program) == ["Quantize", "Lookup", "Dequantize"]
    assert tables(program)[0].table.shape == (3, 256)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("op", "dtype"), [("Add", np.int8), ("Sub", np.uint8), ("Mul", np.int8)])
def test_constants_in_codes_stay_within_a_code_elsewhere(op: str, dtype: type, profile: Profile) -> None:
    net = Net()
    constant = net.dequantize(net.constant(np.array([3, 100, 77]).reshape(3, 1, 1), dtype), 0.013, 90, dtype)
    result = net.op(f"{op} ({net.coded('x', 0.05, 21, dtype)}, {constant})")
    program = assert_equal(net.proto(ONE, net.coded(result, 0.04, 11, dtype)), profile, within=0.04)
    assert steps(program) == ["Quantize", "Lookup", "Dequantize"]


@pytest.mark.parametrize("coded", [True, False])
def test_a_constant_that_varies_from_pixel_to_pixel(coded: bool) -> None:
    """Codes are an operand of the instruction; of real numbers there is a table for each place."""
    net = Net()
    grid = np.stack(np.meshgrid(range(5), range(4)), 0).reshape(1, 2, 4, 5)
    constant = (
        net.dequantize(net.constant(grid, np.uint8), 0.5) if coded else net.constant(grid / np.float32(2))
    )
    result = net.op(f"Add ({net.coded('x', 0.05, 120)}, {constant})")
    proto = net.proto("float[3,2,4,5] x", net.coded(result, 0.06, 100))
    program = assert_equal(proto, within=0.0 if coded else 0.06)
    if coded:
        assert counted(program) == {"Quantize": 1, "Constant": 1, "Add": 1, "Dequantize": 1}
    else:
        assert steps(program) == ["Quantize", "Reshape", "Lookup", "Reshape", "Dequantize"]
        assert tables(program)[0].table.shape == (40, 256)


def test_constants_along_different_axes_meet_in_one_table() -> None:
    net = Net()
    per_row, per_channel = net.rng.normal(size=(4, 1)), net.rng.uniform(0.5, 1, (3, 1, 1))
    scaled = net.op(f"Mul ({net.coded('x', 0.05, 120)}, {net.constant(per_channel)})")
    result = net.op(f"Add ({scaled}, {net.constant(per_row)})")
    program = assert_equal(net.proto(ONE, net.coded(result, 0.06, 100)), within=0.06)
    assert tables(program)[0].table.shape == (12, 256)


def test_what_cannot_be_a_table_stays_float_and_says_why() -> None:
    net = Net()
    constant = net.constant(net.rng.normal(size=(200, 200)))
    proto = net.proto(
        "float[200,200] x", net.coded(net.op(f"Add ({net.coded('x', 0.05, 120)}, {constant})"), 0.05)
    )
    (reason,) = float_nodes(proto).values()
    assert reason == "its constant has 40000 places, each of which would need a table"
    assert_same_outputs(lowered(proto), proto, within=0.05)

    net = Net()
    wide = net.op(f"Add ({net.coded('x', 0.05, 120)}, {net.constant(net.rng.normal(size=(3, 1)))})")
    proto = net.proto("float[1,5] x", net.coded(wide, 0.05, 120))
    assert list(float_nodes(proto).values()) == ["its constant is larger than its input"]
    assert_same_outputs(lowered(proto), proto, within=0.05)

    net = Net()
    a, b = net.coded("x", 0.05, 120), net.coded("y", 0.05, 120)
    power = net.coded(net.op(f"Pow ({a}, {b})"), 0.05, 120)
    assert list(float_nodes(net.proto(TWO, power)).values()) == ["no integer form with two tensors"]


def test_an_unquantized_relu_between_codes_stays_in_codes() -> None:
    net = Net()
    relu, y = net.op(f"Relu ({net.coded('x', 0.05, 120)})"), net.coded("y", 0.03, 7)
    program = assert_equal(net.proto(TWO, net.coded(net.op(f"Add ({relu}, {y})"), 0.05, 9)), within=0.05)
    assert counted(program) == {"Quantize": 2, "Lookup": 1, "Add": 1, "Dequantize": 1}
