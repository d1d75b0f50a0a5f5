"""Taps inside ONNX Runtime count the very values that come out as graph outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from calib8 import _core
from calib8.calibration.collect import Collector, collect
from calib8.calibration.graph_taps import GraphTaps, channel_block
from calib8.calibration.source import tensors_to_calibrate
from calib8.calibration.statistics import Statistics, TensorStatistics
from calib8.calibration.tap_graph import move_taps, open_tapped, with_taps
from calib8.data.batches import batches
from calib8.data.opening import open_dataset
from calib8.errors import CalibrationError, DataError, ModelError
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.model.runtime import open_session
from calib8.model.taps import tapped_model
from calib8.passes.prepare import prepare
from conformance.real_networks import NETWORKS
from slow_cases import slow_but
from small_models import graph, normal

BODY = """
    c = Conv <pads = [1, 1, 1, 1]> (x, w)   r = Clip (c, low, high)
    d = Conv <group = {group}, pads = [1, 1, 1, 1]> (r, g)   s = Sigmoid (d)
    e = Conv (s, v)   a = Add (e, c)   u = HardSigmoid (a)
    p = GlobalAveragePool (u)   y = Conv (p, z)
"""
TENSORS = ("x", "c", "r", "d", "s", "e", "a", "u", "p", "y")


def network(channels: int, size: str = "N") -> ir.Model:
    """Every tensor but x and y has the given number of channels; y has one more than that."""
    constants = {
        "w": normal(channels, 3, 3, 3),
        "g": normal(channels, 1, 3, 3, seed=1),
        "v": normal(channels, channels, 1, 1, seed=2),
        "z": normal(channels + 1, channels, 1, 1, seed=3),
        "low": np.float32(0),
        "high": np.float32(6),
    }
    body = BODY.format(group=channels)
    return graph(f"float[{size},3,H,W] x", f"float[{size},{channels + 1},1,1] y", body, constants)


def definition(model: ir.Model, tensors: tuple[str, ...], feeds: list[npt.NDArray[np.float32]]) -> Statistics:
    """What the plain definition counts on graph outputs of an ordinary session, sample by sample."""
    taps = [name for name in tensors if name != "x"]
    session = open_session(tapped_model(model, taps), threads=1)
    total = {name: TensorStatistics.empty() for name in tensors}
    for batch in feeds:
        for index in range(len(batch)):
            row = {"x": batch[index : index + 1]}
            arrays = dict(zip(taps, session.run(row), strict=True)) | row
            for name in tensors:
                total[name] = total[name].merge(TensorStatistics.from_values(arrays[name]))
    return Statistics("", total)


def gathered(
    model: ir.Model, feeds: list[npt.NDArray[np.float32]], threads: int = 2, bins: bool = True
) -> Statistics:
    with Collector(model, TENSORS, threads=threads, bins=bins) as collector:
        for batch in feeds:
            collector.add({"x": batch})
        assert collector.fallback == ""
        return collector.statistics()


@pytest.mark.parametrize("channels", [1, 3, 16, 17, 20, 31, 32, 40])
@pytest.mark.parametrize("size", [(1, 1), (5, 7), (40, 24)])
def test_odd_channels_are_counted_as_the_definition_counts(channels: int, size: tuple[int, int]) -> None:
    model, feeds = network(channels), [normal(2, 3, *size, seed=9), normal(1, 3, *size, seed=8)]
    assert gathered(model, feeds).tensors == definition(model, TENSORS, feeds).tensors


@pytest.mark.one_in(3)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5, 15])
def test_batches_and_threads_do_not_matter(cut: int, threads: int) -> None:
    model, images = network(20), normal(15, 3, 40, 24)
    feeds = [images[start : start + cut] for start in range(0, 15, cut)]
    assert gathered(model, feeds, threads).tensors == definition(model, TENSORS, [images]).tensors


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_counted(special: float) -> None:
    model, images = network(17), normal(5, 3, 12, 11)
    images[3, 1, 4, 5] = special
    images[4] = special
    found = gathered(model, [images[:2], images[2:]]).tensors
    assert found == definition(model, TENSORS, [images]).tensors
    assert (found["x"].samples, found["x"].finite) == (4, 4 * 3 * 12 * 11 - 1)
    assert found["c"].finite < found["c"].count


def test_taps_read_blocked_tensors_where_there_are_some() -> None:
    """Proves that the fast path is taken: no tensor is reordered for a tap."""
    model = network(20)
    taps = GraphTaps(model, TENSORS, states(TENSORS), threads=1, block=channel_block())
    taps.together({"x": normal(1, 3, 6, 6)}, 1)
    shapes = dict(zip(TENSORS, ([*taps._taps.shape(i)] for i in range(len(TENSORS))), strict=True))
    assert shapes["x"] == [1, 3, 6, 6]
    assert {name: shapes[name][1] for name in "csa"} in (
        dict.fromkeys("csa", 24 if channel_block() == 8 else 32),
        dict.fromkeys("csa", 20),  # an ONNX Runtime without blocked tensors
    )


def states(tensors: tuple[str, ...]) -> dict[str, _core.TensorAccumulator]:
    return {name: _core.TensorAccumulator() for name in tensors}


def test_outputs_keep_every_bit() -> None:
    model, x = network(20), normal(2, 3, 9, 9)
    taps = _core.Taps([_core.TensorAccumulator() for _ in TENSORS], 2)
    session, tokens = open_tapped(model, TENSORS, taps.key, threads=2, block=channel_block())
    [plain] = open_session(model, threads=2).run({"x": x})
    [y, *zeros] = session.run({"x": x}, ["y", *tokens])
    np.testing.assert_array_equal(y.view(np.uint32), plain.view(np.uint32))
    assert [float(zero[0]) for zero in zeros] == [0.0] * len(TENSORS)
    assert [spec.name for spec in session.outputs] == ["y", *tokens]


def test_extrema_alone() -> None:
    model, images = network(17), normal(6, 3, 30, 30)
    images[2, 0, 3, 3] = np.nan
    found = gathered(model, [images[:4], images[4:]], bins=False).tensors
    for name, full in definition(model, TENSORS, [images]).tensors.items():
        bare = found[name]
        assert not bare.binned and not bare.positive.any() and not bare.negative.any()
        for field in (
            "count",
            "zeros",
            "nans",
            "positive_infs",
            "samples",
            "minima",
            "maxima",
            "minimum",
            "maximum",
        ):
            assert getattr(bare, field) == getattr(full, field), (name, field)


def test_graph_outputs_count_extrema_alone_too() -> None:
    model, images = network(3), normal(4, 3, 5, 5)
    with Collector(model, TENSORS, bins=False, in_graph=False) as collector:
        collector.add({"x": images})
        assert collector.statistics().tensors == gathered(model, [images], bins=False).tensors


def test_a_model_that_takes_four_gets_four() -> None:
    model, images = network(20, "4"), normal(8, 3, 10, 10)
    with Collector(model, TENSORS) as collector:
        assert collector.batch_size == 4
        assert [collector.add({"x": images[k : k + 4]}) for k in (0, 4)] == [4, 4]
        assert collector.statistics().tensors["a"].samples == 8
        free = gathered(network(20), [images])
        assert collector.statistics().tensors == free.tensors


def test_a_run_is_a_sample_where_inputs_have_no_common_batch() -> None:
    body = "y = Add (x, k)"
    model = graph("float[N,4] x, float[4] k", "float[N,4] y", body)
    with Collector(model, ["y", "k"]) as collector:
        assert collector.add({"x": normal(5, 4), "k": normal(4)}) == 1
        found = collector.statistics().tensors
    assert (collector.fallback, found["y"].samples, found["k"].samples) == ("", 1, 1)


def test_inputs_of_other_types_are_counted_beside_the_run() -> None:
    model = graph("uint8[N,4] x", "float[N,4] y", "f = Cast <to = 1> (x)  y = Relu (f)")
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    with Collector(model, ["x", "y"]) as collector:
        collector.add({"x": pixels})
        collector.add({"x": pixels})
        found = collector.statistics().tensors
    once = TensorStatistics.from_values(pixels.astype(np.float32), 3)
    assert (collector.fallback, found["x"], found["y"]) == ("", once.merge(once), once.merge(once))


def test_a_batch_that_changes_bits_is_run_sample_by_sample() -> None:
    """One row of a matrix product is summed in another order than several."""
    constants = {"w": normal(300, 200), "v": normal(200, 64, seed=1)}
    model = graph("float[N,300] x", "float[N,64] y", "h = MatMul (x, w)  y = MatMul (h, v)", constants)
    images, tensors = normal(12, 300), ("h", "y")
    expected = definition(model, tensors, [images]).tensors
    for cut in (2, 5, 12):
        batch = [{"x": images[k : k + cut]} for k in range(0, 12, cut)]
        with Collector(model, tensors) as collector:
            for feeds in batch:
                collector.add(feeds)
            assert (collector.fallback, collector.statistics().tensors) == ("", expected)


def test_what_goes_on_after_a_snapshot_is_added() -> None:
    model, images = network(3), normal(6, 3, 8, 8)
    with Collector(model, TENSORS) as collector:
        collector.add({"x": images[:3]})
        first = collector.statistics()
        collector.add({"x": images[3:]})
        both = collector.statistics()
    assert first.tensors == definition(model, TENSORS, [images[:3]]).tensors
    assert both.tensors == definition(model, TENSORS, [images]).tensors
    assert both.model_hash == first.model_hash


def test_where_taps_fail_graph_outputs_count_and_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise CalibrationError("ONNX Runtime", "has no taps", "Take another")

    model, images = network(17), normal(3, 3, 8, 8)
    expected = gathered(model, [images])
    monkeypatch.setattr("calib8.calibration.collect.channel_block", refuse)
    with Collector(model, TENSORS) as collector:
        collector.add({"x": images})
        assert "ONNX Runtime: has no taps" in collector.fallback
        assert collector.statistics() == expected


def test_models_too_large_for_one_file_are_counted_as_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    model, images = network(17), normal(3, 3, 8, 8)
    expected = gathered(model, [images])
    monkeypatch.setattr("calib8.calibration.tap_graph.PROTOBUF_LIMIT", 1000)
    with Collector(model, TENSORS) as collector:
        collector.add({"x": images})
        assert "over 2 GB" in collector.fallback
        assert collector.statistics() == expected


def test_a_tap_that_fails_in_the_first_run_ends_in_graph_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    model, images = network(17), normal(3, 3, 8, 8)
    expected = gathered(model, [images])
    wrong = 24 - channel_block()
    monkeypatch.setattr("calib8.calibration.collect.channel_block", lambda: wrong)
    with Collector(model, TENSORS) as collector:
        assert collector.fallback == ""
        collector.add({"x": images})
        assert "another layout" in collector.fallback
        assert collector.statistics() == expected


def test_a_machine_whose_taps_count_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = property(lambda taps: taps._count)
    monkeypatch.setattr(GraphTaps, "_run", lambda taps, feeds: [])
    monkeypatch.setattr(GraphTaps, "half_counted", nothing)
    with pytest.raises(CalibrationError, match="does not count a known tensor rightly"):
        channel_block.__wrapped__()


def test_a_batch_that_does_not_fit_leaves_the_counts_alone() -> None:
    model, images = network(3), normal(4, 3, 8, 8)
    with Collector(model, TENSORS) as collector:
        with pytest.raises(DataError, match="refused x"):
            collector.add({"x": images[:, :2]})
        collector.add({"x": images})
        with pytest.raises(DataError, match="refused x"):
            collector.add({"x": images[:, :2]})
        assert collector.statistics().tensors == definition(model, TENSORS, [images]).tensors


def test_a_run_that_fails_half_way_ends_the_collector() -> None:
    body = "h = Relu (x)  y = Reshape (h, k)"
    model = graph("float[N,M] x", "float[1,4] y", body, {"k": np.array([1, 4])})
    with Collector(model, ["h", "y"]) as collector:
        collector.add({"x": normal(1, 4)})
        with pytest.raises(DataError, match="refused x"):
            collector.add({"x": normal(1, 3)})
        for further in (collector.statistics, lambda: collector.add({"x": normal(1, 4)})):
            with pytest.raises(CalibrationError, match="half-way"):
                further()


@pytest.mark.parametrize("in_graph", [True, False])
def test_a_model_that_cannot_run_the_batch_its_input_promises_gets_samples(in_graph: bool) -> None:
    body = "h = Relu (x)  y = Reshape (h, k)"
    model = graph("float[N,2,2] x", "float[1,4] y", body, {"k": np.array([1, 4])})
    images = normal(6, 2, 2)
    with Collector(model, ["h", "y"], in_graph=in_graph) as collector:
        for start in (0, 4):
            collector.add({"x": images[start : start + 4]})
        found = collector.statistics().tensors
    assert found == definition(model, ("h", "y"), [images]).tensors
    assert bool(collector.fallback) is not in_graph


def test_a_tensor_that_is_not_computed_is_named() -> None:
    with pytest.raises(ModelError, match="nobody"):
        Collector(network(3), ["c", "nobody"])
    with pytest.raises(ModelError, match="nobody"):
        with_taps(network(3), ["c", "nobody"], 1)


def test_taps_without_a_place_to_count_are_refused() -> None:
    with pytest.raises(ModelError, match="no such tap"):
        open_tapped(network(3), ["c"], 0, threads=1, block=8)
    taps = _core.Taps([_core.TensorAccumulator()], 1)
    key = taps.key
    del taps
    with pytest.raises(ModelError, match="no such tap"):
        open_tapped(network(3), ["c"], key, threads=1, block=8)


def test_an_older_onnx_runtime_is_left_alone() -> None:
    """One without interface version 17 is given no op, so that it refuses the graph at once."""
    import ctypes

    asked: list[int] = []
    get_api = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(lambda version: asked.append(version))
    base = (ctypes.c_void_p * 2)(ctypes.cast(get_api, ctypes.c_void_p), None)
    register = ctypes.CDLL(_core.__file__).RegisterCustomOps
    register.restype, register.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p]
    assert register(None, ctypes.addressof(base)) is None
    assert asked == [17]


def test_moving_leaves_other_graphs_as_they_are() -> None:
    tapped, _ = with_taps(network(3), ["r", "x"], 7)
    proto = ir.to_proto(tapped).graph
    assert move_taps(proto, 16) == 0
    kinds = [node.op_type for node in proto.node]
    assert kinds[:4] == ["Tap", "Conv", "Clip", "Tap"]
    assert kinds.count("Tap") == 2


@pytest.mark.parametrize("name", slow_but(["resnet20"], ["resnet20", "mobilenet_v2"]))
def test_real_models(name: str, shared_data: Path) -> None:
    entry = NETWORKS[name]
    original = load_model(shared_data / entry.file)
    data = open_dataset(shared_data / entry.calibration, graph_inputs(original), entry.preprocess, samples=9)
    pieces = [piece.inputs for piece in batches(data, 4, 1)]
    model = prepare(original, pieces[0]).model
    tensors = tensors_to_calibrate(model, frozenset())
    found = []
    for in_graph in (True, False):
        with Collector(model, tensors, in_graph=in_graph) as collector:
            for feeds in pieces:
                collector.add(feeds)
            assert bool(collector.fallback) is not in_graph
            found.append(collector.statistics())
    assert found[0] == found[1]
    assert found[0].tensors[tensors[0]].samples == 9


def test_collecting_without_bins() -> None:
    found = collect(network(3), ["c"], [{"x": normal(2, 3, 4, 4)}], bins=False)
    assert not found.tensors["c"].binned
