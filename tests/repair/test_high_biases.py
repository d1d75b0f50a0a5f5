"""High-bias absorption of a candidate: exact on the runs, or by what batch normalizations say of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from small_candidates import candidate_of

from calib8.autorange.samples import ChosenSamples
from calib8.errors import UsageError
from calib8.model.graph import constant, model_hash
from calib8.model.load import load_model
from calib8.passes.batch_norm_moments import Moments
from calib8.quantization.corrections import LayerCorrection
from calib8.repair.by_name import repair_by_name
from calib8.repair.candidate import Candidate, RepairData, RepairReport
from calib8.repair.high_biases import absorb_expected, absorb_seen
from calib8.table import GIVEN, CalibrationTable
from small_models import Array, normal, onnx_model, relative_difference, run

RUNS = tuple({"x": normal(1, 3, 8, 8, seed=seed)} for seed in range(20, 28))
BIAS = np.array([9.0, 0.1, 12.0, 7.0], np.float32)
Absorb = Callable[[Candidate, RepairData], tuple[Candidate, RepairReport]]


def net(reader: str = "Conv(r, v, d)", kernel: int = 1) -> tuple[Candidate, RepairData]:
    """A layer whose sums stay above zero in three of four channels, and one that reads them."""
    constants: dict[str, Array] = {"w": normal(4, 3, 1, 1), "b": BIAS}
    constants |= {"v": normal(2, 4, kernel, kernel, seed=2), "d": normal(2, seed=3)}
    body = f"a = Conv(x, w, b) r = Relu(a) y = {reader}"
    return candidate_of(onnx_model("float[N,3,8,8] x", "float[N,2,M,M] y", body, constants), RUNS)


def told(candidate: Candidate, data: RepairData) -> tuple[Candidate, RepairReport]:
    """By a distribution that has 3 deviations of room below the smallest value of the runs."""
    moments = {"a": Moments(BIAS.astype(np.float64), np.full(4, 2.0))}
    return absorb_expected(candidate, data, moments)


def bias_of(model: ir.Model, node: str) -> Array:
    array = constant(next(one for one in model.graph if one.name == node).inputs[2])
    assert array is not None
    return array


@pytest.mark.parametrize("absorb", [absorb_seen, told])
def test_the_function_stays_and_the_ranges_get_smaller(absorb: Absorb) -> None:
    made, data = net()
    found, report = absorb(made, data)
    assert report.layers == tuple(node.name for node in made.model.graph if node.op_type == "Conv")
    for feeds in RUNS:
        assert relative_difference(run(made.model, feeds), run(found.model, feeds)) < 1e-5
    assert found.table.entries["r"].range.max < 0.8 * made.table.entries["r"].range.max
    assert {n for n, e in made.table.entries.items() if found.table.entries[n] != e} == {"r"}
    assert found.table.model_hash == model_hash(found.model) != made.table.model_hash
    assert found.quantized().qparams["r"].scale < made.quantized().qparams["r"].scale


def test_what_is_absorbed() -> None:
    made, data = net()
    first = next(iter(made.model.graph)).name or ""
    lowest = np.min([run_a(made, feeds).min(axis=(0, 2, 3)) for feeds in RUNS], axis=0)
    seen, expected = (bias_of(absorb(made, data)[0].model, first) for absorb in (absorb_seen, told))
    np.testing.assert_allclose(BIAS - seen, np.maximum(lowest, 0.0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(BIAS - expected, np.maximum(BIAS - 6.0, 0.0), rtol=1e-6)


def run_a(made: Candidate, feeds: dict[str, Array]) -> Array:
    weight = normal(4, 3, 1, 1)[:, :, 0, 0]
    return np.asarray(np.einsum("oc,ncyx->noyx", weight, feeds["x"]) + BIAS.reshape(1, -1, 1, 1))


@pytest.mark.parametrize("absorb", [absorb_seen, told])
def test_why_there_is_nothing_to_do(absorb: Absorb) -> None:
    padded, data = net("Conv<pads=[1,1,1,1]>(r, v, d)", 3)
    found, report = absorb(padded, data)
    assert found is padded and report.layers == ()
    assert report.notes == ("layers that cannot take biases, as they pad with zeros: 1",)
    model = onnx_model("float[N,3,8,8] x", "float[N,4,8,8] y", "y = Conv(x, w)", {"w": normal(4, 3, 1, 1)})
    plain, data = candidate_of(model, RUNS)
    found, report = absorb(plain, data)
    assert found is plain and report.notes == ("no Relu between two layers of which anything is known",)


def test_low_biases_stay() -> None:
    made, data = net()
    low = {"a": Moments(np.zeros(4), np.ones(4))}
    found, report = absorb_expected(made, data, low)
    assert found is made and report.notes == ("no channel before a Relu stays above zero",)


@pytest.mark.parametrize("absorb", [absorb_seen, told])
def test_given_ranges_stay_and_corrections_of_changed_layers_go(absorb: Absorb) -> None:
    made, data = net()
    last = [node.name or "" for node in made.model.graph][-1]
    corrected = replace(made, corrections={last: LayerCorrection(bias=np.zeros(2, np.float32))})
    found, report = absorb(corrected, data)
    assert found.corrections == {} and any("dropped" in note for note in report.notes)
    entries = {**made.table.entries, "r": replace(made.table.entries["r"], method=GIVEN)}
    given = replace(made, table=CalibrationTable(made.table.model_hash, entries))
    assert absorb(given, data)[0] is given


def test_the_same_whatever_the_threads_and_the_order() -> None:
    made, data = net()
    first, _ = absorb_seen(made, data)
    second, _ = absorb_seen(made, RepairData(data.runs[::-1], threads=2))
    assert first.table.to_json() == second.table.to_json()
    assert model_hash(first.model) == model_hash(second.model)


def test_by_name_the_batch_normalization_of_the_original_tells() -> None:
    """β = 6, |γ| = 1 in one channel, so that 3 is absorbed; scaled like the channel after equalization."""
    constants: dict[str, Array] = {"w": normal(4, 3, 1, 1), "v": normal(2, 4, 1, 1, seed=2)}
    constants |= {"g": np.ones(4, np.float32), "h": np.array([6, 0, 0, 0], np.float32)}
    constants |= {"m": np.zeros(4, np.float32), "s": np.full(4, 1.0 - 1e-5, np.float32)}
    body = "c = Conv(x, w) a = BatchNormalization(c, g, h, m, s) r = Relu(a) y = Conv(r, v)"
    proto = onnx_model("float[N,3,8,8] x", "float[N,2,8,8] y", body, constants)
    made, _ = candidate_of(proto, RUNS)
    samples = ChosenSamples(RUNS, RUNS, shared=True)
    plain = repair_by_name(made, samples, ["absorb-analytic"], original=load_model(proto))
    first = next(iter(made.model.graph)).name or ""
    moved = bias_of(made.model, first) - bias_of(plain.candidate.model, first)
    np.testing.assert_allclose(moved, [3, 0, 0, 0], atol=1e-4)
    [step] = plain.steps
    assert step.kept and step.after_db > step.before_db
    both = repair_by_name(made, samples, ["cle", "absorb-analytic"], original=load_model(proto))
    alone = repair_by_name(made, samples, ["cle"])
    factor = bias_of(alone.candidate.model, first)[0] / bias_of(made.model, first)[0]
    moved = bias_of(alone.candidate.model, first) - bias_of(both.candidate.model, first)
    np.testing.assert_allclose(moved, [3 * factor, 0, 0, 0], rtol=1e-4, atol=1e-5)
    with pytest.raises(UsageError, match="as it was loaded"):
        repair_by_name(made, samples, ["absorb-analytic"])
