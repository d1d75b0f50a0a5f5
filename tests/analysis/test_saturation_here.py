"""What users are told where ONNX Runtime saturates sums on their CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import calib8
from calib8 import Preprocess
from calib8.analysis import saturation_here
from calib8.demo import COLOR, HELDOUT_PATH, MODEL_PATH, PIXEL_MEAN, PIXEL_SCALE
from calib8.judge import evaluate

CPUS = pytest.mark.parametrize("saturates", [True, False])


RECIPE = Preprocess(color=COLOR, mean=(PIXEL_MEAN,), scale=(PIXEL_SCALE,))


def digits(target: str) -> calib8.Quantization:
    return calib8.quantize(
        str(MODEL_PATH), str(HELDOUT_PATH), preprocess=RECIPE, samples=32, effort="fast", target=target
    )


@CPUS
def test_a_model_for_onnxruntime_tells(monkeypatch: pytest.MonkeyPatch, saturates: bool) -> None:
    monkeypatch.setattr(saturation_here, "saturates_here", lambda: saturates)
    told = [note for note in digits("onnxruntime").notes if "no VNNI" in note]
    assert len(told) == saturates
    for note in told:
        assert "of 7 layers" in note
        assert "'session.x64quantprecision' to '1'" in note
        assert "target='onnxruntime-avx2'" in note


def test_openvino_has_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saturation_here, "saturates_here", lambda: True)
    [told] = [note for note in digits("openvino").notes if "no VNNI" in note]
    assert "OpenVINO may saturate" in told and "session.x64quantprecision" not in told


@pytest.mark.parametrize("target", ["onnxruntime-avx2", "calib8", "tensorrt"])
def test_other_targets_have_nothing_to_tell(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    monkeypatch.setattr(saturation_here, "saturates_here", lambda: True)
    assert not [note for note in digits(target).notes if "no VNNI" in note]


@CPUS
def test_evaluating_tells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, saturates: bool) -> None:
    path = tmp_path / "int8.onnx"
    digits("onnxruntime").save(path)
    monkeypatch.setattr(saturation_here, "saturates_here", lambda: saturates)
    first, second = evaluate([str(MODEL_PATH), path], str(HELDOUT_PATH), samples=8)
    assert not [line for line in first.warnings if "no VNNI" in line]
    assert len([line for line in second.warnings if "no VNNI" in line]) == saturates
    [_, ours] = evaluate([str(MODEL_PATH), path], str(HELDOUT_PATH), samples=8, runtime="calib8")
    assert not [line for line in ours.warnings if "no VNNI" in line]


def test_safe_weights_need_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saturation_here, "saturates_here", lambda: True)
    small = calib8.model.load.load_model(_net(1.0, -1.0))
    assert saturation_here.saturation_notes(small, "onnxruntime") == ()
    large = calib8.model.load.load_model(_net(1.0, 1.0))
    [note] = saturation_here.saturation_notes(large, "onnxruntime")
    assert "1 of 1 layers" in note


def _net(first: float, second: float) -> onnx.ModelProto:
    """A Gemm whose only pair of weights has these two, as QDQ."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13]> net (float[N, 2] x) => (float[N, 1] y)
        <float w = {0}, float s = {0.1}, uint8 z = {0}> { y = Relu(x) }"""
    )
    del model.graph.node[:], model.graph.initializer[:]
    codes = np.array([[first * 127], [second * 127]], np.int8)
    held = {"s": np.float32(0.1), "z": np.uint8(0), "w": codes, "t": np.int8(0)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in held.items())
    make = onnx.helper.make_node
    model.graph.node.extend(
        [
            make("QuantizeLinear", ["x", "s", "z"], ["q"]),
            make("DequantizeLinear", ["q", "s", "z"], ["d"]),
            make("DequantizeLinear", ["w", "s", "t"], ["v"]),
            make("MatMul", ["d", "v"], ["m"]),
            make("QuantizeLinear", ["m", "s", "z"], ["n"]),
            make("DequantizeLinear", ["n", "s", "z"], ["y"]),
        ]
    )
    return model
