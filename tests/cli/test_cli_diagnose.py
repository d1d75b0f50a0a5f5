"""``calib8 diagnose``: its causes, the command that it advises, its JSON document, what it refuses."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from json_output import load
from onnx import numpy_helper
from tiny_models import FLAGS, cnn, save

from calib8.cli.options import PreprocessOptions
from calib8.cli.preprocessing import chosen_preprocess, preprocessing_flags
from calib8.data.preprocess import Preprocess
from calib8.data.presets import PRESETS


@pytest.fixture
def loud(tmp_path: Path) -> Path:
    """The small network, one channel of 'features' 1000 times as large: the same function."""
    proto = cnn()
    factors = {"w1": 1000.0, "b1": 1000.0, "w2": 1e-3}
    for tensor in proto.graph.initializer:
        if tensor.name in factors:
            array = numpy_helper.to_array(tensor).copy()
            array[(slice(None), 2) if tensor.name == "w2" else 2] *= np.float32(factors[tensor.name])
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return save(proto, tmp_path / "loud.onnx")


def command_in(text: str) -> list[str]:
    lines = text.splitlines()
    return shlex.split(lines[lines.index("do the first:") + 1])


def test_the_advice_carried_out_gives_the_accuracy_back(
    cli, loud: Path, images: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = cli("diagnose", loud, "--data", images, *FLAGS, "--json", out / "d.json")
    assert result.exit_code == 0, result.output
    assert "1. conv1: channel 2 reaches" in result.stdout
    words = command_in(result.stdout)
    assert words[:3] == ["calib8", "quantize", str(loud)] and "cle,bias" in words
    document = load(out / "d.json")
    assert shlex.split(document["remedies"][0]["command"]) == words
    monkeypatch.chdir(out)
    made = cli(*words[1:])
    assert made.exit_code == 0, made.output
    assert cli("compare", loud, "loud.repaired.onnx", "--data", images, "--json", "c.json").exit_code == 0
    plain = cli("quantize", loud, "--data", images, *FLAGS, "--repair", "none", "-o", "plain.onnx")
    assert plain.exit_code == 0, plain.output
    assert cli("compare", loud, "plain.onnx", "--data", images, "--json", "p.json").exit_code == 0
    cured, broken = (load(out / name)["outputs"]["sqnr_db"] for name in ("c.json", "p.json"))
    assert cured > 25.0 > broken + 10.0


def test_the_document_holds_everything(cli, loud: Path, images: Path, out: Path) -> None:
    result = cli("diagnose", loud, "--data", images, *FLAGS, "--top", 1, "--json", out / "d.json")
    assert result.exit_code == 0, result.output
    document = load(out / "d.json")
    assert (document["fp32"], document["int8"], document["images"]) == (str(loud), None, 6)
    assert len(document["layers"]) > 3 and "1 of " in result.stdout
    figures = [entry["damage"]["both"] for entry in document["layers"]]
    assert figures == sorted(figures)
    [first, *_] = document["findings"]
    assert (first["node"], first["tensor"], first["cause"]) == ("conv1", "features", "scale")
    assert first["keep_float"] == ["conv1", "conv2"] and first["gain_db"] > 10.0
    best = document["remedies"][0]
    assert best["repairs"] == ["cle", "bias"] and best["macs"] == 0.0
    assert best["sqnr_db"] == pytest.approx(document["sqnr_db"] + best["gain_db"])


@pytest.mark.slow
def test_another_preprocessing_than_that_of_the_calibration_comes_first(
    cli, model: Path, int8: Path, images: Path, out: Path
) -> None:
    sound = cli("diagnose", model, int8, "--data", images)
    assert sound.exit_code == 0 and "another way" not in sound.stdout
    given = cli("diagnose", model, int8, "--data", images, *FLAGS)
    assert given.stdout == sound.stdout
    result = cli("diagnose", model, int8, "--data", images, "--mean", "0", "--json", out / "d.json")
    assert "1. data: the images are prepared in another way than for the calibration (mean 0" in result.stdout
    words = command_in(result.stdout)
    assert words[words.index("--mean") + 1] == "0" and words[words.index("--repair") + 1] == "none"
    assert [entry["cause"] for entry in load(out / "d.json")["findings"]][:2] == ["preprocessing", "input"]


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_flags_ask_for_the_preprocessing_that_they_came_from(name: str) -> None:
    for given in (PRESETS[name], Preprocess(size=(8, 6), mean=(1.5, 2.0, 3.25), scale=(1 / 3, 0.5, 0.1))):
        flags = preprocessing_flags(given)
        known: dict[str, object] = {
            option.removeprefix("--").replace("-", "_"): text
            for option, text in zip(flags[::2], flags[1::2], strict=True)
        }
        for option, kind in {"crop": float, "letterbox_color": float, "crop_pad": int}.items():
            if option in known:
                known[option] = kind(str(known[option]))
        found = chosen_preprocess(PreprocessOptions(**known))
        assert found is not None and _in_rows_and_columns(found) == _in_rows_and_columns(given)


def _in_rows_and_columns(given: Preprocess) -> Preprocess:
    side = given.resize_to
    return replace(given, resize_to=(side, side)) if isinstance(side, int) else given


def test_flags_name_the_preset_that_a_preprocessing_is_of() -> None:
    given = PRESETS["torchvision"]
    assert preprocessing_flags(given) == ["--preprocess", "torchvision"]
    sized = ["--preprocess", "torchvision", "--size", "64,64"]
    assert preprocessing_flags(replace(given, size=(64, 64))) == sized
    assert "--preprocess" not in preprocessing_flags(replace(given, crop=0.9))


@pytest.mark.usefixtures("nothing_left")
def test_refusals(cli, refused, model: Path, int8: Path, images: Path, tmp_path: Path, out: Path) -> None:
    data = ("--data", images, *FLAGS, "--json", out / "d.json")
    refused(cli("diagnose", int8, model, *data), 2, "wrong way round")
    refused(cli("diagnose", model, model, *data), 2, "is a float model")
    refused(cli("diagnose", model, int8, *data, "--top", 0), 2, "--top 0: must be at least 1")
    refused(cli("diagnose", model, int8, *data, "--samples", 0), 2, "--samples 0: is too few")
    refused(cli("diagnose", model, tmp_path / "none.onnx", *data), 1, "none.onnx: no such file")
    refused(cli("diagnose", model, int8, "--data", tmp_path / "none"), 1, "none: does not exist")
    refused(cli("diagnose", model, "--data", images), 2, "Give --preprocess or --mean and --scale")
    refused(cli("diagnose", model, int8, "--data", images, "--json", int8), 2, "--json", "an input")
    other = onnx.load(model)
    for tensor in other.graph.initializer:
        values = np.random.default_rng(9).normal(0, 0.3, tuple(tensor.dims)).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    onnx.save(other, tmp_path / "other.onnx")
    refused(cli("diagnose", tmp_path / "other.onnx", int8, *data), 1, "its weights are not those of")
