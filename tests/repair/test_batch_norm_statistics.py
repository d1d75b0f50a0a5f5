"""Statistics of normalizations on data: how far they moved, and estimated anew layer after layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from calib8.analysis.observed import observe
from calib8.data.preprocess import Preprocess
from calib8.demo import MODEL_PATH
from calib8.model.load import load_model
from calib8.repair.batch_norm_statistics import batch_norm_drift, reestimate_batch_norms
from small_models import Array, graph, normal, run

BODY = "a = Conv(x, w) b = BatchNormalization<epsilon=0.001>(a, g, h, m, v) c = Relu(b) "


def two_norms(opset: int = 17) -> ir.Model:
    """Conv, normalization, Relu, twice, and a third normalization beside the second."""
    constants: dict[str, Array] = {"w": normal(4, 3, 3, 3), "w2": normal(5, 4, 1, 1, seed=1)}
    constants |= {name: normal(4, seed=seed) for seed, name in enumerate("ghm", 2)}
    constants |= {f"{name}2": normal(5, seed=seed) for seed, name in enumerate("ghm", 7)}
    constants |= {"v": np.abs(normal(4, seed=12)) + 0.1, "v2": np.abs(normal(5, seed=13)) + 0.1}
    body = BODY + (
        "d = Conv(c, w2) y = BatchNormalization(d, g2, h2, m2, v2) "
        "z = BatchNormalization<epsilon=0.01>(c, g, h, m, v)"
    )
    return graph("float[N,3,8,8] x", "float[N,5,6,6] y, float[N,4,6,6] z", body, constants, opset)


def parameters(model: ir.Model, node: str) -> list[Array]:
    """γ, β, μ and σ² of a normalization."""
    proto = ir.to_proto(model).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.initializer}
    found = next(item for item in proto.node if item.name == node)
    return [arrays[name] for name in found.input[1:]]


def normalized(x: Array, node: list[Array], epsilon: float) -> Array:
    gamma, beta, mean, variance = (array.reshape(1, -1, 1, 1).astype(np.float64) for array in node)
    return gamma * (x - mean) / np.sqrt(variance + epsilon) + beta


def moments(x: Array) -> tuple[Array, Array]:
    return x.astype(np.float64).mean(axis=(0, 2, 3)), x.astype(np.float64).var(axis=(0, 2, 3))


def test_each_normalization_is_estimated_behind_the_new_ones_before_it() -> None:
    model = two_norms()
    images = normal(6, 3, 8, 8, seed=20) * np.float32(2.0) + np.float32(0.5)
    runs = [{"x": images[index : index + 1]} for index in range(6)]
    found, drifts = reestimate_batch_norms(model, runs, threads=1)
    assert [drift.name for drift in drifts] == ["b", "y", "z"]
    w, w2 = (array.astype(np.float64) for array in (normal(4, 3, 3, 3), normal(5, 4, 1, 1, seed=1)))
    windows = np.lib.stride_tricks.sliding_window_view(images.astype(np.float64), (3, 3), axis=(2, 3))
    a = np.einsum("ncyxij,ocij->noyx", windows, w)
    old, new = parameters(model, "b"), parameters(found, "b")
    np.testing.assert_array_equal(old[:2], new[:2])
    for actual, expected in zip(new[2:], moments(a), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    c = np.maximum(normalized(a, [*old[:2], *moments(a)], 1e-3), 0.0)
    d = np.einsum("ncyx,oc->noyx", c, w2[:, :, 0, 0])
    for name, source in (("y", d), ("z", c)):
        for actual, expected in zip(parameters(found, name)[2:], moments(source), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)
    shift = np.abs(moments(a)[0] - old[2]) / np.sqrt(old[3] + 1e-3)
    assert drifts[0].shift == pytest.approx(np.sqrt(np.mean(shift**2)), rel=1e-4)
    assert drifts[0].channel == int(np.argmax(shift))
    assert drifts[0].largest_shift == pytest.approx(shift.max(), rel=1e-4)
    ratio = np.sqrt((moments(a)[1] + 1e-3) / (old[3] + 1e-3))
    assert drifts[0].ratio == pytest.approx(np.median(ratio), rel=1e-4)


def test_a_model_on_its_own_data_does_not_move() -> None:
    runs = [{"x": normal(3, 3, 8, 8, seed=seed)} for seed in range(4)]
    found, _ = reestimate_batch_norms(two_norms(), runs, threads=1)
    again, drifts = reestimate_batch_norms(found, runs, threads=1)
    for drift in (*drifts, *batch_norm_drift(found, runs, 1)):
        assert drift.largest_shift < 1e-4 and drift.ratio == pytest.approx(1.0, abs=1e-4)
        assert not drift.suspicious
    for left, right in zip(run(found, runs[0]), run(again, runs[0]), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-3)


def test_the_given_model_stays_and_how_runs_are_split_changes_nothing() -> None:
    model, images = two_norms(), normal(6, 3, 8, 8, seed=3)
    before = ir.to_proto(model).SerializeToString()
    split = [[{"x": images}], [{"x": images[:2]}, {"x": images[2:]}], [{"x": one[None]} for one in images]]
    found = [reestimate_batch_norms(model, runs, 1 + index % 2) for index, runs in enumerate(split)]
    assert ir.to_proto(model).SerializeToString() == before
    assert found[0][1] == found[1][1] == found[2][1]
    assert len({ir.to_proto(model).SerializeToString() for model, _ in found}) == 1


def test_a_model_without_normalizations_comes_back_as_it_is() -> None:
    model = graph("float[N,3,8,8] x", "float[N,3,8,8] y", "y = Relu(x)")
    runs = [{"x": normal(1, 3, 8, 8)}]
    assert reestimate_batch_norms(model, runs) == (model, ())
    assert batch_norm_drift(model, runs) == ()


def test_a_normalization_of_the_input_itself() -> None:
    constants: dict[str, Array] = {name: np.zeros(3, np.float32) for name in "hm"}
    constants |= {"g": np.ones(3, np.float32), "v": np.ones(3, np.float32)}
    model = graph("float[N,3,4,4] x", "float[N,3,4,4] y", "y = BatchNormalization(x, g, h, m, v)", constants)
    image = np.full((1, 3, 4, 4), 2.0, np.float32)
    [drift] = batch_norm_drift(model, [{"x": image}])
    assert drift.shift == pytest.approx(2.0, rel=1e-4) and drift.suspicious


def damaged(model: onnx.ModelProto) -> onnx.ModelProto:
    """Statistics of other data: means moved by two deviations, variances four times as large."""
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            for tensor in model.graph.initializer:
                array = numpy_helper.to_array(tensor)
                if tensor.name == node.input[4]:
                    tensor.CopyFrom(numpy_helper.from_array(array * np.float32(4.0), tensor.name))
                    spread = np.sqrt(array)
            for tensor in model.graph.initializer:
                if tensor.name == node.input[3]:
                    moved = numpy_helper.to_array(tensor) + 2 * spread
                    tensor.CopyFrom(numpy_helper.from_array(moved.astype(np.float32), tensor.name))
    return model


def accuracy(model: ir.Model | onnx.ModelProto, images: Array, labels: Array) -> float:
    [logits] = run(model, {"input": images})
    return float(np.mean(logits.argmax(axis=1) == labels))


def test_a_labelled_network_with_wrong_statistics_comes_back() -> None:
    calibration = np.load(MODEL_PATH.with_name("digits_calibration.npz"))["images"]
    heldout = np.load(MODEL_PATH.with_name("digits_heldout.npz"))
    images, labels = digits(heldout["images"]), heldout["labels"]
    broken = load_model(damaged(onnx.load(MODEL_PATH)))
    found, drifts = reestimate_batch_norms(broken, [{"input": digits(calibration)}], threads=1)
    assert accuracy(onnx.load(MODEL_PATH), images, labels) > 0.99
    assert accuracy(broken, images, labels) < 0.5
    assert accuracy(found, images, labels) > 0.97
    assert len(drifts) == 7 and drifts[0].shift > 0.7 and drifts[0].ratio < 0.6


def digits(images: Array) -> Array:
    return ((np.moveaxis(images, -1, 1).astype(np.float32) - 128) / 128).astype(np.float32)


@pytest.mark.parametrize(
    ("mean", "scale", "suspicious"),
    [
        (127.0, 128, False),
        (0.0, 128, True),
        pytest.param(255.0, 128, True, marks=pytest.mark.slow),
        pytest.param(127.0, 256, True, marks=pytest.mark.slow),
    ],
)
def test_wrong_preprocessing_shows_at_the_first_normalization(
    mean: float, scale: float, suspicious: bool, shared_data: Path
) -> None:
    found = observe(
        shared_data / "models" / "ultraface_RFB-320.onnx",
        shared_data / "imagenet" / "calib",
        preprocess=Preprocess(mean=(mean,), scale=(1 / scale,)),
        samples=6,
        threads=1,
    )
    assert len(found.batch_norms) == 35 and found.samples == 6
    assert found.batch_norms[0].suspicious is suspicious


def test_a_channel_that_was_constant_in_training_does_not_count() -> None:
    x = normal(1, 4, 8, 8, seed=3)
    constants = {
        "g": np.ones(4, np.float32), "h": np.zeros(4, np.float32), "m": np.float32([0, 0, 0, 5]),
        "v": np.float32([1, 1, 1, 1e-12]),
    }  # fmt: skip
    model = graph("float[N,4,8,8] x", "float[N,4,8,8] y", "y = BatchNormalization(x, g, h, m, v)", constants)
    [drift] = batch_norm_drift(model, [{"x": x}], threads=1)
    assert (drift.channel, drift.suspicious) == (3, False)
    assert drift.largest_shift > 1000.0 > 0.5 > drift.shift
    means, _ = moments(x)
    assert drift.shift == pytest.approx(np.sqrt(np.mean(means[:3] ** 2)), rel=1e-3)
    constants["v"] = np.full(4, 1e-12, np.float32)
    model = graph("float[N,4,8,8] x", "float[N,4,8,8] y", "y = BatchNormalization(x, g, h, m, v)", constants)
    assert batch_norm_drift(model, [{"x": x}], threads=1)[0].suspicious
