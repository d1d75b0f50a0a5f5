"""Cross-layer equalization of a candidate: the function kept, ranges that fit, limits, biases, notes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import onnx
import pytest
from small_candidates import candidate_of

from calib8.calibration.choose import choose_table
from calib8.calibration.collect import collect
from calib8.model.graph import model_hash
from calib8.quantization.corrections import LayerCorrection
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.cross_layer import cross_layer
from calib8.table import GIVEN, CalibrationTable
from small_models import normal, onnx_model, ops, relative_difference, run


def net(activation: str = "Relu(a)", bias: float = 0.0) -> onnx.ModelProto:
    """Two pointwise layers whose channels differ by a factor of 50."""
    size = np.geomspace(0.1, 5, 6).astype(np.float32)
    constants = {
        "w": normal(6, 3, 1, 1) * size.reshape(-1, 1, 1, 1),
        "b": (normal(6, seed=1) + np.float32(bias)) * size,
        "v": normal(4, 6, 1, 1, seed=2) / size.reshape(1, -1, 1, 1),
        "zero": np.float32(0),
        "six": np.float32(6),
        "many": np.float32(1e4),
    }
    body = f"a = Conv(x, w, b) r = {activation} y = Conv(r, v)"
    used = {name: np.asarray(array) for name, array in constants.items() if re.search(rf"\b{name}\b", body)}
    return onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", body, used)


RUNS = tuple({"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(20, 28))


def functions_differ(made: Candidate, found: Candidate, data: RepairData) -> float:
    return max(relative_difference(run(made.model, feeds), run(found.model, feeds)) for feeds in data.runs)


def test_the_function_stays_and_the_ranges_fit() -> None:
    made, data = candidate_of(net(), RUNS)
    found, report = cross_layer(made, data)
    assert report.layers == ("a", "y")
    assert report.notes == ("chains of layers equalized: 1", "sweeps over them: 2")
    assert functions_differ(made, found, data) < 1e-5
    assert found.table.model_hash == model_hash(found.model) != made.table.model_hash
    wanted = choose_table(collect(found.model, ["r"], RUNS), made.scheme.activations, "mse").entries["r"]
    assert found.table.entries["r"].range == wanted.range
    kept = {name for name in made.table.entries if found.table.entries[name] == made.table.entries[name]}
    assert kept == {"x", "y"}


@pytest.mark.parametrize("limits", ["unreached", "keep", "replace"])
@pytest.mark.parametrize("limit", ["six", "many"])
def test_limits(limit: str, limits: str) -> None:
    made, data = candidate_of(net(f"Clip(a, zero, {limit})"), RUNS)
    reached = limit == "six"
    assert (made.table.entries["r"].observed.max == 6.0) == reached
    found, report = cross_layer(made, data, limits=limits)  # type: ignore[arg-type]
    freed = limits == "replace" or (limits == "unreached" and not reached)
    assert bool(report.layers) == freed
    assert ops(found.model)["Clip"] == (0 if freed else 1)
    assert any("passed over" in note for note in report.notes) != freed
    assert (functions_differ(made, found, data) > 1e-3) == (limits == "replace" and reached)
    assert freed or found is made


def test_a_given_range_is_not_touched() -> None:
    made, data = candidate_of(net(), RUNS)
    entries = {**made.table.entries, "r": replace(made.table.entries["r"], method=GIVEN)}
    made = replace(made, table=CalibrationTable(made.table.model_hash, entries))
    found, report = cross_layer(made, data)
    assert found is made and report.layers == ()


def test_nothing_to_do_is_no_error() -> None:
    model = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", "y = Conv(x, w)", {"w": normal(4, 3, 1, 1)})
    made, data = candidate_of(model, RUNS)
    found, report = cross_layer(made, data)
    assert found is made and (report.layers, report.notes) == ((), ())


def test_the_same_whatever_the_threads_and_the_order() -> None:
    made, data = candidate_of(net(bias=12.0), RUNS)
    first, _ = cross_layer(made, data)
    second, _ = cross_layer(made, RepairData(data.runs[::-1], threads=2))
    assert first.table.to_json() == second.table.to_json()
    assert model_hash(first.model) == model_hash(second.model)


def test_corrections_of_the_layers_are_dropped_and_told() -> None:
    made, data = candidate_of(net(), RUNS)
    corrected = replace(made, corrections={"y": LayerCorrection(bias=np.zeros(4, np.float32))})
    found, report = cross_layer(corrected, data)
    assert found.corrections == {} and any("dropped" in note for note in report.notes)
