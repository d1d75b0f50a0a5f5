"""The runtime that judges a search, and the target that it stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tuned_nets import inputs

import calib8
from calib8.analysis.runtimes import open_own
from calib8.errors import UnsupportedModelError, UsageError
from calib8.exporting.tflite import float_graphs
from calib8.model.metadata import read_metadata
from calib8.tuning import judging
from small_models import normal, onnx_model


def leaky_net() -> onnx.ModelProto:
    """A layer before a LeakyRelu, and class scores."""
    constants = {"w": normal(8, 3, 3, 3) * np.float32(0.2), "v": normal(8, 5, seed=1)}
    body = "c = Conv(x, w) n = LeakyRelu(c) p = GlobalAveragePool(n) f = Flatten(p) y = MatMul(f, v)"
    return onnx_model("float[N,3,6,6] x", "float[N,5] y", body, constants)


def softplus_net() -> onnx.ModelProto:
    """As ``leaky_net``, with a smooth function."""
    constants = {"w": normal(8, 3, 3, 3) * np.float32(0.2), "v": normal(8, 5, seed=1)}
    body = "c = Conv(x, w) n = Softplus(c) p = GlobalAveragePool(n) f = Flatten(p) y = MatMul(f, v)"
    return onnx_model("float[N,3,6,6] x", "float[N,5] y", body, constants)


@pytest.mark.parametrize(
    ("options", "target", "sessions"),
    [
        ({}, "onnxruntime", 0),
        ({"runtime": "calib8"}, "calib8", 1),
        ({"runtime": "calib8", "target": "tflite"}, "tflite", 1),
    ],
)
def test_the_runtime_judges_and_names_the_target(
    options: dict[str, Any], target: str, sessions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def recorded(model: Any, runtime: str, settings: Any) -> Any:
        opened.append(runtime)
        return open_own(model, runtime, settings)

    monkeypatch.setattr(judging, "open_own", recorded)
    out = tmp_path / "out.onnx"
    found = calib8.tune(leaky_net(), inputs(), out, min_sqnr=15.0, effort="fast", threads=1, **options)
    assert found.kept and read_metadata(found.path)["target"] == target
    assert opened == ["calib8"] * sessions * len(found.trials)


def test_a_tflite_file_may_hold_layers_in_float(tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    found = calib8.tune(
        softplus_net(), inputs(), out, min_sqnr=45.0, effort="fast", threads=1, target="tflite"
    )
    assert found.kept and found.path == out and found.best.settings.floats and not found.notes
    image = inputs()[:1].transpose(0, 2, 3, 1)
    assert calib8.InferenceSession(out, threads=1).run(None, {"x": image})[0].shape == (1, 5)


def test_a_tflite_file_is_searched_without_the_floats_that_it_cannot_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search ends where a file can be written."""
    kept = {op: write for op, write in float_graphs.WRITE.items() if op in ("Flatten", "Reshape")}
    monkeypatch.setattr(float_graphs, "WRITE", kept)
    out = tmp_path / "out.tflite"
    net, options = leaky_net(), {"effort": "fast", "threads": 1, "target": "tflite"}
    found = calib8.tune(net, inputs(), out, min_sqnr=90.0, **options)  # type: ignore[arg-type]
    assert not found.kept and len(found.trials) == 1 and found.path.suffix == ".onnx"
    told = "no float operator for Conv, GlobalAveragePool, LeakyRelu, MatMul: they stay in int8"
    assert f"a .tflite file has {told}" in found.notes
    node = next(node for node in net.graph.node if node.op_type == "Conv")
    node.name = "first"
    with pytest.raises(
        UsageError, match=r"keep_float: a \.tflite file has no float operator for 'first' \(Conv\)"
    ):
        calib8.tune(net, inputs(), tmp_path / "o.tflite", min_sqnr=9.0, keep_float=["first"], **options)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedModelError, match=r"Quantize these too \(target='tflite', without keep"):
        calib8.quantize(net, inputs(), target="tflite", keep_float=["first"], effort="fast").save(out)


def test_other_runtimes_judge_no_search(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"runtime='openvino': .* Use one of onnxruntime, calib8"):
        calib8.tune(leaky_net(), inputs(), tmp_path / "out.onnx", min_sqnr=15.0, runtime="openvino")
