"""Where points and labels land in the input, against pictures that go through the preprocessing."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from calib8.data.geometry import geometry_of
from calib8.data.preprocess import Preprocess, apply_preprocess

WAYS = [
    Preprocess(size=(64, 80), resize="letterbox", letterbox_color=0),
    Preprocess(size=(80, 64), resize="letterbox", letterbox_color=0),
    Preprocess(size=(64, 64), resize="warp"),
    Preprocess(size=(48, 64), resize="warp", resize_to=(60, 90)),
    Preprocess(size=(64, 64), resize="short-side", crop=0.875),
    Preprocess(size=(50, 60), resize="short-side", resize_to=70),
    Preprocess(resize="none"),
]
SIZES = [(91, 121), (121, 77), (65, 65)]  # odd: the middle of a pixel never lies between two others


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_maps_land_where_nearest_pixels_do(way: Preprocess, size: tuple[int, int]) -> None:
    gray = replace(way, color="gray", filter="nearest")
    classes = np.random.default_rng(1).integers(1, 200, size)
    image = Image.fromarray(classes.astype(np.uint8))
    expected = apply_preprocess(image, gray)[0]
    assert (geometry_of(way, size).map(classes, 0) == expected).all()


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_boxes_come_back_as_they_went(way: Preprocess, size: tuple[int, int]) -> None:
    geometry = geometry_of(way, size)
    boxes = np.array([[24.0, 22.0, 60.0, 50.0], [30.0, 31.5, 31.0, 40.0]])
    np.testing.assert_allclose(geometry.back(geometry.points(boxes.reshape(2, 2, 2)).reshape(2, 4)), boxes)
    everything = geometry.back(np.array([[-1e6, -1e6, 1e6, 1e6]]))
    np.testing.assert_array_equal(everything, [[0, 0, size[1], size[0]]])


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_boxes_land_where_a_bright_patch_does(way: Preprocess, size: tuple[int, int]) -> None:
    top, left, bottom, right = 20, 24, 50, 60
    pixels = np.zeros((*size, 3), np.uint8)
    pixels[top:bottom, left:right] = 255
    bright = apply_preprocess(Image.fromarray(pixels), way)[0] > 127
    rows, columns = np.flatnonzero(bright.any(axis=1)), np.flatnonzero(bright.any(axis=0))
    seen = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    [box] = geometry_of(way, size).boxes(np.array([[left, top, right, bottom]], float))
    np.testing.assert_allclose(box, seen, rtol=0, atol=1.0)


def test_round_trip_of_a_letterbox() -> None:
    geometry = geometry_of(WAYS[0], (90, 120))  # 60×80 in the middle of 64×80
    assert (geometry.top, geometry.left, geometry.resized) == (2, 0, (60, 80))
    points = np.random.default_rng(2).uniform(0, 90, (30, 2))
    there = geometry.points(points)
    back = (there - [geometry.left, geometry.top]) * [120 / 80, 90 / 60]
    np.testing.assert_allclose(back, points, rtol=0, atol=1e-12)
    assert geometry.pixel_area == pytest.approx(2.25)


def test_boxes_are_cut_where_the_input_ends() -> None:
    geometry = geometry_of(WAYS[4], (64, 128))  # the middle 64×64 of 73×146
    [gone, cut] = geometry.boxes(np.array([[0, 0, 10, 10], [80, 10, 128, 60]], float))
    assert gone[0] == gone[2] == 0.0
    assert cut[2] == 64.0 and 0 < cut[0] < 64
