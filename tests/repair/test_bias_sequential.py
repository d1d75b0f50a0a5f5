"""Sequential bias correction against the same done slowly: the whole int8 graph anew for every layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from bias_nets import batch_of, candidate_of, data_of, pictures, roughened, tensors_of

from calib8.model.graph import constant
from calib8.quantization.corrections import LayerCorrection
from calib8.repair import bias_pieces
from calib8.repair.bias import correct_biases
from calib8.repair.bias_sequential import certain_part, correct_biases_in_sequence
from calib8.repair.candidate import Candidate
from calib8.repair.coded_layers import coded_layers
from calib8.table import Range
from small_models import Array, normal, onnx_model

BODY = """
    a = Conv<pads=[1,1,1,1]>(x, w1, b1) r = Relu(a)
    c = Conv<pads=[1,1,1,1], group=6>(r, w2, b2) s = Relu(c)
    d = Conv(s, w3) e = Add(d, r) f = Relu(e)
    u = ConvTranspose<strides=[2,2]>(f, w4) v = MaxPool<kernel_shape=[2,2], strides=[2,2]>(u)
    t = Concat<axis=1>(v, f) g = GlobalAveragePool(t) h = Flatten(g)
    y = Gemm(h, w5, b5) z = Sigmoid(e)
"""
LAYERS = ("a", "c", "d", "u", "y")


def net(
    narrowed: dict[str, Range] | None = None, target: str = "onnxruntime"
) -> tuple[Candidate, tuple[dict[str, Array], ...]]:
    constants = {
        "w1": normal(6, 3, 3, 3), "b1": normal(6, seed=1), "w2": normal(6, 1, 3, 3, seed=2),
        "b2": normal(6, seed=3), "w3": normal(6, 6, 1, 1, seed=4), "w4": normal(6, 4, 2, 2, seed=5),
        "w5": normal(10, 7, seed=6), "b5": normal(7, seed=7),
    }  # fmt: skip
    runs = pictures(7, 3, 8, 8)
    outputs = "float[N,7] y, float[N,6,8,8] z"
    proto = onnx_model("float[N,3,8,8] x", outputs, BODY, constants)
    return candidate_of(proto, runs, target, narrowed), runs


def layer_names(candidate: Candidate) -> dict[str, str]:
    """Output of a layer in the float graph → its name."""
    return {node.outputs[0].name or "": node.name or "" for node in candidate.model.graph}


def means(model: ir.Model, tensor: str, runs: tuple[dict[str, Array], ...]) -> Array:
    """Mean per run and channel."""
    values = tensors_of(model, [tensor], batch_of(runs))[tensor].astype(np.float64)
    return values.mean(axis=tuple(range(2, values.ndim)))


def certain(errors: Array, certainty: float) -> Array:
    """Median over runs, less what chance may have given it."""
    middle = np.median(errors, axis=0)
    deviation = 1.4826 * np.median(np.abs(errors - middle), axis=0)
    squared = deviation**2 * np.pi / 2 / len(errors)
    doubt = certainty**2 * squared
    return np.array([0.0 if m * m <= d else m - d / m for m, d in zip(middle, doubt, strict=True)])


def slowly(candidate: Candidate, runs: tuple[dict[str, Array], ...], certainty: float) -> dict[str, Array]:
    """Bias of every layer, each found behind a graph quantized with the biases found before it."""
    found: dict[str, Array] = {}
    for tensor, layer in layer_names(candidate).items():
        if tensor not in LAYERS:
            continue
        graph = candidate.quantized().model
        node = next(node for node in graph.graph if node.name == layer)
        errors = means(graph, node.outputs[0].name or "", runs) - means(candidate.model, tensor, runs)
        original = next(node for node in candidate.model.graph if node.name == layer)
        own = constant(original.inputs[2]) if len(original.inputs) > 2 else np.zeros(errors.shape[1])
        assert own is not None
        found[layer] = np.asarray(own - certain(errors, certainty), np.float32)
        correction = replace(candidate.correction(layer), bias=found[layer])
        candidate = replace(candidate, corrections={**candidate.corrections, layer: correction})
    return found


@pytest.mark.parametrize("certainty", [0.0, 1.5])
def test_it_is_the_slow_way_made_fast(certainty: float) -> None:
    candidate, runs = net()
    candidate = roughened(candidate, 6)
    expected = slowly(candidate, runs, certainty)
    result, report = correct_biases_in_sequence(candidate, data_of(runs), certainty=certainty)
    assert report.layers == tuple(expected) and len(expected) == 5 and not report.notes
    for layer, bias in expected.items():
        np.testing.assert_allclose(result.correction(layer).bias, bias, atol=2e-4)  # type: ignore[arg-type]
        assert result.correction(layer).weight is candidate.correction(layer).weight


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["onnxruntime", "openvino", "tflite"])
def test_keeping_codes_alone_changes_no_bit(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    candidate, runs = net(target=target)
    candidate = roughened(candidate, 5)
    expected, _ = correct_biases_in_sequence(candidate, data_of(runs), certainty=0.0)
    monkeypatch.setattr(bias_pieces, "WIDE", 0)
    graph = candidate.quantized()
    cut = bias_pieces.pieces(graph.model, coded_layers(candidate, graph), runs)
    assert [len(piece.codes) for piece in cut] == [1, 1, 1, 1, 0]
    found, _ = correct_biases_in_sequence(candidate, data_of(runs), certainty=0.0)
    for layer in layer_names(candidate).values():
        assert np.array_equal(found.correction(layer).bias, expected.correction(layer).bias), layer  # type: ignore[arg-type]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", ["onnxruntime", "tensorrt", "tflite"])
def test_the_typical_error_before_every_activation_is_gone(target: str) -> None:
    candidate, runs = net(target=target)
    candidate = roughened(candidate, 5)
    corrected, _ = correct_biases_in_sequence(candidate, data_of(runs), certainty=0.0)
    for tensor, layer in layer_names(candidate).items():
        if tensor not in LAYERS:
            continue
        off = []
        for graph in (candidate.quantized().model, corrected.quantized().model):
            node = next(node for node in graph.graph if node.name == layer)
            found = means(graph, node.outputs[0].name or "", runs) - means(candidate.model, tensor, runs)
            off.append(float(np.max(np.abs(np.median(found, axis=0)))))
        assert off[0] > 0.05 and off[1] < 0.01 * off[0], layer


def test_only_what_is_certain_is_taken() -> None:
    always, seldom = np.full(32, 0.5), np.where(np.arange(32) % 2, 1.0, -0.9)
    once = np.where(np.arange(32) == 7, 1e6, 0.25 + 0.01 * np.arange(32))
    errors = np.stack([always, seldom, once], axis=1)
    found = certain_part(errors, 3.0)
    assert found[0] == 0.5 and found[1] == 0.0 and 0.35 < found[2] < 0.41
    assert np.array_equal(found, certain_part(errors[::-1], 3.0))
    assert np.array_equal(certain_part(errors, 0.0), np.median(errors, axis=0))
    assert np.array_equal(certain_part(errors[:1], 3.0), errors[0])
    assert np.all(np.isnan(certain_part(np.full((4, 2), np.nan), 3.0)))


def test_layers_without_a_certain_error_are_not_reported() -> None:
    candidate, runs = net()
    result, report = correct_biases_in_sequence(candidate, data_of(runs), certainty=1e9)
    assert result is candidate and not report.layers


def test_it_sees_what_narrow_ranges_cut_off() -> None:
    candidate, runs = net({"r": Range(0.0, 1.0)})
    layer = layer_names(candidate)["c"]
    own = next(constant(node.inputs[2]) for node in candidate.model.graph if node.name == layer)
    biases = [
        correct(candidate, data_of(runs))[0].correction(layer).bias
        for correct in (correct_biases, correct_biases_in_sequence)
    ]
    moved = [float(np.max(np.abs(bias - own))) for bias in biases]  # type: ignore[operator]
    assert moved[0] < 0.05 and moved[1] > 0.5


def test_it_goes_on_from_the_biases_that_are_there() -> None:
    candidate, runs = net()
    layer = layer_names(candidate)["a"]
    expected = correct_biases_in_sequence(candidate, data_of(runs), certainty=0.0)[0].correction(layer).bias
    wrong = replace(candidate, corrections={layer: LayerCorrection(bias=np.full(6, 0.75, np.float32))})
    found = correct_biases_in_sequence(wrong, data_of(runs), certainty=0.0)[0].correction(layer).bias
    assert expected is not None and found is not None
    np.testing.assert_allclose(found, expected, atol=0.01)  # steps of the bias and of codes apart


def test_neither_threads_nor_the_order_of_the_runs_matter() -> None:
    candidate, runs = net()
    results = [
        correct_biases_in_sequence(candidate, data_of(data, threads))[0]
        for data, threads in ((runs, 1), (runs, 3), (runs[::-1], 2))
    ]
    biases = [
        [
            correction.bias.tobytes()
            for correction in result.corrections.values()
            if correction.bias is not None
        ]
        for result in results
    ]
    assert len(biases[0]) == 5 and biases[0] == biases[1] == biases[2]


def test_layers_in_float_are_passed_through() -> None:
    candidate, runs = net()
    names = layer_names(candidate)
    kept = replace(candidate, keep_float=frozenset({names["c"], names["u"]}))
    result, report = correct_biases_in_sequence(kept, data_of(runs), most_runs=4)
    assert report.layers == (names["a"], names["d"], names["y"])
    again = correct_biases_in_sequence(kept, data_of(runs[:4]))[0]
    assert np.array_equal(again.correction(names["y"]).bias, result.correction(names["y"]).bias)  # type: ignore[arg-type]


def test_nothing_to_do() -> None:
    runs = pictures(2, 3, 8, 8)
    candidate = candidate_of(onnx_model("float[N,3,8,8] x", "float[N,3,8,8] y", "y = Relu(x)"), runs)
    result, report = correct_biases_in_sequence(candidate, data_of(runs))
    assert result is candidate and not report.layers and not report.notes
    candidate, _ = net()
    assert correct_biases_in_sequence(candidate, data_of([]))[0] is candidate
