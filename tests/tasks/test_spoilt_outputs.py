"""Outputs that are not finite, empty or of any shape: figures or an error of calib8, never a crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import detector_outputs
import numpy as np
import pytest
from detector_outputs import SIZE, Written

from calib8.errors import Calib8Error, UsageError
from calib8.tasks.judges.find import find_judge
from calib8.tasks.judges.interface import TASKS

FEEDS = {"x": np.zeros((1, 3, *SIZE), np.float32)}
VALUES = (np.nan, np.inf, -np.inf, 0.0, 3e38)

FORMS: list[Callable[[], Written]] = [
    one
    for one in vars(detector_outputs).values()
    if getattr(one, "__annotations__", {}).get("return") == "Written"
]
SHAPES = {
    "segment": [(1, 4, 8, 8), (1, 1, 8, 8), (1, 8, 8), (1, 8, 8, 3)],
    "embed": [(1, 16), (1, 16, 1, 1)],
    "ctc": [(1, 9, 5), (9, 1, 5)],
    "keypoints": [(1, 212), (1, 56, 126), (1, 7, 16, 24), (1, 17, 3)],
    "classify": [(1, 10)],
}


def spoilt(outputs: Any) -> Any:
    """With every value, and with one in three of them, in place of the outputs' own."""
    for value in VALUES:
        yield [np.full_like(array, value) for array in outputs]
        some = [array.copy() for array in outputs]
        for array in some:
            array.reshape(-1)[::3] = value
        yield some


def judged(task: str, names: Any, outputs: Any) -> None:
    judge = find_judge(task, names, outputs, FEEDS)
    truth = judge.as_truth(judge.read(list(outputs), "a"))
    for broken in spoilt(outputs):
        figures = judge.figures([judge.compare(judge.read(broken, "a"), truth)])
        assert all(np.isfinite(value) for value in figures.values())
        try:
            find_judge(task, names, broken, FEEDS)
        except UsageError:
            continue


@pytest.mark.parametrize("write", FORMS)
def test_detectors(write: Callable[[], Written]) -> None:
    written = write()
    judged("detect", written.names, written.outputs)


def test_there_are_forms() -> None:
    assert len(FORMS) >= 15


@pytest.mark.parametrize("task", SHAPES)
def test_other_tasks(task: str) -> None:
    for shape in SHAPES[task]:
        output = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        if task == "ctc":
            output[..., 0] += 3
        judged(task, ["y"], [output])


@pytest.mark.parametrize("task", TASKS)
def test_outputs_of_any_shape(task: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        count = int(rng.integers(1, 4))
        arrays = [rng.normal(size=tuple(rng.integers(0, 9, int(rng.integers(0, 5))))) for _ in range(count)]
        outputs = [
            np.asarray(array[None] if rng.random() < 0.6 else array, rng.choice(["float32", "int64"]))
            for array in arrays
        ]
        try:
            judge = find_judge(task, [f"o{index}" for index in range(count)], outputs, FEEDS)
            answer = judge.read(outputs, "a")
            judge.figures([judge.compare(answer, judge.as_truth(answer))])
        except Calib8Error:
            continue


@pytest.mark.parametrize(
    ("value", "why"), [(np.zeros((1, 0)), "is empty"), (np.full((1, 9), np.nan), "is not finite")]
)
def test_outputs_that_tell_nothing(value: Any, why: str) -> None:
    with pytest.raises(UsageError, match=f"output y {why} for the first sample"):
        find_judge("embed", ["y"], [value], FEEDS)
