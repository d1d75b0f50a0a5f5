"""Methods that read the data twice: the second pass counts what the first saw, or says that it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import pytest

from calib8.calibration.choose import check_method, choose_table, range_method
from calib8.calibration.collect import collect
from calib8.calibration.collect_layouts import collect_layouts
from calib8.calibration.layouts import LAYOUTS, MXNET, NCNN, TENSORRT, Layout, LayoutCounts
from calib8.calibration.output_taps import OutputTaps
from calib8.calibration.ranges.two_pass import TWO_PASS_METHODS, needs_data_again
from calib8.calibration.statistics import Statistics, TensorStatistics
from calib8.errors import CalibrationError, DataError, UsageError
from calib8.model.runtime import Arrays
from calib8.pipeline import calibrate
from calib8.qparams import INT8_SYMMETRIC, UINT8, activation_qparams
from small_models import graph, normal, onnx_model

TENSORS = ("x", "c", "r", "d", "never")
IMAGES = normal(9, 3, 10, 10)
BODY = (
    "c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c) p = GlobalAveragePool(r) f = Flatten(p) d = Gemm(f, v) "
    "never = Mul(d, zero) y = Add(d, never)"
)
WEIGHTS = {"w": normal(8, 3, 3, 3), "v": normal(8, 300, seed=1), "zero": np.float32([0.0])}


@pytest.fixture(scope="module")
def model() -> ir.Model:
    """A Gemm whose kernel sums differently for one row, and a tensor of zeros."""
    return graph("float[N,3,10,10] x", "float[N,300] y", BODY, WEIGHTS)


def cut(images: npt.NDArray[np.float32], size: int) -> Iterator[dict[str, npt.NDArray[np.float32]]]:
    for start in range(0, len(images), size):
        yield {"x": images[start : start + size]}


@pytest.fixture(scope="module")
def statistics(model: ir.Model) -> Statistics:
    return collect(model, TENSORS, cut(IMAGES, 1), threads=1)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_counts_do_not_depend_on_order_batches_and_threads(
    model: ir.Model, statistics: Statistics, layout: Layout
) -> None:
    first = collect_layouts(model, statistics, layout, cut(IMAGES, 1), threads=1)
    assert tuple(first) == TENSORS
    for images, size, threads in ((IMAGES[::-1], 4, 2), (IMAGES, 9, 3)):
        assert collect_layouts(model, statistics, layout, cut(images, size), threads=threads) == first
    expected = LayoutCounts.from_values(layout, float(np.abs(IMAGES).max()), IMAGES)
    assert first["x"] == expected
    assert first["never"] == LayoutCounts(layout, 0.0, np.zeros(layout.bins, np.int64))
    found = first["r"].bins.sum()
    assert found == statistics.tensors["r"].count - (
        statistics.tensors["r"].zeros if layout.magnitudes else 0
    )


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the batches that the second pass runs both at once and one by one."""
    sizes: list[int] = []
    both = OutputTaps.both

    def told(taps: OutputTaps, feeds: Arrays, size: int) -> bool:
        sizes.append(size)
        return both(taps, feeds, size)

    monkeypatch.setattr(OutputTaps, "both", told)
    return sizes


def test_every_size_of_batch_is_compared_with_its_samples_once(
    model: ir.Model, statistics: Statistics, compared: list[int]
) -> None:
    collect_layouts(model, statistics, NCNN, cut(IMAGES, 2))
    assert compared == [2]
    collect_layouts(model, statistics, NCNN, cut(IMAGES, 5))
    assert compared == [2, 5, 4]


def test_the_second_pass_runs_single_samples_unless_told(compared: list[int]) -> None:
    calibrate(network(), {"x": IMAGES}, method="entropy-ncnn")
    assert compared == []
    calibrate(network(), {"x": IMAGES}, method="entropy-ncnn", batch=3)
    assert compared == [3]


def test_batches_are_told(model: ir.Model, statistics: Statistics) -> None:
    told: list[int] = []
    collect_layouts(model, statistics, NCNN, cut(IMAGES, 4), on_batch=told.append)
    assert told == [4, 4, 1]


@pytest.mark.parametrize(
    ("images", "problem"),
    [
        (2.0 * IMAGES, r"tensor 'x': had other values when the data was read again: .* beyond ±"),
        (IMAGES[:8], "tensor 'x': had other values when the data was read again: 2400 instead of 2700"),
        (np.where(IMAGES > 1.0, 0.0, IMAGES).astype(np.float32), "tensor 'x': had other values"),
        (np.full_like(IMAGES, np.nan), "2700 of them beyond"),
    ],
    ids=["larger", "fewer", "more zeros", "nan"],
)
def test_other_data_the_second_time_is_refused(
    model: ir.Model, statistics: Statistics, images: npt.NDArray[np.float32], problem: str
) -> None:
    with pytest.raises(CalibrationError, match=problem):
        collect_layouts(model, statistics, NCNN, cut(images, 3))


def test_nan_of_the_first_pass_is_refused_before_the_second(model: ir.Model) -> None:
    bad = IMAGES.copy()
    bad[0, 0, 0, 0] = np.nan
    statistics = collect(model, TENSORS, cut(bad, 3))

    def never() -> Iterator[dict[str, npt.NDArray[np.float32]]]:
        raise AssertionError("the data was read again")
        yield {}

    with pytest.raises(CalibrationError, match="tensor 'x': held 1 NaN"):
        collect_layouts(model, statistics, NCNN, never())


def test_tensors_with_a_known_range_are_left_out(model: ir.Model, statistics: Statistics) -> None:
    bad = IMAGES.copy()
    bad[0, 0, 0, 0] = np.inf
    others = collect(model, ("x", "never"), cut(bad, 3))
    counts = collect_layouts(model, others, NCNN, cut(bad, 3), without={"x", "never"})
    assert counts == {}
    part = collect_layouts(model, statistics, NCNN, cut(IMAGES, 3), without={"x", "d"})
    whole = collect_layouts(model, statistics, NCNN, cut(IMAGES, 3))
    assert part == {name: whole[name] for name in ("c", "r", "never")}


def test_statistics_alone_are_refused_by_name(statistics: Statistics) -> None:
    assert [name for name in ("minmax", "entropy", "mse", "percentile") if needs_data_again(name)] == []
    for method in TWO_PASS_METHODS:
        assert needs_data_again(method)
        with pytest.raises(UsageError, match=f"method='{method}': counts in bins of its own"):
            choose_table(statistics, UINT8, method)
        with pytest.raises(UsageError, match=f"method='{method}'"):
            range_method(method, None)
        check_method(method, None)
        with pytest.raises(UsageError, match="takes no percent"):
            check_method(method, 99.0)
    with pytest.raises(UsageError, match=r"unknown method.*entropy-ncnn"):
        check_method("entropy-mnn", None)


@pytest.mark.parametrize("method", TWO_PASS_METHODS)
def test_the_table_has_what_the_method_chose(model: ir.Model, statistics: Statistics, method: str) -> None:
    layout = TWO_PASS_METHODS[method].layout
    counts = collect_layouts(model, statistics, layout, cut(IMAGES, 3))
    table = choose_table(statistics, INT8_SYMMETRIC, method, counts=counts)
    assert tuple(table.entries) == tuple(sorted(TENSORS))
    for name in ("x", "c", "r", "d"):
        entry = table.entries[name]
        expected = TWO_PASS_METHODS[method].choose(counts[name], statistics.tensors[name], INT8_SYMMETRIC)
        assert entry.method == method
        assert entry.range.magnitude == expected.magnitude
    assert table.entries["r"].range.min == 0.0
    assert table.entries["never"].range.magnitude == 0.0


def test_half_a_bin_beyond_the_largest_magnitude_reaches_the_scale() -> None:
    """Behind a softmax the table begins at 0; its other end keeps 2048.5/2048."""
    values = np.repeat(np.float32([0.005, 1.0]), 1000)
    for sign in (1, -1):
        seen = Statistics("", {"prob": TensorStatistics.from_values(sign * values)})
        counts = {"prob": LayoutCounts.from_values(TENSORRT, 1.0, sign * values)}
        entry = choose_table(seen, INT8_SYMMETRIC, "entropy-tensorrt-exact", counts=counts).entries["prob"]
        assert entry.range.magnitude == 2048.5 / 2048 and entry.clipped == 0.0
        assert 0.0 in (entry.range.min, entry.range.max)
        scale = activation_qparams(entry.range.min, entry.range.max, INT8_SYMMETRIC).scale
        assert int(np.float32(scale).view(np.uint32)) == 0x3C010A14
        asymmetric = choose_table(seen, UINT8, "entropy-tensorrt-exact", counts=counts).entries["prob"]
        assert asymmetric.range.magnitude == 1.0


def network() -> onnx.ModelProto:
    return onnx_model("float[N,3,10,10] x", "float[N,300] y", BODY, WEIGHTS)


@pytest.mark.parametrize("method", TWO_PASS_METHODS)
def test_calibrate_reads_the_data_twice(method: str) -> None:
    told: list[str] = []
    found = calibrate(
        network(), {"x": IMAGES}, method=method, progress=lambda stage, done, total: told.append(stage)
    )
    assert {entry.method for entry in found.table.entries.values()} == {method}
    assert list(dict.fromkeys(told)) == ["calibrating", "calibrating, second pass"]
    again = calibrate(network(), {"x": IMAGES[::-1].copy()}, method=method, batch=4, threads=1)
    assert again.table.to_json() == found.table.to_json()


def source(reads: list[int], change: Callable[[int], npt.NDArray[np.float32]]) -> Callable[[], object]:
    """Samples of a function: each call is counted and may give others."""

    def samples() -> Iterator[dict[str, npt.NDArray[np.float32]]]:
        reads.append(1)
        for image in change(len(reads)):
            yield {"x": image[None]}

    return samples


def test_a_function_is_called_once_more() -> None:
    counts = {}
    for method in ("entropy", "entropy-ncnn"):
        reads: list[int] = []
        calibrate(network(), source(reads, lambda _: IMAGES), method=method)  # type: ignore[arg-type]
        counts[method] = len(reads)
    assert counts["entropy-ncnn"] == counts["entropy"] + 1


def test_a_generator_is_read_once_and_kept_for_the_second_pass() -> None:
    read: list[int] = []

    def samples() -> Iterator[dict[str, npt.NDArray[np.float32]]]:
        for number in range(len(IMAGES)):
            read.append(number)
            yield {"x": IMAGES[number : number + 1]}

    found = calibrate(network(), samples(), method="entropy-ncnn").table
    assert read == list(range(len(IMAGES)))
    wanted = calibrate(network(), list(samples()), method="entropy-ncnn").table
    assert found.entries == wanted.entries


def test_a_function_that_is_used_up_or_changes_is_refused() -> None:
    for change, error in (
        (lambda reads: IMAGES if reads < 3 else IMAGES[:0], DataError),
        (lambda reads: IMAGES if reads < 3 else 3.0 * IMAGES, CalibrationError),
    ):
        with pytest.raises(error):
            calibrate(network(), source([], change), method="entropy-mxnet")  # type: ignore[arg-type]


def test_layouts_of_the_methods_are_their_own() -> None:
    assert {method.layout for method in TWO_PASS_METHODS.values()} == set(LAYOUTS)
    assert TWO_PASS_METHODS["entropy-mxnet"].layout is MXNET
