"""Large models: opened from a file whose constants are mapped, with nothing left behind."""

from __future__ import annotations

import gc
import tempfile
import weakref
from pathlib import Path

import numpy as np
import onnx
import pytest

from calib8.model import memory
from calib8.model.graph import model_hash
from calib8.model.load import load_model
from calib8.model.memory import release_memory
from calib8.model.runtime import open_session
from calib8.model.save import save_beside_constants
from small_models import normal, onnx_model

FEEDS = {"x": normal(2, 3, 8, 8, seed=3)}


def small_model() -> onnx.ModelProto:
    weights = {"w": normal(16, 3, 3, 3), "s": np.array([0, 16, 64], np.int64)}
    body = "c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c) y = Reshape(r, s)"
    return onnx_model("float[N,3,8,8] x", "float[N,16,64] y", body, weights)


def test_a_large_model_gives_the_bits_of_its_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = load_model(small_model())
    expected = open_session(model, threads=1).run(FEEDS)
    before = model_hash(model)
    opened = []
    monkeypatch.setattr(memory, "LARGE", 1)
    monkeypatch.setattr(memory, "trim_heap", lambda: opened.append(list(tmp_path.iterdir())))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    actual = open_session(model, threads=1).run(FEEDS)
    assert opened == [[]]  # it went through files, which were gone by then
    np.testing.assert_array_equal(actual[0], expected[0])
    assert model_hash(model) == before


def test_shapes_stay_in_the_graph_and_weights_lie_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    save_beside_constants(load_model(small_model()), path)
    stored = onnx.load(path, load_external_data=False).graph.initializer
    assert {tensor.name: bool(tensor.external_data) for tensor in stored} == {"w": True, "s": False}
    assert (tmp_path / "net.onnx.data").stat().st_size >= 16 * 3 * 3 * 3 * 4
    assert model_hash(load_model(path)) == model_hash(load_model(small_model()))


class Knot:
    """Refers to itself, so that only the collector of cycles frees it."""

    def __init__(self) -> None:
        self.own = self


def test_cycles_are_freed() -> None:
    gc.disable()
    try:
        gone = weakref.ref(Knot())
        assert gone() is not None
        release_memory()
        assert gone() is None
    finally:
        gc.enable()
