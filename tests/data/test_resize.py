"""Geometry and resampling against plain loops, hand-computed values and Pillow."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from calib8.data.resize import (
    centre_crop,
    cover_size,
    letterbox_size,
    pad_to_centre,
    resample,
    space_to_depth,
)

lengths = st.integers(1, 40)


def loop_opencv_bilinear(source: list[list[int]], height: int, width: int) -> list[list[int]]:
    """One channel, pixel by pixel, from the formula at the top of resize.py."""

    def taps(index: int, output: int, length: int, clamp_weights: bool) -> tuple[int, int, int, int]:
        position = np.float32((index + 0.5) * (1.0 / (output / length)) - 0.5)
        first = math.floor(position)
        part = position - np.float32(first)
        near, far = round((np.float32(1) - part) * np.float32(2048)), round(part * np.float32(2048))
        if clamp_weights and not 0 <= first < length - 1:
            near, far = 2048, 0
        return min(max(first, 0), length - 1), min(max(first + 1, 0), length - 1), near, far

    result = []
    for y in range(height):
        top, bottom, b0, b1 = taps(y, height, len(source), False)
        line = []
        for x in range(width):
            left, right, a0, a1 = taps(x, width, len(source[0]), True)
            s0 = source[top][left] * a0 + source[top][right] * a1
            s1 = source[bottom][left] * a0 + source[bottom][right] * a1
            line.append((((b0 * (s0 >> 4)) >> 16) + ((b1 * (s1 >> 4)) >> 16) + 2) >> 2)
        result.append(line)
    return result


@pytest.mark.parametrize(
    ("size", "box", "expected"),
    [
        ((480, 640), (256, 256), (256, 341)),  # 341.33 rounded down
        ((640, 480), (256, 256), (341, 256)),
        ((256, 256), (256, 256), (256, 256)),
        ((49, 98), (256, 256), (256, 512)),  # 98·(256/49) is 511.99… in double
        ((100, 200), (240, 320), (240, 480)),
        ((200, 200), (240, 320), (320, 320)),  # the short side alone would leave 240 < 320
    ],
)
def test_cover_size(size: tuple[int, int], box: tuple[int, int], expected: tuple[int, int]) -> None:
    assert cover_size(size, box) == expected


@settings(derandomize=True, deadline=None)
@given(size=st.tuples(lengths, lengths), box=st.tuples(lengths, lengths))
def test_cover_covers_and_one_side_is_exact(size: tuple[int, int], box: tuple[int, int]) -> None:
    height, width = cover_size(size, box)
    assert height >= box[0] and width >= box[1]
    assert height == box[0] or width == box[1]


@pytest.mark.parametrize(
    ("size", "box", "expected"),
    [
        ((480, 640), (640, 640), (480, 640)),
        ((1080, 1920), (640, 640), (360, 640)),
        ((100, 50), (32, 32), (32, 16)),
        ((75, 100), (50, 50), (37, 50)),  # 37.5 is cut off
        ((1, 1000), (10, 10), (1, 10)),  # never less than one pixel
    ],
)
def test_letterbox_size(size: tuple[int, int], box: tuple[int, int], expected: tuple[int, int]) -> None:
    assert letterbox_size(size, box) == expected


def test_letterbox_product_is_float32() -> None:
    # 320/133·133 falls just short of 320 in float32 and 320/154·154 does not; in double it is the reverse.
    assert letterbox_size((133, 133), (320, 320)) == (319, 319)
    assert letterbox_size((154, 154), (320, 320)) == (320, 320)


@settings(derandomize=True, deadline=None)
@given(size=st.tuples(lengths, lengths), box=st.tuples(lengths, lengths))
def test_letterbox_fits(size: tuple[int, int], box: tuple[int, int]) -> None:
    height, width = letterbox_size(size, box)
    assert 1 <= height <= box[0] and 1 <= width <= box[1]
    assert height >= box[0] - 1 or width >= box[1] - 1


@pytest.mark.parametrize(
    ("length", "size", "first"), [(256, 224, 16), (341, 224, 58), (343, 224, 59), (256, 227, 14), (5, 5, 0)]
)
def test_centre_crop_offset(length: int, size: int, first: int) -> None:
    column = np.arange(length).astype(np.uint8)[:, None, None]
    kept = centre_crop(np.broadcast_to(column, (length, size, 1)), (size, size))
    assert kept.shape == (size, size, 1)
    assert kept[0, 0, 0] == first % 256
    row = np.swapaxes(np.broadcast_to(column, (length, size, 1)), 0, 1)
    assert centre_crop(row, (size, size))[0, 0, 0] == first % 256


def test_padding_is_floor_before_and_the_rest_after() -> None:
    inner = np.full((2, 3, 2), 9, np.uint8)
    padded = pad_to_centre(inner, (5, 8), np.array([1, 2], np.uint8))
    assert padded.shape == (5, 8, 2)
    assert (padded[1:3, 2:5] == 9).all()  # (5−2)//2 = 1 above, 2 below; (8−3)//2 = 2 left, 3 right
    padded[1:3, 2:5] = [1, 2]
    assert (padded == [1, 2]).all()


def test_focus_block_order() -> None:
    # pixel value = 100·row + 10·column + channel, of a 4×4×3 image
    pixels = np.fromfunction(lambda y, x, c: 100 * y + 10 * x + c, (4, 4, 3))
    blocks = space_to_depth(pixels)
    assert blocks.shape == (2, 2, 12)
    # blocks: (row 0, column 0), (row 1, column 0), (row 0, column 1), (row 1, column 1)
    assert blocks[0, 0].tolist() == [0, 1, 2, 100, 101, 102, 10, 11, 12, 110, 111, 112]
    assert blocks[1, 0, 0] == 200 and blocks[0, 1, 0] == 20
    yolo = [pixels[::2, ::2], pixels[1::2, ::2], pixels[::2, 1::2], pixels[1::2, 1::2]]
    assert np.array_equal(blocks, np.concatenate(yolo, axis=2))


def test_opencv_bilinear_known_values() -> None:
    # cv2.resize(numpy.uint8([[0, 255]]), (4, 1)) gives 0 64 191 255: 63.75 and 191.25 rounded
    image = Image.fromarray(np.array([[0, 255]], np.uint8))
    assert resample(image, (1, 4), "opencv-bilinear").ravel().tolist() == [0, 64, 191, 255]
    assert resample(image, (4, 4), "opencv-bilinear")[:, :, 0].tolist() == [[0, 64, 191, 255]] * 4


def test_opencv_bilinear_halving_is_the_mean_of_four() -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (12, 10), dtype=np.uint8)
    halved = resample(Image.fromarray(pixels), (6, 5), "opencv-bilinear")[:, :, 0]
    sums = pixels.reshape(6, 2, 5, 2).astype(int).sum(axis=(1, 3))
    assert np.array_equal(halved, (sums + 2) >> 2)


def test_opencv_bilinear_does_not_antialias() -> None:
    # Shrinking 9 → 3 looks at pixels 1, 4, 7 only; Pillow's bilinear mixes their neighbours in.
    pixels = np.zeros((1, 9), np.uint8)
    pixels[0, [1, 4, 7]] = 200
    image = Image.fromarray(pixels)
    assert resample(image, (1, 3), "opencv-bilinear").ravel().tolist() == [200, 200, 200]
    assert resample(image, (1, 3), "bilinear").max() < 150


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    source=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    target=st.tuples(st.integers(1, 15), st.integers(1, 15)),
    seed=st.integers(0, 1000),
)
def test_opencv_bilinear_equals_the_plain_loops(
    source: tuple[int, int], target: tuple[int, int], seed: int
) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (*source, 3), dtype=np.uint8)
    got = resample(Image.fromarray(pixels), target, "opencv-bilinear")
    for channel in range(3):
        assert got[:, :, channel].tolist() == (
            pixels[:, :, channel].tolist()
            if source == target
            else loop_opencv_bilinear(pixels[:, :, channel].tolist(), *target)
        )


@pytest.mark.parametrize("name", ["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"])
def test_pillow_filters_are_pillow(name: str) -> None:
    pixels = np.random.default_rng(5).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    expected = np.asarray(image.resize((7, 11), Image.Resampling[name.upper()]))
    assert np.array_equal(resample(image, (11, 7), name), expected)  # type: ignore[arg-type]
    assert np.array_equal(resample(image, (20, 30), name), pixels)  # type: ignore[arg-type]
