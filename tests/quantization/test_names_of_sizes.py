"""Written models run, whatever names the free sizes of the original have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import calib8
from calib8.errors import ModelError
from calib8.exporting.qoperator import to_qoperator
from calib8.model import trial_run
from calib8.model.load import load_model
from calib8.model.save import model_bytes
from calib8.model.trial_run import try_to_run
from calib8.passes import prepare
from calib8.quantization import second_codes
from small_models import onnx_model
from small_nets import Net

Levels = onnxruntime.GraphOptimizationLevel
LEVELS = [Levels.ORT_DISABLE_ALL, Levels.ORT_ENABLE_BASIC, Levels.ORT_ENABLE_EXTENDED, Levels.ORT_ENABLE_ALL]

Sizes = Sequence[int | str]


def detector(sizes: Sizes, rows: str, *, read_on: bool = False) -> onnx.ModelProto:
    """Three strides with a head for scores and one for boxes each, and free sizes called as one likes.

    Args:
        sizes: of the input.
        rows: of the outputs, name of the size that differs from stride to stride.
        read_on: the graph goes on behind its scores.
    """
    net = Net(shape=tuple(sizes))
    tensor, outputs, tails = "x", dict[str, int](), []
    for stride in (2, 4, 8):
        channels = 3 if stride == 2 else 8
        tensor = net.op("Conv", tensor, net.weight(8, channels, 3, 3), pads=[1] * 4, strides=[2, 2])
        tensor = net.op("Relu", tensor)
        for width in (1, 4):
            head = net.op("Transpose", net.conv(tensor, 8, 2 * width), perm=[0, 2, 3, 1])
            rowed = net.op("Reshape", head, net.const([1, -1, width], np.int64))
            result = net.op("Sigmoid", rowed) if width == 1 else rowed
            outputs[result] = width
            if read_on and width == 1:
                tails.append(net.op("Sigmoid", net.op("Relu", net.op("Neg", result))))
    if read_on:
        outputs[net.op("Concat", *tails, axis=1)] = 1
    proto = net.model(*outputs)
    for value in proto.graph.output:
        value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, 1, [1, rows, outputs[value.name]]))
    del proto.graph.value_info[:]
    return proto


def images(*sizes: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(2)
    return [{"x": rng.normal(0, 1, (1, 3, *sizes)).astype(np.float32)} for _ in range(3)]


def outputs(model: bytes, feeds: dict[str, Any], level: Any) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
    return list(onnxruntime.InferenceSession(model, options).run(None, feeds))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", ["onnxruntime", "tflite", "tensorrt"])
@pytest.mark.parametrize("rows", ["?", "rows"])
@pytest.mark.parametrize("read_on", [False, True])
def test_outputs_of_unequal_sizes_may_share_a_name(
    rows: str, *, read_on: bool, target: str, tmp_path: Path
) -> None:
    proto = detector([1, 3, "?", "?"], rows, read_on=read_on)
    result = calib8.quantize(proto, images(64, 48), effort="fast", target=target)
    result.save(tmp_path / "int8.onnx")
    written = (tmp_path / "int8.onnx").read_bytes()
    for feeds in (images(64, 48)[0], images(128, 96)[0]):
        expected = outputs(proto.SerializeToString(), feeds, Levels.ORT_ENABLE_ALL)
        for level in LEVELS:
            found = outputs(written, feeds, level)
            for left, right in zip(expected, found, strict=True):
                assert left.shape == right.shape and np.abs(left - right).mean() < 0.05 * np.abs(left).max()


def stated(proto: onnx.ModelProto) -> dict[str, list[int | str]]:
    """Sizes that a file states, by tensor: numbers, names, or nothing."""
    graph = proto.graph
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.output, *graph.value_info)
    }


def test_only_true_names_of_inputs_and_outputs_are_written() -> None:
    original = detector(["batch", 3, "height", "width"], "rows")
    result = calib8.quantize(original, images(64, 48), effort="fast")
    written = onnx.load_from_string(model_bytes(result.model))
    sizes = stated(written)
    assert sizes["x"] == ["batch", 3, "height", "width"]
    assert {tuple(sizes[value.name]) for value in written.graph.output} == {(1, 0, 1), (1, 0, 4)}
    inner = [sizes[value.name] for value in written.graph.value_info]
    assert any(sizes[:2] == [0, 8] for sizes in inner)  # numbers stay
    assert not any(isinstance(size, str) for sizes in inner for size in sizes)
    coded, _ = to_qoperator(result.model)
    assert not [value.shape for node in coded.graph for value in node.outputs if "h" in str(value.shape)]
    outputs(model_bytes(coded), images(64, 48)[0], Levels.ORT_DISABLE_ALL)


def test_a_true_name_of_several_tensors_stays() -> None:
    net = Net(shape=("N", 3, "H", "W"))
    proto = net.model(net.op("Relu", net.conv("x", 3, 4)))
    result = calib8.quantize(proto, images(16, 12), effort="fast")
    sizes = stated(onnx.load_from_string(model_bytes(result.model)))
    assert sizes[proto.graph.output[0].name] == stated(proto)[proto.graph.output[0].name]
    assert sizes["x"] == ["N", 3, "H", "W"]


def lying() -> onnx.ModelProto:
    """Two tensors of unequal sizes under one name, one of which takes the other's memory."""
    body = "a = Exp(x) p = ReduceSum<keepdims=0>(a) s = Add(y, p) c = Exp(s) r = ReduceSum<keepdims=0>(c)"
    return onnx_model("float[n] x, float[n] y", "float p, float r", body)


def vectors(x: int, y: int) -> dict[str, Any]:
    return {"x": np.linspace(0, 1, x, dtype=np.float32), "y": np.linspace(0, 1, y, dtype=np.float32)}


def test_what_does_not_run_as_it_stands_is_refused_and_what_runs_is_not() -> None:
    model = load_model(lying())
    assert try_to_run(model, vectors(5, 5), made_up=False) == ""
    with pytest.raises(ModelError, match=r"does not run: ONNX Runtime refused .*Shape mismatch"):
        try_to_run(model, vectors(5, 50), made_up=False)


def test_what_made_up_values_do_not_run_in_is_told() -> None:
    told = try_to_run(load_model(lying()), vectors(5, 50), made_up=True)
    assert "was not tried: with made-up inputs ONNX Runtime refused" in told and "Shape mismatch" in told
    broken = load_model(lying())
    broken.graph[0].op_type = "Nonesuch"
    with pytest.raises(ModelError, match="does not run: ONNX Runtime cannot load it"):
        try_to_run(broken, vectors(5, 5), made_up=True)


def test_what_runs_unoptimized_only_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def optimizing(options: Any) -> None:
        raise RuntimeError("a rewrite of the runtime failed")

    monkeypatch.setattr(trial_run, "without_second_weights", lambda options: None)
    assert "optimizations" not in try_to_run(load_model(lying()), vectors(5, 5), made_up=False)
    monkeypatch.setattr(trial_run, "as_written", lambda options: None)
    monkeypatch.setattr(trial_run, "without_second_weights", optimizing)
    told = try_to_run(load_model(lying()), vectors(5, 5), made_up=False)
    assert "optimizations off only" in told and "a rewrite of the runtime failed" in told


def test_quantize_says_that_what_it_made_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_codes, "known_sizes", lambda shape: shape)
    monkeypatch.setattr(prepare, "forget_inferred_names", lambda model, own: None)
    monkeypatch.setattr(prepare, "keep_true_sizes", lambda model, seen: None)
    with pytest.raises(ModelError, match="does not run"):
        calib8.quantize(detector([1, 3, "?", "?"], "?"), images(64, 48), effort="fast")


def test_inputs_of_unequal_sizes_may_share_a_name() -> None:
    rng = np.random.default_rng(4)
    constants = {"w": rng.normal(0, 1, (4, 3, 3, 3)).astype(np.float32)}
    body = """a = Relu(x) b = Conv(a, w) p = GlobalAveragePool(b)
              d = Relu(z) e = Conv(d, w) q = GlobalAveragePool(e) y = Add(p, q)"""
    proto = onnx_model("float[1,3,n,n] x, float[1,3,n,n] z", "float[1,4,1,1] y", body, constants)
    data = [{"x": images(9, 9)[0]["x"], "z": images(40, 40)[0]["x"]}] * 2
    written = model_bytes(calib8.quantize(proto, data, effort="fast").model)
    for level in LEVELS:
        outputs(written, data[0], level)
