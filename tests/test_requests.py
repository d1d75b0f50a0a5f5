"""Requests: one value or its fields as keywords, the same result, checked when they are made."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from typer.testing import CliRunner

import calib8
from calib8.analysis.observed import observe
from calib8.calibration.gather import CheckpointWords
from calib8.calibration.range_choice import RangeWords
from calib8.cli import app
from calib8.data.reading import ReadingWords
from calib8.model import load
from calib8.repair.wanted import RepairWords
from calib8.requests import requested, takes_words_of
from calib8.scheme import TargetWords
from calib8.tasks.purpose import PurposeWords
from calib8.tuning.promise import PromiseWords
from calib8.tuning.search_choice import SearchWords
from small_models import onnx_model

WORDS: dict[type, tuple[Any, str]] = {
    calib8.Checkpointing: (CheckpointWords, "checkpoint"),
    calib8.Promises: (PromiseWords, ""),
    calib8.Purpose: (PurposeWords, ""),
    calib8.RangeChoice: (RangeWords, "ranges"),
    calib8.Reading: (ReadingWords, "data"),
    calib8.RepairChoice: (RepairWords, "repair"),
    calib8.SearchChoice: (SearchWords, ""),
    calib8.TargetChoice: (TargetWords, "target"),
}
"""Request → its keywords, and the field that a parameter of its name stands for."""

FUNCTIONS = (
    calib8.calibrate,
    calib8.collect_statistics,
    calib8.compare,
    calib8.diagnose,
    calib8.evaluate,
    calib8.preflight,
    calib8.quantize,
    calib8.tune,
    observe,
)

PIXELS = {"images": np.random.default_rng(5).integers(0, 256, (12, 8, 8, 3), np.uint8)}
CENTRED = calib8.Preprocess(size=(8, 8), mean=(127.5,), scale=(1 / 127.5,))


def network() -> onnx.ModelProto:
    rng = np.random.default_rng(3)
    weight = rng.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    return onnx_model("float[N,3,8,8] x", "float[N,4,6,6] y", "c = Conv(x, w) y = Relu(c)", {"w": weight})


def file_bytes(result: calib8.Quantization) -> bytes:
    return ir.to_proto(result.model).SerializeToString(deterministic=True)


@pytest.mark.parametrize("kind", WORDS, ids=lambda kind: kind.__name__)
def test_the_keywords_are_the_fields(kind: type) -> None:
    words, own = WORDS[kind]
    assert {*words.__annotations__} == {one.name for one in fields(kind) if one.name != own}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions_show_the_keywords_as_parameters(function: Any) -> None:
    seen = inspect.signature(function).parameters
    assert "words" not in seen and {"samples", "threads", "skip_bad"} <= {*seen}
    assert all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in seen.values())
    needed = [one.name for one in seen.values() if one.default is inspect.Parameter.empty]
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\): .*'sample'"):
        function(**dict.fromkeys(needed), sample=3)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_type_checkers_know_the_same_keywords(function: Any) -> None:
    inner = inspect.unwrap(function)
    name = inner.__annotations__["words"].removeprefix("Unpack[").removesuffix("]")
    own = {one.name for one in inspect.signature(inner, follow_wrapped=False).parameters.values()}
    assert {*inner.__globals__[name].__annotations__} == {*inspect.signature(function).parameters} - own


def test_keywords_that_would_change_nothing_are_refused() -> None:
    for function, word in ((calib8.compare, "labels"), (calib8.preflight, "batch"), (calib8.tune, "batch")):
        assert word not in inspect.signature(function).parameters


def test_a_request_and_its_keywords_are_one() -> None:
    words: dict[str, Any] = {
        "preprocess": CENTRED, "samples": 8, "threads": 1, "method": "percentile", "percent": 99.0,
        "ranges": {"y": (0.0, 3.0)}, "activations": "int8", "weights": "per-tensor", "repair": ("bias",),
        "keep_float": (), "branches": {"y": "map"},
    }  # fmt: skip
    by_words = calib8.quantize(network(), PIXELS, **words)
    by_values = calib8.quantize(
        network(),
        calib8.Reading(PIXELS, CENTRED, samples=8, threads=1),
        ranges=calib8.RangeChoice("percentile", 99.0, ranges={"y": (0.0, 3.0)}),
        target=calib8.TargetChoice(activations="int8", weights="per-tensor"),
        repair=calib8.RepairChoice(repair=("bias",)),
        task=calib8.Purpose(branches={"y": "map"}),
    )
    assert file_bytes(by_values) == file_bytes(by_words)
    assert by_values.table.to_json() == by_words.table.to_json()


def test_a_keyword_beside_a_request_that_holds_it() -> None:
    reading = calib8.Reading(PIXELS, CENTRED)
    with pytest.raises(
        calib8.UsageError, match=r"samples: is given beside a Reading.*Reading\(…, samples=…\)"
    ):
        calib8.quantize(network(), reading, samples=3)
    with pytest.raises(calib8.UsageError, match="beside a RangeChoice"):
        calib8.calibrate(network(), reading, ranges=calib8.RangeChoice("mse"), method="minmax")
    with pytest.raises(calib8.UsageError, match=r"data: were not given\. Give data"):
        calib8.preflight(network(), calib8.Reading())
    with pytest.raises(calib8.UsageError, match="beside a Purpose"):
        calib8.quantize(network(), reading, task=calib8.Purpose(), branches={"y": "map"})


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: calib8.Reading(PIXELS, samples=0), "samples=0: is too few"),
        (lambda: calib8.Reading(PIXELS, threads=0), "threads=0: must be at least 1"),
        (lambda: calib8.Reading(PIXELS, batch=-1), "batch=-1: must be at least 1"),
        (lambda: calib8.Reading(PIXELS, "imagenet"), "imagenet"),
        (lambda: calib8.Reading(PIXELS, shapes={"x": (1, 3, 8, 8)}), "shapes: are given beside data"),
        (lambda: calib8.RangeChoice("best"), "unknown method"),
        (lambda: calib8.RangeChoice("mse", 99.0), "percent"),
        (lambda: calib8.RangeChoice("mse", decay=0.9), "takes no decay"),
        (lambda: calib8.RangeChoice(ranges=[1, 2]), "ranges: is of type list"),
        (lambda: calib8.SearchChoice(ranges=calib8.RangeChoice()), "ranges: is of type RangeChoice"),
        (lambda: calib8.RepairChoice("fast", ("bias",)), "does not go with"),
        (lambda: calib8.RepairChoice(repair=("biass",)), "unknown repair"),
        (lambda: calib8.TargetChoice("gpu"), "unknown target"),
        (lambda: calib8.TargetChoice("tensorrt", "uint8"), "takes int8-symmetric only"),
        (lambda: calib8.Purpose("fly"), "unknown task"),
        (lambda: calib8.Purpose(3), "task=3: unknown task"),
        (lambda: calib8.Promises(), "nothing is promised"),
        (lambda: calib8.Promises(max_drop=1.0, min_sqnr=20.0), "are two promises"),
        (lambda: calib8.SearchChoice("most"), "unknown effort"),
        (lambda: calib8.SearchChoice(budget="soon"), "is not a time"),
        (lambda: calib8.Checkpointing(checkpoint_every=4), "says how often, but not where"),
    ],
)  # fmt: skip
def test_requests_are_checked_when_they_are_made(make: Any, why: str) -> None:
    with pytest.raises(calib8.UsageError, match=why):
        make()


@pytest.mark.parametrize("name", ["ranges", "target", "repair", "task"])
def test_a_request_of_another_kind_is_refused(name: str) -> None:
    with pytest.raises(calib8.UsageError, match=f"{name}: is a Checkpointing"):
        calib8.quantize(network(), PIXELS, preprocess=CENTRED, **{name: calib8.Checkpointing()})


def test_a_keyword_at_its_default_goes_beside_a_request() -> None:
    reading = calib8.Reading(PIXELS, CENTRED, samples=8)
    words: dict[str, Any] = {"samples": None, "threads": 2, "skip_bad": False}
    table = calib8.calibrate(network(), reading, **words, method="minmax").table
    purpose = calib8.Purpose()
    calib8.calibrate(network(), reading, ranges=calib8.RangeChoice("minmax"), task=purpose, branches={})
    assert table.to_json() == calib8.calibrate(network(), reading, method="minmax").table.to_json()


def test_labels_of_a_reading_do_not_matter_where_none_are_taken(tmp_path: Path) -> None:
    reading = calib8.Reading(PIXELS, CENTRED, labels="nowhere.txt", samples=4)
    made = calib8.quantize(network(), replace(reading, labels=None), method="minmax", repair=("none",))
    made.save(tmp_path / "int8.onnx")
    assert calib8.compare(network(), tmp_path / "int8.onnx", reading).images == 4
    with pytest.raises(calib8.UsageError, match=r"nowhere\.txt"):
        calib8.preflight(network(), reading)


def test_a_target_as_a_request_has_its_own_codes() -> None:
    reading = calib8.Reading(PIXELS, CENTRED, samples=4)
    with pytest.raises(calib8.UsageError, match="takes int8-symmetric only"):
        calib8.calibrate(network(), reading, target="tensorrt", method="minmax")
    calib8.calibrate(network(), reading, target=calib8.TargetChoice("tensorrt"), method="minmax")


def test_what_is_not_a_request_is_the_field_it_stands_for() -> None:
    assert requested(calib8.TargetChoice, {"weights": "per-tensor"}, "tflite", field="target") == (
        calib8.TargetChoice("tflite", None, "per-tensor")
    )
    assert requested(calib8.RangeChoice, {"unknown": 1}, None, field="ranges") == calib8.RangeChoice()


def test_a_parameter_wins_over_a_field_of_its_name() -> None:
    @takes_words_of(calib8.TargetChoice, without=("weights",))
    def function(target: int, **words: object) -> tuple[int, dict[str, object]]:
        return target, words

    assert [*inspect.signature(function).parameters] == ["target", "activations", "recurrent"]
    assert function(3, activations="int8") == (3, {"activations": "int8"})
    with pytest.raises(TypeError, match="weights"):
        function(3, weights="per-tensor")


@pytest.mark.parametrize("effort", [["--effort", "fast"], ["--repair", "cle,bias"]])
def test_the_command_opens_the_model_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effort: list[str]
) -> None:
    model, data, opened, read = tmp_path / "net.onnx", tmp_path / "data.npz", [], load._read
    onnx.save(network(), model)
    np.savez(data, **PIXELS)
    monkeypatch.setattr(load, "_read", lambda source: opened.append(source) or read(source))
    words = ["quantize", model, "-o", tmp_path / "int8.onnx", "--data", data, "--size", "8,8", *effort]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    assert opened == [model]


def test_a_loaded_graph_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(network(), path)
    loaded = load.load_model(path)
    assert load.load_model(loaded) is loaded
    with pytest.raises(calib8.UsageError, match="was not loaded by calib8"):
        load.load_model(loaded.clone())
    monkeypatch.setattr(load, "MOST_KEPT", 10)
    assert load.kept_open(path) == path and load.kept_open(loaded) is loaded
    with pytest.raises(calib8.UsageError, match=r"net\.onnx"), load.naming_file(loaded):
        raise calib8.UsageError(loaded.graph.name, "is odd", "Mend it")
