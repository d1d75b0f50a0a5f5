"""Pictures of what a model sees, and answers for people."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from calib8.data.preprocess import Preprocess, apply_preprocess
from calib8.run_report.pictures import SIDE, answer_of, data_uri, pixels_of
from calib8.tasks.branches import Branch, Meaning, Piece
from calib8.tasks.judges.classes import ClassJudge
from calib8.tasks.judges.decode_boxes import Detections
from calib8.tasks.judges.detection_heads import DetectionHead
from calib8.tasks.judges.detections import DetectionJudge
from calib8.tasks.judges.masks import MaskHead, MaskJudge

PICTURE = np.random.default_rng(4).integers(0, 256, (12, 16, 3), dtype=np.uint8)
LOGITS = Meaning((Branch("logits", "logits", (Piece("y", 0),), "sure", ""),), "classify")


@pytest.mark.parametrize("fields", [
    {}, {"color": "bgr"}, {"layout": "NHWC"}, {"mean": (120.0, 110.0, 100.0), "scale": (0.02, 0.01, 0.03)},
    {"dtype": "uint8"}, {"color": "bgr", "layout": "NHWC", "mean": (127.5,), "scale": (1 / 127.5,)},
])  # fmt: skip
def test_the_picture_is_the_one_that_went_in(fields: dict[str, Any]) -> None:
    p = Preprocess(size=(12, 16), resize="none", **fields)
    values = apply_preprocess(Image.fromarray(PICTURE), p)
    found = pixels_of({"x": values[None]}, p)
    assert found is not None and found.dtype == np.uint8
    assert np.array_equal(found, PICTURE)


def test_a_gray_picture_has_three_equal_channels() -> None:
    p = Preprocess(size=(12, 16), resize="none", color="gray", scale=(1 / 255,))
    found = pixels_of({"x": apply_preprocess(Image.fromarray(PICTURE), p)[None]}, p)
    assert found is not None and found.shape == (12, 16, 3)
    assert np.array_equal(found[:, :, 0], np.asarray(Image.fromarray(PICTURE).convert("L")))
    assert np.array_equal(found[:, :, 0], found[:, :, 2])


@pytest.mark.parametrize("inputs", [
    {"x": np.zeros((1, 7), np.float32)}, {"x": np.zeros((1, 8, 9, 9), np.float32)},
    {"x": np.full((1, 3, 9, 9), np.nan, np.float32)},
    {"x": np.zeros((1, 3, 9, 9), np.float32), "y": np.zeros(1, np.float32)},
])  # fmt: skip
def test_what_is_no_picture_has_none(inputs: dict[str, np.ndarray]) -> None:
    assert pixels_of(inputs, None) is None


def test_arrays_without_a_preprocessing_are_spread() -> None:
    values = np.linspace(-2, 2, 3 * 5 * 6, dtype=np.float32).reshape(1, 3, 5, 6)
    found = pixels_of({"x": values}, None)
    assert found is not None and (found.min(), found.max()) == (0, 255)


def test_a_thumbnail_is_a_small_jpeg() -> None:
    uri, size = data_uri(np.tile(PICTURE, (50, 50, 1)))
    head, _, held = uri.partition(",")
    assert head == "data:image/jpeg;base64"
    image = Image.open(io.BytesIO(base64.b64decode(held)))
    assert (image.format, image.size) == ("JPEG", size) and max(size) == SIDE
    assert data_uri(np.tile(PICTURE, (50, 50, 1))) == (uri, size)


def test_boxes_are_shares_of_the_picture_and_weak_ones_are_left_out() -> None:
    boxes = np.array([[-5.0, 10.0, 50.0, 40.0], [0, 0, 10, 10], [1, 1, 2, 2]])
    read = Detections(boxes, np.array([0.9, 0.6, 0.2]), np.array([3, 1, 2]), np.arange(3), 5)
    judge = DetectionJudge(DetectionHead.__new__(DetectionHead))
    found = answer_of(judge, read, [], LOGITS, None, (80, 100))
    assert [(b.left, b.top, b.right, b.bottom) for b in found.boxes] == [
        (0, 0.125, 0.5, 0.5),
        (0, 0, 0.1, 0.125),
    ]
    assert found.lines == ("2 objects", "class 3, 0.90", "class 1, 0.60")


def test_classes_have_shares_where_the_outputs_are_logits() -> None:
    row = np.array([[0.0, 2.0, 1.0, -1.0]], np.float32)
    read = ClassJudge().read([row], "s")
    share = np.exp(row[0]) / np.exp(row[0]).sum()
    lines = answer_of(ClassJudge(), read, [row], LOGITS, None, (1, 1)).lines
    assert lines == tuple(f"class {n}: {100 * share[n]:.1f} %" for n in (1, 2, 0))


def test_a_mask_is_painted_where_it_is_not_the_background() -> None:
    classes = np.zeros((6, 8), np.int64)
    classes[:3] = 2
    found = answer_of(MaskJudge(MaskHead()), classes, [], LOGITS, np.full((60, 80, 3), 128, np.uint8), (1, 1))
    assert found.lines == ("class 0: 50.0 %", "class 2: 50.0 %")
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(found.mask.partition(",")[2]))), np.int64)
    assert np.abs(image[45:] - 128).max() <= 3 and np.abs(image[5:20] - 128).max() > 30
