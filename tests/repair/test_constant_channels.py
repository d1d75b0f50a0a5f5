"""Channels of exploding gain that never change become constants; all others stay."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from calib8.model.graph import model_hash
from calib8.model.taps import tapped_model
from calib8.passes.place import calibration_tensors
from calib8.passes.prepare import prepare
from calib8.quantization.corrections import LayerCorrection
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.constant_channels import cure_constant_channels
from calib8.scheme import target_scheme
from calib8.table import CalibrationTable, Range, TableEntry
from small_models import Array, graph, normal, run


def dead_norm() -> ir.Model:
    """Conv, Relu, normalization: channel 1 is 0.3 whatever the image, its σ² nearly 0, so k is 316."""
    weight, bias = normal(4, 3, 3, 3), np.float32([0.1, 0.3, -0.1, 0.2])
    weight[1] = 0.0
    constants: dict[str, Array] = {"w": weight, "b": bias, "w2": normal(2, 4, 1, 1, seed=1)}
    constants |= {"g": np.ones(4, np.float32), "h": np.float32([0.0, 0.5, 0.1, 0.0])}
    constants |= {"m": np.float32([1.0, 0.3, 1.2, 0.9]), "v": np.float32([4.0, 1e-9, 3.0, 5.0])}
    body = "a = Conv(x, w, b) c = Relu(a) n = BatchNormalization(c, g, h, m, v) y = Conv(n, w2)"
    return graph("float[N,3,8,8] x", "float[N,2,6,6] y", body, constants)


def candidate(model: ir.Model, runs: list[dict[str, Array]]) -> Candidate:
    """The prepared model with ranges that are the smallest and largest values of the runs."""
    prepared = prepare(model, runs[0]).model
    names = calibration_tensors(prepared)
    inner = [name for name in names if name != "x"]
    feeds = {"x": np.concatenate([feed["x"] for feed in runs])}
    values = dict(zip(inner, run(tapped_model(prepared, inner), feeds), strict=True)) | feeds
    entries = {}
    for name in names:
        span = Range(float(values[name].min()), float(values[name].max()))
        entries[name] = TableEntry(span, "minmax", 0.0, 1, 0, span)
    return Candidate(prepared, CalibrationTable(model_hash(prepared), entries), target_scheme("onnxruntime"))


RUNS = [{"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(4)]
NEW = {"x": normal(8, 3, 8, 8, seed=99)}


def noise(model: ir.Model, reference: ir.Model) -> float:
    [expected], [actual] = run(reference, NEW), run(model, NEW)
    return float(np.mean(np.square(expected - actual)))


def test_a_constant_channel_loses_its_gain_and_keeps_its_value() -> None:
    before = candidate(dead_norm(), RUNS)
    after, report = cure_constant_channels(before, RepairData(tuple(RUNS), threads=1))
    assert len(report.layers) == 1
    assert "channels 1 are constant" in report.notes[0]
    [expected], [actual] = run(before.model, NEW), run(after.model, NEW)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    norm = next(node for node in after.model.graph if node.name == report.layers[0])
    weight, bias = (np.asarray(norm.inputs[index].const_value) for index in (1, 2))
    assert not weight[1].any() and np.all(weight[[0, 2, 3]] != 0)
    assert bias[1] == pytest.approx(0.5, abs=1e-3)
    assert noise(after.quantized().model, before.model) < 0.2 * noise(before.quantized().model, before.model)


def test_a_channel_that_changes_in_one_run_is_left_alone() -> None:
    model = dead_norm()
    stored = model.graph.initializers["w"].const_value
    assert stored is not None
    weight = stored.numpy().copy()
    weight[1, 0, 0, 0] = 1e-3
    model.graph.initializers["w"].const_value = ir.tensor(weight, name="w")
    before = candidate(model, RUNS)
    after, report = cure_constant_channels(before, RepairData(tuple(RUNS)))
    assert after is before and report.layers == () and report.notes


def test_constant_channels_of_ordinary_gain_are_left_alone() -> None:
    weight = normal(4, 3, 3, 3)
    weight[1] = 0.0
    model = graph("float[N,3,8,8] x", "float[N,4,6,6] y", "y = Conv(x, w)", {"w": weight})
    before = candidate(model, RUNS)
    after, report = cure_constant_channels(before, RepairData(tuple(RUNS)))
    assert after is before and (report.layers, report.notes) == ((), ())


def test_channels_without_weights_do_not_make_the_others_loud() -> None:
    """Channel 4 reads an input that is silent in the runs, and may speak in other images."""
    weight = normal(5, 3, 3, 3)
    weight[:3] = 0.0
    weight[4, :2] = 0.0
    runs = [{"x": feeds["x"] * np.float32([1, 1, 0]).reshape(1, 3, 1, 1)} for feeds in RUNS]
    model = graph("float[N,3,8,8] x", "float[N,5,6,6] y", "y = Conv(x, w)", {"w": weight})
    before = candidate(model, runs)
    after, report = cure_constant_channels(before, RepairData(tuple(runs)))
    assert after is before and report.layers == ()


def test_groups_of_a_transposed_layer_are_told_apart() -> None:
    """Output channel 4 is entry 1 of group 1: it alone is loud and reads a silent input."""
    weight = normal(4, 3, 2, 2)
    weight[2:, 1] = 0.0
    weight[3, 1] = 1e4
    runs = [
        {"x": feeds["x"][:, [0, 1, 2, 0]] * np.float32([1, 1, 1, 0]).reshape(1, 4, 1, 1)} for feeds in RUNS
    ]
    constants = {"w": weight, "b": normal(6, seed=2)}
    model = graph("float[N,4,8,8] x", "float[N,6,9,9] y", "y = ConvTranspose<group=2>(x, w, b)", constants)
    before = candidate(model, runs)
    after, report = cure_constant_channels(before, RepairData(tuple(runs)))
    assert report.notes == ("y: channels 4 are constant",)
    [expected], [actual] = run(before.model, runs[0]), run(after.model, runs[0])
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    [node] = after.model.graph
    changed = np.asarray(node.inputs[1].const_value)  # type: ignore[union-attr]
    assert not changed[2:, 1].any() and np.array_equal(
        np.delete(changed, 1, axis=1), np.delete(weight, 1, axis=1)
    )
    assert np.array_equal(changed[:2, 1], weight[:2, 1])


def test_nothing_given_is_changed_and_old_corrections_go() -> None:
    before = candidate(dead_norm(), RUNS)
    names = [node.name or "" for node in before.model.graph if node.op_type == "Conv"]
    fixes = {name: LayerCorrection(bias=np.zeros(4, np.float32)) for name in names}
    marked = Candidate(before.model, before.table, before.scheme, corrections=fixes)
    bytes_before = ir.to_proto(before.model).SerializeToString()
    after, report = cure_constant_channels(marked, RepairData(tuple(RUNS)))
    assert ir.to_proto(before.model).SerializeToString() == bytes_before
    assert set(after.corrections) == set(names) - set(report.layers) and len(marked.corrections) == len(names)
    assert "corrections dropped, as the constants of their layers changed: 1" in report.notes
    assert after.table.model_hash == model_hash(after.model)
    backwards, _ = cure_constant_channels(marked, RepairData(tuple(reversed(RUNS)), threads=2))
    assert ir.to_proto(backwards.model).SerializeToString() == ir.to_proto(after.model).SerializeToString()
