"""The repair ``bn``: μ and σ² of the calibration images, a float function of its own, ranges that fit it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from small_candidates import candidate_of

from calib8.autorange.samples import ChosenSamples
from calib8.calibration.choose import choose_table
from calib8.calibration.collect import collect
from calib8.errors import ModelError, UsageError
from calib8.model.graph import model_hash
from calib8.model.load import load_model
from calib8.passes.prepare import prepare
from calib8.repair import batch_norms
from calib8.repair.batch_norm_statistics import reestimate_batch_norms
from calib8.repair.batch_norms import estimate_batch_norms
from calib8.repair.by_name import repair_by_name
from calib8.repair.candidate import RepairData
from calib8.table import GIVEN, CalibrationTable
from small_models import Array, normal, onnx_model, relative_difference, run

CONSTANTS: dict[str, Array] = {"w": normal(4, 3, 1, 1), "v": normal(4, 4, 1, 1, seed=1)}
for index, letter in enumerate("ghm"):
    CONSTANTS |= {f"{letter}{layer}": normal(4, seed=2 + index + 7 * layer) for layer in (1, 2)}
CONSTANTS |= {f"s{layer}": np.abs(normal(4, seed=20 + layer)) + np.float32(0.5) for layer in (1, 2)}
NET = onnx_model(
    "float[N,3,8,8] x", "float[N,4,8,8] y, float[N,3,8,8] z",
    "z = Relu(x) a = Conv(x, w) b = BatchNormalization(a, g1, h1, m1, s1) r = Relu(b) "
    "c = Conv(r, v) y = BatchNormalization(c, g2, h2, m2, s2)",
    CONSTANTS,
)  # fmt: skip
RUNS = tuple({"x": 2 * normal(1, 3, 8, 8, seed=seed) + 1} for seed in range(40, 48))
SAMPLES = ChosenSamples(RUNS[:4], RUNS[4:], shared=False)


def test_the_model_is_the_original_with_statistics_of_the_runs() -> None:
    made, data = candidate_of(NET, RUNS)
    original = load_model(NET)
    found, report = estimate_batch_norms(made, replace(data, prepared=made.model, original=original))
    wanted, drifts = reestimate_batch_norms(original, RUNS)
    for feeds in RUNS:
        assert relative_difference(run(wanted, feeds), run(found.model, feeds)) < 1e-5
        assert relative_difference(run(made.model, feeds), run(found.model, feeds)) > 0.1
    assert report.new_original is not None and len(report.layers) == 2
    most = max(drifts, key=lambda drift: drift.shift)
    assert f"'{most.name}' moved most, by {most.shift:.2f} deviations" in report.notes[0]
    assert found.table.model_hash == model_hash(found.model)
    statistics = collect(found.model, ["r"], RUNS)
    range_of_r = choose_table(statistics, made.scheme.activations, "mse").entries["r"].range
    assert found.table.entries["r"].range == range_of_r != made.table.entries["r"].range
    unmoved = {name for name in made.table.entries if found.table.entries[name] == made.table.entries[name]}
    assert {"x", "z"} <= unmoved | {"z"} and "x" in unmoved and "r" not in unmoved


@pytest.mark.slow
def test_a_real_network_whose_prepared_form_has_names_of_its_own(shared_data: Path) -> None:
    proto = onnx.load(shared_data / "models" / "ultraface_RFB-320.onnx")
    runs = tuple({"input": normal(1, 3, 240, 320, seed=seed)} for seed in range(2))
    made, data = candidate_of(proto, runs, method="minmax")
    original = load_model(proto)
    found, report = estimate_batch_norms(made, replace(data, prepared=made.model, original=original))
    assert len(report.layers) == 35 and "batch normalizations: 35" in report.notes[0]
    assert len(found.model.graph.initializers) == len(made.model.graph.initializers)
    assert [node.name for node in found.model.graph] == [node.name for node in made.model.graph]
    wanted, _ = reestimate_batch_norms(original, runs)
    assert relative_difference(run(wanted, runs[0]), run(found.model, runs[0])) < 1e-4
    assert found.quantized().qparams.keys() == made.quantized().qparams.keys()


def test_given_ranges_stay() -> None:
    made, data = candidate_of(NET, RUNS)
    entries = {**made.table.entries, "r": replace(made.table.entries["r"], method=GIVEN)}
    made = replace(made, table=CalibrationTable(made.table.model_hash, entries))
    found, _ = estimate_batch_norms(made, replace(data, prepared=made.model, original=load_model(NET)))
    assert found.table.entries["r"] == entries["r"]


def test_by_name_it_comes_first_and_all_is_judged_by_the_new_function() -> None:
    made, _ = candidate_of(NET, RUNS)
    original = load_model(NET)
    found = repair_by_name(made, SAMPLES, ["bias-analytic", "cle", "bn"], original=original, threads=1)
    assert [step.name for step in found.steps] == ["bn", "cle", "bias-analytic"]
    assert all(step.kept and step.after_db > 25.0 for step in found.steps)
    anew = prepare(reestimate_batch_norms(original, SAMPLES.scored)[0], RUNS[0]).model
    final = found.candidate.quantized().model
    for feeds in SAMPLES.held_back:
        assert relative_difference(run(anew, feeds), run(found.candidate.model, feeds)) < 1e-4
        assert relative_difference(run(anew, feeds), run(final, feeds)) < 0.1
        assert relative_difference(run(made.model, feeds), run(final, feeds)) > 0.1


def test_a_network_without_normalizations_has_nothing_to_estimate() -> None:
    plain = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", "y = Conv(x, w)", {"w": normal(4, 3, 1, 1)})
    made, _ = candidate_of(plain, RUNS)
    found = repair_by_name(made, SAMPLES, ["bn"], original=load_model(plain))
    [step] = found.steps
    assert found.candidate is made and not step.kept and step.before_db == step.after_db
    assert step.notes == ("no batch normalization in the file: folded at its export",)


def test_it_wants_the_original_and_an_unchanged_model() -> None:
    made, data = candidate_of(NET, RUNS)
    with pytest.raises(UsageError, match="as it was loaded"):
        estimate_batch_norms(made, data)
    other = RepairData(RUNS, prepared=made.model.clone(), original=load_model(NET))
    with pytest.raises(UsageError, match="changed before"):
        estimate_batch_norms(made, other)


def test_another_graph_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made, data = candidate_of(NET, RUNS)
    other = onnx_model("float[N,3,8,8] x", "float[N,3,8,8] y", "y = Relu(x)")
    prepared = prepare(load_model(other), RUNS[0])
    monkeypatch.setattr(batch_norms, "prepare", lambda *_: prepared)
    with pytest.raises(ModelError, match="has other nodes"):
        estimate_batch_norms(made, replace(data, prepared=made.model, original=load_model(NET)))
