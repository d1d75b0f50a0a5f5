"""RealRescale, RealPair, RealAverage and RealSoftmax of the reference, written out in Python's fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from example_programs import codes, single, sums

from calib8.program import instructions as op
from calib8.program.ops.real import rounded_away
from calib8.program.program import Program
from calib8.program.reference.executor import run_program
from calib8.program.rounding.real import (
    joined_table,
    real_table,
    scaled_table,
    softmax_table,
    wrapped_table,
)
from calib8.program.rules import RealAverage
from calib8.program.verify import verify


def fl(value: Fraction | int | float) -> Fraction:
    """The nearest float32 of a number within its range, ties to even."""
    exact = Fraction(value)
    nearest = np.float32(float(exact))
    around = [np.nextafter(nearest, np.float32(side)) for side in (-np.inf, np.inf)]
    best = min(
        (nearest, *around), key=lambda one: (abs(Fraction(float(one)) - exact), int(one.view(np.int32)) & 1)
    )
    return Fraction(float(best))


def away(value: Fraction) -> int:
    whole = math.floor(abs(value) + Fraction(1, 2))
    return whole if value >= 0 else -whole


def clip(code: int, low: int = -127, high: int = 127) -> int:
    return min(max(code, low), high)


def single_of(value: float) -> float:
    return float(np.float32(value))


def run(program: Program, **feeds: npt.NDArray[Any]) -> npt.NDArray[Any]:
    verify(program)
    return run_program(program, feeds)[0]


@pytest.mark.parametrize("seed", range(6))
def test_sums_are_multiplied_twice_and_divided(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, divisor = (single_of(value) for value in rng.uniform(0.001, 0.2, 2))
    factor = rng.uniform(0.0001, 0.01, 7).astype(np.float32)
    factor[0] = 0
    y = codes("y", 40, 7, scale=0.1, zero_point=0, dtype="int8")
    program = single(
        op.RealRescale, [sums("x", 40, 7)], y, "tengine",
        input=first, factor=factor, output=divisor, low=-127, high=100,
    )  # fmt: skip
    acc = rng.integers(-(1 << 25), 1 << 25, (40, 7)) >> rng.integers(0, 20, (40, 7))
    found = run(program, x=acc.astype(np.int32))
    for (row, channel), code in np.ndenumerate(found):
        real = fl(fl(fl(int(acc[row, channel])) * Fraction(first)) * Fraction(float(factor[channel])))
        assert code == clip(away(fl(real / Fraction(divisor))), high=100)
    assert np.unique(found).size > 30


@pytest.mark.parametrize("kind", ["sum", "difference", "product"])
def test_pairs_are_joined_as_real_numbers(kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    scales = [single_of(value) for value in (0.0213, 0.0407, 0.0391 if kind != "product" else 0.03)]
    a, b, y = (
        codes(name, *shape, scale=scale, zero_point=0, dtype="int8")
        for name, shape, scale in zip("aby", ((50, 3), (3,), (50, 3)), scales, strict=True)
    )
    program = single(op.RealPair, [a, b], y, "tengine", kind=kind, low=-127, high=127)
    feeds = {
        name: rng.integers(-128, 128, shape).astype(np.int8) for name, shape in (("a", (50, 3)), ("b", (3,)))
    }
    found = run(program, **feeds)
    for (row, column), code in np.ndenumerate(found):
        left = fl(Fraction(scales[0]) * int(feeds["a"][row, column]))
        right = fl(Fraction(scales[1]) * int(feeds["b"][column]))
        real = fl({"sum": left + right, "difference": left - right, "product": left * right}[kind])
        assert code == clip(away(fl(real / Fraction(scales[2]))))
    assert np.unique(found).size > 20


def test_ties_go_away_from_zero() -> None:
    values = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, -0.49999997, 8388607.5, 1e30, -0.0], np.float32)
    wanted = [1, 2, 3, -1, -3, 0, 0, 8388608, float(np.float32(1e30)), 0]
    assert rounded_away(values).tolist() == wanted


@pytest.mark.parametrize("count_pads", [False, True])
def test_means_are_divided_by_what_counts(count_pads: bool) -> None:
    rng = np.random.default_rng(3)
    x = codes("x", 1, 5, 4, 3, scale=0.05, zero_point=0, dtype="int8")
    y = codes("y", 1, 3, 2, 3, scale=0.017, zero_point=0, dtype="int8")
    program = single(
        op.AveragePool, [x], y, "tengine", kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1),
        count_pads=count_pads, rule=RealAverage(), low=-127, high=127,
    )  # fmt: skip
    image = rng.integers(-128, 128, (1, 5, 4, 3)).astype(np.int8)
    found = run(program, x=image)
    for _, row, column, channel in np.ndindex(found.shape):
        rows, columns = range(2 * row - 1, 2 * row + 2), range(2 * column - 1, 2 * column + 2)
        inside = [(i, j) for i in rows for j in columns if 0 <= i < 5 and 0 <= j < 4]
        padded = [(i, j) for i in rows for j in columns if i <= 5 and j <= 4]
        total = sum(int(image[0, i, j, channel]) for i, j in inside)
        count = len(padded if count_pads else inside)
        mean = fl(fl(Fraction(x.scale) * total) / count)
        assert found[0, row, column, channel] == clip(away(fl(mean / Fraction(y.scale))))


def test_shares_are_added_in_float32() -> None:
    rng = np.random.default_rng(4)
    x = codes("x", 6, 9, scale=0.031, zero_point=0, dtype="int8")
    y = codes("y", 6, 9, scale=1 / 127, zero_point=0, dtype="int8")
    program = single(op.Softmax, [x], y, "tengine", rule=softmax_table(x.scale))
    rows = rng.integers(-128, 128, (6, 9)).astype(np.int8)
    found = run(program, x=rows)
    for row, shares in zip(rows, found, strict=True):
        real = [fl(Fraction(x.scale) * int(code)) for code in row]
        exponentials = [fl(math.exp(float(fl(one - max(real))))) for one in real]
        total = Fraction(0)
        for one in exponentials:
            total = fl(total + one)
        wanted = [clip(away(fl(fl(one / total) / Fraction(y.scale)))) for one in exponentials]
        assert shares.tolist() == wanted


def test_tables_cut_off_at_127_clip_wraps_and_concat_turns_round() -> None:
    codes_ = np.arange(-128, 128)
    doubled = scaled_table(np.float32(2))
    assert doubled.tolist() == np.clip(2 * codes_, -127, 127).tolist()
    joined = joined_table(np.float32(2))
    assert joined.tolist() == [127 if 2 * q < -127 else min(2 * q, 127) for q in codes_]
    wrapped = wrapped_table(lambda values: values, 2.0, 1.0)
    assert wrapped.tolist() == [(min(2 * q, 255) + 128) % 256 - 128 for q in codes_]
    assert real_table(lambda values: values * np.float32(1e30), 1.0, 1e-9).tolist() == [
        -127 if q else 0 for q in codes_
    ]


def test_functions_are_rounded_like_real_numbers() -> None:
    scales = single_of(0.0377), single_of(0.0151)
    slope = np.float32(0.1)
    found = real_table(lambda v: np.where(v < 0, v * slope, v).astype(np.float32), *scales)
    for q, code in zip(range(-128, 128), found, strict=True):
        real = fl(Fraction(scales[0]) * q)
        real = fl(real * Fraction(float(slope))) if real < 0 else real
        assert code == clip(away(fl(real / Fraction(scales[1]))))
