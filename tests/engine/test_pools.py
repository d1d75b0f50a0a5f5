"""MaxPool and AveragePool, natively and in NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from example_programs import EXAMPLES, codes, single, with_step
from generated import CHANNELS, SEEDS, assert_neighbours_stay, clamp, code_slot, like, pick, qparams
from padded_layers import OUTPUTS, padded_conv

from bits import assert_same_bits
from calib8.program import instructions as op
from calib8.program.ops.windows import Window, empty_window, pool_sizes
from calib8.program.program import Port, Program, Slot
from calib8.program.rounding.pools import average_rule
from calib8.program.rules import PROFILES, Profile
from calib8.program.verify import verify

Rng = np.random.Generator


def axis(rng: Rng, size: int, *, dilated: bool) -> tuple[Window, int]:
    """A window along one axis and how many outputs it has; every window sees the image."""
    while True:
        kernel = pick(rng, 1, 2, 3, 3, 3, 5, 7)
        pads = [int(rng.integers(0, max(kernel, 2))) for _ in range(2)]
        window = Window(size, kernel, pick(rng, 1, 1, 2, 2, 3, 4), pick(rng, 1, 2) if dilated else 1, *pads)
        outputs = pick(rng, *pool_sizes(window)) if window.room >= 0 else 0
        if outputs > 0 and empty_window(window, outputs) is None:
            return window, outputs


def geometry(rng: Rng, rows: int, columns: int, *, dilated: bool) -> tuple[dict[str, Any], tuple[int, int]]:
    """Fields of a pool and the size of its output."""
    (down, height), (across, width) = axis(rng, rows, dilated=dilated), axis(rng, columns, dilated=dilated)
    fields: dict[str, Any] = {
        "kernel": (down.kernel, across.kernel),
        "strides": (down.stride, across.stride),
        "pads": (down.before, across.before, down.after, across.after),
    }
    if dilated:
        fields["dilations"] = (down.dilation, across.dilation)
    return fields, (height, width)


def image(rng: Rng) -> Slot:
    """An image of a few thousand codes."""
    channels = pick(rng, *CHANNELS)
    side = 12 if channels > 64 else 20
    rows, columns = (int(rng.integers(1, side)) for _ in range(2))
    return code_slot("x", rng, pick(rng, 1, 1, 2), rows, columns, channels)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ["MaxPool", "AveragePool"])
def test_examples(name: str, profile: Profile) -> None:
    assert_same_bits(EXAMPLES[name, profile])


@pytest.mark.parametrize("seed", SEEDS)
def test_max_pool(seed: int) -> None:
    rng = np.random.default_rng((1, seed))
    x = image(rng)
    fields, size = geometry(rng, *x.shape[1:3], dilated=True)
    program = single(op.MaxPool, [x], like(x, "y", x.shape[0], *size, x.shape[3]), **fields)
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("channels", [3, 64, 65, 200])
@pytest.mark.parametrize(
    ("kernel", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (3, 2, 0), (5, 1, 2), (13, 1, 6)]
)
def test_max_pool_of_networks(kernel: int, stride: int, pad: int, channels: int) -> None:
    x = codes("x", 1, 15, 14, channels)
    size = [(n + 2 * pad - kernel) // stride + 1 for n in (15, 14)]
    fields = {"kernel": (kernel,) * 2, "strides": (stride,) * 2, "pads": (pad,) * 4, "dilations": (1, 1)}
    assert_same_bits(single(op.MaxPool, [x], codes("y", 1, *size, channels), **fields))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", SEEDS)
def test_average_pool(seed: int, profile: Profile) -> None:
    rng = np.random.default_rng((2, seed))
    x = image(rng)
    fields, size = geometry(rng, *x.shape[1:3], dilated=False)
    y = like(x, "y", x.shape[0], *size, x.shape[3])
    if profile != "tflite" and rng.random() < 0.7:
        scale = pick(rng, 0.05, 0.03, 0.0123, 0.2)
        y = replace(code_slot("y", rng, *y.shape, scale=scale))
    taps = fields["kernel"][0] * fields["kernel"][1]
    rule = average_rule(profile, qparams(x), qparams(y), taps)
    counted = bool(rng.integers(2))
    program = single(
        op.AveragePool, [x], y, profile, **fields, count_pads=counted, rule=rule, **clamp(rng, y)
    )
    verify(program)
    assert_same_bits(program, seed=seed)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (2, 2), (3, 2), (4, 3)])
def test_averages_that_are_ties(kernel: int, stride: int, profile: Profile) -> None:
    """Equal scales and an even number of taps: every other mean lies in the middle of two codes."""
    x = codes("x", 1, 13, 13, 67, zero_point=-3, dtype="int8")
    size = [(13 - kernel) // stride + 1] * 2
    y = like(x, "y", 1, *size, 67)
    fields = {"kernel": (kernel,) * 2, "strides": (stride,) * 2, "pads": (0,) * 4, "count_pads": False}
    rule = average_rule(profile, qparams(x), qparams(y), kernel * kernel)
    assert_same_bits(single(op.AveragePool, [x], y, profile, rule=rule, low=-128, high=127, **fields))


@pytest.mark.parametrize(
    ("input_scale", "output_scale"), [(1e-30, 1e-30), (1e30, 1e28), (1e35, 1e-3), (1e-3, 1e3)]
)
def test_averages_of_extreme_scales(input_scale: float, output_scale: float) -> None:
    x, y = codes("x", 1, 9, 9, 40, scale=input_scale), codes("y", 1, 7, 7, 40, scale=output_scale)
    rule = average_rule("onnx", qparams(x), qparams(y), 9)
    fields = {"kernel": (3, 3), "strides": (1, 1), "pads": (0,) * 4, "count_pads": False}
    assert_same_bits(single(op.AveragePool, [x], y, rule=rule, low=0, high=255, **fields))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("channels", [3, 64, 70])
def test_pools_between_borders(channels: int, average: bool) -> None:
    """Input and output are stored with borders, which must be neither read nor written."""
    slots = (
        codes("x", 2, 7, 6, channels),
        codes("y", 2, 7, 6, channels),
        codes("a", 2, 7, 6, OUTPUTS),
        codes("b", 2, 7, 6, OUTPUTS),
    )
    window: dict[str, Any] = {"kernel": (3, 3), "strides": (1, 1), "pads": (1,) * 4}
    pool: op.Instruction = op.MaxPool("pool", (0,), (1,), **window, dilations=(1, 1))
    if average:
        rule = average_rule("onnx", qparams(slots[0]), qparams(slots[1]), 9)
        pool = op.AveragePool("pool", (0,), (1,), **window, count_pads=False, rule=rule, low=0, high=255)
    steps = (padded_conv("first", 0, 2, channels), pool, padded_conv("second", 1, 3, channels))
    assert_same_bits(Program("onnx", slots, steps, (Port("x", 0),), (Port("a", 2), Port("b", 3)), "net"))


def test_a_window_larger_than_the_image_sees_only_the_image() -> None:
    program = EXAMPLES["MaxPool", "onnx"]
    changed = with_step(program, kernel=(7, 6), strides=(9, 9), pads=(3, 3, 3, 3))
    x, y = changed.slots[0], like(changed.slots[0], "y", 1, 1, 1, 4)
    assert_same_bits(replace(changed, slots=(x, y)))


@pytest.mark.parametrize("channels", [1, 7, 16, 33, 63, 64, 100, 130])
def test_channels_beside_the_result_stay(channels: int) -> None:
    x, y = codes("x", 1, 6, 5, channels), codes("y", 1, 6, 5, channels)
    window: dict[str, Any] = {"kernel": (3, 3), "strides": (1, 1), "pads": (1,) * 4}
    assert_neighbours_stay(single(op.MaxPool, [x], y, **window, dilations=(1, 1)), "max_pool")
    for profile in PROFILES:
        rule = average_rule(profile, qparams(x), qparams(y), 9)
        fields = {**window, "count_pads": False, "rule": rule, "low": 0, "high": 255}
        assert_neighbours_stay(single(op.AveragePool, [x], y, profile, **fields), "average_pool")
