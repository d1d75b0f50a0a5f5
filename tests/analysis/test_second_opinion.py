"""A classifier that knows colours tells when they are exchanged, or when mean and deviation are missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from calib8 import demo, judge
from calib8.data.preprocess import Preprocess
from calib8.data.presets import preset
from calib8.model.runtime import Session
from calib8.parameters import on_command_line
from slow_cases import slow_but
from small_models import normal, onnx_model

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
COLOURS = np.stack([np.linspace(0.6, 1.0, 12), np.full(12, 0.5), np.linspace(0.0, 0.3, 12)], 1)
"""Of twelve classes, float64 [12, 3]: all of them more red than blue, values 0 … 1."""


def by_colour(centres: np.ndarray, gain: Any = 8.0, width: Any = None) -> onnx.ModelProto:
    """scores_j = gain_j · exp(−|mean colour − centre_j|² / width_j²): far from all centres none is sure."""
    distance = np.linalg.norm(centres[1] - centres[0]) if width is None else np.asarray(width)
    constants = {
        "centres": centres.astype(np.float32)[None],
        "shape": np.array([0, 1, 3], np.int64),
        "axis": np.array([2], np.int64),
        "width": np.float32(-1.0 / distance**2),
        "gain": np.float32(gain),
    }
    body = (
        "p = GlobalAveragePool(x) r = Reshape(p, shape) d = Sub(r, centres) s = Mul(d, d)"
        "t = ReduceSum<keepdims=0>(s, axis) u = Mul(t, width) e = Exp(u) y = Mul(e, gain)"
    )
    return onnx_model("float[N,3,4,4] x", "float[N,12] y", body, constants)


def coloured(rows: int = 24) -> np.ndarray:
    """Images of one colour each, with little noise: float32 N×3×4×4, 0 … 1."""
    colours = COLOURS[np.arange(rows) % 12][:, :, None, None]
    return np.clip(colours + 0.01 * normal(rows, 3, 4, 4, seed=3), 0, 1).astype(np.float32)


def warnings(model: Any, data: Any, p: Preprocess | str | None = None) -> tuple[str, ...]:
    return judge.preflight(model, data, preprocess=p).warnings


def test_exchanged_colours_are_told_of() -> None:
    model, right = by_colour(COLOURS), coloured()
    assert warnings(model, {"x": right}) == ()
    [told] = warnings(model, {"x": right[:, ::-1]})
    assert "surer of its classes with red and blue exchanged (entropy " in told
    assert "Give array[:, ::-1], or see" in told
    assert warnings(model, {"x": right[:12, ::-1]}) == ()  # too few to be sure


def test_exchanged_colours_of_images_have_an_option() -> None:
    pixels = np.round(255 * coloured().transpose(0, 2, 3, 1)).astype(np.uint8)
    unit = Preprocess(scale=(1 / 255,))
    assert warnings(by_colour(COLOURS), {"images": pixels}, unit) == ()
    [told] = warnings(by_colour(COLOURS), {"images": pixels}, replace(unit, color="bgr"))
    assert "Give color='rgb' and the mean in that order" in told
    [told] = warnings(by_colour(COLOURS[:, ::-1]), {"images": pixels}, unit)
    assert "Give color='bgr' and the mean in that order" in told


def test_labels_that_fit_as_they_are_fed_have_the_last_word() -> None:
    model, wrong = by_colour(COLOURS), coloured()[:, ::-1]
    scores = judge.open_session(judge_model(model)).run({"x": np.ascontiguousarray(wrong)})[0]
    assert not any("exchanged" in w for w in warnings(model, {"x": wrong, "labels": scores.argmax(1)}))


def judge_model(model: onnx.ModelProto) -> Any:
    from calib8.model.load import load_model

    return load_model(model)


def test_a_missing_mean_and_deviation_are_told_of() -> None:
    trained, unit = by_colour((COLOURS - MEAN) / STD), coloured()
    [told] = warnings(trained, {"x": unit})
    assert "the inputs lie in 0 … 1" in told and "(array - mean) / std, mean 0.485,0.456,0.406" in told
    normalized = (unit - MEAN[:, None, None]) / STD[:, None, None]
    assert warnings(trained, {"x": normalized}) == ()
    pixels = np.round(255 * unit.transpose(0, 2, 3, 1)).astype(np.uint8)
    [told] = warnings(trained, {"images": pixels}, Preprocess(scale=(1 / 255,)))
    assert "Give --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225, or see" in on_command_line(told)
    assert "Give mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), or see" in told


def test_contrast_alone_is_no_reason() -> None:
    """A linear classifier is surer of whatever is larger: 0 … 1 may well be right for it."""
    weights = {"w": 4 * normal(12, 3, seed=6), "s": np.array([0, 3], np.int64)}
    body = "p = GlobalAveragePool(x) r = Reshape(p, s) y = Gemm<transB=1>(r, w)"
    model = onnx_model("float[N,3,4,4] x", "float[N,12] y", body, weights)
    images = np.random.default_rng(8).random((32, 3, 4, 4), np.float32)
    assert warnings(model, {"x": images}) == ()


def told_by_darkness(most: float) -> onnx.ModelProto:
    """scores = w · min(max(1 − mean colour, 0), most): values far below 0 make it as sure as it can be."""
    rng = np.random.default_rng(2)
    constants = {"one": np.float32(1), "most": np.float32(most), "zero": np.float32(0)}
    constants |= {"w": 3 * rng.standard_normal((12, 3)).astype(np.float32), "s": np.array([0, 3], np.int64)}
    body = "p = GlobalAveragePool(x) r = Reshape(p, s) d = Sub(one, r) a = Clip(d, zero, most)"
    return onnx_model("float[N,3,4,4] x", "float[N,12] y", f"{body} y = Gemm<transB=1>(a, w)", constants)


@pytest.mark.parametrize("most", [1e6, 2.0])
def test_inputs_that_it_never_saw_are_no_reason(most: float) -> None:
    """Without an end it is surer still of twice the contrast; with one its answers fall into few classes."""
    rng = np.random.default_rng(5)
    colours = rng.random((32, 3, 1, 1), np.float32) ** np.float32(2)
    images = np.clip(colours + 0.01 * normal(32, 3, 4, 4, seed=3), 0, 1)
    assert warnings(told_by_darkness(most), {"x": images}) == ()


def test_a_class_that_takes_them_all_is_no_reason() -> None:
    """Neither contrast nor twice of it makes it sure, only mean and deviation, but of one class alone."""
    images = coloured()
    centres = np.concatenate([COLOURS[:11], [(images.mean((0, 2, 3)) - MEAN) / STD]])
    model = by_colour(centres, np.array([2.0] * 11 + [9.0]), np.array([0.05] * 11 + [1.0]))
    assert warnings(model, {"x": images}) == ()


def normalized_first(images: np.ndarray, off: float, layers: int = 0) -> onnx.ModelProto:
    """A BatchNormalization that changes nothing, ``off`` deviations off, before a classifier.

    The classifier is that of ``(COLOURS − MEAN) / STD``; ``layers`` convolutions that change nothing lie
    before it all.
    """
    plain = by_colour((COLOURS - MEAN) / STD)
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in plain.graph.initializer}
    mean, std = images.mean((0, 2, 3)), images.std((0, 2, 3))
    stored = mean + np.float32(off) * std
    constants |= {"g": std, "b": stored, "m": stored, "v": np.square(std)}
    constants["one"] = np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
    body, source = "", "x"
    for layer in range(layers):
        body, source = f"{body} c{layer} = Conv({source}, one)", f"c{layer}"
    body += f" n = BatchNormalization<epsilon=1e-12>({source}, g, b, m, v) p = GlobalAveragePool(n)"
    body += " r = Reshape(p, shape) d = Sub(r, centres) s = Mul(d, d) t = ReduceSum<keepdims=0>(s, axis)"
    body += " u = Mul(t, width) e = Exp(u) y = Mul(e, gain)"
    return onnx_model("float[N,3,4,4] x", "float[N,12] y", body, constants)


def test_a_normalization_that_fits_has_the_first_word() -> None:
    images = coloured()
    [told] = warnings(by_colour((COLOURS - MEAN) / STD), {"x": images})
    assert "the inputs lie in 0 … 1" in told
    assert warnings(normalized_first(images, 0), {"x": images}) == ()
    [told] = warnings(normalized_first(images, 2), {"x": images})
    assert "sees other values than in training: its means are 2.00 standard deviations off" in told
    assert told.endswith("compare mean, scale and colour order with those of the training")


def test_one_behind_layers_may_be_wrong_itself() -> None:
    images = coloured()
    [told] = warnings(normalized_first(images, 2, layers=2), {"x": images})
    assert told.endswith(
        "compare mean, scale and colour order, and its own statistics, with those of the training"
    )
    [told] = warnings(normalized_first(images, 0, layers=2), {"x": images})
    assert "the inputs lie in 0 … 1" in told  # it fits, but other images would hardly move it


def test_exchanged_colours_show_in_the_first_normalization() -> None:
    images = coloured() * 2
    told = warnings(normalized_first(images, 0), {"x": images[:, ::-1]})
    assert len(told) == 1 and "standard deviations off, with red and blue exchanged 0.0" in told[0]


@pytest.mark.parametrize("labelled", [False, True])
def test_nothing_is_run_twice(labelled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[bytes] = []
    run = Session.run

    def counted(self: Session, feeds: Any, outputs: Any = None) -> Any:
        fed.append(feeds["x"].tobytes())
        return run(self, feeds, outputs)

    monkeypatch.setattr(Session, "run", counted)
    images = coloured(32) * 2
    data = {"x": images, "labels": np.arange(32) % 12} if labelled else {"x": images}
    assert warnings(by_colour(2 * COLOURS), data) == ()
    as_fed = [one.tobytes() for one in images]
    exchanged = [np.ascontiguousarray(one[::-1]).tobytes() for one in images[:16]]
    expected = [*as_fed, *exchanged] if labelled else [*exchanged, *as_fed[:16]]
    assert fed == expected


def test_what_is_no_classifier_of_pictures_is_left_alone() -> None:
    pair = onnx_model("float[N,3,4,4] x", "float[N,3,4,4] y", "y = Relu(x)")
    assert warnings(pair, {"x": coloured()}) == ()


def test_the_first_normalization_is_asked() -> None:
    right = Preprocess(color="gray", mean=(128.0,), scale=(1 / 128,))
    assert warnings(demo.MODEL_PATH, demo.CALIBRATION_PATH, right) == ()
    told = warnings(demo.MODEL_PATH, demo.CALIBRATION_PATH, replace(right, mean=(0.0,)))
    assert any("the first normalization (stem/conv_bn) sees other values than in training" in w for w in told)


REAL = {
    "efficientnet_lite0": preset("efficientnet_lite"),
    "mobilenet_v2_torchvision": preset("torchvision"),
    "squeezenet_v1.1": Preprocess(resize="short-side", color="bgr", mean=(104.0, 117.0, 123.0)),
    "resnet20_cifar10": preset("cifar10"),
}


def unlabelled(shared_data: Path, model: str, tmp_path: Path) -> Path:
    """Images without their labels: the model alone has to tell."""
    if "cifar10" in model:
        images = np.load(shared_data / "cifar10" / "test5000.npz")["images"][:32]
        np.savez(tmp_path / "images.npz", images=images)
        return tmp_path / "images.npz"
    (tmp_path / "images").mkdir()
    for path in sorted((shared_data / "imagenet" / "calib").glob("*.jpg"))[::3][:32]:
        (tmp_path / "images" / path.name).symlink_to(path)
    return tmp_path / "images"


@pytest.mark.parametrize("model", slow_but(["mobilenet_v2_torchvision", "resnet20_cifar10"], REAL))
def test_real_models_that_are_fed_rightly_say_nothing(shared_data: Path, model: str, tmp_path: Path) -> None:
    path = shared_data / "models" / f"{model}.onnx"
    seen = judge.preflight(path, unlabelled(shared_data, model, tmp_path), preprocess=REAL[model])
    assert seen.warnings == () and all(check.warnings == () for check in seen.inputs)


@pytest.mark.parametrize(
    ("model", "changes", "told"),
    [
        ("mobilenet_v2_torchvision", {"color": "bgr"}, "red and blue exchanged"),
        ("mobilenet_v2_torchvision", {"mean": (0.0,), "scale": (1 / 255,)}, "the inputs lie in 0 … 1"),
    ],
)
def test_real_models_that_are_fed_wrongly_say_so(
    shared_data: Path, model: str, changes: Any, told: str, tmp_path: Path
) -> None:
    p = replace(REAL[model], **changes)
    path = shared_data / "models" / f"{model}.onnx"
    [warning] = warnings(path, unlabelled(shared_data, model, tmp_path), p)
    assert told in warning
