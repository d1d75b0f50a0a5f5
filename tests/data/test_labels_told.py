"""Labels that come with samples and are no class numbers: told once, never silently without a top-1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.errors import DataError, UsageError
from small_models import normal, onnx_model

COUNT, CLASSES = 24, 4
VALUES = np.random.default_rng(3).standard_normal((COUNT, 6)).astype(np.float32)
NUMBERS = np.arange(COUNT) % CLASSES
ONE_HOT = np.eye(CLASSES, dtype=np.float32)[NUMBERS]
LEFT_OUT = "labels were found that do not fit and are left out: "


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "net.onnx"
    onnx.save(onnx_model("float[N,6] x", "float[N,4] y", "y = Gemm(x, w)", {"w": normal(6, 4, seed=1)}), path)
    return path


def pairs(labels: Any) -> list[Any]:
    return list(zip(VALUES, labels, strict=True))


TOLD: dict[str, tuple[Callable[[], Any], str]] = {
    "one-hot vectors": (lambda: pairs(ONE_HOT), "those of sample 0 are one-hot vectors, not class numbers"),
    "a batch of them": (lambda: [(VALUES, ONE_HOT)], "those of sample 0 are one-hot vectors"),
    "integers": (lambda: pairs(ONE_HOT.astype(int)), "those of sample 0 are one-hot vectors"),
    "a float": (lambda: [(VALUES[0], 3.5)], "those of sample 0 are float64 numbers such as 3.5, not class"),
    "whole floats": (lambda: [(VALUES, NUMBERS.astype(np.float32))], "are float32 numbers such as 0, not"),
    "two numbers": (lambda: [(VALUES[0], [1, 2])], "sample 0 has 2 labels, not one class number"),
    "a second item": (
        lambda: [(VALUES[0], {"boxes": []}), (VALUES[1], 0.5)],
        "those of sample 1 are float64",
    ),
}
OTHER_TASKS: dict[str, Callable[[], Any]] = {
    "boxes": lambda: [(VALUES, np.full((COUNT, 5), 7.5))],
    "masks": lambda: [(VALUES[0], np.zeros((8, 8), np.int64))],
    "a dictionary": lambda: [(VALUES[0], {"boxes": [[1, 2, 3, 4]]})],
    "nothing": lambda: VALUES,
}


@pytest.mark.parametrize("name", TOLD)
def test_what_is_left_out_is_told_once(name: str, model: Path) -> None:
    make, why = TOLD[name]
    [found] = calib8.evaluate([model], make())
    [warning] = [one for one in found.warnings if one.startswith(LEFT_OUT)]
    assert found.top1 is None and why in warning and "argmax(-1)" in warning
    assert [one for one in calib8.preflight(model, make()).warnings if one.startswith(LEFT_OUT)] == [warning]


@pytest.mark.parametrize("name", OTHER_TASKS)
def test_targets_of_other_tasks_are_no_reason_to_warn(name: str, model: Path) -> None:
    [found] = calib8.evaluate([model], OTHER_TASKS[name]())
    assert found.top1 is None and not [one for one in found.warnings if "labels" in one]


def test_the_cure_of_one_hot_vectors(model: Path) -> None:
    [found] = calib8.evaluate([model], pairs(ONE_HOT), transform=lambda item: (item[0], item[1].argmax(-1)))
    [wanted] = calib8.evaluate([model], pairs(NUMBERS))
    assert found.top1 == wanted.top1 is not None and found.labelled == COUNT


def test_a_promise_about_top1_says_why_there_is_none(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no sample that judges has one .*one-hot vectors"):
        calib8.tune(model, pairs(ONE_HOT), tmp_path / "t.onnx", max_drop=1, effort="fast")


@pytest.mark.parametrize(
    "data",
    [
        [(VALUES[0], 99)],
        [(VALUES, NUMBERS + 99)],
        {"x": VALUES, "labels": NUMBERS + 99},
        [{"x": VALUES[0], "label": 99}],
    ],
)
def test_labels_in_memory_beyond_the_classes_are_refused(data: Any, model: Path) -> None:
    for command in (lambda: calib8.evaluate([model], data), lambda: calib8.preflight(model, data)):
        with pytest.raises(DataError, match="its label 99 is beyond the 4 classes of"):
            command()
