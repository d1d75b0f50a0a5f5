"""Inputs of quantized models that are fixed when these are compiled or exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calib8
from calib8.errors import UsageError
from small_models import onnx_model

X = np.random.default_rng(1).normal(size=(20, 1, 6)).astype(np.float32)
GAIN = np.random.default_rng(2).uniform(0.5, 2.0, (20, 1, 1)).astype(np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x [1, 6] → MatMul → times an input → MatMul → y, quantized."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(6, 5)).astype(np.float32),
        "v": rng.normal(size=(5, 3)).astype(np.float32),
    }
    body = "a = MatMul(x, w) b = Mul(a, gain) y = MatMul(b, v)"
    net = onnx_model("float[1,6] x, float[1,1] gain", "float[1,3] y", body, weights)
    path = tmp_path_factory.mktemp("fixed") / "q.onnx"
    items = [{"x": x, "gain": gain} for x, gain in zip(X, GAIN, strict=True)]
    calib8.quantize(net, items, target="calib8", effort="fast", threads=1).save(path)
    return path


def expected(model: Path) -> list[np.ndarray]:
    session = calib8.InferenceSession(model, threads=1)
    return [session.run(None, {"x": x, "gain": np.array([[1.5]], np.float32)})[0] for x in X]


def test_a_plan_and_a_program_have_no_such_input(model: Path, tmp_path: Path) -> None:
    calib8.compile(model, tmp_path / "q.c8", fix={"gain": 1.5})
    calib8.export(model, tmp_path / "q.c8p", "program", fix={"gain": 1.5})
    for name in ("q.c8", "q.c8p"):
        session = calib8.InferenceSession(tmp_path / name, threads=1)
        assert [one.name for one in session.get_inputs()] == ["x"]
        for x, y in zip(X, expected(model), strict=True):
            assert np.allclose(session.run(None, {"x": x})[0], y, atol=0.05 * np.abs(y).max())


def test_other_forms_have_no_such_input(model: Path, tmp_path: Path) -> None:
    calib8.export(model, tmp_path / "q.qop.onnx", "qoperator", fix={"gain": 1.5})
    from calib8.model.runtime import open_session

    session = open_session(tmp_path / "q.qop.onnx")
    assert [one.name for one in session.inputs] == ["x"]
    found = session.run({"x": X[0]})[0]
    assert np.allclose(found, expected(model)[0], atol=0.05 * np.abs(found).max())


def test_what_cannot_be_fixed_is_refused(model: Path, tmp_path: Path) -> None:
    calib8.export(model, tmp_path / "a.c8p", "program")
    for source, fix, told in (
        (model, {"gian": 1}, "'gian': is not an input. Inputs are x, gain"),
        (model, {"gain": [1.0, 2.0]}, "has the shape 2"),
        (tmp_path / "a.c8p", {"gain": 1}, "is a saved program, and inputs of ONNX models are fixed"),
    ):
        with pytest.raises(UsageError, match=told):
            calib8.compile(source, tmp_path / "q.c8", fix=fix)
        with pytest.raises(UsageError, match=told):
            calib8.export(source, tmp_path / "q.c8p", "program", fix=fix)
    assert not (tmp_path / "q.c8").exists() and not (tmp_path / "q.c8p").exists()


def test_gatherers_count_models_with_fixed_inputs(tmp_path: Path) -> None:
    weights = {"w": np.eye(6, dtype=np.float32)}
    net = onnx_model(
        "float[1,6] x, float[1,1] gain", "float[1,6] y", "a = MatMul(x, w) y = Mul(a, gain)", weights
    )
    gatherer = calib8.Gatherer(net, fix={"gain": 2.0})
    gatherer.add({"x": X[:, 0]})
    counted = gatherer.take()
    direct = calib8.collect_statistics(net, {"x": X[:, 0]}, fix={"gain": 2.0}).statistics
    assert counted.samples == direct.samples == 20
    assert counted.tensors.keys() == direct.tensors.keys()
