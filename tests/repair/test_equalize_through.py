"""Equalization through functions: the same function bit for bit, lost channels back, what it passes over."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from small_candidates import candidate_of

import calib8
from calib8 import InferenceSession
from calib8.analysis.compare import compare
from calib8.analysis.float_reference import float_reference
from calib8.analysis.model_pair import open_pair
from calib8.analysis.node_names import find_node_names
from calib8.autorange.check import check_model, float_outputs
from calib8.autorange.samples import ChosenSamples
from calib8.engine.run import available_isas
from calib8.errors import UsageError
from calib8.model.graph import model_hash
from calib8.passes.channel_factors import channel_factors
from calib8.passes.layer_channels import layer_channels
from calib8.passes.place import place
from calib8.quantization.corrections import LayerCorrection
from calib8.repair.by_effort import repair_by_effort
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.channel_extremes import ChannelExtremes
from calib8.repair.channels_read import factors_of_least_noise
from calib8.repair.cross_layer import cross_layer
from calib8.repair.equalize_activations import equalize_activations
from calib8.repair.equalize_through import LARGEST, WORTH, channel_sizes_alike, equalize_through_functions
from calib8.scheme import target_scheme
from calib8.table import GIVEN, CalibrationTable
from small_models import Array, normal, onnx_model, run

FUNCTIONS = {
    "hardswish": "v = HardSwish(t)",
    "chain": "h = HardSwish(t) m = Mul(a, h) v = Add(m, b)",
    "sigmoid": "v = Sigmoid(t)",
    "tanh": "h = Tanh(t) v = Mul(h, k)",
    "leaky": "v = LeakyRelu(t)",
    "silu": "s = Sigmoid(t) v = Mul(t, s)",
    "gelu": "e0 = Div(t, q) e1 = Erf(e0) e2 = Add(e1, o) e3 = Mul(t, e2) v = Mul(e3, p)",
}
CONSTANTS = {
    "a": np.array(1.3, np.float32),
    "b": np.array(-0.2, np.float32),
    "k": normal(1, 8, 1, 1, seed=8),
    "q": np.array(np.sqrt(2.0), np.float32),
    "o": np.array(1.0, np.float32),
    "p": np.array(0.5, np.float32),
}


def network(
    function: str = "chain", seed: int = 0, reader: str = "Conv<group=8, pads=[1,1,1,1]>"
) -> onnx.ModelProto:
    """Layer, function, depthwise layer, layer; channels before the function are up to 100-fold apart."""
    sizes = np.geomspace(10, 0.1, 8).astype(np.float32)[np.random.default_rng(seed).permutation(8)]
    depthwise = reader.startswith("Conv<group")
    constants = {
        "w": normal(8, 3, 3, 3, seed=seed) * sizes.reshape(8, 1, 1, 1) * np.float32(0.2),
        "c": normal(8, seed=seed + 1) * sizes * np.float32(0.2),
        "d": normal(8, 1 if depthwise else 8, 3, 3, seed=seed + 2)
        / sizes.reshape((8, 1, 1, 1) if depthwise else (1, 8, 1, 1)),
        "u": normal(4, 8, 1, 1, seed=seed + 3),
    }
    body = f"t = Conv(x, w, c) {FUNCTIONS[function]} e = {reader}(v, d) r = Relu(e) y = Conv(r, u)"
    used = {name: array for name, array in CONSTANTS.items() if f"({name}," in body or f", {name})" in body}
    return onnx_model("float[N,3,10,10] x", "float[N,4,H,W] y", body, constants | used)


def runs_of(count: int = 6, seed: int = 50) -> tuple[dict[str, Array], ...]:
    return tuple({"x": normal(1, 3, 10, 10, seed=seed + index)} for index in range(count))


def sqnr(made: Candidate, reference: Candidate, runs: tuple[dict[str, Array], ...]) -> float:
    return check_model("x", made.quantized().model, runs, float_outputs(reference.model, runs, 1), 1).sqnr_db


@settings(max_examples=10)
@given(
    function=st.sampled_from(sorted(FUNCTIONS)),
    seed=st.integers(0, 999),
    largest=st.sampled_from([4.0, LARGEST]),
)
def test_the_function_stays_bit_for_bit(function: str, seed: int, largest: float) -> None:
    made, data = candidate_of(network(function, seed), runs_of(3), method="minmax")
    found, report = equalize_through_functions(made, data, largest=largest)
    assert set(report.layers) <= {"t", "e"} and bool(report.layers) == (found is not made)
    for feeds in data.runs:
        assert np.array_equal(run(made.model, feeds)[0], run(found.model, feeds)[0])
    factors = channel_factors(made.model, found.model)
    assert factors.factors.keys() <= {"t", "v"} and not factors.others
    assert bool(factors.factors) == bool(report.layers) and (report.layers or largest < LARGEST)
    for factor in factors.factors.values():
        assert np.all((factor >= 1.0) & (factor <= largest) & (np.log2(factor) % 1.0 == 0.0))
    assert found.table.model_hash == model_hash(found.model)


def test_channels_fill_the_range() -> None:
    made, data = candidate_of(network(), runs_of(), method="minmax")
    found, _ = equalize_through_functions(made, data)
    for name in ("t", "v"):
        before, after = (
            np.max(
                [np.abs(tapped(one.model, name, feeds)).max(axis=(0, 2, 3)) for feeds in data.runs], axis=0
            )
            for one in (made, found)
        )
        assert np.max(before) / np.min(before) > 5.0
        assert np.max(after) / np.min(after) < 4.0


def tapped(model: ir.Model, name: str, feeds: dict[str, Array]) -> Array:
    copy = model.clone()
    copy.graph.outputs.append(next(v for node in copy.graph for v in node.outputs if v.name == name))
    return run(copy, feeds)[-1]


@pytest.mark.parametrize("function", ["hardswish", "chain", "silu", "gelu"])
def test_lost_channels_come_back_by_it_and_by_nothing_else(function: str) -> None:
    made, data = candidate_of(network(function), runs_of(16))
    held_back = runs_of(16, seed=500)
    plain = sqnr(made, made, held_back)
    found, _ = equalize_through_functions(made, data)
    assert sqnr(found, made, held_back) > plain + 8.0
    for other in (equalize_activations, cross_layer):
        assert sqnr(other(made, data)[0], made, held_back) < plain + 1.0


def test_an_effort_keeps_it_where_held_back_samples_agree() -> None:
    made, data = candidate_of(network(), runs_of(16))
    samples = ChosenSamples(data.runs, runs_of(16, seed=500), shared=False)
    found = repair_by_effort(made, samples, "balanced", threads=1)
    assert "equalize-through" in {step.name for step in found.steps if step.kept}
    assert sqnr(found.candidate, made, samples.held_back) > sqnr(made, made, samples.held_back) + 8.0


def test_only_the_ends_of_the_chain_have_codes() -> None:
    made, data = candidate_of(network(), runs_of(3))
    found, _ = equalize_through_functions(made, data)
    before, after = (set(place(one.model, one.scheme).readers) for one in (made, found))
    assert before == after == {"x", "t", "v", "r", "y"}
    assert after <= found.table.entries.keys()
    assert all(decision.quantized for decision in place(found.model, found.scheme).decisions)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_the_engine_computes_it_as_onnx_runtime_does(function: str, isa: str) -> None:
    made, data = candidate_of(network(function), runs_of(3))
    found, report = equalize_through_functions(made, data)
    assert report.layers
    model = found.quantized().model
    feeds = {"x": np.concatenate([feeds["x"] for feeds in runs_of(4, seed=90)])}
    [want] = run(model, feeds)
    session = InferenceSession(ir.to_proto(model), isa=isa)
    [got] = session.run(None, feeds)
    assert not session.plan.float_nodes
    step = np.float32(found.quantized().qparams["y"].scale)
    steps = np.rint(got / step) - np.rint(want / step)
    assert np.max(np.abs(steps)) <= 1 and np.mean(steps != 0) < 0.01


def given_range(made: Candidate) -> Candidate:
    entries = dict(made.table.entries)
    for name in ("t", "v"):
        entries[name] = replace(entries[name], method=GIVEN)
    return replace(made, table=CalibrationTable(made.table.model_hash, entries))


@pytest.mark.parametrize(
    "change",
    [
        given_range,
        lambda made: replace(made, keep_float=frozenset({"v", "m", "h"})),
        lambda made: replace(made, scheme=replace(made.scheme, weight_granularity="per-tensor")),
        lambda made: replace(made, scheme=replace(made.scheme, joins_pointwise=False)),
    ],
    ids=["given ranges", "float functions", "one scale per weight", "codes beside every op"],
)
def test_what_is_passed_over(change: Callable[[Candidate], Candidate]) -> None:
    made, data = candidate_of(network(), runs_of(3))
    changed = change(made)
    found, report = equalize_through_functions(changed, data)
    assert found is changed and report.layers == ()


@pytest.mark.parametrize("even", [True, False])
def test_layers_that_mix_channels_get_factors_where_their_weights_do_not_pay(even: bool) -> None:
    """Loud channels that small weights read: what makes quiet ones louder makes the weights alike."""
    model = network(reader="Conv<pads=[1,1,1,1]>")
    weights = next(one for one in model.graph.initializer if one.name == "d")
    if even:
        weights.CopyFrom(numpy_helper.from_array(normal(8, 8, 3, 3, seed=2), "d"))
    made, data = candidate_of(model, runs_of(16))
    found, report = equalize_through_functions(made, data)
    assert report.layers == (("t",) if even else ("t", "e"))
    assert channel_factors(made.model, found.model).factors.keys() == {"t"} | ({"v"} if not even else set())
    held_back = runs_of(16, seed=500)
    assert sqnr(found, made, held_back) > sqnr(made, made, held_back) + (0.0 if even else 8.0)


def test_the_noise_of_weights_beside_that_of_codes() -> None:
    """J by loops, of a layer with two channels of which one is 64 times as loud."""
    seen = ChannelExtremes(np.array([-1.0, -64.0]), np.array([2.0, 128.0]), np.array([1.0, 4096.0]))
    weights = np.array([[0.5, 0.25 / 64], [-1.0, 1.0 / 64]])
    made = onnx_model(
        "float[N,2,3,3] x", "float[N,2,3,3] y", "y = Conv(x, w)",
        {"w": weights.astype(np.float32).reshape(2, 2, 1, 1)},
    )  # fmt: skip
    layer = layer_channels(next(iter(ir.from_proto(made).graph)))
    assert layer is not None
    found = factors_of_least_noise(seen, [layer], 1024.0, 1.0, lambda one, most: np.array([most, 1.0]))

    def noise(factor: float) -> float:
        total = 0.0
        for row in weights:
            power = sum(w * w * m for w, m in zip(row, (1.0, 4096.0), strict=True))
            step = (max(2.0 * factor, 128.0) + max(factor, 64.0)) / 255.0
            codes = step**2 / 12 * (row[0] ** 2 / factor**2 + row[1] ** 2)
            rows = max(abs(row[0]) / factor, abs(row[1])) / 127.0
            total += (codes + rows**2 / 12 * (factor**2 * 1.0 + 4096.0)) / power / 2
        return total

    best = min((2.0**power for power in range(11)), key=noise)
    assert found.tolist() == [best, 1.0] and 1.0 < best < 1024.0


def test_where_no_function_is_there_is_nothing_to_do() -> None:
    body = "t = Conv(x, w) r = Relu(t) e = Conv<group=8>(r, d) y = Conv(e, u)"
    constants = {"w": normal(8, 3, 3, 3), "d": normal(8, 1, 3, 3, seed=1), "u": normal(4, 8, 1, 1, seed=2)}
    made, data = candidate_of(
        onnx_model("float[N,3,10,10] x", "float[N,4,6,6] y", body, constants), runs_of(3)
    )
    found, report = equalize_through_functions(made, data)
    assert found is made and report.layers == () and report.notes == ()


def test_functions_behind_the_last_layer_stay_as_they_are() -> None:
    constants = {"w": normal(8, 3, 3, 3) * np.geomspace(1, 100, 8, dtype=np.float32).reshape(8, 1, 1, 1)}
    text = "t = Conv(x, w) y = Sigmoid(t)"
    for target in ("onnxruntime", "openvino"):
        model = onnx_model("float[N,3,10,10] x", "float[N,8,8,8] y", text, constants)
        made, data = candidate_of(model, runs_of(3), scheme=target_scheme(target))
        assert equalize_through_functions(made, data)[0] is made


@pytest.mark.parametrize("largest", [0.5, float("nan"), float("inf")])
def test_less_than_one_is_refused(largest: float) -> None:
    made, data = candidate_of(network(), runs_of(2))
    with pytest.raises(UsageError, match="1 or more"):
        equalize_through_functions(made, data, largest=largest)


@pytest.mark.parametrize("worth", [0.0, 1.5, float("nan")])
def test_a_share_that_is_none_is_refused(worth: float) -> None:
    made, data = candidate_of(network(), runs_of(2))
    with pytest.raises(UsageError, match="at most 1"):
        equalize_through_functions(made, data, worth=worth)


def test_tensors_that_gain_too_little_stay() -> None:
    made, data = candidate_of(network(), runs_of(3))
    assert equalize_through_functions(made, data, worth=1e-6)[0] is made


@pytest.mark.parametrize(("sizes", "want"), [((4.0, 1.0), (1.0, 4.0)), ((2.0, 1.0), (1.0, 1.0))])
def test_noise_must_fall_to_a_fifth(sizes: tuple[float, ...], want: tuple[float, ...]) -> None:
    """Sizes 4 and 1: mean relative noise 8.5 → 1, which is 0.12 of it; 2 and 1: 2.5 → 1, which is 0.4."""
    seen = ChannelExtremes(np.zeros(2), np.array(sizes))
    assert channel_sizes_alike(seen, LARGEST, WORTH).tolist() == list(want)
    assert channel_sizes_alike(seen, LARGEST, 0.5).tolist() == [1.0, sizes[0]]


def test_the_same_whatever_the_threads_and_the_order() -> None:
    made, data = candidate_of(network(), runs_of())
    first, _ = equalize_through_functions(made, data)
    second, _ = equalize_through_functions(made, RepairData(data.runs[::-1], threads=2))
    assert model_hash(first.model) == model_hash(second.model)
    assert first.table.to_json() == second.table.to_json()


def test_corrections_of_the_layers_are_dropped_and_told() -> None:
    made, data = candidate_of(network(), runs_of(3))
    bias = LayerCorrection(bias=np.zeros(8, np.float32))
    found, report = equalize_through_functions(replace(made, corrections={"t": bias}), data)
    assert found.corrections == {}
    assert any("dropped" in note for note in report.notes)


@pytest.mark.parametrize(("spelled", "ends"), [("chain", ("HardSwish", "Add")), ("silu", ("Sigmoid", "Mul"))])
def test_what_takes_the_factors_away_is_called_as_the_function(spelled: str, ends: tuple[str, str]) -> None:
    model, items = network(spelled), [dict(feeds) for feeds in runs_of(3)]
    made = calib8.quantize(model, items, repair=["equalize-through"], method="mse", threads=1)
    pair = open_pair(model, ir.to_proto(made.model))
    reference = float_reference(pair.fp32, items[0], pair.changes())
    names = find_node_names(pair.int8, pair.outputs, reference).names
    function, last = (
        next(node.name for node in made.prepared.model.graph if node.op_type == op) for op in ends
    )
    assert names["t/restored"] == function and names["v/scaled"] == last


def test_metadata_tell_the_factors_and_compare_minds_them() -> None:
    model, items = network(), [dict(feeds) for feeds in runs_of(16)]
    made = calib8.quantize(model, items, repair=["equalize-through"], method="mse", threads=1)
    int8 = ir.to_proto(made.model)
    [text] = [entry.value for entry in int8.metadata_props if entry.key == "calib8.channel_factors"]
    names = {name for path in json.loads(text)["paths"] for name in path["tensors"]}
    assert names == {"t", "v"}
    found = {one.tensor: one for one in compare(model, int8, items, threads=1).tensors}
    assert {"t", "v"} <= found.keys()
    assert all(found[name].local.sqnr_db > 20.0 for name in ("t", "v"))
