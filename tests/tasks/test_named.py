"""What users say of outputs wins, and what makes no sense is refused with what would."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from heads import head, yolo5, yolo8
from test_meaning import told

from calib8.errors import UsageError
from calib8.tasks.judges.ctc import CtcJudge
from calib8.tasks.meaning import judged_meaning, meaning_of
from calib8.tasks.named import parse_branches
from small_models import normal


def grid() -> ir.Model:
    """A head whose decoding nobody knows."""
    return head(
        "float[N,3,4,4] p",
        "float[N,9,2,2] y",
        "c = Conv(p, nine) y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(c)",
    )


@pytest.mark.parametrize(
    ("branches", "expected"),
    [
        ({"y": "other"}, "other y"),
        ({"y[4:9]": "objectness"}, "boxes y[:,0:4], objectness y[:,4:9], scores y[:,9:13]"),
        ({"y[:,4:9]": "objectness"}, "boxes y[:,0:4], objectness y[:,4:9], scores y[:,9:13]"),
        ({"y[12]": "unused"}, "boxes y[:,0:4], scores y[:,4:12], unused y[:,12:13]"),
        ({"y[:2]": "keypoints", "y[2:4]": "boxes"}, "keypoints y[:,0:2], boxes y[:,2:4], scores y[:,4:13]"),
        ({"y[:,:,0:5]": "boxes"}, "boxes y[:,:,0:5], other y[:,:,5:20]"),
    ],
)  # fmt: skip
def test_names_win(branches: dict[str, str], expected: str) -> None:
    assert told(meaning_of(yolo8(), branches=branches)) == expected


@pytest.mark.parametrize(
    ("branches", "problem"),
    [
        ({"z": "boxes"}, "no float output 'z'. It has y [N, 13, 20]"),
        ({"z[0:4]": "boxes"}, "no float output 'z'"),
        ({"y": "cats"}, "unknown kind of output 'cats'. Use one of boxes, scores"),
        ({"y[4:4]": "boxes"}, "is empty"),
        ({"y[5:4]": "boxes"}, "is empty"),
        ({"y[0:14]": "boxes"}, "beyond the 13 entries of axis 1"),
        ({"y[-1:4]": "boxes"}, "'-1:4' is not a part"),
        ({"y[0:5]": "boxes", "y[4:9]": "scores"}, "overlap"),
        ({"y": "boxes", "y[4:9]": "scores"}, "overlap"),
        ({"y[:,0:4]": "boxes", "y[:,:,0:4]": "scores"}, "cut along different axes"),
        ({"y[0:1,0:4]": "boxes"}, "must cut one axis"),
    ],
)
def test_names_that_make_no_sense_are_refused(branches: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        meaning_of(yolo8(), branches=branches)
    assert problem in str(refused.value)


def test_a_task_that_the_outputs_do_not_fit_is_refused_with_what_it_needs() -> None:
    with pytest.raises(UsageError) as refused:
        meaning_of(grid(), task="detect")
    assert str(refused.value) == (
        "task='detect': no output fits it; the model has y [N, 9, 2, 2]. Name boxes and scores, such as "
        "branches={'NAME[0:4]': 'boxes', 'NAME[4:84]': 'scores'}, or the form of a raw grid of anchors, "
        "such as branches={'NAME': 'yolov3-grid'}."
    )
    named = meaning_of(grid(), task="detect", branches={"y[0:4]": "boxes", "y[4:9]": "scores"})
    assert told(named) == "boxes y[:,0:4], scores y[:,4:9]" and named.task == "detect"
    with pytest.raises(UsageError, match="unknown task"):
        meaning_of(grid(), task="paint")
    with pytest.raises(UsageError, match="no output fits it"):
        meaning_of(yolo5(), task="embed")


@pytest.mark.parametrize(
    ("task", "kind"), [("classify", "logits"), ("embed", "embedding"), ("keypoints", "keypoints")]
)
def test_a_task_decides_where_the_graph_leaves_it_open(task: str, kind: str) -> None:
    net = head("float[N,3,4,4] p", "float[N,64] y", "f = GlobalAveragePool(p) v = Flatten(f) y = Gemm(v, w)",
               {"w": normal(3, 64)})  # fmt: skip
    found = meaning_of(net, task=task)
    assert told(found) == f"{kind} y" and found.named


def heat(sizes: str, extra: str = "") -> ir.Model:
    """A map of each of nine points, of which the graph shows nothing, and coordinates beside it."""
    body = "y = Conv(p, nine)" + " f = GlobalAveragePool(p) v = Flatten(f) c = Gemm(v, w)" * bool(extra)
    return head(f"float[N,3,{sizes}] p", f"float[N,9,{sizes}] y{extra}", body, {"w": normal(3, 14)})


def test_maps_of_points_are_points_where_the_task_says_so() -> None:
    """By the graph alone, as in ``quantize``, and before a judge reads them, as in ``evaluate``."""
    assert told(meaning_of(heat("12,16"))) == "map y"
    for read in (meaning_of(heat("12,16"), task="keypoints"), judged_meaning(heat("12,16"), "keypoints")):
        assert told(read) == "keypoints y" and read.named
    with pytest.raises(UsageError, match=r"\[N, K, H, W\] of at least 9 rows and columns"):
        meaning_of(heat("8,16"), task="keypoints")
    beside = meaning_of(heat("12,16", ", float[N,14] c"), task="keypoints")
    assert told(beside) == "map y, keypoints c"


FACES = head(
    "float[N,3,4,4] p", "float[N,16,2] scores, float[N,16,4] boxes, float[N,16,10] points",
    """
    c = Conv(p, six) d = Conv(p, box) e = Conv(p, ten)
    cr = Reshape(c, by2) ct = Transpose<perm=[0,2,1]>(cr) ch = Slice(ct, zero, by16, one)
    scores = Softmax<axis=2>(ch)
    dr = Reshape(d, by4) boxes = Transpose<perm=[0,2,1]>(dr)
    er = Reshape(e, by10) points = Transpose<perm=[0,2,1]>(er)
    """,
    {"six": normal(2, 3, 1, 1), "ten": normal(10, 3, 1, 1), "by2": np.int64([0, 2, -1]),
     "by16": np.int64([16]), "by4": np.int64([0, 4, -1]), "by10": np.int64([0, 10, -1])},
)  # fmt: skip
"""Scores by Softmax and boxes, of which the graph is sure, and points, of which it is not."""


@pytest.mark.parametrize("task", ["ctc", "segment", "embed", "classify"])
@pytest.mark.parametrize("judge", [False, True])
def test_what_the_graph_is_sure_of_is_not_read_as_another_task(task: str, judge: bool) -> None:
    ask = judged_meaning if judge else lambda model, name: meaning_of(model, task=name)
    with pytest.raises(UsageError) as refused:
        ask(FACES, task)
    assert "the model has scores [N, 16, 2], boxes [N, 16, 4], points [N, 16, 10]" in str(refused.value)
    assert "its graph shows task detect: scores[:,:,1:2] is scores (Softmax" in str(refused.value)
    assert "Use task='detect'; if the graph is read wrongly, name the" in str(refused.value)


def test_what_the_user_names_wins_over_a_graph_that_is_sure() -> None:
    named = judged_meaning(FACES, "ctc", {"scores": "ctc"})
    assert named.task == "ctc" and told(named).startswith("ctc scores, boxes boxes")
    own = judged_meaning(FACES, CtcJudge())
    assert own.task == "detect" and not own.named


def test_a_judge_has_the_word_where_the_graph_is_not_sure() -> None:
    found = judged_meaning(grid(), "detect")
    assert told(found) == "map y" and found.task == "segment" and not found.named
    with pytest.raises(UsageError, match="no output fits it"):
        judged_meaning(grid(), "detect", {"y[0:4]": "boxes"})


def test_options_are_parsed() -> None:
    assert parse_branches(["a=boxes", "b[4:84] = scores"]) == {"a": "boxes", "b[4:84]": "scores"}
    for text, problem in (("a", "names no kind"), ("=boxes", "names no kind")):
        with pytest.raises(UsageError, match=problem):
            parse_branches([text])
    with pytest.raises(UsageError, match="named twice"):
        parse_branches(["a=boxes", "a=scores"])


def test_a_guess_that_the_task_agrees_with_is_named() -> None:
    """So that a judge reads it; guesses of kinds that the task does not need stay guesses."""
    body = "s = Conv(p, nine) heat = Sigmoid(s) sizes = Conv(p, box) rest = Conv(p, three)"
    outputs = "float[N,9,4,4] heat, float[N,4,4,4] sizes, float[N,3,4,4] rest"
    net = head("float[N,3,4,4] p", outputs, body, {"three": normal(3, 3, 1, 1)})
    guessed, named = meaning_of(net), meaning_of(net, task="detect")
    assert told(guessed) == told(named) == "scores heat, boxes sizes, other rest"
    assert [one.sureness for one in guessed.branches] == ["likely", "guessed", "guessed"]
    assert [one.sureness for one in named.branches] == ["likely", "named", "guessed"]
