"""Functions of one tensor become one table with the same bits."""

from __future__ import annotations

from typing import Any

import pytest
from nets import Net

from bits import assert_same_bits
from calib8.engine.compose import compose
from calib8.engine.fuse import fuse
from calib8.program import instructions as op
from calib8.program.rounding.linear import product_rule
from calib8.program.rules import PROFILES, Profile


def mul(net: Net, a: int, b: int) -> int:
    slots = net.slots
    y = net.codes(*slots[a].shape, scale=0.2, zero_point=-3, dtype="int8")
    rule: Any = product_rule(net.profile, slots[a].scale, slots[b].scale, slots[y].scale)
    return net.step(op.Mul, (a, b), y, rescale=rule, low=-128, high=127)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_product_with_a_function_of_itself_is_a_table(profile: Profile, dtype: str) -> None:
    net = Net(profile, seed=8)
    x = net.conv(net.input(1, 5, 4, 8, dtype=dtype, zero_point=2), 12)
    program = net.program(mul(net, x, net.lookup(x)))
    composed = compose(program)
    assert [type(step) for step in composed.instructions] == [op.Conv, op.Lookup]
    assert len(fuse(composed)) == 1
    assert_same_bits(program)


def test_long_functions_become_one_table() -> None:
    net = Net(seed=9)
    x = net.input(1, 3, 3, 8)
    y = net.lookup(x)
    program = net.program(net.add(net.lookup(y), net.add(y, x, kind=op.Sub)))
    assert [type(step) for step in compose(program).instructions] == [op.Lookup]
    assert_same_bits(program)


def test_what_others_read_is_kept() -> None:
    net = Net(seed=10)
    x = net.input(1, 3, 3, 8)
    y = net.lookup(x)
    program = net.program(mul(net, x, y), y)
    assert len(compose(program).instructions) == 2
    assert_same_bits(program)


def test_two_tensors_are_no_function_of_one() -> None:
    net = Net(seed=11)
    a, b = net.input(1, 3, 3, 8), net.input(1, 3, 3, 8)
    row = net.input(1, 1, 1, 8)
    program = net.program(net.add(net.lookup(a), b), net.add(row, net.lookup(a)))
    assert compose(program).instructions == program.instructions
    assert_same_bits(program)
