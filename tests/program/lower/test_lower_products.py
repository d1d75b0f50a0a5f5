"""Products of two activations and the number behind them: one MatMul, whose factor holds the number."""

from __future__ import annotations

import numpy as np
import pytest
from qdq_nets import Net, assert_equal, counted, lowered, steps

from calib8.program.instructions import MatMul
from calib8.program.program import Program
from calib8.program.rules import PROFILES, FloatRescale, Profile

TWO = "float[2,3,6,8] x, float[2,3,8,7] y"


def factored(net: Net, expression: str, number: float, shape: tuple[int, ...] = ()) -> str:
    """A MatMul of codes and what multiplies or divides it, in codes."""
    product = net.op(f"MatMul ({net.coded('x', 0.05, 120)}, {net.coded('y', 0.03, 90)})")
    constant = net.constant(np.full(shape, number))
    return net.op(expression.format(p=product, k=constant))


def mat_mul(program: Program) -> MatMul:
    (found,) = (step for step in program.instructions if isinstance(step, MatMul))
    return found


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("expression", "number"), [("Mul ({p}, {k})", 0.125), ("Mul ({k}, {p})", 0.3), ("Div ({p}, {k})", 2.5)]
)
def test_a_number_behind_a_product_goes_into_its_factor(
    expression: str, number: float, profile: Profile
) -> None:
    net = Net()
    proto = net.proto(TWO, net.coded(factored(net, expression, number), 0.04, 118))
    program = assert_equal(proto, profile, within=0.04)
    assert steps(program) == ["Quantize", "Quantize", "MatMul", "Dequantize"]
    assert " + " in mat_mul(program).name


def test_the_factor_is_the_product_of_all_scales_and_the_number() -> None:
    net = Net()
    program = lowered(net.proto(TWO, net.coded(factored(net, "Mul ({p}, {k})", 0.25), 0.04, 118)))
    rule = mat_mul(program).rescale
    assert isinstance(rule, FloatRescale)
    np.testing.assert_allclose(rule.factor, [0.05 * 0.03 * 0.25 / 0.04], rtol=1e-6)


def test_a_number_with_axes_of_one_is_a_number() -> None:
    net = Net()
    proto = net.proto(TWO, net.coded(factored(net, "Mul ({p}, {k})", 0.25, (1, 1, 1)), 0.04, 118))
    assert counted(assert_equal(proto, within=0.04))["Float"] == 0


def test_several_readers_of_the_scaled_product_get_sums() -> None:
    net = Net()
    scaled = factored(net, "Mul ({p}, {k})", 0.25)
    proto = net.proto(TWO, net.coded(scaled, 0.04, 118), net.coded(scaled, 0.02, 90))
    program = assert_equal(proto, within=0.04)
    assert counted(program) == {"Quantize": 2, "MatMul": 1, "Requantize": 2, "Dequantize": 2}


@pytest.mark.parametrize(
    ("expression", "number", "shape"),
    [
        ("Mul ({p}, {k})", -0.5, ()),
        ("Mul ({p}, {k})", 0.0, ()),
        ("Mul ({p}, {k})", 1e-44, ()),
        ("Div ({k}, {p})", 2.0, ()),
        ("Mul ({p}, {k})", 0.5, (7,)),
        ("Mul ({p}, {k})", 0.5, (1, 1, 1, 1, 1)),
    ],
    ids=["negative", "zero", "too small", "divided by", "per column", "an axis more"],
)
def test_what_is_no_positive_number_stays_float(
    expression: str, number: float, shape: tuple[int, ...]
) -> None:
    net = Net()
    program = lowered(net.proto(TWO, net.coded(factored(net, expression, number, shape), 0.04, 118)))
    assert counted(program)["Float"] == 1 and mat_mul(program).rescale is None


def test_a_product_that_others_read_keeps_its_own_value() -> None:
    net = Net()
    product = net.op(f"MatMul ({net.coded('x', 0.05, 120)}, {net.coded('y', 0.03, 90)})")
    scaled = net.op(f"Mul ({product}, {net.constant(0.25)})")
    program = lowered(net.proto(TWO, net.coded(scaled, 0.04, 118), net.coded(product, 0.2, 100)))
    assert counted(program)["Float"] == 1
