"""Where boxes and scores lie: the head of a detector asks its graph before it looks at shapes."""

from __future__ import annotations

from typing import Any

import detector_outputs as written
import numpy as np
import pytest
from detector_outputs import KINDS, OBJECTS, SCORES, SIZE, one
from heads import yolo5

from calib8.errors import UsageError
from calib8.model.runtime import open_session
from calib8.tasks.branches import Branch, Meaning, Piece
from calib8.tasks.judges.decode_boxes import detections
from calib8.tasks.judges.detection_heads import DetectionHead
from calib8.tasks.judges.detection_places import Shown, told_places
from calib8.tasks.judges.find import find_judge
from calib8.tasks.judges.find_detection_head import find_detection_head
from calib8.tasks.kinds import Kind
from calib8.tasks.meaning import meaning_of
from small_models import normal

Given = tuple[Kind, str, int, int | None, int, int]


def meaning(*given: Given) -> Meaning:
    """Pieces as branches: kind, output, its index, axis, first, last; those of a kind are one branch."""
    kinds = dict.fromkeys(kind for kind, *_ in given)
    return Meaning(
        tuple(
            Branch(kind, kind, tuple(Piece(*rest) for name, *rest in given if name == kind), "sure", "")
            for kind in kinds
        )
    )


def finds_the_objects(outputs: Any, found: DetectionHead, kinds: Any = KINDS) -> None:
    boxes = detections(outputs, found, "a.png")
    sure = boxes.scores > 0.3
    np.testing.assert_allclose(boxes.boxes[sure], OBJECTS, rtol=0, atol=1e-3)
    np.testing.assert_allclose(boxes.scores[sure], SCORES, rtol=0, atol=1e-3)
    assert boxes.classes[sure].tolist() == list(kinds)


def test_rows_of_any_number_with_and_without_objectness() -> None:
    """Shapes do not tell what column 5 is; the graph does."""
    boxes, scores, chosen = written.filled(500, 4)
    thing = np.full((500, 1), 0.0004)
    thing[chosen] = 0.95
    with_thing = [one(np.concatenate([boxes, thing, scores / np.where(thing > 0.5, 0.95, 1)], axis=1))]
    without = [one(np.concatenate([boxes, scores], axis=1))]
    for outputs in (with_thing, without):
        with pytest.raises(UsageError, match="column 5 may be a class"):
            find_detection_head(["y"], outputs, SIZE)
    sure = meaning(("boxes", "y", 0, 2, 0, 4), ("objectness", "y", 0, 2, 4, 5), ("scores", "y", 0, 2, 5, 10))
    finds_the_objects(with_thing, find_detection_head(["y"], with_thing, SIZE, sure))
    plain = meaning(("boxes", "y", 0, 2, 0, 4), ("scores", "y", 0, 2, 4, 9))
    finds_the_objects(without, find_detection_head(["y"], without, SIZE, plain))


def test_more_rows_than_numbers_each_and_the_other_way_round() -> None:
    """Five rows of nine numbers look like columns."""
    boxes, scores, _ = written.filled(5, 4)
    rows = [one(np.concatenate([boxes, scores], axis=1))]
    found = find_detection_head(
        ["y"], rows, SIZE, meaning(("boxes", "y", 0, 2, 0, 4), ("scores", "y", 0, 2, 4, 9))
    )
    assert found.layout == "rows"
    finds_the_objects(rows, found)
    turned = [rows[0].transpose(0, 2, 1)]
    found = find_detection_head(
        ["y"], turned, SIZE, meaning(("boxes", "y", 0, 1, 0, 4), ("scores", "y", 0, 1, 4, 9))
    )
    assert found.layout == "columns"
    finds_the_objects(turned, found)


def test_columns_behind_the_classes_are_left_out() -> None:
    """Coordinates of points, of which shapes say nothing."""
    boxes, scores, _ = written.filled(200, 4)
    points = np.full((200, 6), 0.99)
    outputs = [one(np.concatenate([boxes, scores, points], axis=1).T)]
    given = meaning(("boxes", "y", 0, 1, 0, 4), ("scores", "y", 0, 1, 4, 9), ("keypoints", "y", 0, 1, 9, 15))
    finds_the_objects(outputs, find_detection_head(["y"], outputs, SIZE, given))


def test_outputs_by_their_kind_and_the_background_by_its_place() -> None:
    """Boxes with any name, behind others of four columns; the background is the last column."""
    names, (scores, boxes) = ("a", "b", "c"), written.ultra_face().outputs
    outputs = [boxes[:, ::-1] * 0.5, scores[:, :, ::-1].copy(), boxes]
    given = meaning(
        ("other", "a", 0, None, 0, 0), ("scores", "b", 1, 2, 0, 1), ("unused", "b", 1, 2, 1, 2),
        ("boxes", "c", 2, None, 0, 0),
    )  # fmt: skip
    found = find_detection_head(names, outputs, SIZE, given)
    assert found.outputs == (2, 1) and found.background == -1
    finds_the_objects(outputs, found, kinds=[0, 0, 0])


def maps_of_bins() -> list[Any]:
    """One map per stride: 4 × 8 bins of distances in front of the classes, as ``pico_det`` has them apart."""
    parts = written.pico_det_maps().outputs
    return [np.concatenate([parts[4 + level], parts[level]], axis=1) for level in range(4)]


def test_maps_of_bins_are_decoded() -> None:
    outputs, names = maps_of_bins(), ("p3", "p4", "p5", "p6")
    with pytest.raises(UsageError, match="no decoding of boxes is known"):
        find_detection_head(names, outputs, SIZE)
    given: list[Given] = []
    for index, name in enumerate(names):
        given += [("boxes", name, index, 1, 0, 32), ("scores", name, index, 1, 32, 37)]
    found = find_detection_head(names, outputs, SIZE, meaning(*given))
    assert (found.layout, found.bins, found.scores) == ("maps", 8, "probability")
    finds_the_objects(outputs, found)


def test_strides_by_their_rows_and_not_by_their_order() -> None:
    names, outputs = written.scrfd().names, list(written.scrfd().outputs)
    names, outputs = names[::-1], outputs[::-1]
    given: list[Given] = [("boxes", name, index, None, 0, 0) for index, name in enumerate(names[:3])]
    given += [("scores", name, index + 3, None, 0, 0) for index, name in enumerate(names[3:])]
    found = find_detection_head(names, outputs, SIZE, meaning(*given))
    assert found.layout == "levels" and found.outputs == (5, 4, 3, 2, 1, 0)
    finds_the_objects(outputs, found, kinds=[0, 0, 0])


def test_a_list_behind_an_nms_has_classes_that_are_no_branch() -> None:
    names, (boxes, classes, scores) = written.listed().names, written.listed().outputs
    outputs = [boxes[0], classes.T, scores.T]
    given = meaning(("boxes", names[0], 0, None, 0, 0), ("scores", names[2], 1, None, 0, 0))
    found = find_detection_head(names, outputs, SIZE, given)
    assert found.layout == "listed"
    finds_the_objects(outputs, found)


@pytest.mark.parametrize(
    "given",
    [
        meaning(("boxes", "z", 0, 1, 0, 4), ("scores", "z", 0, 1, 4, 9)),
        meaning(("boxes", "output0", 0, 1, 4, 8), ("scores", "output0", 0, 1, 0, 4)),
        meaning(("boxes", "output0", 0, 1, 0, 4)),
        meaning(("logits", "output0", 0, None, 0, 0)),
    ],
)
def test_shapes_decide_where_the_graph_does_not_tell(given: Meaning) -> None:
    """Another name, scores in front of boxes, no scores, no detector at all."""
    outputs = written.yolov8().outputs
    assert told_places(given, Shown.of(["output0"], outputs, SIZE)) is None
    finds_the_objects(outputs, find_detection_head(["output0"], outputs, SIZE, given))


def test_the_judge_of_a_graph() -> None:
    """YOLOv5's rows of 20 places in all, which shapes alone refuse; from graph to judge."""
    net = yolo5()
    spec = {
        value.name: [int(size) if str(size).isdigit() else 1 for size in value.shape]
        for value in net.graph.inputs
    }
    feeds = {name: normal(*sizes) for name, sizes in spec.items()}
    session = open_session(net, threads=1)
    outputs, names = session.run(feeds), [one.name for one in session.outputs]
    pictures = {"picture": np.zeros((1, 3, 32, 32), np.float32)}
    with pytest.raises(UsageError):
        find_judge("detect", names, outputs, pictures)
    judge = find_judge("detect", names, outputs, pictures, meaning_of(net))
    assert judge.head.objectness and judge.head.layout == "rows"
    assert len(judge.read(outputs, "a").scores) > 0
