"""The layers that ruin the outputs stay float, as few as do; nothing happens where nothing is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from small_candidates import candidate_of, quality, scaled

import calib8
from calib8.model.metadata import PREFIX
from calib8.repair import enough, floats
from calib8.repair.candidate import COSTS_TOO_MUCH, Candidate, RepairData
from calib8.repair.floats import keep_worst_float
from calib8.repair.repairs import EFFORTS, FLOATS, stages_of
from calib8.repair.unit_order import Noise
from calib8.repair.units import Unit
from calib8.scheme import TARGETS, target_scheme
from calib8.tasks.meaning import meaning_of
from small_models import Array, normal
from small_nets import Net

RUNS = [{"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(10)]


def network(louder: float) -> onnx.ModelProto:
    """Four layers; a channel between the first two is so much louder, for nothing: nobody listens."""
    net = Net()
    loud = net.op("Relu", net.conv("x", 4, 8, name="first"), name="loud")
    soft = net.op("Relu", net.conv(loud, 8, 8, name="second"), name="soft")
    wide = net.op("Relu", net.conv(soft, 8, 32, name="third"), name="wide")
    model = net.model(net.conv(wide, 32, 4, name="last"))
    scaled(model, "first", 1, np.s_[0], louder)
    scaled(model, "first", 2, np.s_[0], louder)
    scaled(model, "second", 1, np.s_[:, 0], 0.0)
    return model


def made(louder: float, target: str = "onnxruntime") -> tuple[Candidate, RepairData]:
    return candidate_of(network(louder), RUNS, method="minmax", scheme=target_scheme(target))


@pytest.fixture(autouse=True)
def whole_layers_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With four layers, each of them is more than the usual budget."""
    monkeypatch.setattr(floats, "BUDGET", 0.3)


@pytest.mark.parametrize("target", [name for name, scheme in TARGETS.items() if scheme.mixes_floats])
def test_the_layers_around_the_loud_tensor_stay_float(target: str) -> None:
    before, data = made(100.0, target)
    after, report = keep_worst_float(before, data)
    assert "second" in after.floats
    assert not after.floats & {"third", "last"}
    assert set(report.layers) == after.floats
    why = {one.node: one.reason for one in after.coded.placement.decisions if not one.quantized}
    assert why["second"] == COSTS_TOO_MUCH
    assert quality(after, RUNS) > quality(before, RUNS) + 10.0


def test_what_is_told_is_the_share_of_the_work() -> None:
    before, data = made(100.0)
    _, report = keep_worst_float(before, data)
    first, second = 4 * 8, 8 * 8
    whole = first + second + 8 * 32 + 32 * 4
    assert report.notes == (f"multiply-accumulates in float: {100 * (first + second) / whole:.1f} %",)


def test_the_quietest_layer_becomes_float_too_where_it_is_worth_its_work() -> None:
    """A small last layer: of all it makes least noise, and next to nothing takes it away."""
    loud, large, last = (
        Unit((name,), macs, macs) for name, macs in (("loud", 50), ("large", 900), ("last", 5))
    )
    noise = Noise({loud: 1.0, large: 0.5, last: 0.1}, {})
    chosen = floats._chosen((loud, large, last), noise, 0.15 * 955)
    assert {node for unit in chosen for node in unit.nodes} == {"loud", "last"}


def test_what_costs_too_much_is_left_in_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    before, data = made(100.0)
    monkeypatch.setattr(floats, "BUDGET", 0.1)
    after, _ = keep_worst_float(before, data)
    assert "second" not in after.floats


def test_what_takes_hardly_anything_away_stays_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    """What multiplies nothing always fits."""
    monkeypatch.setattr(floats, "BUDGET", 0.75)
    net = Net()
    loud = net.op("Relu", net.conv("x", 4, 8, name="first"), name="loud")
    soft = net.conv(net.conv(loud, 8, 8, name="second"), 8, 4, name="last")
    joined = net.op("Concat", soft, net.op("Neg", soft, name="minus"), axis=1, name="joined")
    model = net.model(net.conv(net.op("MaxPool", joined, kernel_shape=[2, 2], name="pool"), 8, 4, name="end"))
    scaled(model, "first", 1, np.s_[0], 100.0)
    scaled(model, "first", 2, np.s_[0], 100.0)
    scaled(model, "second", 1, np.s_[:, 0], 0.0)
    before, data = candidate_of(model, RUNS, method="minmax")
    after, _ = keep_worst_float(before, data)
    assert after.floats and not after.floats & {"pool", "joined"}
    monkeypatch.setattr(floats, "LEAST_SHARE", -1.0)
    assert keep_worst_float(before, data)[0].floats & {"pool", "joined"}


@pytest.mark.parametrize("target", [name for name, scheme in TARGETS.items() if not scheme.mixes_floats])
def test_other_targets_stay_all_int8(target: str) -> None:
    before, data = made(100.0, target)
    after, report = keep_worst_float(before, data)
    assert after is before and not report.layers


def test_outputs_that_are_good_enough_stay_all_int8() -> None:
    before, data = made(1.0)
    assert quality(before, RUNS) > enough.ENOUGH_DB
    after, report = keep_worst_float(before, data)
    assert after is before and not report.layers


def test_text_needs_more() -> None:
    before, data = made(1.0)
    assert enough.ENOUGH_DB < quality(before, RUNS) < enough.GOOD_DB
    output = before.model.graph.outputs[0].name or ""
    text = meaning_of(before.model, branches={output: "ctc"})
    after, _ = keep_worst_float(before, replace(data, meaning=text))
    assert after.floats and quality(after, RUNS) > quality(before, RUNS)


def test_threads_change_nothing() -> None:
    before, data = made(100.0)
    once, twice = (keep_worst_float(before, replace(data, threads=threads))[0] for threads in (1, 2))
    assert once.floats == twice.floats


def test_efforts_find_what_no_equalization_mends() -> None:
    """The loud channel is one of the input, which nobody can scale."""
    model = network(1.0)
    scaled(model, "first", 1, np.s_[:, 0], 0.0)
    data = [{"x": normal(1, 4, 8, 8, seed=seed) * loud_first(100.0)} for seed in range(40)]
    found = calib8.quantize(model, data, effort="balanced", method="minmax")
    assert found.repaired is not None and "first" in found.repaired.candidate.floats
    assert not {"third", "last"} & found.repaired.candidate.floats
    scheme = target_scheme("onnxruntime")
    prepared = found.repaired.candidate.model
    assert FLOATS in stages_of(EFFORTS["balanced"], scheme, prepared)
    assert FLOATS not in stages_of(EFFORTS["balanced"], scheme, prepared, mixed=False)


def loud_first(factor: float) -> Array:
    """Factors of the input's channels."""
    return np.array([factor, 1, 1, 1], np.float32).reshape(1, 4, 1, 1)


def test_by_name_it_is_told_and_stored() -> None:
    data: list[dict[str, Array]] = [{"x": normal(1, 4, 8, 8, seed=seed)} for seed in range(40)]
    named = calib8.quantize(network(100.0), data, repair=["floats", "bias"], method="minmax")
    assert named.repaired is not None
    assert next(step.names for step in named.repaired.steps if step.kept) == ("floats",)
    stored = named.model.metadata_props
    assert "floats" in stored[f"{PREFIX}repairs"]
    assert stored[f"{PREFIX}keep_float"] == "[]", "only those of the user are stored"
    good = calib8.quantize(network(1.0), data, effort="balanced")
    assert good.repaired is not None and not good.repaired.candidate.floats
