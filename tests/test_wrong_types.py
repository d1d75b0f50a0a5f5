"""Values of wrong types, for every parameter of every public function: refused in plain words, by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.distributed.choice import ClusterChoice
from calib8.requests import Request
from calib8.requests.given_types import fitted
from small_models import onnx_model

X = np.random.default_rng(5).normal(size=(6, 3, 8, 8)).astype(np.float32)

FUNCTIONS = [
    value
    for name in calib8.__all__
    if inspect.isfunction(value := getattr(calib8, name)) and inspect.signature(value).parameters
]

REQUESTS = (
    ClusterChoice,
    *(
        value
        for name in calib8.__all__
        if isinstance(value := getattr(calib8, name), type) and issubclass(value, Request)
    ),
)

ANYTHING = {
    ("log_run", "fp32"): "of an evaluation the float model is known",
    ("write_report", "fp32"): "of an evaluation the float model is known",
}
"""Parameters that are not looked at in this call, and why; example inputs are of any type."""

OTHERWISE = {
    ("tune", "judge_data"): "source of samples",
    ("merge_statistics", "parts"): "not a list",
    ("write_report", "path"): "not a path",
}
"""What is said where the name of the parameter is not: a word of the message."""


class Odd:
    """Of no use anywhere."""

    def __repr__(self) -> str:
        return "<odd>"


def network() -> onnx.ModelProto:
    weight = np.random.default_rng(3).normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    return onnx_model("float[N,3,8,8] x", "float[N,4,6,6] y", "c = Conv(x, w) y = Relu(c)", {"w": weight})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Right values for what a call cannot do without."""
    folder = tmp_path_factory.mktemp("models")
    model, int8, table = folder / "fp32.onnx", folder / "int8.onnx", folder / "table.json"
    onnx.save(network(), model)
    made = calib8.quantize(model, X, method="minmax", repair=("none",))
    made.save(int8)
    made.table.save(table)
    return {
        "model": model, "fp32": model, "int8": int8, "models": [model, int8], "data": X, "table": table,
        "path": table, "output": folder / "out.onnx", "target": "onnxruntime", "to": "qoperator",
        "result": calib8.evaluate([model, int8], X),
        "parts": (calib8.collect_statistics(model, X).statistics,) * 2,
    }  # fmt: skip


def call_of(function: Any, files: Mapping[str, Any], name: str, value: object) -> dict[str, Any]:
    """A call with one value that is not what is wanted."""
    seen = inspect.signature(function).parameters.values()
    needed = {one.name: files[one.name] for one in seen if one.default is one.empty and one.name in files}
    return {**needed, **extra(function.__name__, files), name: value}


def extra(function: str, files: Mapping[str, Any]) -> dict[str, Any]:
    """Values that some functions need besides."""
    own = {
        "calibrate": {"data": X},
        "compile": {"model": files["int8"], "output": files["output"].with_suffix(".c8")},
        "convert_table": {"output": files["output"].with_suffix(".table"), "to": "tensorrt"},
        "diagnose": {"int8": files["int8"], "data": X},
        "export": {"model": files["int8"]},
        "inspect": {"data": X},
        "lint": {"model": files["int8"]},
        "log_run": {"to": f"tensorboard:{files['output'].parent}", "data": X},
        "quantize": {"data": X},
        "tune": {"min_agreement": 50.0},
        "view": {"path": files["output"].parent, "browser": False},
        "write_report": {"path": files["output"].with_suffix(".html"), "data": X},
    }
    return own.get(function, {})


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_parameter_is_refused_by_name(function: Any, files: Mapping[str, Any]) -> None:
    told = []
    for name in inspect.signature(function).parameters:
        if name == "example_inputs" or (function.__name__, name) in ANYTHING:
            continue
        try:
            function(**call_of(function, files, name, Odd()))
            told.append(f"{name}: nothing")
        except calib8.Calib8Error as error:
            text = str(error)
            if name not in text and OTHERWISE.get((function.__name__, name), "\0") not in text:
                told.append(f"{name}: {text}")
        except Exception as error:
            told.append(f"{name}: {type(error).__name__}: {error}")
    assert not told


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_request_is_refused_by_name(kind: Any) -> None:
    told = []
    for one in fields(kind):
        if (kind, one.name) == (calib8.Reading, "data"):
            continue  # told where they are opened
        others = {"min_agreement": 99.0} if kind is calib8.Promises and one.name != "min_agreement" else {}
        others |= {"checkpoint": "a.part"} if one.name == "checkpoint_every" else {}
        for odd in (Odd(), [Odd()], {1: Odd()}):
            try:
                kind(**{**others, one.name: odd})
                told.append(f"{one.name}: nothing for {odd}")
            except calib8.UsageError as error:
                if one.name not in str(error):
                    told.append(f"{one.name}: {error}")
    assert not told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"samples": "5"}, "samples: is of type str ('5'), not a whole number. "
         "Give a whole number, such as samples=5."),
        ({"samples": 2.5}, "samples: is of type float (2.5), not a whole number"),
        ({"samples": True}, "samples: is of type bool (True), not a whole number"),
        ({"batch": "x"}, "batch: is of type str ('x')"),
        ({"batch": 2.5}, "batch: is of type float"),
        ({"threads": "2"}, "such as threads=2."),
        ({"threads": 1.5}, "threads: is of type float"),
        ({"threads": None}, "threads: is of type NoneType"),
        ({"skip_bad": "no"}, "skip_bad: is of type str ('no'), not True or False. "
         "Give True or False, such as skip_bad=True."),
        ({"power_of_two": "x"}, "power_of_two: is of type str"),
        ({"input_map": "input"}, "input_map: is of type str ('input'), not a mapping. "
         "Give a mapping, such as input_map={'NAME': '…'}."),
        ({"input_map": ["input"]}, "input_map: is of type list"),
        ({"input_map": 5}, "input_map: is of type int"),
        ({"input_map": {"x": 1.5}}, "input_map['x']: is of type float (1.5), not a text or a whole number"),
        ({"percent": "99", "method": "percentile"}, "such as percent=99.0."),
        ({"decay": "a", "method": "ema"}, "decay: is of type str ('a'), not a number"),
        ({"repair": 5}, "repair: is of type int (5), not a list or a RepairChoice"),
        ({"repair": "biass"}, "repair=['biass']: unknown repair"),
        ({"keep_float": 5}, "keep_float: is of type int (5), not a list. "
         "Give a list, such as keep_float=['NAME']."),
        ({"keep_float": "nowhere"}, "nowhere"),
        ({"keep_float": {"a": 1}}, "keep_float: is of type dict"),
        ({"spots": 5}, "spots: is of type int"),
        ({"spots": [5]}, "spots: holds a value that is of type int (5), not"),
        ({"effort": ["best"]}, "effort: is of type list"),
        ({"branches": 5}, "branches: is of type int"),
        ({"branches": {"y": 5}}, "branches['y']: is of type int (5), not a text"),
        ({"target": 5}, "target: is of type int"),
        ({"activations": b"int8"}, "activations: is of type bytes"),
        ({"shapes": {"x": "1x3x8x8"}}, "shapes['x']: is of type str"),
    ],
    ids=str,
)  # fmt: skip
def test_quantize_says_what_came_and_what_was_expected(words: dict[str, Any], told: str) -> None:
    with pytest.raises(calib8.UsageError) as caught:
        calib8.quantize(network(), X, **{"method": "minmax", **words})
    assert told in str(caught.value)


@pytest.mark.parametrize("models", [5, {"a": "m.onnx", "b": "n.onnx"}, None], ids=str)
def test_evaluate_takes_a_list_of_models(models: Any) -> None:
    with pytest.raises(
        calib8.UsageError, match=r"models: is of type .*Give a list of paths, such as models="
    ):
        calib8.evaluate(models, X)


@pytest.mark.parametrize(
    "words", [{"min_agreement": "99"}, {"min_sqnr": "a"}, {"measure_latency": "no"}, {"budget": ["9m"]}]
)
def test_tune_says_what_came(words: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(calib8.UsageError, match=f"{next(iter(words))}: is of type (str|list)"):
        calib8.tune(network(), X, tmp_path / "out.onnx", **{"min_agreement": None, **words})
    assert not [*tmp_path.iterdir()]


def test_a_session_says_what_came(files: Mapping[str, Any]) -> None:
    for words in ({"threads": "2"}, {"pin": "no"}, {"shapes": 5}, {"outputs": 5}, {"isa": 5}, {"profile": 5}):
        with pytest.raises(calib8.UsageError, match=next(iter(words))):
            calib8.InferenceSession(files["int8"], **words)


def test_numbers_of_numpy_are_numbers() -> None:
    reading = calib8.Reading(X, samples=np.int64(5), threads=np.uint8(1), skip_bad=np.bool_(True))
    assert (type(reading.samples), type(reading.threads), reading.skip_bad) == (int, int, True)
    choice = calib8.RangeChoice("ema", decay=np.float32(0.5))
    assert type(choice.decay) is float and choice.decay == 0.5
    assert calib8.Promises(min_sqnr=np.int32(20)).promise().value == 20
    with pytest.raises(calib8.UsageError, match="samples: is of type bool"):
        calib8.Reading(X, samples=np.bool_(True))


def test_one_name_alone_is_a_list_of_it() -> None:
    assert calib8.RepairChoice(repair="bias").repair == ("bias",)  # type: ignore[arg-type]
    by_name = calib8.quantize(network(), X, method="minmax", repair="bias", ranges={"y": (0, 3)})
    by_list = calib8.quantize(network(), X, method="minmax", repair=["bias"], ranges={"y": (0, 3)})
    assert by_name.table.to_json() == by_list.table.to_json()
    assert calib8.RepairChoice(keep_float=np.array(["c"])).keep_float == ("c",)  # type: ignore[arg-type]


def test_annotations_are_read_as_they_are_written() -> None:
    names = {"Names": "Mapping[str, int | str]", "Later": 3}
    for value, annotation, taken in (
        ((1, 2), "tuple[int, int] | None", (1, 2)),
        ([1, 2], "tuple[int, int]", (1, 2)),
        (None, "Names | None", None),
        (7, "Known | None", 7),
        (5, "float", 5),
        (len, "Callable[[int], int]", len),
    ):
        assert fitted("x", value, annotation, names) == taken
    for value, annotation in (
        ((1, 2, 3), "tuple[int, int]"),
        (None, "int"),
        ({"a": 1.5}, "Names"),
        (3, "str"),
    ):
        with pytest.raises(calib8.UsageError, match=r"^x"):
            fitted("x", value, annotation, names)
