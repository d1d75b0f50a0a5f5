"""The whole flow from Python: fixed or missing batch axes; statistics, checkpoints, given ranges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from litert import litert_outputs

from calib8.calibration.merge import merge_statistics
from calib8.data.preprocess import Preprocess
from calib8.errors import OutputError, UnsupportedModelError, UsageError
from calib8.model.graph import graph_inputs
from calib8.pipeline import Quantization, calibrate, collect_statistics, quantize
from calib8.profiles import PROFILES
from calib8.program.reference.executor import run_program
from calib8.qparams import QParams
from calib8.session import InferenceSession
from calib8.table import Range
from calib8.tflite.read import read_tflite
from small_models import Array, normal, onnx_model, ops, relative_difference, run

CONV = "Conv<pads=[1,1,1,1]>"
FILTERS: dict[str, Array] = {"w": normal(8, 3, 3, 3), "u": normal(4, 8, 3, 3, seed=1)}
PIXELS = np.random.default_rng(0).integers(0, 256, (8, 12, 12, 3)).astype(np.uint8)
CENTRED = Preprocess(mean=(127.0,), scale=(1 / 64,))


def fixed_batch() -> onnx.ModelProto:
    body = f"c = {CONV}(x, w) r = Relu(c) y = {CONV}(r, u)"
    return onnx_model("float[4,3,12,12] x", "float[4,4,12,12] y", body, FILTERS)


def without_batch() -> onnx.ModelProto:
    body = f"b = Unsqueeze(x, axes) c = {CONV}(b, w) r = Relu(c) d = {CONV}(r, u) y = Squeeze(d, axes)"
    constants = {**FILTERS, "axes": np.array([0], np.int64)}
    return onnx_model("float[3,12,12] x", "float[4,12,12] y", body, constants)


MODELS = {"batch of 4": fixed_batch, "no batch axis": without_batch}


@pytest.mark.parametrize("kind", ["images", "arrays"])
@pytest.mark.parametrize("name", MODELS)
def test_a_fixed_first_axis_is_fed_whole(name: str, kind: str) -> None:
    proto = MODELS[name]()
    shape = [axis.dim_value for axis in proto.graph.input[0].type.tensor_type.shape.dim]
    arrays = [{"x": normal(*shape, seed=seed)} for seed in range(3)]
    data = {"images": PIXELS} if kind == "images" else arrays
    result = quantize(proto, data, preprocess=CENTRED if kind == "images" else None, method="minmax")
    assert graph_inputs(result.model)[0].shape == tuple(shape)
    assert ops(result.model)["QuantizeLinear"] >= 3
    feeds = {"x": np.clip(arrays[0]["x"], -1.5, 1.5)}
    assert relative_difference(run(proto, feeds), run(result.model, feeds)) < 0.05


@pytest.mark.parametrize("name", MODELS)
def test_a_table_of_such_a_model_is_used_with_and_without_data(name: str) -> None:
    proto = MODELS[name]()
    table = calibrate(proto, {"images": PIXELS}, preprocess=CENTRED).table
    first = quantize(proto, table=table)
    second = quantize(proto, {"images": PIXELS}, table=table, preprocess=CENTRED)
    assert first.qparams == second.qparams


def flow() -> onnx.ModelProto:
    body = f"c = {CONV}(x, w) r = Relu(c) y = {CONV}(r, u)"
    return onnx_model("float[N,3,12,12] x", "float[N,4,12,12] y", body, FILTERS)


def test_shards_checkpoint_and_statistics_in_python(tmp_path: Path) -> None:
    proto, data = flow(), {"images": PIXELS}
    whole = calibrate(proto, data, preprocess=CENTRED, method="mse")
    parts = [
        collect_statistics(proto, data, preprocess=CENTRED, shard=(i, 3), checkpoint=tmp_path / str(i))
        for i in (1, 2, 3)
    ]
    merged = merge_statistics([part.statistics for part in parts[::-1]])
    assert merged.to_bytes() == whole.statistics.to_bytes()
    found = calibrate(proto, statistics=merged)
    assert found.table == whole.table and found.dataset is None
    again = collect_statistics(proto, data, preprocess=CENTRED, shard=(1, 3), checkpoint=tmp_path / "1")
    assert again.resumed == 3 and again.statistics.to_bytes() == parts[0].statistics.to_bytes()


def test_ranges_given_in_python() -> None:
    ranges = {"*": (-3.0, 3.0), "r": Range(0.0, 4.0), "x": QParams(0.05, 7)}
    result = quantize(flow(), {"images": PIXELS}, preprocess=CENTRED, ranges=ranges)
    assert result.qparams["x"] == QParams(float(np.float32(0.05)), 7)
    assert result.qparams["r"] == QParams(float(np.float32(4 / 255)), 0)
    assert result.qparams["y"] == QParams(float(np.float32(6 / 255)), 127)
    assert {entry.method for entry in result.table.entries.values()} == {"given"}


def test_neither_or_both_sources_are_refused() -> None:
    with pytest.raises(UsageError, match="neither data nor statistics"):
        calibrate(flow())
    found = collect_statistics(flow(), {"images": PIXELS}, preprocess=CENTRED)
    with pytest.raises(UsageError, match="saved statistics take no data"):
        calibrate(flow(), {"images": PIXELS}, statistics=found.statistics)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_result_lowers_to_the_program_of_its_file(profile: str, tmp_path: Path) -> None:
    result = quantize(flow(), {"images": PIXELS}, preprocess=CENTRED, method="minmax")
    result.save(tmp_path / "int8.onnx")
    feeds = {"x": normal(1, 3, 12, 12)}
    session = InferenceSession(tmp_path / "int8.onnx", profile=profile, runtime="reference")
    [expected] = session.run(None, feeds)
    program = result.lower(profile=profile)
    assert program.profile == profile
    np.testing.assert_array_equal(run_program(program, feeds)[0], expected)
    larger = result.lower(profile=profile, shapes={"x": (2, 3, 12, 12)})
    assert larger.slots[larger.inputs[0].slot].shape[0] == 2


def with_float_sine(target: str) -> Quantization:
    body = f"c = {CONV}(x, w) s = Sin(c) y = {CONV}(s, u)"
    model = onnx_model("float[N,3,12,12] x", "float[N,4,12,12] y", body, FILTERS)
    data, kept = {"images": PIXELS}, ["s", "y"]
    return quantize(model, data, preprocess=CENTRED, target=target, method="minmax", keep_float=kept)


def test_lowering_tells_what_it_cannot_do() -> None:
    data = {"images": PIXELS}
    result = with_float_sine("onnxruntime")
    assert result.lower().float_instructions
    with pytest.raises(UnsupportedModelError, match="Sin"):
        result.lower(integer_only=True)
    whole = quantize(flow(), data, preprocess=CENTRED, method="minmax")
    assert whole.lower(integer_only=True).profile == "single"
    with pytest.raises(UsageError, match="profile 'exact': unknown"):
        result.lower(profile="exact")
    with pytest.raises(UsageError, match="which is not integer only"):
        result.lower(profile="onnx", integer_only=True)


def test_a_name_ending_in_tflite_gives_a_tflite_file(tmp_path: Path) -> None:
    data, image = {"images": PIXELS}, normal(1, 3, 12, 12)
    for target, notes in (("tflite", 0), ("onnxruntime", 1)):
        result = quantize(flow(), data, preprocess=CENTRED, target=target, method="minmax")
        told = result.save(tmp_path / "int8.TFLite")
        assert len([note for note in told if "codes are those of target=" in note]) == notes
        assert result.save(tmp_path / "int8.onnx") == ()
        assert "calib8_preprocess" in read_tflite(tmp_path / "int8.TFLite").metadata
        nhwc = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
        [found] = litert_outputs((tmp_path / "int8.TFLite").read_bytes(), [nhwc])
        session = InferenceSession(tmp_path / "int8.onnx", profile="tflite")
        [expected] = session.run(None, {"x": image})
        np.testing.assert_array_equal(found.transpose(0, 3, 1, 2), expected)


def test_a_tflite_file_that_cannot_be_is_not_written(tmp_path: Path) -> None:
    result = with_float_sine("tflite")
    with pytest.raises(UnsupportedModelError, match=r"m\.tflite.*Sin"):
        result.save(tmp_path / "m.tflite")
    with pytest.raises(OutputError, match="cannot be written"):
        quantize(flow(), {"images": PIXELS}, preprocess=CENTRED, method="minmax").save(
            tmp_path / "none" / "m.tflite"
        )
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="not a path"):
        result.save(7)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"m\.pt: is the name of another kind of file"):
        result.save(tmp_path / "m.pt")
    assert not list(tmp_path.iterdir())
