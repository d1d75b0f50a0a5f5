"""Statistics: the definition, merging, the views that the range methods use, and the file."""

from __future__ import annotations

import dataclasses
import json
import math
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calib8.calibration.origin import Origin
from calib8.calibration.statistics import BINS, Statistics, TensorStatistics
from calib8.errors import CalibrationError, OutputError, TableError

Values = npt.NDArray[np.float32]

any_values = arrays(np.float32, st.integers(0, 60), elements=st.floats(width=32))


def statistics_of(*values: float) -> TensorStatistics:
    return TensorStatistics.from_values(np.array(values, np.float32))


def filled(bins: npt.NDArray[np.int64]) -> list[int]:
    return [int(index) for index in np.flatnonzero(bins)]


def test_published_streaming_vector() -> None:
    first = statistics_of(0, 0.25, -0.3, 0.7)
    assert (first.exponent, first.zeros) == (0, 1)
    assert (filled(first.positive), filled(first.negative)) == ([1024, 2867], [1228])
    both = first.merge(statistics_of(1.0, 5.5))
    assert both.exponent == 3
    assert (filled(both.positive), filled(both.negative)) == ([128, 358, 512, 2816], [153])
    assert (both.minimum, both.maximum) == (float(np.float32(-0.3)), 5.5)


def test_definition_by_plain_loop() -> None:
    rng = np.random.default_rng(3)
    values = (rng.standard_normal(500) * 10.0 ** rng.integers(-6, 3, 500)).astype(np.float32)
    values[::50] = 0
    statistics = TensorStatistics.from_values(values)
    positive, negative = [0] * BINS, [0] * BINS
    for value in values.tolist():
        index = math.floor(abs(value) * 2.0 ** (12 - statistics.exponent))
        if value:
            (positive if value > 0 else negative)[index] += 1
    assert (statistics.positive.tolist(), statistics.negative.tolist()) == (positive, negative)
    assert 2.0 ** (statistics.exponent - 1) <= np.abs(values).max() < 2.0**statistics.exponent


def test_special_values_are_counted_apart() -> None:
    statistics = statistics_of(math.nan, math.inf, -math.inf, -math.inf, 0.0, -0.0, 1e-45)
    assert (statistics.count, statistics.nans, statistics.zeros, statistics.finite) == (7, 1, 2, 3)
    assert (statistics.positive_infs, statistics.negative_infs) == (1, 2)
    assert (statistics.exponent, filled(statistics.positive)) == (-100, [0])
    assert statistics.maximum > 0 == statistics.minimum
    assert math.copysign(1, statistics_of(-0.0).minimum) == 1


@given(
    values=arrays(np.float32, (12, 5), elements=st.floats(width=32)),
    cuts=st.lists(st.integers(0, 12), max_size=6),
)
@settings(derandomize=True, deadline=None)
def test_any_split_into_samples_equals_one_shot(values: Values, cuts: list[int]) -> None:
    total = TensorStatistics.empty()
    for piece in np.split(values, sorted(cuts)):
        total = total.merge(TensorStatistics.from_values(piece, max(len(piece), 1)))
    assert total == TensorStatistics.from_values(values, 12)


def test_means_of_the_extremes_of_samples_are_rounded_once() -> None:
    rows = [[1e-45, 3e38], [-1e30, 2.0], [0.1, 0.3], [math.nan, math.inf]]
    found = TensorStatistics.from_values(np.array(rows, np.float32), 4)
    low, high = ([Fraction(float(np.float32(row[k]))) for row in rows[:3]] for k in (0, 1))
    assert found.samples == 3
    assert (found.mean_minimum, found.mean_maximum) == (float(sum(low) / 3), float(sum(high) / 3))
    assert (TensorStatistics.empty().mean_minimum, TensorStatistics.empty().mean_maximum) == (0.0, 0.0)


def test_statistics_without_bins_hold_extrema_only() -> None:
    known, none = statistics_of(1.0, -2.0), np.zeros(BINS, np.int64)
    bare = dataclasses.replace(known, exponent=-100, positive=none, negative=none.copy(), binned=False)
    assert (bare.minimum, bare.mean_maximum, bare.count) == (-2.0, 1.0, 2)
    for view in (bare.magnitude_histogram, bare.signed_histogram):
        with pytest.raises(CalibrationError, match="no histogram"):
            view()
    with pytest.raises(CalibrationError, match="with and without bins"):
        bare.merge(known)
    assert bare.merge(bare).maxima == 2 * bare.maxima
    assert bare.merge(TensorStatistics.empty()) == bare


@given(any_values, any_values, any_values)
@settings(derandomize=True, deadline=None)
def test_merge_is_associative_and_commutative(a: Values, b: Values, c: Values) -> None:
    x, y, z = (TensorStatistics.from_values(values) for values in (a, b, c))
    assert x.merge(y).merge(z) == x.merge(y.merge(z)) == z.merge(x).merge(y)
    assert x.merge(y) == y.merge(x)
    assert x.merge(TensorStatistics.empty()) == x


def test_degenerate() -> None:
    for values in ([], [0.0, -0.0], [math.nan], [math.inf]):
        assert statistics_of(*values).is_degenerate
    assert TensorStatistics.empty().is_degenerate
    assert not statistics_of(0.0, -1e-45).is_degenerate


def test_magnitude_histogram_ends_with_the_largest_magnitude() -> None:
    counts, width = statistics_of(0.0, 1.0, -0.5, 0.5, math.inf).magnitude_histogram()
    assert (width, counts.size) == (2.0 / 4096, 2049)
    assert (filled(counts), counts[[1024, 2048]].tolist()) == ([1024, 2048], [2, 1])


def test_signed_histogram() -> None:
    counts, width, below = statistics_of(0.0, 0.75, -0.5, -0.5, 2**-13).signed_histogram()
    assert (width, below, counts.size) == (1 / 4096, 2049, 2049 + 3073)
    assert (counts[0], counts[below], counts[-1], counts.sum()) == (2, 1, 1, 4)
    one_sided, _, below = statistics_of(0.0, 0.75).signed_histogram()
    assert (one_sided.size, below) == (3073, 0)
    negative, _, below = statistics_of(0.0, -0.75).signed_histogram()
    assert (negative.size, below) == (3073, 3073)


def test_contradictory_counters_are_refused() -> None:
    good = statistics_of(1.0, 0.0)
    with pytest.raises(ValueError, match="3 values, but 2"):
        dataclasses.replace(good, count=3)
    with pytest.raises(ValueError, match="does not fit"):
        dataclasses.replace(good, maximum=2.5)
    with pytest.raises(ValueError, match="exponent 200"):
        dataclasses.replace(good, exponent=200)
    with pytest.raises(ValueError, match="3 samples of 2"):
        dataclasses.replace(good, samples=3)
    with pytest.raises(ValueError, match="extrema of samples"):
        dataclasses.replace(good, maxima=good.maxima + 1)
    with pytest.raises(ValueError, match="int64"):
        dataclasses.replace(good, positive=good.positive.astype(np.int32))
    with pytest.raises(ValueError, match="read-only"):
        good.positive[0] = 1
    with pytest.raises(CalibrationError, match="float64"):
        TensorStatistics.from_values(np.zeros(3))  # type: ignore[arg-type]


def example() -> Statistics:
    tensors = {
        "x": statistics_of(1, -2, 0, math.nan),
        "été/Relu:0": statistics_of(3e38),
        "a": TensorStatistics.empty(),
    }
    return Statistics("hash-1", tensors)


def test_file_round_trip_and_bytes(tmp_path: Path) -> None:
    original = example()
    original.save(tmp_path / "one.stats")
    reversed_order = Statistics("hash-1", dict(reversed(list(original.tensors.items()))))
    reversed_order.save(tmp_path / "two.stats")
    assert (tmp_path / "one.stats").read_bytes() == (tmp_path / "two.stats").read_bytes()
    assert Statistics.load(tmp_path / "one.stats") == original == reversed_order
    with zipfile.ZipFile(tmp_path / "one.stats") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert original != dataclasses.replace(original, model_hash="other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.stats", "two.stats"]


def test_file_without_tensors(tmp_path: Path) -> None:
    Statistics("h", {}).save(tmp_path / "s")
    assert Statistics.load(tmp_path / "s") == Statistics("h", {})


def test_merge_of_runs(tmp_path: Path) -> None:
    merged = example().merge(example())
    assert merged.tensors["x"].count == 8
    with pytest.raises(CalibrationError, match="two models"):
        merged.merge(Statistics("hash-2", merged.tensors))
    with pytest.raises(CalibrationError, match="x: is in only one"):
        merged.merge(Statistics("hash-1", {name: merged.tensors[name] for name in ("a", "été/Relu:0")}))


def rewrite(path: Path, **changes: npt.NDArray[np.generic]) -> Path:
    with np.load(path) as archive:
        columns = {**archive, **changes}
    broken = path.with_name("broken.npz")
    np.savez(broken, **columns)  # type: ignore[arg-type]
    return broken


def header(**changes: object) -> npt.NDArray[np.generic]:
    fields = {
        "format": "calib8-statistics",
        "version": 2,
        "model_hash": "h",
        "names": ["a", "x", "y"],
        **changes,
    }
    return np.frombuffer(json.dumps(fields).encode(), np.uint8)


def test_broken_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    example().save(path)
    whole = path.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:size])
        with pytest.raises(TableError, match="cut"):
            Statistics.load(tmp_path / "cut")
    for position in range(40, len(whole), 97):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            assert Statistics.load(tmp_path / "damaged") == example()  # a byte that carries no meaning
        except TableError:
            continue
    np.save(tmp_path / "array.npy", np.zeros(3))
    for other in ("array.npy", "missing"):
        with pytest.raises(TableError, match=other):
            Statistics.load(tmp_path / other)
    with pytest.raises(TableError, match="version 3, not 2"):
        Statistics.load(rewrite(path, header=header(version=3)))
    with pytest.raises(TableError, match="not a calib8-statistics"):
        Statistics.load(rewrite(path, header=header(format="other")))
    with pytest.raises(TableError, match="is broken"):
        Statistics.load(rewrite(path, header=header(names=["a", "b", "c", "d"])))
    for names in (["a", "x"], [], {}, "axy", ["a", "a", "x"], [1, 2, 3]):
        with pytest.raises(TableError, match="is broken"):
            Statistics.load(rewrite(path, header=header(names=names)))
    with pytest.raises(TableError, match="is broken"):
        Statistics.load(rewrite(path, zeros=np.array([5, 0, 0])))
    with pytest.raises(TableError, match="'zeros' is float64"):
        Statistics.load(rewrite(path, zeros=np.zeros(3)))


def test_missing_folder_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        example().save(tmp_path / "no" / "s")


def test_the_file_keeps_origins_and_samples_and_old_files_lack_them(tmp_path: Path) -> None:
    known = Statistics(
        "m", {"t": statistics_of(1.0)}, None, (Origin("cpu", "1"), Origin("cpu", "2")), (b"a" * 16, b"b" * 16)
    )
    known.save(tmp_path / "s")
    found = Statistics.load(tmp_path / "s")
    assert (found.origins, found.digests) == (known.origins, known.digests)
    assert found.to_bytes() == known.to_bytes()
    with np.load(tmp_path / "s") as archive:
        columns = {name: archive[name] for name in archive.files if name != "digests"}
    header = json.loads(columns["header"].tobytes())
    del header["origins"]
    columns["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(tmp_path / "old.npz", **columns)
    old = Statistics.load(tmp_path / "old.npz")
    assert (old.origins, old.digests) == ((), ()) and old.tensors == known.tensors
    np.savez(tmp_path / "odd.npz", **columns, digests=np.zeros((2, 8), np.uint8))
    with pytest.raises(TableError, match=r"odd\.npz: is broken \('digests' is uint8 \[2, 8\]\)"):
        Statistics.load(tmp_path / "odd.npz")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"minimum": -1.0, "minima": 0}, "0 values below 0 and 2 above"),
        ({"positive": np.zeros(BINS, np.int64), "zeros": 4}, "0 values below 0 and 0 above"),
        ({"positive": np.full(BINS, 1 << 52), "count": 2, "zeros": 2}, "2 values, but"),
        ({"exponent": 67}, "does not fit exponent 67"),
    ],
)
def test_extremes_of_values_that_are_in_no_bin(change: dict[str, Any], told: str) -> None:
    """The bins of a file must hold what its extremes say: searches find no range without."""
    with pytest.raises(ValueError, match=told):
        dataclasses.replace(statistics_of(0.0, 0.0, 1.0, 2.0), **change)
