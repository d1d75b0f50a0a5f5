"""From an old TensorRT cache to a symmetric QDQ model, without data: the same scales, run by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import calib8
from calib8.analysis.lint import lint
from calib8.demo import CALIBRATION_PATH, COLOR, MODEL_PATH, PIXEL_MEAN, PIXEL_SCALE
from calib8.formats import tensorrt
from calib8.formats.tables import write_table, write_text
from calib8.model.load import load_model
from calib8.qparams import QParams
from slow_cases import slow_but
from small_models import normal, onnx_model, ops, proto_of, relative_difference, run

REAL = {
    "resnet8_cifar10_mlperftiny": (1, 3, 32, 32),
    "resnet20_cifar10": (1, 3, 32, 32),
    "mobilenet_v2_torchvision": (1, 3, 224, 224),
    "ultraface_RFB-320": (1, 3, 240, 320),
}
"""Model → shape of its input. With BatchNormalization folded and not, Clip, additions, concatenation."""


def two_layers() -> onnx.ModelProto:
    """One name is of the kind that a splitter stumbles over; the text form of a graph cannot hold it."""
    constants = {"w": normal(8, 3, 3, 3), "u": normal(4, 8, 1, 1, seed=1), "b": normal(8, seed=2)}
    body = "c = Conv(x, w, b) r = Relu(c) y = Conv(r, u)"
    proto = onnx_model("float[1,3,12,12] x", "float[1,4,10,10] y", body, constants)
    for node in proto.graph.node:
        for names in (node.input, node.output):
            names[:] = ["relu: 1 (fused)" if name == "r" else name for name in names]
    return proto


def thresholds(proto: onnx.ModelProto, feeds: dict[str, npt.NDArray[np.float32]]) -> dict[str, float]:
    """Largest magnitude of every float tensor of the model as it is, weights too: what TensorRT names."""
    tapped = onnx.ModelProto()
    tapped.CopyFrom(onnx.shape_inference.infer_shapes(proto))
    known = {value.name for value in tapped.graph.output}
    found = {name: float(np.abs(array).max()) for name, array in feeds.items()}
    for tensor in proto.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.size:
            found[tensor.name] = float(np.abs(array).max())
    for value in tapped.graph.value_info:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT and value.name not in known:
            tapped.graph.output.append(value)
    arrays = run(tapped, feeds)
    for value, array in zip(tapped.graph.output, arrays, strict=True):
        if array.dtype == np.float32 and array.size:
            found[value.name] = float(np.abs(array).max())
    return found


def write_cache(path: Path, limits: dict[str, float]) -> dict[str, float]:
    """A cache of these thresholds; gives the float32 scales that it holds."""
    scale_of = {name: float(np.float32(limit / 127)) for name, limit in limits.items()}
    lines = ["TRT-8401-EntropyCalibration2", *(f"{n}: {tensorrt.encode(s)}" for n, s in scale_of.items())]
    write_text(path, "\n".join(lines) + "\n")
    return scale_of


def test_the_model_has_the_scales_of_the_cache(tmp_path: Path) -> None:
    proto, feeds = two_layers(), {"x": normal(1, 3, 12, 12, seed=5)}
    scale_of = write_cache(tmp_path / "old.cache", thresholds(proto, feeds))
    table = calib8.read_table(tmp_path / "old.cache")
    result = calib8.quantize(proto, table=table, target="tensorrt")
    assert {name: q.scale for name, q in result.qparams.items()} == {
        name: scale_of[name] for name in ("x", "relu: 1 (fused)")
    }
    assert all(q.zero_point == 0 for q in result.qparams.values())
    quantized = proto_of(result.model)
    stored = {t.name: numpy_helper.to_array(t) for t in quantized.graph.initializer}
    for node in quantized.graph.node:
        if node.op_type == "QuantizeLinear":
            assert stored[node.input[2]].dtype == np.int8 and stored[node.input[2]] == 0
            assert stored[node.input[1]].dtype == np.float32
    assert ops(quantized)["QuantizeLinear"] == 2 and ops(quantized)["DequantizeLinear"] == 4
    assert lint(quantized, "tensorrt") == ()


def test_onnxruntime_runs_it_close_to_the_float_model(tmp_path: Path) -> None:
    proto, feeds = two_layers(), {"x": normal(1, 3, 12, 12, seed=5)}
    write_cache(tmp_path / "old.cache", thresholds(proto, feeds))
    table = calib8.read_table(tmp_path / "old.cache")
    calib8.quantize(proto, table=table, target="tensorrt").save(tmp_path / "int8.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "int8.onnx", providers=["CPUExecutionProvider"])
    difference = relative_difference(run(proto, feeds), session.run(None, feeds))
    assert 1e-5 < difference < 0.03


def test_codes_behind_a_relu_use_their_whole_type_in_targets_that_have_zero_points(tmp_path: Path) -> None:
    proto, feeds = two_layers(), {"x": normal(1, 3, 12, 12, seed=5)}
    limits = thresholds(proto, feeds)
    write_cache(tmp_path / "old.cache", limits)
    result = calib8.quantize(proto, table=calib8.read_table(tmp_path / "old.cache"), target="onnxruntime")
    relu = result.qparams["relu: 1 (fused)"]
    assert relu.zero_point == 0
    assert relu.scale == pytest.approx(limits["relu: 1 (fused)"] / 255, rel=1e-6)
    assert result.qparams["x"].zero_point in (127, 128)


@pytest.mark.parametrize("name", slow_but(["resnet8_cifar10_mlperftiny", "resnet20_cifar10"], REAL))
def test_real_models(shared_data: Path, tmp_path: Path, name: str) -> None:
    path = shared_data / "models" / f"{name}.onnx"
    proto = onnx.load(path)
    feed = {load_model(path).graph.inputs[0].name: normal(*REAL[name])}
    scale_of = write_cache(tmp_path / "old.cache", thresholds(proto, feed))
    table = calib8.read_table(tmp_path / "old.cache")
    result = calib8.quantize(path, table=table, target="tensorrt")
    assert result.binding is not None
    assert result.binding.unknown == () and result.binding.unused
    assert all(d.quantized for d in result.placement.decisions if d.op_type == "Conv")
    owners = dict(result.binding.borrowed)
    expected = {tensor: scale_of[owners.get(tensor, tensor)] for tensor in result.qparams}
    assert {tensor: q.scale for tensor, q in result.qparams.items()} == expected
    assert lint(proto_of(result.model), "tensorrt") == ()
    assert relative_difference(run(proto, feed), run(result.model, feed)) < 0.5


TARGETS = ("tensorrt", "tengine", "onnxruntime")


@pytest.fixture(scope="module")
def own() -> calib8.CalibrationTable:
    """Found for symmetric codes, as all but the last target take them."""
    pixels = {"images": np.load(CALIBRATION_PATH)["images"][:8]}
    recipe = calib8.Preprocess(color=COLOR, mean=(PIXEL_MEAN,), scale=(PIXEL_SCALE,))
    found = calib8.calibrate(
        MODEL_PATH, pixels, preprocess=recipe, activations="int8-symmetric", method="minmax"
    )
    return found.table


@pytest.fixture(scope="module")
def expected(own: calib8.CalibrationTable) -> dict[str, dict[str, QParams]]:
    """Target → scales and zero points of the model made from calib8's own table."""
    return {target: calib8.quantize(MODEL_PATH, table=own, target=target).qparams for target in TARGETS}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("form", "targets"),
    [
        ("tensorrt", 2),
        ("tensorrt-ranges", 2),
        ("tengine", 2),
        ("mxnet", 3),
        ("onnxruntime", 3),
        ("calib8", 3),
    ],
)
def test_the_same_table_by_way_of_another_tool_gives_the_same_model(
    own: calib8.CalibrationTable, expected, form: str, targets: int, tmp_path: Path
) -> None:
    """Formats that keep zero points serve codes with a zero point too."""
    write_table(tmp_path / "there", own, form)
    back = calib8.read_table(tmp_path / "there")
    for target in TARGETS[:targets]:
        found = calib8.quantize(MODEL_PATH, table=back, target=target).qparams
        assert set(found) == set(expected[target])
        for name, q in expected[target].items():
            assert found[name].scale == pytest.approx(q.scale, rel=2e-7), (target, name)
            assert found[name].zero_point == q.zero_point, (target, name)
