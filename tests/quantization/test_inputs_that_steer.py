"""Models in which values of inputs say how much of a tensor there is are tried on the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from typer.testing import CliRunner

import calib8
from calib8.cli import app
from calib8.errors import DataError, ModelError
from calib8.model.load import load_model
from calib8.model.save import model_bytes
from calib8.model.trial_run import try_to_run
from small_models import normal, onnx_model

WEIGHTS = {"w": normal(8, 3, 3, 3, seed=1), "w2": normal(4, 8, 3, 3, seed=2)}


def sliced() -> onnx.ModelProto:
    """The input n says how many rows a convolution sees; with none it cannot run."""
    body = "a = Conv<pads=[1,1,1,1]>(x, w) b = Slice(a, z, n, ax) y = Conv<pads=[1,1,1,1]>(b, w2)"
    constants: dict[str, Any] = {**WEIGHTS, "z": np.array([0]), "ax": np.array([2])}
    return onnx_model("float[1,3,8,8] x, int64[1] n", "float[1,4,h,8] y", body, constants)


def chosen() -> onnx.ModelProto:
    """Where m is not zero, rows of x are taken."""
    body = """i = NonZero(m) j = Squeeze(i, zero) a = Conv<pads=[1,1,1,1]>(x, w) b = Gather<axis=2>(a, j)
              y = Conv<pads=[1,1,1,1]>(b, w2)"""
    constants: dict[str, Any] = {**WEIGHTS, "zero": np.array([0])}
    return onnx_model("float[1,3,8,8] x, int64[8] m", "float[1,4,h,8] y", body, constants)


def suppressed() -> onnx.ModelProto:
    """As many rows as boxes are left go on."""
    body = """p = NonMaxSuppression(boxes, scores, most, overlap, least) k = Shape<start=0, end=1>(p)
              a = Conv<pads=[1,1,1,1]>(x, w) b = Slice(a, z, k, ax) y = Conv<pads=[1,1,1,1]>(b, w2)"""
    constants: dict[str, Any] = {
        **WEIGHTS, "most": np.array([4]), "overlap": np.float32([0.5]), "least": np.float32([2]),
        "z": np.array([0]), "ax": np.array([2]),
    }  # fmt: skip
    inputs = "float[1,3,8,8] x, float[1,6,4] boxes, float[1,1,6] scores"
    return onnx_model(inputs, "float[1,4,h,8] y", body, constants)


def steering(name: str) -> dict[str, Any]:
    """Inputs beside the image, other than what anybody would make up."""
    if name == "sliced":
        return {"n": np.array([6])}
    if name == "chosen":
        return {"m": np.array([0, 1, 1, 0, 0, 2, 1, 0])}
    corners = np.arange(6, dtype=np.float32) * 3
    boxes = np.stack([corners, corners, corners + 2, corners + 2], axis=1)[None]
    return {"boxes": boxes, "scores": np.linspace(1, 3, 6, dtype=np.float32)[None, None]}


MODELS = {"sliced": sliced, "chosen": chosen, "suppressed": suppressed}


@pytest.mark.parametrize("name", MODELS)
def test_what_was_made_is_tried_on_the_data(name: str) -> None:
    proto, more = MODELS[name](), steering(name)
    data = [{"x": normal(1, 3, 8, 8, seed=seed), **more} for seed in range(4)]
    result = calib8.quantize(proto, data, effort="fast")
    assert not result.notes and result.prepared.sample["x"].shape == (1, 3, 8, 8)
    left, right = (
        onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, data[1])[0]
        for model in (proto.SerializeToString(), model_bytes(result.model))
    )
    assert left.shape == right.shape and left.shape[2] in (3, 4, 6)
    assert np.abs(left - right).mean() < 0.05 * np.abs(left).max()


def test_nothing_but_messages_of_ours_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = load_model(sliced())
    empty = {"x": normal(1, 3, 8, 8), "n": np.array([0])}
    with pytest.raises(ModelError, match="does not run"):
        try_to_run(model, empty, made_up=False)
    assert "was not tried" in try_to_run(model, empty, made_up=True)
    with pytest.raises(DataError, match="refused"):
        calib8.quantize(sliced(), [empty] * 2, effort="fast")
    assert capfd.readouterr() == ("", "")


def test_a_table_needs_no_values(tmp_path: Path) -> None:
    """Codes leave nothing of what is small beside the rest; that made-up inputs show it is told, no error."""
    body = """a = Conv<pads=[1,1,1,1]>(x, w) s = ReduceMax<axes=[0,1,3], keepdims=0>(a) i = NonZero(s)
              j = Squeeze(i, zero) b = Gather<axis=2>(a, j) y = Conv<pads=[1,1,1,1]>(b, w2)"""
    constants: dict[str, Any] = {**WEIGHTS, "zero": np.array([0])}
    proto = onnx_model("float[1,3,8,8] x", "float[1,4,h,8] y", body, constants)
    found = calib8.calibrate(proto, [{"x": 1e6 * normal(1, 3, 8, 8, seed=seed)} for seed in range(3)])
    result = calib8.quantize(proto, table=found.table)
    assert any("was not tried: with made-up inputs" in note for note in result.notes)
    onnx.save(proto, tmp_path / "m.onnx")
    found.table.save(tmp_path / "t.json")
    call = ["quantize", tmp_path / "m.onnx", "--table", tmp_path / "t.json", "-o", tmp_path / "q.onnx"]
    told = CliRunner().invoke(app, [str(argument) for argument in call])
    assert told.exit_code == 0 and "note: the INT8 model was not tried" in " ".join(told.output.split())
