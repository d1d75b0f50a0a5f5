"""The first look runs the float model where labels let it tell something, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from calib8 import judge
from small_models import normal, onnx_model

MODEL = onnx_model("float[N,4] x", "float[N,3] y", "y = MatMul(x, w)", {"w": normal(4, 3)})


def samples(labelled: bool) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {"x": normal(6, 4, seed=1)}
    if labelled:
        scores = arrays["x"] @ normal(4, 3)
        arrays["labels"] = np.where(np.arange(6) < 3, scores.argmax(axis=1), scores.argmin(axis=1))
    return arrays


def test_with_labels_the_model_is_judged() -> None:
    seen = judge.preflight(MODEL, samples(labelled=True))
    assert seen.images == 6
    assert seen.evaluation is not None and seen.evaluation.top1 == 0.5


def test_without_labels_no_session_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(*_: object, **__: object) -> None:
        raise AssertionError("the model was opened")

    monkeypatch.setattr(judge, "open_session", unexpected)
    seen = judge.preflight(MODEL, samples(labelled=False))
    assert (seen.images, seen.evaluation) == (6, None)
    assert seen.inputs[0].rows == 6
    with pytest.raises(AssertionError, match="was opened"):
        judge.preflight(MODEL, samples(labelled=True))


def test_a_model_that_guesses_is_warned_of() -> None:
    arrays = {"x": normal(40, 4, seed=1)}
    scores = arrays["x"] @ normal(4, 3)
    wrong = judge.preflight(MODEL, {**arrays, "labels": scores.argmin(axis=1)})
    [warning] = wrong.warnings
    assert warning.startswith("FP32 is right on 0.00 % of these samples: preprocessing or labels do not fit")
    right = judge.preflight(MODEL, {**arrays, "labels": scores.argmax(axis=1)})
    assert right.warnings == () and right.evaluation is not None and right.evaluation.top1 == 1.0
    few = [
        ({"x": row[None]}, int(label) if index < 4 else None)
        for index, (row, label) in enumerate(zip(arrays["x"], scores.argmin(axis=1), strict=True))
    ]
    assert judge.preflight(MODEL, few).warnings == ()
