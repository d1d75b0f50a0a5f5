"""Parts of outputs that the user names: read as that by the judges, or refused; never passed over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import detector_outputs as written
import numpy as np
import onnx
import pytest
from detector_outputs import SIZE
from heads import yolo5
from test_detection_places import Given, finds_the_objects, maps_of_bins, meaning

import calib8
from calib8.errors import UsageError
from calib8.tasks.branches import Meaning
from calib8.tasks.judges.find import find_judge
from calib8.tasks.judges.find_detection_head import find_detection_head
from calib8.tasks.meaning import meaning_of
from small_models import normal, onnx_model


def said(*given: Given) -> Meaning:
    """Parts that the user named."""
    told = meaning(*given)
    return replace(told, said=tuple((piece, one.kind) for one in told.branches for piece in one.pieces))


def head_of(detector: written.Written, *given: Given) -> Any:
    return find_detection_head(detector.names, detector.outputs, SIZE, said(*given))


def test_boxes_and_scores_that_are_exchanged() -> None:
    detector = written.ultra_face()
    scores, boxes = detector.names
    right: tuple[Given, ...] = (("scores", scores, 0, None, 0, 0), ("boxes", boxes, 1, None, 0, 0))
    finds_the_objects(detector.outputs, head_of(detector, *right), kinds=[0, 0, 0])
    with pytest.raises(UsageError, match=f"branches={{'{scores}': 'boxes'}}: can only be read as scores"):
        head_of(detector, ("boxes", scores, 0, None, 0, 0), ("scores", boxes, 1, None, 0, 0))


def test_a_background_is_no_score() -> None:
    """Where the rest of an output that was named in part are scores too."""
    detector = written.ultra_face()
    scores, boxes = detector.names
    box: Given = ("boxes", boxes, 1, None, 0, 0)
    whole = meaning(("scores", scores, 0, 2, 0, 2), box)
    for first, right in ((0, False), (1, True)):
        [part] = meaning(("scores", scores, 0, 2, first, first + 1)).branches[0].pieces
        named = replace(whole, said=((part, "scores"),))
        if right:
            head = find_detection_head(detector.names, detector.outputs, SIZE, named)
            finds_the_objects(detector.outputs, head, kinds=[0, 0, 0])
        else:
            with pytest.raises(UsageError, match="is not read by the judge of boxes"):
                find_detection_head(detector.names, detector.outputs, SIZE, named)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((("scores", "output0", 0, 1, 0, 4), ("boxes", "output0", 0, 1, 4, 8)), "read as boxes"),
        ((("boxes", "output0", 0, 1, 0, 4), ("unused", "output0", 0, 1, 4, 9)), "read as scores"),
    ],
)
def test_parts_of_one_output(given: tuple[Given, ...], why: str) -> None:
    """Exchanged, and scores that do not count."""
    detector = written.yolov8()
    with pytest.raises(UsageError, match=why):
        head_of(detector, *given)
    right: tuple[Given, ...] = (("boxes", "output0", 0, 1, 0, 4), ("scores", "output0", 0, 1, 4, 9))
    finds_the_objects(detector.outputs, head_of(detector, *right))
    finds_the_objects(detector.outputs, head_of(detector, right[0]))


@pytest.mark.parametrize("name", ["blaze_face", "scrfd", "listed", "pico_det_maps", "yolox"])
def test_what_shapes_show_is_no_contradiction(name: str) -> None:
    """Names that agree with what is read without them, for every layout."""
    detector: written.Written = getattr(written, name)()
    plain = find_detection_head(detector.names, detector.outputs, SIZE)
    index = {"pair": 0, "listed": 0, "levels": len(plain.outputs) // 2}.get(plain.layout, 0)
    box = plain.outputs[index]
    given: Given = ("boxes", detector.names[box], box, None, 0, 0)
    if plain.layout in ("rows", "columns"):
        given = ("boxes", detector.names[box], box, 2 if plain.layout == "rows" else 1, 0, 4)
    assert repr(head_of(detector, given)) == repr(plain)
    with pytest.raises(UsageError, match=r"can only be read as boxes|is not read"):
        head_of(detector, ("scores", *given[1:]))


def test_maps_that_hold_both() -> None:
    outputs, given = maps_of_bins(), list[Given]()
    for index, name in enumerate(("p3", "p4", "p5", "p6")):
        given += [("boxes", name, index, 1, 0, 32), ("scores", name, index, 1, 32, 37)]
    finds_the_objects(outputs, find_detection_head(("p3", "p4", "p5", "p6"), outputs, SIZE, said(*given)))


def test_what_the_user_says_is_kept() -> None:
    """Of the graph nothing is said."""
    model = yolo5()
    [name] = [output.name for output in model.graph.outputs]
    assert meaning_of(model).said == ()
    named = meaning_of(model, branches={f"{name}[:,:,0:4]": "boxes"})
    assert [(str(piece), kind) for piece, kind in named.said] == [(f"{name}[:,:,0:4]", "boxes")]


@pytest.mark.parametrize(
    ("task", "kind", "shape"),
    [
        ("segment", "map", (1, 4, 32, 32)),
        ("embed", "embedding", (1, 64)),
        ("classify", "logits", (1, 9)),
        ("keypoints", "keypoints", (1, 17, 2)),
    ],
)
def test_judges_that_read_whole_outputs(task: str, kind: Any, shape: tuple[int, ...]) -> None:
    outputs, fed = [normal(*shape)], {"x": np.zeros((1, 3, 64, 64), np.float32)}
    find_judge(task, ["y"], outputs, fed, said((kind, "y", 0, None, 0, 0)))
    with pytest.raises(UsageError, match=rf"'y\[:,0:2\]'.*is a part, and the judge of task='{task}' reads"):
        find_judge(task, ["y"], outputs, fed, said((kind, "y", 0, 1, 0, 2)))


def test_evaluate_refuses_what_it_cannot_keep(tmp_path: Any) -> None:
    body = "a = Conv(x, w) s = Sigmoid(a) y = Concat<axis = 1>(a, s) z = Flatten(y)"
    model = onnx_model("float[1,3,2,2] x", "float[1,32] z", body, {"w": normal(4, 3, 1, 1)})
    onnx.save(model, tmp_path / "a.onnx")
    pair, data = [tmp_path / "a.onnx"] * 2, {"x": normal(24, 3, 2, 2)}
    whole = calib8.evaluate(pair, data, task="classify", branches={"z": "logits"}, threads=1)
    assert whole[1].task is not None and whole[1].task.against_float == {"agreement": 1.0}
    branches = {"z[0:16]": "logits", "z[16:32]": "unused"}
    with pytest.raises(UsageError, match="is a part, and the judge of task='classify' reads whole outputs"):
        calib8.evaluate(pair, data, task="classify", branches=branches, threads=1)
