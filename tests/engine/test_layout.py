"""Storage of tensors: borders, parts inside of others, and that every reader still finds what it needs."""

from __future__ import annotations

import numpy as np
import pytest
from decode import steps_of
from nets import Net

from bits import assert_same_bits
from calib8.engine.compile import compile_program
from calib8.engine.fuse import fuse
from calib8.engine.halo import with_room
from calib8.engine.layout import Layout, plan_layouts
from calib8.program import instructions as op
from calib8.program.program import Program
from calib8.program.rounding.softmax import softmax_rule
from calib8.program.rules import PROFILES, Profile
from calib8.qparams import QParams


def layouts(program: Program) -> dict[int, Layout]:
    roomy = with_room(program)
    return plan_layouts(roomy, fuse(roomy))


def test_operands_of_a_concat_are_written_in_place() -> None:
    net = Net()
    x = net.input(1, 6, 7, 8)
    parts = net.conv(x, 5), net.conv(x, 9, kernel=1), net.lookup(x)
    joined = net.concat(*parts)
    program = net.program(net.conv(joined, 4))
    found = layouts(program)
    assert [found[part].root for part in parts] == [joined] * 3
    assert [found[part].shift for part in parts] == [0, 5, 14]
    assert {found[part].halo for part in (*parts, joined)} == {(1, 1, 1, 1)}
    copies = [row for row in compile_program(program).rows if row.opcode == "copy"]
    assert len(copies) == 2, "only the input and the result are copied"
    assert_same_bits(program)


def test_concats_nest() -> None:
    net = Net()
    x = net.input(1, 5, 5, 8)
    state = net.conv(x, 6)
    for _ in range(3):
        state = net.concat(state, net.conv(net.conv(state, 8, kernel=1), 4))
    program = net.program(net.conv(state, 3))
    assert len({layout.root for layout in layouts(program).values() if layout.strides[2] == 18}) == 1
    assert_same_bits(program)


@pytest.mark.parametrize("profile", PROFILES)
def test_upsampled_and_averaged_tensors_are_joined_in_place(profile: Profile) -> None:
    net = Net(profile)
    x = net.input(1, 6, 6, 8)
    skip, up = net.conv(x, 5), net.upsample(net.conv(x, 12, stride=2), 7)
    joined = net.concat(skip, up)
    y = net.conv(joined, 9)
    means = net.concat(net.mean(y), net.mean(net.conv(y, 6)))
    program = net.program(net.lookup(means))
    found = layouts(program)
    assert found[up].root == joined and found[up].shift == 5
    assert_same_bits(program)


def test_parts_of_parts_lie_behind_one_another() -> None:
    net = Net()
    x = net.input(1, 5, 5, 8)
    a, b, c = net.conv(x, 3), net.conv(x, 5), net.conv(x, 7)
    joined = net.concat(a, net.concat(b, c))
    part = net.slice(net.slice(joined, 2, 12), 3, 6)
    program = net.program(net.conv(joined, 4), net.conv(part, 4))
    found = layouts(program)
    assert [found[slot].root for slot in (a, b, c, part)] == [joined] * 4
    assert [found[slot].shift for slot in (a, b, c, part)] == [0, 3, 8, 5]
    assert_same_bits(program)


def test_an_operand_that_comes_twice_is_copied_once() -> None:
    net = Net()
    x = net.input(1, 4, 4, 8)
    y = net.conv(x, 4)
    first = net.concat(y, y)
    program = net.program(net.conv(net.concat(first, y), 5))
    assert_same_bits(program)


def test_channels_are_read_where_they_are() -> None:
    net = Net()
    x = net.input(1, 6, 6, 8)
    y = net.conv(x, 12)
    left, right = net.slice(y, 0, 5), net.slice(y, 5, 7)
    program = net.program(net.concat(net.conv(left, 6), net.depthwise(right)))
    found = layouts(program)
    assert found[left].root == found[right].root == y and found[right].shift == 5
    assert_same_bits(program)


def test_a_part_of_a_concat_of_its_own_tensor_is_copied() -> None:
    net = Net()
    x = net.input(1, 4, 4, 8)
    y = net.conv(x, 6)
    program = net.program(net.lookup(net.concat(y, net.slice(y, 2, 3))))
    assert_same_bits(program)


def test_reshaped_tensors_stay_where_they_are_if_dense() -> None:
    net = Net()
    x = net.input(1, 4, 4, 8)
    y = net.conv(x, 6, kernel=1)
    flat = net.reshape(y, 1, 96)
    again = net.reshape(flat, 1, 8, 2, 6)
    program = net.program(net.lookup(again))
    found = layouts(program)
    assert found[flat].root == found[again].root == y
    assert_same_bits(program)


def shares(net: Net, x: int) -> int:
    """A Softmax, which reads and writes its rows one right behind the other."""
    y = net.codes(*net.slots[x].shape, scale=1 / 256, zero_point=0)
    codes = QParams(net.slots[y].scale, 0)
    classes = net.slots[x].shape[-1]
    rule = softmax_rule(net.profile, net.slots[x].scale, "uint8", codes, "uint8", classes)
    return net.step(op.Softmax, (x,), y, rule=rule)


def test_an_operand_of_a_concat_that_is_read_without_gaps_lies_apart() -> None:
    net = Net()
    x = net.input(1, 4, 5, 8)
    y = net.conv(x, 6)
    joined = net.concat(net.conv(x, 5), y)
    program = net.program(net.lookup(joined), shares(net, y))
    assert layouts(program)[y].root == y
    assert_same_bits(program)


def test_an_operand_that_is_written_without_gaps_is_copied() -> None:
    net = Net()
    x = net.input(1, 4, 5, 8)
    y = shares(net, net.conv(x, 6))
    same = net.slots[y]
    beside = net.codes(1, 4, 5, 3, scale=same.scale, zero_point=same.zero_point)
    net.step(op.Slice, (y,), beside, starts=(0, 0, 0, 1), steps=(1, 1, 1, 1))
    program = net.program(net.lookup(net.concat(beside, y)))
    assert layouts(program)[y].root == y
    assert_same_bits(program)


@pytest.mark.parametrize(
    ("starts", "steps", "sizes"),
    [
        ((0, 0, 0, 1), (1, 1, 1, 2), (1, 4, 5, 6)),
        ((0, 3, 0, 2), (1, -1, 1, 1), (1, 4, 5, 6)),
        ((0, 1, 0, 2), (1, 1, 1, 1), (1, 3, 5, 6)),
        ((0, 0, 0, 11), (1, 1, 1, -1), (1, 4, 5, 6)),
    ],
    ids=["every other channel", "rows the other way round", "some of the rows too", "channels backwards"],
)
def test_channels_in_another_order_are_copied(
    starts: tuple[int, ...], steps: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    net = Net()
    x = net.input(1, 4, 5, 8)
    y = net.conv(x, 12)
    part = net.codes(*sizes, zero_point=net.slots[y].zero_point)
    net.step(op.Slice, (y,), part, starts=starts, steps=steps)
    assert_same_bits(net.program(net.conv(part, 4), net.conv(y, 3)))


def test_channels_that_are_read_without_gaps_are_copied() -> None:
    net = Net()
    x = net.input(1, 4, 5, 8)
    part = net.slice(net.conv(x, 12), 3, 6)
    program = net.program(shares(net, part))
    assert layouts(program)[part].root == part
    assert_same_bits(program)


def test_the_border_of_some_channels_is_none_of_a_tensor_that_is_read_without_gaps() -> None:
    net = Net()
    x = net.input(1, 4, 5, 8)
    y = net.conv(x, 12, kernel=1)
    part = net.slice(y, 3, 6)
    program = net.program(net.conv(part, 4), shares(net, y))
    assert layouts(program)[y].halo == (0, 0, 0, 0)
    assert_same_bits(program)


def test_a_tensor_with_a_border_is_copied_to_be_reshaped() -> None:
    net = Net()
    x = net.input(1, 4, 4, 8)
    y = net.conv(x, 6)
    program = net.program(net.conv(y, 3), net.lookup(net.reshape(y, 1, 96)))
    assert_same_bits(program)


def test_a_result_that_is_there_early_stays_until_the_end() -> None:
    """Nothing that is computed later takes its place."""
    net = Net()
    x = net.input(1, 5, 4, 8)
    early = net.conv(x, 8, kernel=1)
    late = net.conv(x, 8, kernel=1)
    for _ in range(4):
        late = net.lookup(net.conv(late, 8))
    program = net.program(early, late)
    assert_same_bits(program)


def test_results_of_the_program_get_no_border() -> None:
    net = Net()
    x = net.input(1, 5, 4, 8)
    y = net.conv(x, 6)
    program = net.program(y, net.conv(y, 3))
    assert layouts(program)[y].halo == (0, 0, 0, 0)
    assert_same_bits(program)


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_written_without_gaps_is_copied_into_a_border(profile: Profile) -> None:
    """A Softmax writes its rows one right behind the other."""
    net = Net(profile)
    x = net.input(1, 5, 4, 8)
    y = net.codes(1, 5, 4, 8, scale=1 / 256, zero_point=0)
    shares = QParams(net.slots[y].scale, 0)
    net.step(op.Softmax, (x,), y, rule=softmax_rule(profile, net.slots[x].scale, "uint8", shares, "uint8", 8))
    program = net.program(net.conv(y, 6))
    assert layouts(program)[y].halo == (0, 0, 0, 0)
    assert_same_bits(program)


def test_the_border_is_as_wide_as_the_widest_window() -> None:
    net = Net(seed=3)
    x = net.input(2, 9, 8, 3, dtype="int8", zero_point=-100)
    y = net.conv(x, 6, kernel=1)
    program = net.program(net.conv(y, 5, kernel=5), net.conv(y, 4, kernel=3, stride=2))
    assert layouts(program)[y].halo == (2, 2, 2, 2)
    assert_same_bits(program)


@pytest.mark.parametrize("wide_first", [True, False])
def test_the_border_around_parts_is_that_of_the_widest_window(wide_first: bool) -> None:
    net = Net()
    x = net.input(1, 6, 5, 8)
    parts = [net.conv(x, 5, kernel=1), net.conv(x, 6, kernel=1)]
    joined = net.concat(*parts)
    first, second = (5, 3) if wide_first else (3, 5)
    results = net.conv(parts[0], 4, kernel=first), net.conv(parts[1], 4, kernel=second)
    program = net.program(*results, net.lookup(joined))
    assert layouts(program)[joined].halo == (2, 2, 2, 2)
    assert_same_bits(program)


def test_plans_do_not_depend_on_anything_but_the_program() -> None:
    net = Net(seed=5)
    x = net.input(1, 9, 8, 3)
    program = net.program(net.conv(net.conv(x, 6), 4))
    plans = compile_program(program), compile_program(program)
    assert steps_of(plans[0]) == steps_of(plans[1]) and np.array_equal(plans[0].constants, plans[1].constants)
