"""Outputs that are the same for every sample: nothing is proved by what INT8 keeps of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calib8
from calib8.errors import UsageError
from calib8.tasks.branches import Branch, Meaning, Piece
from calib8.tasks.judges.find import find_judge
from calib8.tasks.judges.masks import MaskJudge
from calib8.tasks.kinds import Kind
from calib8.tasks.task_verdicts import task_verdicts
from calib8.tasks.unvarying import SAME, Varying, is_unvarying
from calib8.tasks.verdict import verdict_of, with_agreement
from small_models import normal, onnx_model

FED = {"x": np.zeros((1, 3, 32, 32), np.float32)}


def test_what_is_the_same() -> None:
    one, other = normal(1, 5), normal(1, 5, seed=1)
    assert is_unvarying([[one], [one], [one]]) and not is_unvarying([[one], [one], [other]])
    assert not is_unvarying([[one]]), "one sample tells nothing"
    assert is_unvarying([[np.repeat(one, 4, axis=0)]]) and not is_unvarying([[np.concatenate([one, other])]])
    assert is_unvarying([[np.repeat(one, 4, axis=0)], [np.repeat(one, 2, axis=0)]]), "the last batch is less"
    assert not is_unvarying([[one, one], [one, other]]), "two arrays, of which one varies"
    assert not is_unvarying([[np.zeros((0, 4))], [np.zeros((0, 4))]]), "nothing was found"
    assert not is_unvarying([[one * np.nan], [one * np.nan]]) and not is_unvarying([])
    for samples, never in (([one], False), ([one, one], True), ([one, other, one], False)):
        varying = Varying()
        for sample in samples:
            varying.add([sample])
        assert varying.never is never


KINDS: dict[Kind, tuple[int, ...]] = {
    "logits": (1, 7), "embedding": (1, 64), "ctc": (1, 12, 9), "map": (1, 3, 32, 32), "other": (1, 3),
    "keypoints": (1, 17, 2),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_verdict_of_what_never_changes(kind: Kind) -> None:
    """Kept: not judged; lost: that is seen. The best classes of all samples change nothing."""
    meaning = Meaning((Branch(kind, kind, (Piece("y", 0),), "sure", ""),))
    real = [[normal(*KINDS[kind], seed=3)] for _ in range(30)]
    tasks = task_verdicts(meaning, ["y"], real, real, [FED] * 30)
    verdict = verdict_of(meaning, real, real, tasks)
    assert (
        tasks == () and verdict.state == "unknown" and verdict.text.startswith(f"not judged: {kind}: {SAME}")
    )
    assert with_agreement(verdict, 1.0, 300) == verdict and verdict.samples_needed is None
    ruined = [[-array for array in one] for one in real]
    tasks = task_verdicts(meaning, ["y"], real, ruined, [FED] * 30)
    assert verdict_of(meaning, real, ruined, tasks).state == "ruined"
    varied = [[array + k for array in one] for k, one in enumerate(real)]
    assert verdict_of(
        meaning, varied, varied, task_verdicts(meaning, ["y"], varied, varied, [FED] * 30)
    ).state == ("kept")


def dead(path: Path) -> list[Path]:
    """A classifier whose weights of the last layer are 0, twice."""
    body = "c = Conv(x, w) g = GlobalAveragePool(c) f = Flatten(g) y = Gemm(f, v, b)"
    model = onnx_model(
        "float[N,3,8,8] x", "float[N,7] y", body,
        {"w": normal(4, 3, 3, 3), "v": np.zeros((4, 7), np.float32), "b": normal(7)},
    )  # fmt: skip
    onnx.save(model, path / "dead.onnx")
    return [path / "dead.onnx"] * 2


DATA = {"x": normal(60, 3, 8, 8, seed=5)}


@pytest.mark.parametrize("task", [None, "classify", "embed"])
def test_evaluate_says_that_nothing_is_proved(tmp_path: Path, task: str | None) -> None:
    words: dict[str, Any] = {} if task is None else {"task": task}
    first, second = calib8.evaluate(dead(tmp_path), DATA, threads=1, **words)
    assert second.verdict is not None and second.verdict.state == "unknown" and SAME in second.verdict.text
    if task is not None:
        assert second.task is not None and second.task.against_float == {}
        [warning] = first.warnings
        assert warning.startswith(
            "its outputs are the same for all 60 samples: they do not depend on the data"
        )


def test_quantize_says_it_too(tmp_path: Path) -> None:
    made = calib8.quantize(dead(tmp_path)[0], DATA["x"], effort="fast", threads=1)
    assert made.verdict is not None and made.verdict.text.startswith(f"not judged: logits: {SAME}")


@pytest.mark.parametrize("promise", [{"min_agreement": 99.0}, {"min_sqnr": 20.0}, {"min_cosine": 0.9}])
def test_tune_takes_it_for_no_promise(tmp_path: Path, promise: dict[str, float]) -> None:
    [name] = promise
    why = f"{name}=.*: proves nothing: FP32's outputs are the same for all 30 samples that judge"
    with pytest.raises(UsageError, match=why):
        calib8.tune(dead(tmp_path)[0], DATA["x"], tmp_path / "out.onnx", effort="fast", threads=1, **promise)  # type: ignore[arg-type]
    assert not (tmp_path / "out.onnx").exists()


def test_a_table_of_boxes_is_no_map() -> None:
    """Rows of four numbers have not the proportion of a picture; maps that are coarse do."""
    for shape in ((1, 1024, 4), (1, 8400, 6), (1, 4, 1024), (1, 1, 1024, 4)):
        with pytest.raises(UsageError, match="none has scores of pixels"):
            find_judge("segment", ["boxes"], [normal(*shape)], FED)
    for shape in ((1, 32, 32), (1, 8, 16), (1, 1, 8, 8), (1, 3, 40, 20), (1, 32, 32, 3)):
        assert isinstance(find_judge("segment", ["m"], [normal(*shape)], FED), MaskJudge)
