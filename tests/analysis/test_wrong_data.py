"""What is wrong with a float model's statistics or with its images, and what is not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import calib8
from calib8.analysis.colour_order import red_and_blue_exchanged
from calib8.analysis.diagnose import diagnose
from calib8.analysis.observed import observe
from calib8.analysis.picture_units import other_units
from calib8.analysis.sureness import Witness
from calib8.analysis.wrong_statistics import wrong_statistics
from calib8.data.batches import batches
from calib8.data.channel_order import clearly_surer, colour_axis, doubts, entropies, reversed_channels
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.data.presets import PRESETS
from calib8.model.graph import graph_inputs
from calib8.model.load import load_model
from calib8.repair.batch_norm_statistics import batch_norm_drift
from calib8.tasks.meaning import meaning_of
from calib8.tasks.seen import analysable
from small_models import Array, normal, onnx_model, run

CONV = "Conv<pads=[1,1,1,1]>"
DEPTH = 5
COLOURS = np.array([2.0, 0.0, -2.0], np.float32).reshape(3, 1, 1)
"""Means of the channels of the training images."""

IMAGES = [normal(1, 3, 12, 12, seed=seed) + COLOURS for seed in range(24)]


@pytest.fixture(scope="module")
def fitting() -> onnx.ModelProto:
    """Five normalizations, each with the statistics that NumPy finds in front of it."""
    parts, constants = [], {}
    for place in range(DEPTH):
        source = "x" if place == 0 else f"r{place - 1}"
        parts.append(f"c{place} = {CONV}({source}, w{place})")
        norm = f"n{place} = BatchNormalization(c{place}, g{place}, b{place}, m{place}, v{place})"
        parts.append(f"{norm} r{place} = Relu(n{place})")
        constants |= {f"w{place}": normal(8, 3 if place == 0 else 8, 3, 3, seed=place) / np.float32(4)}
        constants |= {f"{name}{place}": np.ones(8, np.float32) for name in "gv"}
        constants |= {f"b{place}": normal(8, seed=place), f"m{place}": np.zeros(8, np.float32)}
    constants["w0"] *= np.float32([1, 2, 3]).reshape(1, 3, 1, 1)
    parts.append("p = GlobalAveragePool(r4) y = Flatten(p)")
    body = " ".join(parts)
    for place in range(DEPTH):
        outputs = f"float[N,8] y, float[N,8,12,12] c{place}"
        proto = onnx_model("float[N,3,12,12] x", outputs, body, constants)
        seen = run(proto, {"x": np.concatenate(IMAGES)})[1]
        constants |= {f"m{place}": seen.mean((0, 2, 3)), f"v{place}": seen.var((0, 2, 3))}
    return named(onnx_model("float[N,3,12,12] x", "float[N,8] y", body, constants))


def named(proto: onnx.ModelProto) -> onnx.ModelProto:
    for node in proto.graph.node:
        node.name = node.output[0]
    return proto


def changed(proto: onnx.ModelProto, name: str, factor: float, added: float = 0.0) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    tensor = next(one for one in copy.graph.initializer if one.name == name)
    array = onnx.numpy_helper.to_array(tensor) * np.float32(factor) + np.float32(added)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))
    return copy


def runs(images: list[Array]) -> list[dict[str, Array]]:
    return [{"x": image} for image in images]


def blamed(proto: onnx.ModelProto) -> list[str]:
    model = ir.from_proto(proto)
    drifts = batch_norm_drift(model, runs(IMAGES), 1)
    return [drift.name for drift in wrong_statistics(model, runs(IMAGES), drifts, 1)]


def test_the_wrong_one_is_named_and_not_those_behind_it(fitting: onnx.ModelProto) -> None:
    assert blamed(fitting) == []
    for name, factor, added in (("v2", 25, 0), ("v2", 1 / 25, 0), ("m2", 1, 3), ("v3", 36, 0)):
        proto = changed(fitting, name, factor, added)
        adrift = [
            one.name for one in batch_norm_drift(ir.from_proto(proto), runs(IMAGES), 1) if one.suspicious
        ]
        assert blamed(proto) == [f"n{name[1]}"]
        if name == "v2":
            assert len(adrift) > 1, "a single pass sees those behind it as well"
    assert blamed(changed(changed(fitting, "v1", 25), "v4", 1 / 25)) == ["n1", "n4"]


def test_diagnose_names_it_first(fitting: onnx.ModelProto) -> None:
    data = np.concatenate(IMAGES)
    for proto, expected in ((fitting, []), (changed(fitting, "v2", 1 / 25), ["n2"])):
        int8 = ir.to_proto(calib8.quantize(proto, data, method="minmax", repair=("none",)).model)
        findings = diagnose(proto, int8, data, threads=1).findings
        assert [one.node for one in findings if one.reason.cause == "statistics"] == expected
        if expected:
            assert findings[0].node == "n2" and "even with all before it put right" in findings[0].reason.text


def test_red_and_blue_exchanged_are_told_by_the_first_normalization(fitting: onnx.ModelProto) -> None:
    model = ir.from_proto(fitting)
    exchanged = runs([reversed_channels(image, 1) for image in IMAGES])
    for given, found in ((runs(IMAGES), False), (exchanged, True), (exchanged[:8], False)):
        told = red_and_blue_exchanged(Witness(model, given, 1), batch_norm_drift(model, given, 1)[0], None)
        assert (told is not None and "with red and blue exchanged" in told.text) is found
    int8 = ir.to_proto(calib8.quantize(fitting, np.concatenate(IMAGES), repair=("none",), method="mse").model)
    data = np.concatenate([one["x"] for one in exchanged])
    first = diagnose(fitting, int8, data, threads=1).findings[0]
    assert (first.node, first.reason.cause) == (None, "statistics")
    assert "Exchange red and blue" in first.reason.advice


def test_red_and_blue_exchanged_are_told_by_how_sure_a_classifier_is() -> None:
    """Two classes: more red, more blue; the softmax of what differs is sharper as it was trained."""
    weight = np.float32([[6, 0, 0], [-6, 0, 0], [0, 1, 0]])
    body = "p = GlobalAveragePool(x) f = Flatten(p) y = MatMul(f, w)"
    proto = onnx_model("float[N,3,12,12] x", "float[N,3] y", body, {"w": weight.T.copy()})
    model = ir.from_proto(proto)
    sharp = [normal(1, 3, 12, 12, seed=seed) + np.float32([1, 0, 0]).reshape(3, 1, 1) for seed in range(16)]
    exchanged = [reversed_channels(image, 1) for image in sharp]
    assert red_and_blue_exchanged(Witness(model, runs(sharp), 1), None, None) is None
    told = red_and_blue_exchanged(Witness(model, runs(exchanged), 1), None, None)
    assert told is not None and "surer of its classes with red and blue exchanged (entropy" in told.text
    assert "on 16 of 16 samples" in told.text and "array[:, ::-1]" in told.cure


def red_finder(*, logits: bool = False) -> ir.Model:
    """Boxes where they are, and beside them how red each place is."""
    scores = "scores = Sigmoid(rc)" if not logits else "scores = Identity(rc)"
    body = f"""
        box = Conv(x, wb) classes = Conv(x, wc, bc) rb = Reshape(box, by4) rc = Reshape(classes, by2) {scores}
        tb = Transpose<perm=[0,2,1]>(rb) boxes = Add(tb, anchors) ts = Transpose<perm=[0,2,1]>(scores)
        found = Identity(ts)
    """
    constants = {
        "wb": normal(4, 3, 1, 1), "wc": np.float32([[3, 0, 0], [0, 0, 0.2]]).reshape(2, 3, 1, 1),
        "bc": np.float32([-3, -3]), "by4": np.int64([0, 4, -1]), "by2": np.int64([0, 2, -1]),
        "anchors": normal(1, 144, 4, seed=1),
    }  # fmt: skip
    outputs = "float[N,144,4] boxes, float[N,144,2] found"
    return ir.from_proto(onnx_model("float[N,3,12,12] x", outputs, body, constants))


@pytest.mark.parametrize("logits", [False, True])
def test_red_and_blue_exchanged_are_told_by_what_a_detector_finds(logits: bool) -> None:
    model = red_finder(logits=logits)
    meaning = meaning_of(analysable(model), task="detect")
    sharp = [normal(1, 3, 12, 12, seed=seed) + np.float32([1, 0, -1]).reshape(3, 1, 1) for seed in range(16)]
    exchanged = [reversed_channels(image, 1) for image in sharp]
    assert red_and_blue_exchanged(Witness(model, runs(sharp), 1, meaning=meaning), None, None) is None
    told = red_and_blue_exchanged(Witness(model, runs(exchanged), 1, meaning=meaning), None, None)
    assert told is not None and "on 16 of 16 samples" in told.text and "array[:, ::-1]" in told.cure

    def best(images: list[Array]) -> float:
        """The geometric mean over the samples of the mean of the ten best scores."""
        parts = []
        for image in images:
            rows = np.maximum(3 * image[0, 0] - 3, 0.2 * image[0, 2] - 3).ravel()
            parts.append(math.log(np.mean(sorted(1 / (1 + np.exp(-rows.astype(np.float64))))[-10:])))
        return math.exp(sum(parts) / len(parts))

    assert f"(best scores {best(exchanged):.2f} → {best(sharp):.2f}, on" in told.text
    assert red_and_blue_exchanged(Witness(model, runs(exchanged), 1), None, None) is None


@pytest.mark.parametrize("scale", [1 / 255, 1.0])
def test_other_units_are_told_by_what_a_detector_finds(scale: float) -> None:
    """It finds what is redder than 200 of 255; trained with pixels of one scale, fed with others."""
    model = red_finder()
    steep = np.float32(0.1 / scale)
    for tensor, array in (("wc", np.float32([[steep, 0, 0], [0, 0, 0]]).reshape(2, 3, 1, 1)),
                          ("bc", np.float32([-200.0 * scale * steep, -20.0]))):  # fmt: skip
        model.graph.initializers[tensor].const_value = ir.tensor(array)
    meaning = meaning_of(analysable(model), task="detect")
    reach = np.linspace(170, 250, 16)
    pictures = [np.random.default_rng(k).uniform(90, reach[k], (1, 3, 12, 12)) for k in range(16)]
    told = {}
    for fed, middle in ((1 / 255, 0.0), (1 / 127.5, 127.5), (1.0, 0.0)):
        given = runs([((one - middle) * fed).astype(np.float32) for one in pictures])
        p = Preprocess(mean=(middle,), scale=(fed,))
        for preprocess in (p, None):
            told[fed, preprocess is None] = other_units(Witness(model, given, 1, meaning=meaning), preprocess)
        assert other_units(Witness(model, given[:8], 1, meaning=meaning), p) is None, "too few"
        assert other_units(Witness(model, given, 1), p) is None, "no detector"
    right, blind = told[scale, False], [one for (fed, _), one in told.items() if fed != scale]
    assert right is None and told[scale, True] is None
    flags = {1 / 255: "mean=(0,), scale=(1/255,)", 1.0: "mean=(0,), scale=(1,)"}
    named = [one for one in blind if one is not None]
    assert len(named) >= 2 and all(one.cure.startswith(f"Give {flags[scale]},") for one in named)
    assert all("in every picture (best scores " in one.text for one in named)


def test_pictures_without_objects_tell_nothing_of_units() -> None:
    model = red_finder()
    model.graph.initializers["bc"].const_value = ir.tensor(np.float32([-30.0, -30.0]))
    meaning = meaning_of(analysable(model), task="detect")
    dark = [np.random.default_rng(k).uniform(0, 1, (1, 3, 12, 12)).astype(np.float32) for k in range(16)]
    p = Preprocess(mean=(0.0,), scale=(1 / 255,))
    assert other_units(Witness(model, runs(dark), 1, meaning=meaning), p) is None


def test_entropies_by_the_formula() -> None:
    scores = normal(5, 4, seed=3) * np.float32(3)
    for given in (scores, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)):
        for row, found in zip(scores.tolist(), entropies(given), strict=True):
            parts = [math.exp(value) / sum(map(math.exp, row)) for value in row]
            assert found == pytest.approx(-sum(part * math.log(part) for part in parts), rel=1e-5)


def test_only_a_clear_majority_counts() -> None:
    low, rng = np.zeros(32), np.random.default_rng(5)
    assert clearly_surer(low + 1 + 0.1 * rng.random(32), low)
    assert not clearly_surer(low, low + 1 + 0.1 * rng.random(32))
    assert not clearly_surer(low[:15] + 1 + 0.1 * rng.random(15), low[:15]), "too few"
    assert not clearly_surer(low, low)
    one = low.copy()
    one[0] = 9.0
    assert not clearly_surer(one, low), "one image is no majority"
    assert not clearly_surer(low + 1.9 + 0.01 * rng.random(32), low + 1.8), "outputs that are no scores"


def test_a_trained_classifier_knows_its_colours(shared_data: Path) -> None:
    name = shared_data / "models" / "mobilenet_v2_torchvision.onnx"
    model = load_model(name)
    for color, found in (("rgb", False), ("bgr", True)):
        preprocess = replace(PRESETS["torchvision"], color=color)
        data = open_dataset(shared_data / "imagenet" / "calib", graph_inputs(model), preprocess, samples=32)
        given = [piece.inputs for piece in batches(data, 1, 1)]
        told = red_and_blue_exchanged(Witness(model, given, 1), None, preprocess)
        assert (told is not None) is found


def test_where_the_colours_are() -> None:
    assert [colour_axis(shape) for shape in ((1, 3, 8, 8), ("N", 8, 8, 3), (1, None, None, 3))] == [1, 3, 3]
    for shape in (None, (1, 3), (1, 3, 8, 3), (1, 1, 8, 8), (1, 3, 8)):
        assert colour_axis(shape) is None


def test_a_look_inside_a_file_names_it_too(fitting: onnx.ModelProto, tmp_path: Path) -> None:
    path, data = tmp_path / "net.onnx", np.concatenate(IMAGES)
    onnx.save(changed(fitting, "v2", 1 / 25), path)
    seen = observe(path, data, threads=1)
    assert [drift.name for drift in seen.wrong] == ["n2"]
    assert sum(drift.suspicious for drift in seen.batch_norms) > 1


def test_whether_scores_are_logits_does_not_hang_on_who_is_beside_them() -> None:
    sure, unsure = (np.full((1, 40, 1), -6.0, np.float32) for _ in range(2))
    sure[:, :12], unsure[:, :12] = 1.2, 0.9
    together = doubts(np.concatenate([sure, unsure]))
    np.testing.assert_array_equal(together, np.concatenate([doubts(sure), doubts(unsure)]))
    assert together[0] < together[1]
