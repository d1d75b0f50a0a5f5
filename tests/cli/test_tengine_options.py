"""Tengine's preprocessing options, against its definition written out in loops on small images."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from calib8.cli.tengine_options import TengineImages, tengine_preprocess
from calib8.data.preprocess import Preprocess, apply_preprocess
from calib8.errors import UsageError
from calib8.tensors import TensorSpec

INPUT = (TensorSpec("data", "float32", ("N", 3, 8, 8)),)
OPEN = (TensorSpec("data", "float32", ("N", 3, "H", "W")),)
GRAY = (TensorSpec("data", "float32", (1, 1, 8, 8)),)


def image(height: int, width: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def fed(options: TengineImages, picture: Image.Image, inputs=INPUT) -> np.ndarray:
    return np.asarray(apply_preprocess(picture, tengine_preprocess(options, inputs)))


def normalized(pixels: np.ndarray, mean: tuple[float, ...], scale: tuple[float, ...]) -> np.ndarray:
    """(pixel − mean[c]) · scale[c] in float32, channels first, one value after the other."""
    height, width, channels = pixels.shape
    out = np.empty((channels, height, width), np.float32)
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                out[c, y, x] = (np.float32(pixels[y, x, c]) - np.float32(mean[c])) * np.float32(scale[c])
    return out


@pytest.mark.parametrize("swap", [0, 1])
def test_mean_and_scale_go_with_the_channels_after_the_swap(swap: int) -> None:
    picture = image(8, 8)
    options = TengineImages(mean="10,20,30", scale="0.5,1,2", swap=swap)
    rgb = np.asarray(picture)
    pixels = rgb if swap else rgb[:, :, ::-1]
    assert np.array_equal(fed(options, picture), normalized(pixels, (10, 20, 30), (0.5, 1, 2)))


def test_the_defaults_are_those_of_the_tool() -> None:
    picture = image(8, 8)
    expected = normalized(np.asarray(picture), (104, 117, 123), (1, 1, 1))
    assert np.array_equal(fed(TengineImages(), picture), expected)
    assert tengine_preprocess(TengineImages(), OPEN).size == (224, 224)
    assert tengine_preprocess(TengineImages(size="3,6,4"), OPEN).size == (6, 4)
    gray = tengine_preprocess(TengineImages(), GRAY)
    assert (gray.color, gray.mean, gray.scale) == ("gray", (104.0,), (1.0,))


def test_a_gray_image_takes_the_first_of_three_numbers_as_the_tool_does() -> None:
    gray = tengine_preprocess(TengineImages(mean="1,2,3", scale="0.5,1,1"), GRAY)
    assert (gray.mean, gray.scale) == ((1.0,), (0.5,))
    with pytest.raises(UsageError, match="is not 1 number, one per colour"):
        tengine_preprocess(TengineImages(mean="1,2"), GRAY)


def test_letterbox_pads_with_what_becomes_a_half() -> None:
    options = TengineImages(size="3,8,8", letterbox="8,8", mean="0,0,0", scale="0.004,0.004,0.004")
    got = fed(options, image(4, 8), OPEN)
    assert got.shape == (3, 8, 8)
    assert np.allclose(got[:, :2], 0.5, atol=1e-6) and np.allclose(got[:, 6:], 0.5, atol=1e-6)
    expected = normalized(np.asarray(image(4, 8)), (0, 0, 0), (0.004, 0.004, 0.004))
    assert np.array_equal(got[:, 2:6], expected)


def test_focus_takes_columns_before_rows() -> None:
    options = TengineImages(size="12,4,4", letterbox="8,8", focus=1, mean="0,0,0")
    picture = image(8, 8)
    full = normalized(np.asarray(picture), (0, 0, 0), (1, 1, 1))
    got = fed(options, picture, OPEN)
    for column in range(2):
        for row in range(2):
            for c in range(3):
                block = full[c, row::2, column::2]
                assert np.array_equal(got[(2 * column + row) * 3 + c], block)
    assert got.shape == (12, 4, 4)


def test_centre_crop_takes_224_out_of_256() -> None:
    found = tengine_preprocess(TengineImages(size="3,224,224", crop=1, mean="0,0,0"), OPEN)
    assert found == Preprocess(
        size=(224, 224),
        resize="short-side",
        crop=0.875,
        filter="opencv-bilinear",
        mean=(0,) * 3,
        scale=(1,) * 3,
    )
    wide = np.asarray(apply_preprocess(image(256, 301), found))
    left = int(301 / 2) - 112
    expected = np.asarray(image(256, 301)).transpose(2, 0, 1)[:, 16:240, left : left + 224]
    assert np.array_equal(wide, expected.astype(np.float32))


def test_sizes_follow_from_the_model_and_the_letterbox() -> None:
    focused = tengine_preprocess(TengineImages(letterbox="640,320", focus=1), OPEN[:0])
    assert (focused.size, focused.channels) == ((640, 320), 12)
    assert tengine_preprocess(TengineImages(letterbox="64,32"), OPEN).size == (64, 32)
    assert tengine_preprocess(TengineImages(), INPUT).size == (8, 8)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (TengineImages(mean="1,2"), ("-w 1,2", "3 numbers", "-w 104,117,123")),
        (TengineImages(scale="a,b,c"), ("-s a,b,c", "3 numbers")),
        (TengineImages(size="1,8,8", mean="1,2"), ("-w 1,2", "1 number,")),
        (TengineImages(size="224,224"), ("-g 224,224", "3 whole numbers", "3,224,224")),
        (TengineImages(size="4,8,8"), ("-g 4,8,8", "not a size of images")),
        (TengineImages(size="3,0,8"), ("-g 3,0,8", "not a size of images")),
        (TengineImages(swap=2), ("-b 2", "neither 0 nor 1")),
        (TengineImages(crop=-1), ("-c -1", "neither 0 nor 1")),
        (TengineImages(letterbox="8"), ("-y 8", "2 whole numbers")),
        (TengineImages(letterbox="8,-1"), ("-y 8,-1", "not a size in pixels")),
        (TengineImages(letterbox="8,8", crop=1), ("-c 1", "contradicts -y")),
        (TengineImages(size="3,8,8", letterbox="9,9"), ("-y 9,9", "8×8", "-y 8,8")),
        (TengineImages(size="3,8,8", focus=1), ("-k 1", "3 channels", "12,")),
        (TengineImages(size="12,8,8", focus=1), ("-k 1", "needs the size", "-y")),
        (TengineImages(size="12,8,8", letterbox="8,8", focus=1), ("-y 8,8", "-y 16,16")),
        (TengineImages(size="12,8,8"), ("-k 0", "12 channels")),
    ],
)
def test_what_cannot_be_meant_is_refused(options: TengineImages, parts: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        tengine_preprocess(options, OPEN)
    for part in parts:
        assert part in str(caught.value)
