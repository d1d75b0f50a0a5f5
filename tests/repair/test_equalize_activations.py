"""Activation equalization: the function kept, the codes better used, what it passes over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from small_candidates import candidate_of

from calib8.autorange.check import check_model, float_outputs
from calib8.errors import UsageError
from calib8.model.graph import model_hash
from calib8.passes.layer_channels import layer_channels
from calib8.quantization.corrections import LayerCorrection
from calib8.repair.candidate import Candidate, RepairData
from calib8.repair.equalize_activations import LARGEST, equalize_activations
from calib8.table import GIVEN, CalibrationTable
from small_models import normal, onnx_model, relative_difference, run

ACTIVATIONS = {
    "relu": "r = Relu(a)",
    "relu6": "r = Clip(a, zero, six)",
    "none": "r = Identity(a)",
    "leaky": "r = LeakyRelu<alpha=0.3>(a)",
}


def uneven_net(
    activation: str = "relu6", seed: int = 0, reader: str = "Conv<group=8, pads=[1,1,1,1]>"
) -> onnx.ModelProto:
    """Convolution and depthwise convolution; the channels between differ by factors of up to 100."""
    random = np.random.default_rng(seed)
    size = (10.0 ** random.uniform(-2, 0, (8, 1, 1, 1))).astype(np.float32)
    size[0], size[1] = 1, 0.01
    first = normal(8, 3, 3, 3, seed=seed) * size * np.float32(1.5)
    depthwise = reader.startswith("Conv<group")
    second = normal(8, 1 if depthwise else 8, 3, 3, seed=seed + 1) / (size if depthwise else 1)
    constants = {
        "w": first, "b": normal(8, seed=seed + 2) * size.reshape(-1), "d": second.astype(np.float32),
        "u": normal(4, 8, 1, 1, seed=seed + 3), "zero": np.float32(0), "six": np.float32(6),
    }  # fmt: skip
    body = f"a = Conv(x, w, b) {ACTIVATIONS[activation]} c = {reader}(r, d) s = Relu(c) y = Conv(s, u)"
    used = {
        name: np.asarray(array)
        for name, array in constants.items()
        if f"{name}," in body or f"{name})" in body
    }
    return onnx_model("float[N,3,10,10] x", "float[N,4,?,?] y".replace("?", "H"), body, used)


def runs_of(count: int = 6, seed: int = 50) -> tuple[dict[str, np.ndarray], ...]:
    return tuple({"x": normal(1, 3, 10, 10, seed=seed + index)} for index in range(count))


def sqnr(made: Candidate, reference: Candidate, runs: tuple[dict[str, np.ndarray], ...]) -> float:
    return check_model("x", made.quantized().model, runs, float_outputs(reference.model, runs, 1), 1).sqnr_db


def magnitudes(made: Candidate, index: int) -> np.ndarray:
    layers = [layer for layer in map(layer_channels, made.model.graph) if layer is not None]
    return layers[index].output_magnitudes()


@settings(max_examples=8)
@given(
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    seed=st.integers(0, 999),
    margin=st.floats(1.0, 3.0),
    largest=st.sampled_from([LARGEST, 1e3]),
)
def test_the_function_stays_on_the_runs(activation: str, seed: int, margin: float, largest: float) -> None:
    made, data = candidate_of(uneven_net(activation, seed), runs_of(), method="minmax")
    found, report = equalize_activations(made, data, margin=margin, largest=largest)
    assert report.layers
    for feeds in data.runs:
        assert relative_difference(run(made.model, feeds), run(found.model, feeds)) < 1e-4
    factors = magnitudes(found, 0) / magnitudes(made, 0)
    assert np.all((factors >= 1 - 1e-6) & (factors <= largest * (1 + 1e-6)))
    np.testing.assert_allclose(magnitudes(made, 1) / magnitudes(found, 1), factors, rtol=1e-5)
    assert found.table.model_hash == model_hash(found.model)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_codes_are_used_better(activation: str) -> None:
    made, data = candidate_of(uneven_net(activation), runs_of(16))
    held_back = runs_of(16, seed=500)
    plain = sqnr(made, made, held_back)
    for largest, gain in ((LARGEST, 0.5), (100.0, 2.0)):
        found, report = equalize_activations(made, data, largest=largest)
        assert report.layers == ("a", "c") and found.corrections == {}
        assert sqnr(found, made, held_back) > plain + gain


def test_a_larger_margin_scales_less() -> None:
    made, data = candidate_of(uneven_net(), runs_of())
    found = [equalize_activations(made, data, margin=margin, largest=50.0)[0] for margin in (1.0, 1.5, 4.0)]
    sizes = [magnitudes(candidate, 0) for candidate in found]
    assert np.all(sizes[0] >= sizes[1]) and np.all(sizes[1] >= sizes[2])
    assert np.any(sizes[0] > sizes[1]) and np.any(sizes[1] > sizes[2])


@pytest.mark.parametrize("option", ["margin", "largest"])
@pytest.mark.parametrize("value", [0.5, float("nan"), float("inf")])
def test_less_than_one_is_refused(option: str, value: float) -> None:
    made, data = candidate_of(uneven_net(), runs_of(2))
    with pytest.raises(UsageError, match="1 or more"):
        equalize_activations(made, data, **{option: value})


def test_silent_channels_are_counted() -> None:
    proto = uneven_net()
    for tensor in proto.graph.initializer:
        if tensor.name == "b":
            bias = numpy_helper.to_array(tensor).copy()
            bias[2:4] = -1e3
            tensor.CopyFrom(numpy_helper.from_array(bias, "b"))
    made, data = candidate_of(proto, runs_of(3))
    assert equalize_activations(made, data)[1].notes == (
        "channels before depthwise layers that were zero in all runs: 2",
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda made: replace(made, table=given_range(made.table, "r")),
        lambda made: replace(made, scheme=replace(made.scheme, weight_granularity="per-tensor")),
    ],
    ids=["given range", "one scale per weight"],
)
def test_what_is_passed_over(change: object) -> None:
    made, data = candidate_of(uneven_net(), runs_of(3))
    changed = change(made)  # type: ignore[operator]
    found, report = equalize_activations(changed, data)
    assert found is changed and report.layers == ()


def given_range(table: CalibrationTable, name: str) -> CalibrationTable:
    return CalibrationTable(
        table.model_hash, {**table.entries, name: replace(table.entries[name], method=GIVEN)}
    )


def test_readers_that_mix_channels_are_no_concern_of_it() -> None:
    made, data = candidate_of(uneven_net(reader="Conv<pads=[1,1,1,1]>"), runs_of(3))
    assert equalize_activations(made, data) == (made, equalize_activations(made, data)[1])
    assert equalize_activations(made, data)[1].layers == ()


def test_the_same_whatever_the_threads_and_the_order() -> None:
    made, data = candidate_of(uneven_net(), runs_of())
    first, _ = equalize_activations(made, data)
    second, _ = equalize_activations(made, RepairData(data.runs[::-1], threads=2))
    assert model_hash(first.model) == model_hash(second.model)
    assert first.table.to_json() == second.table.to_json()


def test_corrections_of_the_layers_are_dropped_and_told() -> None:
    made, data = candidate_of(uneven_net(), runs_of(3))
    corrected = replace(
        made, corrections={name: LayerCorrection(bias=np.zeros(8, np.float32)) for name in ("a", "y")}
    )
    found, report = equalize_activations(corrected, data)
    assert set(found.corrections) == {"y"}
    assert any("dropped" in note for note in report.notes)
