"""Bias correction without data: exact where the input is known, and near what data give on a real network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from bias_nets import candidate_of, data_of, one_layer, pictures, roughened, tensors_of, unfolded

from calib8.model.load import load_model
from calib8.passes.batch_norm_moments import Moments, batch_norm_moments
from calib8.repair.bias import correct_biases
from calib8.repair.bias_analytic import correct_biases_analytically
from calib8.repair.candidate import Candidate
from small_models import Array, onnx_model, relative_difference, run

MEANS = np.array([0.3, -1.0, 2.0, 0.7])


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("Conv<pads=[1,1,1,1],strides=[2,2]>(x, w, b)", (8, 4, 3, 3)),
        ("Conv<group=4,pads=[1,0,1,2]>(x, w, b)", (8, 1, 3, 3)),
        ("Conv(x, w, b)", (8, 4, 1, 1)),
        ("ConvTranspose<strides=[2,2],pads=[1,1,1,1]>(x, w, b)", (4, 8, 3, 3)),
    ],
)
def test_channels_at_their_means_are_what_data_of_such_pictures_give(
    text: str, weight: tuple[int, ...]
) -> None:
    picture = np.broadcast_to(MEANS.astype(np.float32).reshape(1, 4, 1, 1), (1, 4, 6, 7)).copy()
    proto = one_layer(text, (4, 6, 7), weight, bias=8)
    candidate = roughened(candidate_of(proto, [{"x": picture}]))
    expected = correct_biases(candidate, data_of([{"x": picture}]))[0]
    found, report = correct_biases_analytically(candidate, {"x": Moments(MEANS)})
    assert len(report.layers) == 1 and not report.notes
    layer = report.layers[0]
    np.testing.assert_allclose(found.correction(layer).bias, expected.correction(layer).bias, atol=1e-6)  # type: ignore[arg-type]
    assert found.correction(layer).weight is candidate.correction(layer).weight


def test_the_worked_example() -> None:
    constants = {"w": np.array([[0.9], [-0.31], [0.47]], np.float32)}
    x = np.array([[1, 2, 0.5]], np.float32)
    candidate = candidate_of(
        onnx_model("float[N,3] x", "float[N,1] y", "y = Gemm(x, w)", constants), [{"x": x}]
    )
    found, report = correct_biases_analytically(candidate, {"x": Moments(np.array([1.0, 2.0, 0.5]))})
    scale = np.float32(0.9 / 127)
    error = (np.rint(constants["w"] / scale) * scale - constants["w"]).T @ x[0]
    np.testing.assert_allclose(found.correction(report.layers[0]).bias, -error, atol=1e-6)  # type: ignore[arg-type]


def test_layers_of_whose_input_nothing_is_known_are_named() -> None:
    runs = pictures(2, 4, 6, 7)
    candidate = candidate_of(one_layer("Conv(x, w, b)", (4, 6, 7), (8, 4, 3, 3), bias=8), runs)
    name = next(iter(candidate.model.graph)).name
    for moments in ({}, {"x": Moments(np.zeros(5))}):
        result, report = correct_biases_analytically(candidate, moments)
        assert result is candidate and not report.layers
        assert report.notes == (f"batch normalizations tell nothing of the input of '{name}'",)


def errors(candidate: Candidate, feeds: dict[str, Array]) -> float:
    """Energy of the error of the output, as a share of its own."""
    exact = run(candidate.model, feeds)[0].astype(np.float64)
    return float(np.sum((run(candidate.quantized().model, feeds)[0] - exact) ** 2) / np.sum(exact**2))


def real_network(shared_data: Path, count: int) -> tuple[ir.Model, ir.Model, dict[str, Array]]:
    """ResNet-8, the same with batch normalizations, and the pictures that these were made from."""
    model = load_model(shared_data / "models" / "resnet8_cifar10_mlperftiny.onnx")
    with np.load(shared_data / "cifar10" / "train1024.npz") as file:
        pixels = file["images"][:count].astype(np.float32).transpose(0, 3, 1, 2)
    feeds = {model.graph.inputs[0].name or "": np.ascontiguousarray(pixels)}
    return model, unfolded(model, [feeds]), feeds


@pytest.mark.slow
def test_a_real_network_with_its_normalizations_unfolded(shared_data: Path) -> None:
    folded, original, feeds = real_network(shared_data, 64)
    assert relative_difference(run(folded, feeds), run(original, feeds)) < 1e-4
    unseen = {name: array[48:] for name, array in feeds.items()}
    candidate = candidate_of(ir.to_proto(original), [{name: array[:48] for name, array in feeds.items()}])
    convs = [node.name for node in candidate.model.graph if node.op_type == "Conv"]
    candidate = roughened(candidate, 7, but=convs[0])
    found, report = correct_biases_analytically(candidate, batch_norm_moments(original))
    assert set(report.layers) >= set(convs[1:]) and convs[0] not in report.layers
    assert len(report.notes) == 1 and f"'{convs[0]}'" in report.notes[0]
    by_data = correct_biases(candidate, data_of([feeds], 2))[0]
    before, after, best = (errors(each, unseen) for each in (candidate, found, by_data))
    assert after < 0.5 * before and best < 0.5 * before


def test_what_normalizations_tell_is_what_the_network_does(shared_data: Path) -> None:
    """Means behind Relu, told from β and γ alone, against those of the pictures they were made from."""
    model, original, feeds = real_network(shared_data, 24)
    moments = batch_norm_moments(original)
    relus = [node.outputs[0].name or "" for node in model.graph if node.op_type == "Relu"]
    values = tensors_of(model, relus, feeds)
    assert set(relus) <= set(moments) and len(relus) > 5
    for relu in relus:
        real = values[relu].mean(axis=(0, 2, 3))
        np.testing.assert_allclose(moments[relu].mean, real, atol=0.25 * float(np.max(np.abs(real))))
        assert np.corrcoef(moments[relu].mean, real)[0, 1] > 0.9
