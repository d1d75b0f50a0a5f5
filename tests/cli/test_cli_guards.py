"""``inspect``: room of sums, saturation, pairs that saturate, normalizations adrift; what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper
from tiny_models import FLAGS, cnn, save

from calib8.demo import MODEL_PATH
from calib8.model.load import load_model
from calib8.model.runtime import open_session

DIGITS = ("--color", "gray", "--mean", "128", "--scale", "1/128")


def inspected(cli, *arguments: object, out: Path) -> tuple[str, dict[str, object]]:
    result = cli("inspect", *arguments, "--json", out / "result.json")
    assert result.exit_code == 0, result.output
    return result.output, json.loads((out / "result.json").read_text(encoding="utf-8"))


def test_a_quantized_model_tells_the_room_of_its_sums(cli, int8: Path, out: Path) -> None:
    text, document = inspected(cli, int8, out=out)
    assert "int32 sums: at least" in text and "bits of room" in text
    sums = document["sums"]
    assert isinstance(sums, list) and [entry["layer"] for entry in sums] == ["conv1", "conv2", "gemm"]
    assert all(entry["low"] < entry["high"] and not entry["overflows"] for entry in sums)
    assert [document[key] for key in ("batch_norms", "samples", "saturation", "drift", "pairs")] == [None] * 5
    assert document["dead_channels"] == {}


def test_the_worst_case_of_pairs_needs_no_data(cli, int8: Path, out: Path) -> None:
    text, document = inspected(cli, int8, "--avx2-safety", out=out)
    assert "can saturate in ONNX Runtime on x86 without VNNI" in text
    assert "--target onnxruntime-avx2" in text
    pairs = document["pairs"]
    assert isinstance(pairs, list) and [layer["layer"] for layer in pairs] == ["conv1", "conv2", "gemm"]
    unsafe = [channel for layer in pairs for channel in layer["unsafe"]]
    assert unsafe and all(channel["observed"] is None for channel in unsafe)
    assert document["samples"] == 0 and document["saturation"] is None


def test_data_show_what_saturates(cli, int8: Path, images: Path, out: Path) -> None:
    text, document = inspected(cli, int8, "--avx2-safety", "--data", images, "--samples", "4", out=out)
    assert "quantized tensors saturate on 4 samples" in text and "of them did on these samples" in text
    assert document["samples"] == 4
    saturation, pairs = document["saturation"], document["pairs"]
    assert isinstance(saturation, list) and isinstance(pairs, list)
    assert {entry["tensor"] for entry in saturation} >= {"image", "features", "maps"}
    shares = [entry["saturated"] for entry in saturation]
    assert shares == sorted(shares, reverse=True) and all(0 <= share <= 1 for share in shares)
    for channel in (channel for layer in pairs for channel in layer["unsafe"]):
        low, high = channel["observed"]
        assert channel["low"] <= low <= high <= channel["high"]
        assert (channel["saturated"] > 0) == (low < -32768 or high > 32767)


def test_a_model_for_avx2_is_safe(cli, model: Path, images: Path, out: Path, tmp_path: Path) -> None:
    safe = tmp_path / "safe.onnx"
    made = cli("quantize", model, "--data", images, *FLAGS, "--target", "onnxruntime-avx2", "-o", safe)
    assert made.exit_code == 0, made.output
    text, document = inspected(cli, safe, "--avx2-safety", "--target", "onnxruntime-avx2", out=out)
    assert "0 of 15 channels in 0 of 3 layers can saturate" in text
    assert "0 violations" in text and document["violations"] == []
    assert "target: onnxruntime-avx2" in text


def test_ranges_too_narrow_for_the_data_are_told(cli, model: Path, images: Path, out: Path) -> None:
    narrow = out / "narrow.onnx"
    made = cli("quantize", model, "--data", images, *FLAGS, "--range", "maps=-0.1,0.1", "-o", narrow)
    assert made.exit_code == 0, made.output
    text, document = inspected(cli, narrow, "--data", images, out=out)
    saturation = document["saturation"]
    assert isinstance(saturation, list) and saturation[0]["tensor"] == "maps"
    assert saturation[0]["saturated"] > 0.5 and "maps" in text


def test_normalizations_of_a_float_model_and_wrong_preprocessing(cli, out: Path) -> None:
    data = MODEL_PATH.with_name("digits_calibration.npz")
    text, document = inspected(cli, MODEL_PATH, "--data", data, *DIGITS, out=out)
    assert "0 of 7 normalizations see other values than in training, on 100 samples" in text
    norms, drift = document["batch_norms"], document["drift"]
    assert isinstance(norms, list) and isinstance(drift, list) and len(norms) == len(drift) == 7
    assert [norm["name"] for norm in norms] == [entry["name"] for entry in drift]
    wrong, _ = inspected(cli, MODEL_PATH, "--data", data, "--color", "gray", "--scale", "1/128", out=out)
    assert "the first normalization already does" in wrong


def test_dead_channels_are_told(cli, out: Path, tmp_path: Path) -> None:
    proto = cnn()
    for tensor in proto.graph.initializer:
        if tensor.name == "w2":
            weight = numpy_helper.to_array(tensor).copy()
            weight[[1, 4]] = 0
            tensor.CopyFrom(numpy_helper.from_array(weight, "w2"))
    text, document = inspected(cli, save(proto, tmp_path / "dead.onnx"), out=out)
    assert "2 channels of 'conv2' have only zeros (1, 4)" in text
    assert document["dead_channels"] == {"conv2": [1, 4]}


@pytest.mark.parametrize(
    "flags", [("--samples", "3"), ("--skip-bad",), ("--mean", "3"), ("--preprocess", "cifar10")]
)
def test_options_of_data_need_data(cli, int8: Path, flags: tuple[str, ...]) -> None:
    result = cli("inspect", int8, *flags)
    assert result.exit_code == 2 and flags[0] in result.output and "--data" in result.output


def test_float_models_and_programs_have_no_pairs(cli, model: Path, saved: Path, images: Path) -> None:
    result = cli("inspect", model, "--avx2-safety")
    assert result.exit_code == 1 and "float model" in result.output
    for flags in (("--avx2-safety",), ("--data", images)):
        result = cli("inspect", saved, *flags)
        assert result.exit_code == 2 and str(flags[0]) in result.output and "program" in result.output


def test_a_missing_folder_is_refused_in_one_line(cli, int8: Path, tmp_path: Path) -> None:
    result = cli("inspect", int8, "--data", tmp_path / "nowhere")
    assert result.exit_code != 0 and "nowhere" in result.output and "Traceback" not in result.output


def test_a_model_of_codes_alone_is_refused(cli, int8: Path, tmp_path: Path) -> None:
    path = tmp_path / "qoperator.onnx"
    open_session(load_model(onnx.load(int8)), save_optimized=str(path))
    result = cli("inspect", path, "--avx2-safety")
    assert result.exit_code == 1 and "is not in QDQ form" in result.output
