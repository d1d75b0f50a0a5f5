"""Fused steps: when a sum or a table joins a layer, and that it keeps every bit."""

from __future__ import annotations

import pytest
from nets import Net

from bits import assert_same_bits
from calib8.engine.fuse import fuse
from calib8.program import instructions as op
from calib8.program.rules import PROFILES, Profile


def residual(profile: Profile, kind: type = op.Add, *, layer_first: bool = True, dtype: str = "uint8") -> Net:
    net = Net(profile)
    x = net.input(1, 5, 6, 20, dtype=dtype, zero_point=-9 if dtype == "int8" else 7)
    y = net.conv(net.conv(x, 12), 20, kernel=1)
    net.add(*((y, x) if layer_first else (x, y)), kind=kind)
    return net


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kind", [op.Add, op.Sub])
@pytest.mark.parametrize("layer_first", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_sum_joins_the_layer_before_it(profile: Profile, kind: type, layer_first: bool, dtype: str) -> None:
    net = residual(profile, kind, layer_first=layer_first, dtype=dtype)
    program = net.program(len(net.slots) - 1)
    works = fuse(program)
    assert [type(work.instruction) for work in works] == [op.Conv, op.Conv]
    assert works[1].residual == net.inputs[0] and works[1].add is program.instructions[2]
    assert_same_bits(program)


@pytest.mark.parametrize("profile", PROFILES)
def test_of_two_layers_the_later_one_adds(profile: Profile) -> None:
    net = Net(profile)
    x = net.input(2, 4, 4, 8)
    early, late = net.conv(x, 8), net.conv(x, 8, kernel=1)
    program = net.program(net.lookup(net.add(early, late)))
    works = fuse(program)
    assert [work.residual for work in works] == [-1, early]
    assert works[1].lookup is program.instructions[3] and works[1].name == "Conv1 + Add2 + Lookup3"
    assert_same_bits(program)


@pytest.mark.parametrize("profile", PROFILES)
def test_tables_join_layers_and_sums(profile: Profile) -> None:
    net = Net(profile)
    x = net.input(1, 6, 5, 16)
    y = net.lookup(net.depthwise(net.lookup(net.conv(x, 16))))
    program = net.program(net.lookup(net.add(x, y)))
    assert len(fuse(program)) == 3
    assert_same_bits(program)


def test_a_sum_behind_a_table_is_not_fused() -> None:
    """A step adds before it looks up."""
    net = Net()
    x = net.input(1, 5, 4, 8)
    program = net.program(net.add(net.lookup(net.conv(x, 8)), x))
    assert [work.residual for work in fuse(program)] == [-1, -1]
    assert_same_bits(program)


def test_what_others_read_is_not_fused() -> None:
    net = Net()
    x = net.input(1, 4, 4, 8)
    y = net.conv(x, 8)
    total = net.add(y, x)
    assert len(fuse(net.program(total, y))) == 2
    assert_same_bits(net.program(total, y))


def test_broadcast_sums_and_doubled_layers_are_not_fused() -> None:
    net = Net()
    x = net.input(1, 4, 4, 8)
    row = net.input(1, 1, 4, 8)
    y, z = net.add(net.conv(x, 8), row), net.conv(x, 8)
    program = net.program(y, net.add(z, z))
    assert len(fuse(program)) == 4
    assert_same_bits(program)
