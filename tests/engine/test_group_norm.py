"""GroupNorm under every rule, natively and in NumPy."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from decode import steps_of
from example_programs import EXAMPLES, codes, single
from generated import CHANNELS, SEEDS, assert_neighbours_stay, clamp, code_slot, pick
from nets import Net

from bits import assert_same_bits, random_array
from calib8 import _core
from calib8.engine.compile import compile_program
from calib8.program import instructions as op
from calib8.program.program import Program, Slot
from calib8.program.rounding.group_norm import group_norm_rule
from calib8.program.rules import PROFILES, GroupNormRule, Profile
from calib8.program.verify import verify

Array = npt.NDArray[Any]


def random_rule(rng: np.random.Generator, x: Slot, y: Slot, groups: int, profile: Profile) -> GroupNormRule:
    """Scales and biases about as large as codes can show, some of them 0, some far beyond."""
    channels = x.shape[-1]
    scale = rng.normal(0, 40 * y.scale, channels) * rng.choice([0, 1, 1, 1, 30, 1e6], channels)
    bias = rng.normal(0, 60 * y.scale, channels) * rng.choice([0, 1, 1, 10, 1e6], channels)
    epsilon = pick(rng, 1e-5, 1e-6, 0.0, 1e-12, 0.1)
    count = int(np.prod(x.shape[1:])) // groups
    parameters = scale.astype(np.float32), bias.astype(np.float32), epsilon
    return group_norm_rule(profile, count, x.scale, y.scale, *parameters)


def program_of(rng: np.random.Generator, x: Slot, y: Slot, groups: int, profile: Profile) -> Program:
    rule = random_rule(rng, x, y, groups, profile)
    return single(op.GroupNorm, [x], y, profile, groups=groups, rule=rule, **clamp(rng, y))


def random_images(x: Slot, rng: np.random.Generator) -> Array:
    """Any codes, codes close together, equal ones, and but one of them at the other end."""
    data = random_array(x, rng)
    ends = np.iinfo(x.dtype)
    kind = pick(rng, "any", "close", "equal", "ends", "one")
    if kind == "close":
        return (data // 64 + int(rng.integers(0, 40))).astype(x.dtype)
    if kind == "equal":
        return np.broadcast_to(data[:, :1, :1], x.shape).astype(x.dtype)
    if kind == "ends":
        return rng.choice([ends.min, ends.max], x.shape).astype(x.dtype)
    if kind == "one":
        data[...] = pick(rng, ends.min, ends.max)
        data[:, -1, -1] = pick(rng, ends.min, ends.max)
    return data


def divisors(channels: int) -> list[int]:
    return [size for size in range(1, channels + 1) if channels % size == 0]


@pytest.mark.parametrize("profile", PROFILES)
def test_examples(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["GroupNorm", profile])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_group_norm(seed: int, profile: Profile) -> None:
    rng = np.random.default_rng((13, seed))
    channels = pick(rng, *CHANNELS)
    images = (int(rng.integers(1, 4)), int(rng.integers(1, 8)), int(rng.integers(1, 8)), channels)
    x = code_slot("x", rng, *images, scale=pick(rng, 0.004, 0.02, 0.3, 3.0))
    y = code_slot("y", rng, *images, scale=pick(rng, 0.01, 0.05, 0.3))
    program = program_of(rng, x, y, pick(rng, 1, channels, *divisors(channels)), profile)
    verify(program)
    assert_same_bits(program, {"x": random_images(x, rng)})


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("rows", "columns", "channels"), [(257, 257, 1), (1, 70000, 3), (300, 240, 18)])
def test_more_pixels_than_sums_of_32_bits_hold(
    rows: int, columns: int, channels: int, profile: Profile
) -> None:
    """Squares of 2^16 pixels at most are added up before they go on in 64 bits."""
    rng = np.random.default_rng(rows)
    x = codes("x", 1, rows, columns, channels, scale=0.1)
    y = codes("y", *x.shape, scale=0.02, zero_point=128)
    data = np.full(x.shape, 255, np.uint8)
    data[0, 0, ::3] = rng.integers(0, 256, data[0, 0, ::3].shape)
    assert_same_bits(program_of(rng, x, y, channels, profile), {"x": data}, threads=(1,))


@pytest.mark.parametrize("profile", PROFILES)
def test_neighbours_stay(profile: Profile) -> None:
    rng = np.random.default_rng(4)
    for channels in (3, 16, 40, 65):
        x, y = codes("x", 2, 3, 5, channels), codes("y", 2, 3, 5, channels, scale=0.02, zero_point=100)
        assert_neighbours_stay(program_of(rng, x, y, channels, profile), "group_norm")


@pytest.mark.parametrize("profile", PROFILES)
def test_between_padded_layers_and_in_a_concat_nothing_is_copied(profile: Profile) -> None:
    """Images are read and written where layers want them."""
    net = Net(profile)
    x = net.input(1, 6, 7, 8)
    normed = normal(net, net.conv(x, 12))
    joined = net.concat(normal(net, net.conv(normed, 4)), normed)
    program = net.program(net.conv(joined, 4))
    verify(program)
    copies = [row for row in compile_program(program).rows if row.opcode == "copy"]
    assert len(copies) == 2, "only the input and the result are copied"
    assert_same_bits(program)


def normal(net: Net, x: int) -> int:
    """A GroupNorm of four groups."""
    y, rng = net.codes(*net.slots[x].shape), np.random.default_rng(x)
    rule = random_rule(rng, net.slots[x], net.slots[y], 4, net.profile)
    return net.step(op.GroupNorm, (x,), y, groups=4, rule=rule, low=0, high=255)


@pytest.mark.parametrize("isa", _core.engine.available_isas())
def test_every_set_has_a_kernel_that_was_taken(isa: str) -> None:
    """The plain loops serve sets without vectors of their own."""
    origin = _core.engine.kernel_origins(isa)["group_norm"]
    wanted = {"amx": "avx512vnni", "avx512vnni": "avx512vnni", "avxvnni": "avx2", "avx2": "avx2"}
    assert origin == wanted.get(isa, "reference")


def test_one_step_serves_all_images() -> None:
    steps = Counter(step.opcode for step in steps_of(compile_program(EXAMPLES["GroupNorm", "onnx"])))
    assert steps["group_norm"] == 1
