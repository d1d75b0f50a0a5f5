"""The native kernel: every instruction set and any split over threads equal the NumPy definition."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calib8 import _core
from calib8.calibration.statistics import TensorStatistics

ISAS = _core.available_isas()
SIZES = [
    0,
    1,
    7,
    8,
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    1023,
    1024,
    1025,
    1055,
    1056,
    2047,
    2049,
    65_537,
    200_001,
]

Values = npt.NDArray[np.float32]


def counted(values: Values, isa: str) -> TensorStatistics:
    accumulator = _core.TensorAccumulator()
    assert accumulator.update(values, isa) == isa
    return TensorStatistics.from_accumulator(accumulator)


def sample(kind: str, size: int) -> Values:
    rng = np.random.default_rng([size, *kind.encode()])
    normal = rng.standard_normal(size).astype(np.float32)
    if kind == "normal":
        return normal
    if kind == "relu":
        return np.maximum(normal, 0)
    if kind == "negative":
        return np.minimum(normal, -0.0)
    if kind == "growing":
        return (normal * np.float32(2) ** np.linspace(-120, 120, max(size, 1))[:size]).astype(np.float32)
    if kind == "sparse":
        return np.where(rng.random(size) < 0.02, normal, np.copysign(np.float32(0), normal))
    # Any bit pattern: one value in 128 is NaN or infinite, others are denormal or huge.
    return rng.integers(0, 2**32, size, dtype=np.uint32).view(np.float32)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["normal", "relu", "negative", "growing", "sparse", "any"])
def test_every_isa_counts_as_the_definition(isa: str, kind: str) -> None:
    for size in SIZES:
        values = sample(kind, size)
        assert counted(values, isa) == TensorStatistics.from_values(values), size


@pytest.mark.parametrize("isa", ISAS)
@given(
    values=arrays(np.float32, st.integers(0, 150), elements=st.floats(width=32)),
    repeats=st.integers(1, 20),
)
@settings(derandomize=True, deadline=None, max_examples=80)
def test_awkward_values(isa: str, values: Values, repeats: int) -> None:
    repeated = np.tile(values, repeats)
    assert counted(repeated, isa) == TensorStatistics.from_values(repeated)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    "special",
    [np.nan, np.inf, -np.inf, 1e-45, -1e-45, 1.1754942e-38, -0.0, 3.4028235e38, -3.4028235e38, 2.0, 1.0],
)
def test_one_special_value_anywhere_in_a_block(isa: str, special: float) -> None:
    for position in (0, 1, 31, 32, 500, 1023, 1024, 2000, 2079):
        values = np.maximum(sample("normal", 2080), -1).clip(max=np.float32(0.999))
        values[position] = special
        assert counted(values, isa) == TensorStatistics.from_values(values), position


@pytest.mark.parametrize("isa", ISAS)
def test_bin_edges(isa: str) -> None:
    edges = (np.arange(4096) / 4096).astype(np.float32)
    values = np.concatenate(
        [edges, np.nextafter(edges, np.float32(1)), -edges, -np.nextafter(edges, np.float32(0))]
    )
    statistics = counted(values, isa)
    assert statistics == TensorStatistics.from_values(values)
    assert statistics.positive[1:4095].tolist() == [2] * 4094


@pytest.mark.parametrize("isa", ISAS)
def test_more_equal_values_than_a_small_counter_holds(isa: str) -> None:
    values = np.full(300_007, 0.75, np.float32)
    values[1::2] *= -1
    statistics = counted(values, isa)
    assert (statistics.positive[3072], statistics.negative[3072]) == (150_004, 150_003)
    accumulator = _core.TensorAccumulator()
    for _ in range(3):
        accumulator.update(np.full(65_535, 0.75, np.float32), isa)
        accumulator.update(np.full(65_536, 0.75, np.float32), isa)
    assert accumulator.positive[3072] == accumulator.count == 3 * 131_071


@pytest.mark.parametrize("isa", ISAS)
def test_unaligned_views_and_shapes(isa: str) -> None:
    values = sample("normal", 5000)
    for offset in range(1, 18):
        view = values[offset:]
        assert counted(view, isa) == TensorStatistics.from_values(view)
    assert counted(values.reshape(5, 10, 100), isa) == TensorStatistics.from_values(values)
    values.setflags(write=False)
    assert counted(values, isa) == TensorStatistics.from_values(values)
    assert counted(np.array(-3.5, np.float32), isa).minimum == -3.5


@pytest.mark.parametrize("isa", ISAS)
@given(cuts=st.lists(st.integers(0, 6000), max_size=8), seed=st.integers(0, 5))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_many_updates_and_merges_equal_one(isa: str, cuts: list[int], seed: int) -> None:
    values = np.concatenate([sample("growing", 3000), sample("any", 2000 + seed), sample("relu", 1000)])
    values = np.random.default_rng(seed).permutation(values)
    total, pieces = _core.TensorAccumulator(), np.split(values, sorted(cuts))
    for index, piece in enumerate(pieces):
        if index % 2:
            total.update(piece, isa)
        else:
            part = _core.TensorAccumulator()
            part.update(piece, isa)
            total.merge(part)
    found = TensorStatistics.from_accumulator(total)
    expected = [TensorStatistics.from_values(piece) for piece in pieces]
    whole = TensorStatistics.from_values(values)
    sums = {name: sum(getattr(part, name) for part in expected) for name in ("samples", "minima", "maxima")}
    assert found == dataclasses.replace(whole, **sums)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["normal", "relu", "negative", "growing", "any"])
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_extremes_are_those_of_every_sample(isa: str, kind: str, rows: int, threads: int) -> None:
    tensors = [sample(kind, rows * size) for size in (1, 5, 33, 1025, 9000)]
    tensors[1][:5] = np.nan  # a sample without a finite value is none
    accumulators = [_core.TensorAccumulator() for _ in tensors]
    items = [(state, values, rows) for state, values in zip(accumulators, tensors, strict=True)]
    _core.accumulate(items, threads, isa)
    for accumulator, values in zip(accumulators, tensors, strict=True):
        found = TensorStatistics.from_accumulator(accumulator)
        assert found == TensorStatistics.from_values(values, rows)
    one = TensorStatistics.from_accumulator(accumulators[1])
    assert one.samples == rows - 1


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["normal", "relu", "negative", "growing", "sparse", "any"])
def test_measuring_is_counting_without_bins(isa: str, kind: str) -> None:
    for size in SIZES:
        values = sample(kind, size)
        accumulator = _core.TensorAccumulator(bins=False)
        assert accumulator.update(values, isa) == isa
        found, full = TensorStatistics.from_accumulator(accumulator), TensorStatistics.from_values(values)
        none = np.zeros(4096, np.int64)
        bare = dataclasses.replace(full, exponent=-100, positive=none, negative=none.copy(), binned=False)
        assert found == bare, size
    with pytest.raises(ValueError, match="no bins"):
        accumulator.merge(_core.TensorAccumulator())


def test_a_number_of_samples_that_does_not_fit_is_refused() -> None:
    accumulator, values = _core.TensorAccumulator(), np.ones(6, np.float32)
    for samples in (0, -1, 4, 7):
        with pytest.raises(ValueError, match=f"of {samples} samples"):
            accumulator.update(values, samples=samples)
    assert accumulator.count == 0


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", [1, 2, 3, 5, 16])
def test_threads_do_not_change_the_result(isa: str, threads: int) -> None:
    sizes = [0, 70_001, 3, 0, 20_000, 16_384, 1, 150_000, 0]
    kinds = ["relu", "growing", "any", "normal", "sparse", "normal", "any", "any", "relu"]
    tensors = [sample(kind, size) for kind, size in zip(kinds, sizes, strict=True)]
    accumulators = [_core.TensorAccumulator() for _ in tensors]
    items = [(a, values, 1) for a, values in zip(accumulators, tensors, strict=True)]
    for _ in range(2):
        assert _core.accumulate(items, threads, isa) == isa
    for accumulator, values in zip(accumulators, tensors, strict=True):
        once = TensorStatistics.from_values(values)
        assert TensorStatistics.from_accumulator(accumulator) == once.merge(once)


def test_counts_beyond_32_bits() -> None:
    accumulator = _core.TensorAccumulator()
    accumulator.update(np.array([0.5, 0.0, -0.25, np.nan, np.inf], np.float32))
    for _ in range(38):
        accumulator.merge(accumulator)
    statistics = TensorStatistics.from_accumulator(accumulator)
    assert statistics.count == 5 << 38
    assert (
        statistics.positive[2048]
        == statistics.negative[1024]
        == statistics.zeros
        == statistics.nans
        == statistics.samples
        == 1 << 38
    )


def test_python_threads_may_share_an_accumulator() -> None:
    accumulator, other = _core.TensorAccumulator(), _core.TensorAccumulator()
    values = sample("normal", 40_000)

    def work(first: _core.TensorAccumulator, second: _core.TensorAccumulator) -> None:
        for _ in range(20):
            _core.accumulate([(first, values, 1), (second, values, 1)], 2)

    workers = [
        threading.Thread(target=work, args=pair) for pair in ((accumulator, other), (other, accumulator))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert accumulator.count == other.count == 2 * 20 * values.size
    assert (
        int(accumulator.positive.sum() + accumulator.negative.sum()) + accumulator.zeros == accumulator.count
    )


def test_wrong_arguments_are_refused() -> None:
    accumulator = _core.TensorAccumulator()
    good = np.ones(4, np.float32)
    for bad in (good.astype(np.float64), np.ones((4, 4), np.float32)[:, 1], np.ones(4, np.int32)):
        with pytest.raises(TypeError):
            accumulator.update(bad)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            _core.accumulate([(accumulator, bad, 1)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="'sse9' is unknown or not available"):
        accumulator.update(good, "sse9")
    with pytest.raises(ValueError, match="twice"):
        _core.accumulate([(accumulator, good, 1), (accumulator, good, 1)])
    for threads in (0, -1, 257):
        with pytest.raises(ValueError, match=f"not {threads}"):
            _core.accumulate([(accumulator, good, 1)], threads)
    assert accumulator.count == 0


def run_python(code: str, isa: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "CALIB8_ISA"}
    if isa is not None:
        environment["CALIB8_ISA"] = isa
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


COUNT_SOME = """
import numpy as np
from calib8 import _core
from calib8.calibration.statistics import counting_isa
accumulator, values = _core.TensorAccumulator(), np.ones(9, np.float32)
print(counting_isa(), accumulator.update(values), _core.accumulate([(accumulator, values, 1)]))
"""


@pytest.mark.parametrize("isa", ISAS)
def test_environment_chooses_the_isa(isa: str) -> None:
    result = run_python(COUNT_SOME, isa)
    assert result.stdout.split() == [isa] * 3, result.stderr


def test_the_fastest_isa_is_the_default() -> None:
    assert ISAS[-1] == "reference"
    for unset in (None, ""):
        assert run_python(COUNT_SOME, unset).stdout.split() == [ISAS[0]] * 3


def test_unknown_isa_in_the_environment_is_refused() -> None:
    result = run_python(COUNT_SOME, "mmx")
    assert result.returncode != 0
    assert "UsageError: CALIB8_ISA=mmx: " in result.stderr
    assert "reference" in result.stderr.splitlines()[-1]
    direct = run_python(COUNT_SOME.replace("counting_isa(), ", ""), "mmx")
    assert "ValueError: instruction set 'mmx' is unknown or not available" in direct.stderr


def test_a_forked_child_counts_on_threads_of_its_own() -> None:
    code = """
import os
import numpy as np
from calib8 import _core
values = np.ones(100_000, np.float32)
def count():
    accumulator = _core.TensorAccumulator()
    _core.accumulate([(accumulator, values, 1)], 3)
    return accumulator.count
before = count()
child = os.fork()
if child == 0:
    os._exit(0 if count() == before else 1)
print(os.waitpid(child, 0)[1], count())
"""
    assert run_python(code).stdout.split() == ["0", "100000"]


@pytest.mark.parametrize("isa", ISAS)
def test_a_cleared_accumulator_is_a_new_one(isa: str) -> None:
    accumulator = _core.TensorAccumulator()
    values = sample("normal", 4097)
    for _ in range(3):  # several slots, by several threads
        _core.accumulate([(accumulator, values * np.float32(1e6), 1)], 3, isa)
    accumulator.clear()
    assert TensorStatistics.from_accumulator(accumulator) == TensorStatistics.from_accumulator(
        _core.TensorAccumulator()
    )
    accumulator.update(values, isa)
    assert TensorStatistics.from_accumulator(accumulator) == counted(values, isa)
