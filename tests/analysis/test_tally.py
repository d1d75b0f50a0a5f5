"""Sums of an evaluation: exact, so that neither batches nor parts of the data leave a trace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calib8
from calib8.analysis.tally import Energies, ExactSum, Tally, by_sample
from small_nets import classifier, heads

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FLOATS, max_size=30), st.integers(0, 30))
def test_a_sum_is_rounded_once(values: list[float], cut: int) -> None:
    parts = [ExactSum(), ExactSum()]
    for place, value in enumerate(values):
        parts[place < cut].add(value)
    exact = sum(map(Fraction, values), Fraction(0))
    for found in (parts[0].joined(parts[1]), parts[1].joined(parts[0])):
        assert Fraction(found.total, 1 << 1074) == exact
        if abs(exact) < Fraction(2) ** 1023:
            assert found.value == float(exact)


def test_what_is_not_finite_stays_so() -> None:
    bad = Energies()
    bad.add(1.0, 2.0)
    bad.add(1.0, math.inf)
    good = Energies()
    good.add(3.0, 0.5)
    assert bad.joined(good).sqnr_db is None and good.sqnr_db == pytest.approx(7.7815, abs=1e-4)
    assert math.isnan(good.joined(bad).noise.value) and good.joined(bad).signal.value == 5.0


@pytest.mark.parametrize(
    ("signal", "noise", "told"),
    [
        (3.0, 0.5, ""),
        (3.0, 0.0, "without a difference"),
        (0.0, 0.0, "without a difference"),
        (0.0, 0.5, "without a signal: FP32 is 0 throughout, INT8 is not"),
        (3.0, math.nan, "not finite"),
        (math.nan, math.nan, "not finite"),
    ],
)
def test_where_there_is_no_sqnr_it_is_told_why(signal: float, noise: float, told: str) -> None:
    found = Energies()
    found.add(signal, noise)
    assert found.why_no_sqnr == told and (found.sqnr_db is None) == bool(told)


def test_labels_that_do_not_fit_in_one_part_do_not_count_in_any() -> None:
    first, second = Tally(images=4, labelled=4, top1=3), Tally(images=2, labelled=0, misfit="b: its label")
    for found in (first.joined(second), second.joined(first)):
        assert (found.images, found.labelled, found.misfit) == (6, 0, "b: its label")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_parts_join_to_the_whole(order: Sequence[int]) -> None:
    rng = np.random.default_rng(3)
    parts = []
    for part in range(3):
        energies = Energies()
        for _ in range(5):
            energies.add(*rng.exponential(10.0 ** rng.integers(-9, 9), 2))
        parts.append(Tally(images=5, labelled=part, top1=1, outputs=energies, branches=[energies, energies]))
    whole = reduce(Tally.joined, parts)
    assert reduce(Tally.joined, [parts[index] for index in order]) == whole
    assert (whole.images, whole.labelled, whole.top1) == (15, 3, 3)


def test_outputs_come_apart_by_samples_where_they_can() -> None:
    one = [np.arange(12.0).reshape(4, 3), np.arange(4.0)]
    found = by_sample(one, rows=2)
    assert [[array.tolist() for array in arrays] for (arrays,) in found] == [
        [[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], [0.0, 1.0]],
        [[[6.0, 7.0, 8.0], [9.0, 10.0, 11.0]], [2.0, 3.0]],
    ]
    assert len(by_sample(one, rows=3)) == len(by_sample([np.float32(3)], rows=2)) == 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("network", [classifier, heads])
def test_an_evaluation_does_not_depend_on_batches_and_order(
    network: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("net")
    rows = np.random.default_rng(5).normal(0, 1, (11, 4, 8, 8)).astype(np.float32)
    proto = network()  # type: ignore[operator]
    float_path, int8_path = place / "float.onnx", place / "int8.onnx"
    float_path.write_bytes(proto.SerializeToString())
    calib8.quantize(proto, rows, repair=["none"]).save(int8_path)
    figures = set()
    for data, batch in ((rows, 1), (rows, 4), (rows[::-1].copy(), 1), (rows[::-1].copy(), 3)):
        found = calib8.evaluate([float_path, int8_path], data, batch=batch)[1]
        assert found.sqnr_db is not None
        figures.add((found.sqnr_db, found.agreement, found.branches))
    assert len(figures) == 1
