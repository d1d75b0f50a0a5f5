"""``calib8 table``: what is shown, converted, compared and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from json_output import load
from tiny_models import FLAGS, cnn, save

from calib8.formats.tables import FORMATS

CACHE = "TRT-8401-MinMaxCalibration\nimage: 3c810204\nfeatures: 3d418306\nsums: 3caa578d\nflat: 3c010204\n"


@pytest.fixture
def table(cli, model: Path, images: Path, tmp_path: Path) -> Path:
    """A table of calib8."""
    path = tmp_path / "own.json"
    assert cli("calibrate", model, "--data", images, *FLAGS, "-o", path).exit_code == 0
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache of TensorRT for the same model."""
    path = tmp_path / "old.cache"
    path.write_text(CACHE)
    return path


def test_a_table_is_shown(cli, table: Path, out: Path) -> None:
    result = cli("table", "show", table, "--json", out / "r.json")
    assert result.exit_code == 0, result.output
    assert "calibration table, 6 ranges; scales of uint8" in result.stdout
    document = load(out / "r.json")
    shown = {tensor["tensor"]: tensor for tensor in document["tensors"]}
    stored = json.loads(table.read_text())
    assert document["model_hash"] == stored["model_hash"] and document["format"] == "calib8"
    for name, entry in stored["tensors"].items():
        low, high = min(entry["range"]["min"], 0), max(entry["range"]["max"], 0)
        assert shown[name]["range"] == [entry["range"]["min"], entry["range"]["max"]]
        assert shown[name]["scale"] == pytest.approx((high - low) / 255, rel=1e-6)
        assert shown[name]["method"] == entry["method"] and shown[name]["clipped"] == entry["clipped"]
        assert name in result.stdout


def test_the_type_of_the_scales_shown(cli, cache: Path, out: Path) -> None:
    result = cli("table", "show", cache, "--json", out / "r.json")
    assert "TensorRT calibration cache, 4 ranges; scales of int8-symmetric" in result.stdout
    features = next(t for t in load(out / "r.json")["tensors"] if t["tensor"] == "features")
    assert features["scale"] == pytest.approx(6 / 127) and features["clipped"] is None
    assert cli("table", "show", cache, "--type", "uint8", "--json", out / "r.json").exit_code == 0
    features = next(t for t in load(out / "r.json")["tensors"] if t["tensor"] == "features")
    assert features["scale"] == pytest.approx(12 / 255) and features["zero_point"] in (127, 128)


def test_what_has_no_scale_is_shown(cli, tmp_path: Path) -> None:
    path = tmp_path / "n.table"
    path.write_text("conv1_param_0 1 2 \n#conv2_param_0 1 \nconv1 1 \n")
    result = cli("table", "show", path)
    assert "ncnn table, 1 range" in result.stdout
    assert "without a scale, float: conv2" in result.stdout
    assert "scales of 1 weight beside them" in result.stdout


@pytest.mark.parametrize("form", [name for name in FORMATS if name != "calib8"])
def test_there_and_back(cli, form: str, cache: Path, model: Path, out: Path) -> None:
    there, back = out / "there", out / "back.cache"
    result = cli("table", "convert", cache, "-o", there, "--to", form, "--model", model, "--lossy")
    assert result.exit_code == 0, result.output
    result = cli("table", "convert", there, "-o", back, "--to", "tensorrt", "--model", model, "--lossy")
    assert result.exit_code == 0, result.output
    found = dict(line.rsplit(": ", 1) for line in back.read_text().splitlines()[1:])
    expected = dict(line.rsplit(": ", 1) for line in CACHE.splitlines()[1:])
    expected["pooled"] = expected["flat"]  # the same values
    assert {"image", "features", "flat"} <= found.keys() <= expected.keys()
    if form != "tengine-uint8":  # which has no symmetric code: [−T, T] is nudged
        assert found.items() <= expected.items()


def test_the_header_of_a_cache(cli, cache: Path, table: Path, out: Path, refused) -> None:
    def header(*arguments: object) -> str:
        result = cli("table", "convert", *arguments, "-o", out / "c", "--to", "tensorrt", "--lossy")
        assert result.exit_code == 0, result.output
        return (out / "c").read_text().splitlines()[0]

    assert header(cache) == "TRT-8401-MinMaxCalibration"
    assert header(table) == "TRT-8601-EntropyCalibration2"
    assert header(cache, "--header", "TRT-100100-LegacyCalibration") == "TRT-100100-LegacyCalibration"
    (out / "c").unlink()
    base = ("table", "convert", cache, "-o", out / "c")
    refused(
        cli(*base, "--to", "tensorrt", "--header", "TRT-1-X"), 2, "--header TRT-1-X", "Write it like TRT-"
    )
    refused(cli(*base, "--to", "mxnet", "--header", "TRT-1-X"), 2, "--header", "format 'mxnet' has none")
    assert not (out / "c").exists()


def test_what_would_be_lost_is_refused_and_with_lossy_told(cli, table: Path, out: Path, refused) -> None:
    base = ("table", "convert", table, "-o", out / "c.cache", "--to", "tensorrt")
    refused(cli(*base), 2, "--to tensorrt", "the zero points of 6 ranges (", "Add --lossy")
    assert list(out.iterdir()) == []
    result = cli(*base, "--lossy", "--json", out / "r.json")
    assert result.exit_code == 0 and "lost: the zero points of 6 ranges (" in result.stdout
    assert len(load(out / "r.json")["lost"]) == 1
    result = cli("table", "convert", table, "-o", out / "c.json", "--to", "mxnet", "--json", out / "r.json")
    assert result.exit_code == 0 and load(out / "r.json")["lost"] == []


def test_a_model_binds_the_table(cli, cache: Path, model: Path, out: Path) -> None:
    result = cli("table", "convert", cache, "-o", out / "t.json", "--model", model, "--json", out / "r.json")
    assert result.exit_code == 0, result.output
    assert load(out / "r.json")["binding"] == {
        "used": 4,
        "unused": ["sums"],
        "unknown": [],
        "borrowed": [{"tensor": "pooled", "range_of": "flat"}],
    }
    assert "table: 1 range of tensors without codes not used" in result.stdout
    assert load(out / "t.json")["model_hash"]
    base = ("quantize", model, "--table", out / "t.json", "--target", "tensorrt", "-o", out / "q.onnx")
    assert cli(*base).exit_code == 1  # it still lacks 'maps'
    assert cli(*base, "--partial").exit_code == 0


def test_a_cache_without_what_a_target_needs(cli, cache: Path, model: Path, out: Path, refused) -> None:
    base = ("quantize", model, "--table", cache, "--target", "tensorrt", "-o", out / "q.onnx")
    refused(cli(*base), 1, f"{cache}: lacks 1 of 4 tensors: 'maps'", "--partial leaves")
    result = cli(*base, "--partial", "--json", out / "r.json")
    assert result.exit_code == 0, result.output
    assert "1 float because the table has no range for 'maps' (GlobalAveragePool)" in result.stdout
    document = load(out / "r.json")
    assert document["binding"]["unused"] == ["sums"]
    assert {n["node"]: n["quantized"] for n in document["nodes"]}["pool"] is False
    assert json.loads(document["metadata"]["keep_float"]) == ["pool"]


def test_names_that_the_model_does_not_have(cli, cache: Path, model: Path, out: Path, refused) -> None:
    cache.write_text(CACHE + "maps: 3c010204\nelsewhere: 3c010204\n")
    base = ("quantize", model, "--table", cache, "--target", "tensorrt", "-o", out / "q.onnx")
    refused(cli(*base), 1, "names 1 of 6 tensors that the model does not have: 'elsewhere'", "--partial")
    result = cli(*base, "--partial")
    assert result.exit_code == 0
    assert "1 name unknown to the model passed over: 'elsewhere'" in result.stdout


def test_the_format_of_a_table_by_name(cli, model: Path, tmp_path: Path, out: Path, refused) -> None:
    path = tmp_path / "t.scale"
    path.write_text("image 0.5 0\nfeatures 0.5 0\nmaps 0.5 0\nflat 0.5 0\n")
    base = ("quantize", model, "--table", path, "--target", "tflite", "-o", out / "q.onnx", "--partial")
    assert cli(*base, "--table-format", "tengine-uint8").exit_code == 0
    refused(cli(*base, "--table-format", "tensorrt"), 1, "not a header of a TensorRT cache")
    refused(cli(*base, "--table-format", "x"), 2, "unknown format", "tengine-uint8")


def test_options_of_a_finished_table_without_one(cli, model: Path, images: Path, out: Path, refused) -> None:
    base = ("quantize", model, "--data", images, *FLAGS, "-o", out / "q.onnx")
    refused(cli(*base, "--partial"), 2, "--partial: says how to read a finished table")
    refused(cli(*base, "--table-format", "ncnn"), 2, "--table-format: says how to read a finished table")
    assert list(out.iterdir()) == []


def test_differences_are_shown(cli, table: Path, cache: Path, out: Path) -> None:
    same = cli("table", "diff", table, table, "--exit-code")
    assert same.exit_code == 0 and "0 of 6 ranges in both tables differ" in same.stdout
    other = out / "other.cache"
    other.write_text(CACHE.replace("3d418306", "3dc18306") + "extra: 3c010204\n")
    result = cli("table", "diff", cache, other, "--json", out / "r.json")
    assert result.exit_code == 0, result.output
    assert "1 of 4 ranges in both tables differ" in result.stdout
    assert f"only in {other}: extra" in result.stdout
    document = load(out / "r.json")
    assert document["tensors"][0]["tensor"] == "features" and document["tensors"][0]["ratio"] == 2.0
    assert [tensor["differs"] for tensor in document["tensors"]] == [True, False, False, False]
    assert document["only_in_other"] == ["extra"] and document["only_in_table"] == []
    assert cli("table", "diff", cache, other, "--exit-code").exit_code == 1


def test_formats_of_both_tables_by_name(cli, tmp_path: Path, refused) -> None:
    first, second = tmp_path / "a.scale", tmp_path / "b.scale"
    for path in (first, second):
        path.write_text("image 0.5 0\nflat 0.25 0\n")
    base = ("table", "diff", first, second)
    assert "0 of 2 ranges in both tables differ" in cli(*base).stdout
    for option in ("--format", "--other-format"):
        assert "2 of 2 ranges in both tables differ" in cli(*base, option, "tengine-uint8").stdout
    both = cli(*base, "--format", "tengine-uint8", "--other-format", "tengine-uint8", "--exit-code")
    assert both.exit_code == 0 and "0 of 2 ranges" in both.stdout and "0 … 127.5" in both.stdout
    refused(cli(*base, "--format", "tensorrt"), 1, f"{first}", "not a header of a TensorRT cache")
    refused(cli(*base, "--other-format", "x"), 2, "--format x: unknown format")


def test_a_tensor_of_zeros_is_told_to_get_a_scale(cli, out: Path, tmp_path: Path, refused) -> None:
    table = tmp_path / "t.json"
    table.write_text('{"a": [0.0, 0.0], "b": [-1.0, 1.0]}')  # the form of MXNet
    base = ("table", "convert", table, "-o", out / "c.cache", "--to", "tensorrt")
    refused(cli(*base), 2, "loses that only 0 was seen in 1 range, which gets the scale 1 ('a')", "--lossy")
    assert cli(*base, "--lossy").exit_code == 0
    assert "a: 3f800000\n" in (out / "c.cache").read_text()


@pytest.mark.usefixtures("nothing_left")
def test_what_is_refused(cli, cache: Path, model: Path, tmp_path: Path, out: Path, refused) -> None:
    layers = tmp_path / "n.table"
    layers.write_text("conv1_param_0 1 \nconv1 1 \n")
    target = ("-o", out / "t")
    refused(cli("table", "show", cache, "--type", "int4"), 2, "--type int4: unknown type", "int8-symmetric")
    refused(cli("table", "show", cache, "--format", "x"), 2, "--format x: unknown format")
    refused(cli("table", "show", tmp_path / "none"), 1, "none: no such file")
    refused(cli("table", "convert", cache, *target, "--to", "x"), 2, "--to x: unknown format")
    refused(cli("table", "convert", cache, *target, "--partial"), 2, "--partial", "--model")
    refused(cli("table", "convert", cache, *target, "--to", "ncnn"), 2, "--to ncnn", "--model")
    refused(cli("table", "convert", layers, *target), 2, f"{layers}: names layers", "--model")
    none = (*target, "--model", model, "--partial")
    layers.write_text("conv9_param_0 1 \nconv9 1 \n")
    refused(cli("table", "convert", layers, *none), 1, f"{layers}: has no range of a tensor of {model}")
    refused(cli("table", "convert", cache, "-o", cache), 2, "is the same file as an input")
    refused(cli("table", "diff", cache, layers), 2, f"{layers}: names layers", "table convert --model")
    refused(cli("table", "diff", cache, tmp_path / "none"), 1, "none: no such file")
    cache.write_text(CACHE + "a: 3c0102\n")
    refused(cli("table", "convert", cache, *target), 1, "old.cache, line 6", "eight hex digits")


def test_a_table_of_another_model(cli, table: Path, tmp_path: Path, out: Path, refused) -> None:
    other = save(cnn(seed=1), tmp_path / "other.onnx")
    result = cli("table", "convert", table, "-o", out / "t", "--to", "ncnn", "--model", other, "--lossy")
    refused(result, 1, "own.json: was made for another model")
    assert list(out.iterdir()) == []


def test_quiet_says_nothing(cli, table: Path, out: Path) -> None:
    assert cli("table", "show", table, "--quiet").output == ""
    assert cli("table", "diff", table, table, "--quiet").output == ""
    result = cli("table", "convert", table, "-o", out / "t", "--to", "tensorrt", "--lossy", "--quiet")
    assert result.output == "" and (out / "t").exists()
