"""What users say of outputs wins, and what makes no sense is refused with what would."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from heads import head, yolo5, yolo8
from test_meaning import told

from calib8.errors import UsageError
from calib8.tasks.meaning import meaning_of
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
        ({"y[-1:4]": "boxes"}, "'-1:4' is no part"),
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
        "--task detect: no output fits it; the model has y [N, 9, 2, 2]. Name boxes and scores, such as "
        "--branch 'NAME[0:4]=boxes' --branch 'NAME[4:84]=scores'."
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


def test_options_are_parsed() -> None:
    assert parse_branches(["a=boxes", "b[4:84] = scores"]) == {"a": "boxes", "b[4:84]": "scores"}
    for text, problem in (("a", "names no kind"), ("=boxes", "names no kind")):
        with pytest.raises(UsageError, match=problem):
            parse_branches([text])
    with pytest.raises(UsageError, match="named twice"):
        parse_branches(["a=boxes", "a=scores"])
