"""LayerNorm under every rule, natively and in NumPy."""

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
from calib8.model.load import load_model
from calib8.program import instructions as op
from calib8.program.lower import lower
from calib8.program.program import Program, Slot
from calib8.program.reference.executor import run_program
from calib8.program.rounding.layer_norm import norm_rule
from calib8.program.rules import PROFILES, NormRule, Profile
from calib8.program.verify import verify
from small_models import run
from small_nets import NETS, clean

Array = npt.NDArray[Any]


def random_rule(
    rng: np.random.Generator, x: Slot, y: Slot, profile: Profile, centred: bool = True
) -> NormRule:
    """Scales and biases about as large as codes can show, some of them 0, some far beyond."""
    channels = x.shape[-1]
    scale = rng.normal(0, 40 * y.scale, channels) * rng.choice([0, 1, 1, 1, 30], channels)
    bias = rng.normal(0, 60 * y.scale, channels) * rng.choice([0, 1, 1, 10], channels)
    epsilon = pick(rng, 1e-5, 1e-6, 0.0, 1e-12, 0.1)
    parameters = scale.astype(np.float32), bias.astype(np.float32), epsilon
    return norm_rule(profile, x.scale, y.scale, *parameters, centred=centred)


def program_of(rng: np.random.Generator, x: Slot, y: Slot, profile: Profile, centred: bool = True) -> Program:
    rule = random_rule(rng, x, y, profile, centred)
    return single(op.LayerNorm, [x], y, profile, rule=rule, centred=centred, **clamp(rng, y))


def random_rows(x: Slot, rng: np.random.Generator) -> Array:
    """Any codes, codes close together, equal ones, and but one of them at the other end."""
    data = random_array(x, rng)
    ends = np.iinfo(x.dtype)
    kind = pick(rng, "any", "close", "equal", "ends", "one")
    if kind == "close":
        return (data // 64 + int(rng.integers(0, 40))).astype(x.dtype)
    if kind == "equal":
        return np.broadcast_to(data[..., :1], x.shape).astype(x.dtype)
    if kind == "ends":
        return rng.choice([ends.min, ends.max], x.shape).astype(x.dtype)
    if kind == "one":
        data[...] = pick(rng, ends.min, ends.max)
        data[..., int(rng.integers(x.shape[-1]))] = pick(rng, ends.min, ends.max)
    return data


@pytest.mark.parametrize("profile", PROFILES)
def test_examples(profile: Profile) -> None:
    assert_same_bits(EXAMPLES["LayerNorm", profile])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("centred", [True, False])
def test_layer_norm(seed: int, profile: Profile, centred: bool) -> None:
    rng = np.random.default_rng((11, seed))
    rows = pick(rng, (), (1,), (3,), (2, 5), (1, 3, 4), (2, 3, 5))
    x = code_slot("x", rng, *rows, pick(rng, *CHANNELS, 1000), scale=pick(rng, 0.004, 0.02, 0.3, 3.0))
    y = code_slot("y", rng, *x.shape, scale=pick(rng, 0.01, 0.05, 0.3))
    program = program_of(rng, x, y, profile, centred)
    verify(program)
    assert_same_bits(program, {"x": random_rows(x, rng)})


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("channels", [1, 2, 33025, 33026, 1 << 16])
def test_short_and_long_rows_of_the_ends_of_codes(channels: int, profile: Profile) -> None:
    """Sums of squares beyond 2^31."""
    rng = np.random.default_rng(channels)
    x, y = codes("x", 4, channels, scale=0.1), codes("y", 4, channels, scale=0.02, zero_point=128)
    data = np.full(x.shape, 255, np.uint8)
    data[1, 0], data[2, ::2] = 0, 0
    data[3] = rng.integers(0, 256, channels)
    assert_same_bits(program_of(rng, x, y, profile), {"x": data}, threads=(1,))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("zero_point", [0, 255])
def test_the_longest_rows_around_a_code(zero_point: int, profile: Profile) -> None:
    """The largest squares there are."""
    rng = np.random.default_rng(zero_point)
    x = codes("x", 3, 1 << 15, scale=0.1, zero_point=zero_point)
    y = codes("y", *x.shape, scale=0.02, zero_point=128)
    data = np.full(x.shape, 255 - zero_point, np.uint8)
    data[1, 0], data[2] = zero_point, rng.integers(0, 256, x.shape[1])
    assert_same_bits(program_of(rng, x, y, profile, centred=False), {"x": data}, threads=(1,))


@pytest.mark.parametrize("profile", PROFILES)
def test_neighbours_stay(profile: Profile) -> None:
    rng = np.random.default_rng(4)
    for channels in (3, 16, 40, 65):
        x, y = codes("x", 2, 3, 5, channels), codes("y", 2, 3, 5, channels, scale=0.02, zero_point=100)
        assert_neighbours_stay(program_of(rng, x, y, profile), "layer_norm")


@pytest.mark.parametrize("profile", PROFILES)
def test_between_padded_layers_and_in_a_concat_nothing_is_copied(profile: Profile) -> None:
    """Rows are read and written where layers want them."""
    net = Net(profile)
    x = net.input(1, 6, 7, 8)
    first = net.conv(x, 12)
    normed = normal(net, first)
    joined = net.concat(normal(net, net.conv(normed, 5)), normed)
    program = net.program(net.conv(joined, 4))
    verify(program)
    copies = [row for row in compile_program(program).rows if row.opcode == "copy"]
    assert len(copies) == 2, "only the input and the result are copied"
    assert_same_bits(program)


def normal(net: Net, x: int) -> int:
    """A LayerNorm over the channels."""
    y, rng = net.codes(*net.slots[x].shape), np.random.default_rng(x)
    rule = random_rule(rng, net.slots[x], net.slots[y], net.profile)
    return net.step(op.LayerNorm, (x,), y, rule=rule, low=0, high=255)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_block_of_convnext_has_no_float_part(profile: Profile) -> None:
    """The transposes around it move nothing: channels lie last."""
    program = lower(load_model(clean("normalized", "calib8")), profile=profile)
    kinds = Counter(type(step).__name__ for step in program.instructions)
    assert kinds["LayerNorm"] == 1 and kinds["Float"] == kinds["Transpose"] == 0
    assert_same_bits(program)


def test_a_block_of_convnext_is_near_the_float_model() -> None:
    program = lower(load_model(clean("normalized", "calib8")))
    x = np.random.default_rng(1).normal(0, 1, (1, 4, 8, 8)).astype(np.float32)
    (made,), (wanted,) = run_program(program, {"x": x}), run(NETS["normalized"](), {"x": x})
    assert np.abs(made - wanted).max() < 0.05 * np.ptp(wanted)


@pytest.mark.parametrize("isa", _core.engine.available_isas())
def test_every_set_has_a_kernel_that_was_taken(isa: str) -> None:
    """The plain loops serve sets without vectors of their own."""
    origin = _core.engine.kernel_origins(isa)["layer_norm"]
    wanted = {"amx": "avx512vnni", "avx512vnni": "avx512vnni", "avxvnni": "avx2", "avx2": "avx2"}
    assert origin == wanted.get(isa, "reference")


def test_one_step_serves_all_rows() -> None:
    steps = steps_of(compile_program(EXAMPLES["LayerNorm", "onnx"]))
    assert [step.opcode for step in steps].count("layer_norm") == 1
