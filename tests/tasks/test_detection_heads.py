"""Every known form of a detector's outputs is recognised and gives back the boxes that were put into it."""

from collections.abc import Callable
from dataclasses import replace

import detector_outputs as heads
import numpy as np
import pytest
from detector_outputs import KINDS, OBJECTS, SCORES, SIZE, Written

from calib8.errors import DataError, UsageError
from calib8.tasks.judges.decode_boxes import detections
from calib8.tasks.judges.detection_heads import DetectionHead
from calib8.tasks.judges.find_detection_head import find_detection_head

FORMS = {
    heads.yolov8: ("columns", "centre", "probability"),
    heads.yolov8_rows: ("rows", "centre", "probability"),
    heads.yolov8_in_parts: ("columns", "centre", "probability"),
    heads.yolov8_segmenter: ("columns", "centre", "probability"),
    heads.yolov5: ("rows", "centre", "probability"),
    heads.yolox: ("rows", "grid", "probability"),
    heads.yolo26: ("final", "corners", "probability"),
    heads.ultra_face: ("pair", "corners", "probability"),
    heads.detr: ("pair", "centre", "softmax"),
    heads.rt_detr: ("pair", "centre", "sigmoid"),
    heads.listed: ("listed", "yx", "probability"),
    heads.scrfd: ("levels", "distances", "probability"),
    heads.pico_det: ("levels", "distances", "probability"),
    heads.pico_det_maps: ("levels", "distances", "probability"),
    heads.blaze_face: ("pair", "offsets", "sigmoid"),
    heads.retina_face: ("pair", "priors", "probability"),
}
ONE_CLASS = {heads.blaze_face, heads.ultra_face, heads.retina_face, heads.scrfd}


@pytest.mark.parametrize("write", FORMS)
def test_boxes_come_back(write: Callable[[], Written]) -> None:
    written = write()
    head = find_detection_head(written.names, written.outputs, SIZE)
    assert (head.layout, head.boxes, head.scores) == FORMS[write]
    found = detections(written.outputs, head, "a.png")
    sure = found.scores > 0.3
    np.testing.assert_allclose(found.boxes[sure], OBJECTS, rtol=0, atol=1e-3)
    np.testing.assert_allclose(found.scores[sure], SCORES, rtol=0, atol=1e-4)
    assert found.classes[sure].tolist() == ([0, 0, 0] if write in ONE_CLASS else KINDS.tolist())


def sigmoid(value: float) -> float:
    return float(1 / (1 + np.exp(-value)))


@pytest.mark.parametrize("form", ["anchors", "anchors-exp"])
def test_maps_of_anchors_as_in_loops(form: str) -> None:
    """Every row by the formulas of YOLOv5 and of YOLOv3, one by one."""
    rng = np.random.default_rng(1)
    anchors = (((10.0, 13.0), (16.0, 30.0)), ((40.0, 20.0), (60.0, 50.0)))
    maps = [rng.normal(0, 1.5, (1, 2 * 7, 64 // s, 96 // s)).astype(np.float32) for s in (16, 32)]
    head = DetectionHead("maps", SIZE, (0, 1), form, "sigmoid", nms=None, anchors=anchors)  # type: ignore[arg-type]
    expected = []
    for stride, sides, array in zip((16, 32), anchors, maps, strict=True):
        for number, (wide, high) in enumerate(sides):
            for row in range(64 // stride):
                for column in range(96 // stride):
                    x, y, w, h, sure, *classes = array[0, 7 * number : 7 * number + 7, row, column].tolist()
                    if form == "anchors":
                        x, y = 2 * sigmoid(x) - 0.5, 2 * sigmoid(y) - 0.5
                        w, h = (2 * sigmoid(w)) ** 2 * wide, (2 * sigmoid(h)) ** 2 * high
                    else:
                        x, y, w, h = sigmoid(x), sigmoid(y), np.exp(w) * wide, np.exp(h) * high
                    x, y = (x + column) * stride, (y + row) * stride
                    score = sigmoid(sure) * max(map(sigmoid, classes))
                    expected.append((score, x - w / 2, y - h / 2, x + w / 2, y + h / 2, np.argmax(classes)))
    expected.sort(key=lambda one: -one[0])
    found = detections(maps, head, "a.png")
    assert len(found.scores) == len(expected)
    np.testing.assert_allclose(found.scores, [one[0] for one in expected], rtol=1e-6)
    np.testing.assert_allclose(found.boxes, [one[1:5] for one in expected], rtol=1e-5, atol=1e-4)
    assert found.classes.tolist() == [one[5] for one in expected]


def test_anchors_without_classes_score_by_their_objectness() -> None:
    array = np.full((1, 5, 2, 3), -9.0, np.float32)
    array[0, :, 1, 2] = [0, 0, 0, 0, 2]
    head = DetectionHead("maps", SIZE, (0,), "anchors-exp", "sigmoid", nms=None, anchors=(((20.0, 10.0),),))
    best = detections([array], head, "a.png")
    assert best.boxes[0].tolist() == [70, 43, 90, 53] and best.scores[0] == pytest.approx(sigmoid(2))
    assert best.class_count == 1
    with pytest.raises(DataError, match="do not fit the head"):
        detections([array[:, :4]], head, "a.png")


def test_maps_of_bins_give_what_their_levels_give() -> None:
    """One map per stride with distances and scores: the same boxes as of the two apart."""
    written = heads.pico_det_maps()
    both = [np.concatenate([written.outputs[4 + n], written.outputs[n]], axis=1) for n in range(3)]
    head = DetectionHead("maps", SIZE, (0, 1, 2), scores="probability", bins=8)
    found = detections(both, head, "a.png")
    np.testing.assert_allclose(found.boxes[found.scores > 0.3], OBJECTS, rtol=0, atol=1e-3)
    assert found.classes[found.scores > 0.3].tolist() == KINDS.tolist()


def test_a_single_row_without_a_batch_axis() -> None:
    row = np.array([[1, 2, 30, 40, 0.9, 3]], np.float32)
    found = detections([row], DetectionHead("final", SIZE, boxes="corners", nms=None), "a.png")
    assert found.boxes.tolist() == [[1, 2, 30, 40]] and found.classes.tolist() == [3]


def test_the_same_box_twice_stays_once_per_class() -> None:
    rows = np.zeros((1, 4, 7), np.float32)
    rows[0, :, :4] = [20, 20, 10, 10]
    rows[0, :, 4:] = [[0.9, 0, 0], [0.8, 0, 0], [0, 0.7, 0], [0, 0, 0]]
    found = detections([rows], DetectionHead("rows", SIZE), "a.png")
    assert found.classes.tolist() == [0, 1] and found.rows.tolist() == [0, 2]
    both = detections([rows], DetectionHead("rows", SIZE, nms=None), "a.png")
    assert both.classes.tolist() == [0, 0, 1]


def test_what_is_not_finite_is_no_box() -> None:
    [array] = heads.yolov8().outputs
    head = DetectionHead("columns", SIZE)
    broken = array.copy()
    broken[0, 0, detections([array], head, "a").rows[0]] = np.nan
    assert len(detections([broken], head, "a").boxes) == len(detections([array], head, "a").boxes) - 1


@pytest.mark.parametrize(
    ("names", "shapes", "why"),
    [
        (("logits",), [(1, 1000)], "outputs logits 1×1000: no decoding of boxes is known"),
        (("p3", "p4"), [(1, 255, 8, 12), (1, 255, 4, 6)], "p3 1×255×8×12, p4 1×255×4×6: no decoding"),
        (("out",), [(1, 500, 85)], "column 5 may be a class or the score of the box"),
    ],
)
def test_unknown_outputs_are_listed_with_what_is_needed(
    names: tuple[str, ...], shapes: list[tuple[int, ...]], why: str
) -> None:
    rng = np.random.default_rng(1)
    outputs = [rng.random(shape).astype(np.float32) for shape in shapes]
    with pytest.raises(UsageError) as caught:
        find_detection_head(names, outputs, SIZE)
    assert why in str(caught.value) and "DetectionHead" in str(caught.value)


def test_priors_that_nobody_knows_have_to_be_given() -> None:
    written = heads.retina_face()
    loc, conf, _ = written.outputs
    outputs = [loc[:, :50], conf[:, :50]]
    with pytest.raises(UsageError, match="measured from priors"):
        find_detection_head(("loc", "conf"), outputs, SIZE)
    known = find_detection_head(written.names, written.outputs, SIZE)
    assert known.priors is not None
    given = replace(known, priors=known.priors[:50])
    assert detections(outputs, given, "a.png").class_count == 1
    with pytest.raises(DataError, match="do not fit the head"):
        detections(written.outputs, given, "a.png")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"layout": "pair"}, "reads 1 outputs, not 2"),
        ({"layout": "sideways"}, "is unknown"),
        ({"boxes": "priors"}, "do not go together"),
        ({"nms": 0.0}, "is no IoU"),
        ({"layout": "maps", "outputs": ()}, "reads 0 outputs, not one or more"),
        ({"layout": "maps", "boxes": "anchors"}, "anchors do not go together"),
        ({"anchors": (((1.0, 2.0),),)}, "anchors do not go together"),
        ({"boxes": "anchors", "anchors": (((1.0, 2.0),),)}, "anchors do not go together"),
        ({"layout": "levels", "outputs": (0, 1, 2)}, "not two per stride"),
    ],
)
def test_heads_that_cannot_be(change: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        DetectionHead(**{"layout": "rows", "size": SIZE, **change})  # type: ignore[arg-type]


def test_outputs_of_another_model() -> None:
    head = DetectionHead("columns", SIZE)
    with pytest.raises(DataError, match=r"a\.png: outputs of shape"):
        detections([np.zeros((1, 3, 3), np.float32)], head, "a.png")
    with pytest.raises(DataError, match="no number 3"):
        detections([np.zeros((1, 8, 3), np.float32)], DetectionHead("columns", SIZE, (3,)), "a.png")
