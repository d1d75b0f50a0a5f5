"""One-shot bias correction: no channel is off on average afterwards, borders included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from bias_nets import (
    candidate_of,
    data_of,
    one_layer,
    pictures,
    plain_conv,
    plain_transposed,
    roughened,
)

from calib8.model.graph import constant
from calib8.quantization.corrections import LayerCorrection
from calib8.quantization.weights import INT32_MAX
from calib8.repair.bias import correct_biases
from calib8.repair.bias_sequential import correct_biases_in_sequence
from calib8.repair.biases import without_error
from calib8.repair.candidate import Candidate
from calib8.repair.coded_layers import CodedLayer, coded_layers
from small_models import Array, normal, onnx_model

CONVOLUTIONS = {
    "borders": ("Conv<pads=[1,2,0,1]>(x, w, b)", (8, 4, 3, 3), {"pads": (1, 2, 0, 1)}),
    "no bias": ("Conv<pads=[1,1,1,1]>(x, w)", (8, 4, 3, 3), {"pads": (1, 1, 1, 1)}),
    "stride": ("Conv<strides=[2,3]>(x, w, b)", (8, 4, 3, 3), {"strides": (2, 3)}),
    "dilated": ("Conv<dilations=[2,1]>(x, w, b)", (8, 4, 3, 3), {"dilations": (2, 1)}),
    "groups": ("Conv<group=2>(x, w, b)", (8, 2, 3, 3), {"group": 2}),
    "depthwise": ("Conv<group=4,pads=[1,1,1,1]>(x, w, b)", (8, 1, 3, 3), {"group": 4, "pads": (1,) * 4}),
    "pointwise": ("Conv(x, w, b)", (8, 4, 1, 1), {}),
    "pointwise, stride": ("Conv<strides=[2,2]>(x, w, b)", (8, 4, 1, 1), {"strides": (2, 2)}),
    "pointwise, padded": ("Conv<pads=[1,1,1,1]>(x, w, b)", (8, 4, 1, 1), {"pads": (1,) * 4}),
    "automatic": ("Conv<auto_pad=\"SAME_UPPER\">(x, w, b)", (8, 4, 2, 2), {"pads": (0, 0, 1, 1)}),
    "transposed": ("ConvTranspose<strides=[2,2]>(x, w, b)", (4, 8, 3, 3), {"strides": (2, 2)}),
    "transposed, cut": ("ConvTranspose<pads=[1,0,0,1]>(x, w, b)", (4, 8, 3, 3), {"pads": (1, 0, 0, 1)}),
    "transposed, groups": ("ConvTranspose<group=2>(x, w, b)", (4, 4, 2, 2), {"group": 2}),
    "transposed, pointwise": ("ConvTranspose(x, w, b)", (4, 8, 1, 1), {}),
}  # fmt: skip
PLAIN: dict[str, tuple[int, ...] | int] = {"strides": (1, 1), "pads": (0, 0, 0, 0), "group": 1}


def stored(candidate: Candidate, which: str) -> Array:
    """The float weight or bias of the only layer, zeros for a bias that is not there."""
    node = next(node for node in candidate.model.graph if len(node.inputs) > 1)
    index = {"weight": 1, "bias": 2}[which]
    array = constant(node.inputs[index]) if index < len(node.inputs) else None
    return np.zeros(8) if array is None else array.astype(np.float64)


def coded_weight(candidate: Candidate) -> Array:
    """What the codes in the int8 graph stand for, read from its DequantizeLinear."""
    for node in candidate.quantized().model.graph:
        codes = constant(node.inputs[0])
        if node.op_type == "DequantizeLinear" and codes is not None and codes.ndim > 1:
            scale = constant(node.inputs[1])
            assert scale is not None
            axis = node.attributes["axis"].as_int()
            shape = [-1 if index == axis else 1 for index in range(codes.ndim)]
            return codes.astype(np.float64) * scale.astype(np.float64).reshape(shape)
    raise AssertionError("no coded weight")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_the_mean_error_of_every_channel_is_gone(kind: str) -> None:
    text, shape, settings = CONVOLUTIONS[kind]
    runs = pictures(5, 4, 7, 8)
    proto = one_layer(text, (4, 7, 8), shape, bias=8 if ", b)" in text else 0)
    candidate = roughened(candidate_of(proto, runs))
    result, report = correct_biases(candidate, data_of(runs))
    assert len(report.layers) == 1 and not report.notes
    change = result.correction(report.layers[0]).bias
    assert change is not None and change.dtype == np.float32
    moved = change.astype(np.float64) - stored(candidate, "bias")
    values = np.concatenate([feeds["x"] for feeds in runs])
    difference = coded_weight(candidate) - stored(candidate, "weight")
    options = PLAIN | settings
    if text.startswith("ConvTranspose"):
        error = plain_transposed(values, difference, **options)  # type: ignore[arg-type]
    else:
        error = plain_conv(values, difference, **({"dilations": (1, 1)} | options))  # type: ignore[arg-type]
    before = error.mean(axis=(0, 2, 3))
    assert np.min(np.abs(before)) > 1e-2
    np.testing.assert_allclose(before + moved, 0.0, atol=2e-5)


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_fully_connected_layer(transposed: int) -> None:
    runs = tuple({"x": normal(1, 6, seed=seed) + np.float32(1)} for seed in range(7))
    weight = normal(8, 6) if transposed else normal(6, 8)
    text = f"y = Gemm<transB={transposed}>(x, w, b)"
    proto = onnx_model("float[N,6] x", "float[N,8] y", text, {"w": weight, "b": normal(8, seed=2)})
    candidate = candidate_of(proto, runs)
    result, report = correct_biases(candidate, data_of(runs))
    moved = result.correction(report.layers[0]).bias - stored(candidate, "bias")  # type: ignore[operator]
    difference = coded_weight(candidate) - weight
    mean = np.mean([feeds["x"][0] for feeds in runs], axis=0, dtype=np.float64)
    np.testing.assert_allclose(moved, -(difference @ mean if transposed else mean @ difference), atol=1e-6)


def test_the_worked_example() -> None:
    runs = ({"x": np.array([[0, 3, 1]], np.float32)}, {"x": np.array([[2, 1, 0]], np.float32)})
    weight = np.array([[0.9], [-0.31], [0.47]], np.float32)
    candidate = candidate_of(
        onnx_model("float[N,3] x", "float[N,1] y", "y = Gemm(x, w)", {"w": weight}), runs
    )
    codes = LayerCorrection(np.array([[9], [-3], [5]], np.int8), np.array([0.1], np.float32))
    layer = next(iter(candidate.model.graph)).name or ""
    result, report = correct_biases(replace(candidate, corrections={layer: codes}), data_of(runs))
    assert report.layers == (layer,)
    np.testing.assert_allclose(result.correction(layer).bias, [-0.035], atol=1e-7)  # type: ignore[arg-type]
    assert result.correction(layer).weight is codes.weight


BODY = """
    a = Conv<pads=[1,1,1,1]>(x, w1, b1) r = Relu(a)
    c = Conv<pads=[1,1,1,1], group=8>(r, w2) s = Relu(c)
    y = Conv(s, w3)
"""


def chain() -> tuple[Candidate, tuple[dict[str, Array], ...]]:
    constants = {
        "w1": normal(8, 3, 3, 3), "b1": normal(8),
        "w2": normal(8, 1, 3, 3, seed=1), "w3": normal(5, 8, 1, 1, seed=2),
    }  # fmt: skip
    runs = pictures(9, 3, 8, 8)
    return candidate_of(onnx_model("float[N,3,8,8] x", "float[N,5,8,8] y", BODY, constants), runs), runs


def biases(candidate: Candidate) -> list[bytes]:
    found = (correction.bias for correction in candidate.corrections.values())
    return [b"" if bias is None else bias.tobytes() for bias in found]


def test_neither_threads_nor_the_order_of_the_runs_matter() -> None:
    candidate, runs = chain()
    expected = biases(correct_biases(candidate, data_of(runs))[0])
    assert len(expected) == 3
    for threads in (2, 3):
        assert biases(correct_biases(candidate, data_of(runs, threads))[0]) == expected
    for average in ("mean", "median"):
        there = correct_biases(candidate, data_of(runs), average=average)[0]
        back = correct_biases(candidate, data_of(runs[::-1]), average=average)[0]
        assert biases(there) == biases(back)


def test_done_twice_is_done_once_and_the_candidate_stays_as_it_was() -> None:
    candidate, runs = chain()
    once, report = correct_biases(candidate, data_of(runs))
    assert not candidate.corrections and len(report.layers) == 3
    twice, report = correct_biases(once, data_of(runs))
    assert twice is once and not report.layers
    wrong = replace(
        once, corrections={name: LayerCorrection(bias=np.ones(8, np.float32)) for name in ("a", "c")}
    )
    assert biases(correct_biases(wrong, data_of(runs))[0]) == biases(once)


def test_the_median_passes_over_an_odd_run() -> None:
    candidate, runs = chain()
    odd = (*runs, {"x": runs[0]["x"] * np.float32(1000)})
    plain = [correct_biases(candidate, data_of(data), average="median")[0] for data in (runs, odd)]
    mean = [correct_biases(candidate, data_of(data), average="mean")[0] for data in (runs, odd)]
    moved = [
        max(
            float(np.max(np.abs(left.bias - right.bias)))  # type: ignore[operator]
            for left, right in zip(*(found.corrections.values() for found in pair), strict=True)
        )
        for pair in (plain, mean)
    ]
    assert moved[0] < 0.01 * moved[1]


def test_only_the_first_runs_are_looked_at() -> None:
    candidate, runs = chain()
    told: list[tuple[str, int, int | None]] = []
    data = replace(data_of(runs), progress=lambda *step: told.append(step))
    few = correct_biases(candidate, data, most_runs=3)[0]
    assert biases(few) == biases(correct_biases(candidate, data_of(runs[:3]))[0])
    assert biases(few) != biases(correct_biases(candidate, data_of(runs))[0])
    assert told[0] == ("correcting biases", 0, 3) and told[-1] == ("correcting biases", 3, 3)


def test_a_channel_without_room_keeps_its_bias() -> None:
    runs = pictures(3, 4, 6, 6)
    weight, bias = normal(8, 4, 3, 3), normal(8)
    weight[2] = 1e-9
    bias[2] = 0.05
    proto = onnx_model("float[N,4,6,6] x", "float[N,8,4,4] y", "y = Conv(x, w, b)", {"w": weight, "b": bias})
    candidate = candidate_of(proto, runs)
    before = coded_layers(candidate, candidate.quantized())[0]
    result, report = correct_biases(candidate, data_of(runs))
    found = result.correction(report.layers[0]).bias
    assert found is not None and found[2] == bias[2] and np.all((found != bias)[np.arange(8) != 2])
    assert report.notes == (
        "channels that keep the bias they had, 1, as the better one does not fit int32 with their small "
        "scale; nothing to do: 'y' (1)",
    )
    after = coded_layers(result, result.quantized())[0]
    assert np.array_equal(before.weight.real, after.weight.real)


@pytest.mark.parametrize("kind", ["ConvTranspose<group=2>", "Conv<group=2>"])
def test_one_scale_per_weight_changes_nothing_of_it(kind: str) -> None:
    runs = pictures(3, 4, 6, 6)
    shape = (4, 4, 2, 2) if kind.startswith("ConvT") else (8, 2, 2, 2)
    proto = one_layer(f"{kind}(x, w, b)", (4, 6, 6), shape, bias=8)
    made = candidate_of(proto, runs)
    made = replace(made, scheme=made.scheme.with_weights("per-tensor"))
    for repair in (correct_biases, correct_biases_in_sequence):
        assert len(repair(made, data_of(runs))[1].layers) == 1
    found, _ = correct_biases(made, data_of(runs))
    [layer] = coded_layers(found, found.quantized())
    assert layer.bias_scale is not None and layer.bias_scale.shape == layer.bias.shape == (8,)
    error = plain_error(layer, runs)
    bias = found.correction(layer.name).bias
    assert bias is not None
    np.testing.assert_allclose(bias, layer.bias - error, rtol=1e-4, atol=1e-6)


def plain_error(layer: CodedLayer, runs: tuple[dict[str, Array], ...]) -> Array:
    """Mean of (W_q − W) ∗ x over runs and pixels, in plain loops."""
    x = np.concatenate([feeds["x"] for feeds in runs])
    if layer.node.op_type == "Conv":
        found = plain_conv(x, layer.weight_error, strides=(1, 1), pads=(0,) * 4, group=2, dilations=(1, 1))
    else:
        found = plain_transposed(x, layer.weight_error, strides=(1, 1), pads=(0,) * 4, group=2)
    return found.mean(axis=(0, 2, 3))


def test_layers_with_computed_weights_are_no_layers_of_codes() -> None:
    """Both sides of the product carry codes of activations."""
    runs = pictures(3, 4, 6, 6)
    body = """a = Conv(x, w, b) r = Relu(a) t = Transpose<perm=[0,1,3,2]>(r) c = Conv(t, v) d = Relu(c)
              y = MatMul(d, t)"""
    constants = {"w": normal(4, 4, 1, 1), "b": normal(4), "v": normal(4, 4, 1, 1, seed=1)}
    candidate = candidate_of(onnx_model("float[N,4,6,6] x", "float[N,4,6,6] y", body, constants), runs)
    assert [layer.name for layer in coded_layers(candidate, candidate.quantized())] == ["a", "c"]
    for repair in (correct_biases, correct_biases_in_sequence):
        _, report = repair(candidate, data_of(runs))
        assert report.layers == ("a", "c") and report.notes == ()


def test_layers_that_share_a_weight_get_biases_of_their_own() -> None:
    runs = pictures(4, 4, 6, 6)
    constants = {"w": normal(4, 4, 1, 1), "b": normal(4)}
    body = "a = Conv(x, w, b) r = Relu(a) y = Conv(r, w, b)"
    candidate = roughened(
        candidate_of(onnx_model("float[N,4,6,6] x", "float[N,4,6,6] y", body, constants), runs)
    )
    found, report = correct_biases(candidate, data_of(runs))
    assert report.layers == ("a", "y")
    first, second = (found.correction(name).bias for name in report.layers)
    assert first is not None and second is not None and not np.array_equal(first, second)
    stored = [t.numpy() for t in map(ir.from_proto, ir.to_proto(found.quantized().model).graph.initializer)]
    assert sum(array.dtype == np.int32 and array.shape == (4,) and array.any() for array in stored) == 2


def test_a_bias_has_no_more_room_than_the_sums_leave_it() -> None:
    """34,000 products of the largest codes take more than half of int32."""
    size = 34_000
    runs = ({"x": np.ones((1, size), np.float32)},)
    proto = onnx_model(
        "float[1,S] x", "float[1,1] y", "y = Gemm(x, w)", {"w": np.ones((size, 1), np.float32)}
    )
    candidate = candidate_of(proto, runs)
    layer = coded_layers(candidate, candidate.quantized())[0]
    assert layer.room is not None and layer.bias_scale is not None
    steps = float(layer.room[0] / layer.bias_scale[0])
    assert steps == INT32_MAX - size * 127 * 255 < 0.499 * INT32_MAX
    for share, quantized in ((0.999, True), (1.02, False)):
        bias = np.array([share * float(layer.room[0])], np.float32)
        changed = replace(candidate, corrections={layer.name: LayerCorrection(bias=bias)})
        assert bool(changed.quantized().placement.quantized_nodes()) is quantized


def test_layers_that_cannot_be_corrected_are_told() -> None:
    runs = tuple({"x": normal(1, 5, 6, seed=seed)} for seed in range(3))
    proto = onnx_model("float[N,5,6] x", "float[N,5,4] y", "y = MatMul(x, w)", {"w": normal(6, 4)})
    candidate = candidate_of(proto, runs)
    result, report = correct_biases(candidate, data_of(runs))
    assert result is candidate and not report.layers
    assert report.notes == (f"MatMul has no place for a bias: '{next(iter(candidate.model.graph)).name}'",)


def test_layers_that_stay_float_are_left_alone() -> None:
    candidate, runs = chain()
    names = [node.name or "" for node in candidate.model.graph if node.op_type == "Conv"]
    kept = replace(candidate, keep_float=frozenset(names[1:2]))
    assert correct_biases(kept, data_of(runs))[1].layers == (names[0], names[2])
    everything = replace(candidate, keep_float=frozenset(names))
    result, report = correct_biases(everything, data_of(runs))
    assert result is everything and not report.layers and not report.notes
    assert correct_biases(candidate, data_of([]))[0] is candidate


def test_an_error_that_is_no_number_is_left_alone() -> None:
    candidate, _ = chain()
    layer = coded_layers(candidate, candidate.quantized())[0]
    error = np.array([np.nan, np.inf, 0.25, 0, 0, 0, 0, 0])
    new = without_error(layer, layer.bias, error)
    assert np.array_equal(new.bias[:2], layer.bias[:2]) and new.kept == 2
    np.testing.assert_allclose(new.bias[2:], (layer.bias - error)[2:], rtol=1e-6)


def test_biases_that_stay_float_are_corrected_too() -> None:
    runs = pictures(4, 4, 7, 8)
    proto = one_layer("Conv<pads=[1,1,1,1]>(x, w)", (4, 7, 8), (8, 4, 3, 3))
    found = [
        correct_biases(roughened(candidate_of(proto, runs, target)), data_of(runs))[0]
        for target in ("onnxruntime", "tensorrt")
    ]
    assert biases(found[0]) == biases(found[1])
    assert any(
        np.array_equal(array, next(iter(found[1].corrections.values())).bias)
        for array in (
            ir.from_proto(t).numpy() for t in ir.to_proto(found[1].quantized().model).graph.initializer
        )
    )


SETTLED = {
    "mask": ("Conv<pads=[1,1,1,1]>(x, w, b) y = Sigmoid(c)", (8, 4, 3, 3), lambda v: 1 / (1 + np.exp(-v))),
    "gate": ("Conv(x, w) y = HardSigmoid<alpha=0.25>(c)", (8, 4, 1, 1), lambda v: np.clip(v / 4 + 0.5, 0, 1)),
    "tanh": ("ConvTranspose<strides=[2,2]>(x, w, b) y = Tanh(c)", (4, 8, 2, 2), np.tanh),
}


@pytest.mark.parametrize("kind", SETTLED)
def test_values_that_a_function_has_settled_count_for_nothing(kind: str) -> None:
    """Large inputs: in most places the function is at its limits, and errors there are the largest."""
    text, shape, function = SETTLED[kind]
    runs = tuple({"x": feeds["x"] ** 3} for feeds in pictures(5, 4, 7, 8))
    constants: dict[str, Array] = {"w": normal(*shape, seed=3)} | ({"b": normal(8)} if ", b)" in text else {})
    proto = onnx_model("float[N,4,7,8] x", "float[N,B,C,D] y", f"c = {text}", constants)
    candidate = roughened(candidate_of(proto, runs, "calib8"))
    result, report = correct_biases(candidate, data_of(runs))
    [layer] = report.layers
    change = result.correction(layer).bias
    assert change is not None
    moved = change.astype(np.float64) - stored(candidate, "bias")
    values = np.concatenate([feeds["x"] for feeds in runs])
    weight, coded = stored(candidate, "weight"), coded_weight(candidate)
    if kind == "tanh":
        options = {"strides": (2, 2), "pads": (0,) * 4, "group": 1}
        made = [plain_transposed(values, one, **options) for one in (weight, coded)]  # type: ignore[arg-type]
    else:
        pads = (1,) * 4 if kind == "mask" else (0,) * 4
        options = {"strides": (1, 1), "dilations": (1, 1), "pads": pads, "group": 1}
        made = [plain_conv(values, one, **options) for one in (weight, coded)]  # type: ignore[arg-type]
    before = made[0] + stored(candidate, "bias").reshape(1, -1, 1, 1)
    counts = np.square(function(before + 0.5) - function(before - 0.5))
    error = made[1] - made[0]
    expected = (counts * error).sum(axis=(0, 2, 3)) / counts.sum(axis=(0, 2, 3))
    np.testing.assert_allclose(expected + moved, 0.0, atol=5e-5)
    assert np.max(np.abs(expected - error.mean(axis=(0, 2, 3)))) > 1e-2
    left = correct_biases_in_sequence(candidate, data_of(runs))[0]
    assert left.correction(layer).bias is None
