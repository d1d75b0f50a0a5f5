"""Every step from image to tensor on hand-made images, and what the settings refuse."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from calib8.data.differing import preprocess_difference
from calib8.data.preprocess import (
    Preprocess,
    apply_preprocess,
    box_size,
    preprocess_pixels,
    value_range,
)
from calib8.errors import DataError, UsageError

RED = (200, 30, 10)


def plain(color: tuple[int, int, int], height: int = 4, width: int = 4) -> Image.Image:
    return Image.new("RGB", (width, height), color)


def noise(height: int, width: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8))


def test_rgb_and_bgr_order() -> None:
    rgb = apply_preprocess(plain(RED), Preprocess(size=(4, 4)))
    bgr = apply_preprocess(plain(RED), Preprocess(size=(4, 4), color="bgr"))
    assert rgb.shape == (3, 4, 4) and rgb.dtype == np.float32 and rgb.flags["C_CONTIGUOUS"]
    assert rgb[:, 0, 0].tolist() == [200, 30, 10]
    assert bgr[:, 0, 0].tolist() == [10, 30, 200]


@pytest.mark.parametrize(
    ("pixel", "opencv", "pillow"),
    [
        ((255, 236, 173), 235, 234),
        ((255, 226, 128), 224, 223),
        ((255, 250, 136), 239, 238),
        ((74, 79, 0), 69, 68),
        ((200, 200, 200), 200, 200),
    ],
)
def test_gray_is_rounded_as_the_filters_library_does(
    pixel: tuple[int, int, int], opencv: int, pillow: int
) -> None:
    """What OpenCV 4.6's ``cvtColor`` gave for pixels of a photo."""
    image = Image.fromarray(np.full((4, 4, 3), pixel, np.uint8))
    for filter_, expected in (("opencv-bilinear", opencv), ("bilinear", pillow)):
        gray = apply_preprocess(image, Preprocess(size=(4, 4), color="gray", filter=filter_))
        assert np.unique(gray).tolist() == [expected]
    stored = apply_preprocess(
        image.convert("L"), Preprocess(size=(2, 2), color="gray", filter="opencv-bilinear")
    )
    assert np.unique(stored).tolist() == [pillow]


def test_gray_is_bt601() -> None:
    gray = apply_preprocess(plain(RED), Preprocess(size=(4, 4), color="gray"))
    assert gray.shape == (1, 4, 4)
    assert gray[0, 0, 0] == round(0.299 * 200 + 0.587 * 30 + 0.114 * 10)


def test_mean_is_subtracted_before_the_scale_in_float32_and_in_channel_order() -> None:
    p = Preprocess(size=(4, 4), color="bgr", mean=(104.007, 116.669, 122.679), scale=(0.017, 0.018, 0.019))
    got = apply_preprocess(plain(RED), p)[:, 0, 0]
    blue_green_red = np.array([10, 30, 200], np.float32)
    mean, scale = np.float32([104.007, 116.669, 122.679]), np.float32([0.017, 0.018, 0.019])
    assert np.array_equal(got, (blue_green_red - mean) * scale)


def test_one_mean_serves_all_channels() -> None:
    got = apply_preprocess(plain(RED), Preprocess(size=(4, 4), mean=(127.0,), scale=(1 / 128,)))
    assert got[:, 0, 0].tolist() == [(200 - 127) / 128, (30 - 127) / 128, (10 - 127) / 128]


def test_layouts_hold_the_same_values() -> None:
    p = Preprocess(size=(5, 6), resize="none")
    first = apply_preprocess(noise(5, 6), p)
    last = apply_preprocess(noise(5, 6), replace(p, layout="NHWC"))
    assert first.shape == (3, 5, 6) and last.shape == (5, 6, 3)
    assert last.flags["C_CONTIGUOUS"]
    assert np.array_equal(first, last.transpose(2, 0, 1))


def test_uint8_passes_pixels_on() -> None:
    got = apply_preprocess(noise(5, 6), Preprocess(resize="none", dtype="uint8", layout="NHWC"))
    assert got.dtype == np.uint8
    assert np.array_equal(got, np.asarray(noise(5, 6)))


def test_warp_ignores_the_aspect() -> None:
    # left half black, right half white: a 4×8 image squeezed into 4×4 keeps the middle
    pixels = np.zeros((4, 8), np.uint8)
    pixels[:, 4:] = 255
    got = apply_preprocess(Image.fromarray(pixels), Preprocess(size=(4, 4), color="gray", filter="box"))
    assert got[0, 0].tolist() == [0, 0, 255, 255]


def test_short_side_then_centre_crop() -> None:
    # 8 rows × 16 columns, value = column; short side 8 stays, crop columns 4 … 11 and all rows
    pixels = np.tile(np.arange(16, dtype=np.uint8), (8, 1))
    p = Preprocess(size=(8, 8), color="gray", resize="short-side")
    got = apply_preprocess(Image.fromarray(pixels), p)
    assert got[0, 0].tolist() == list(range(4, 12))
    # box 8 for a result of 4: rows 2 … 5, columns 6 … 9
    for box in (replace(p, size=(4, 4), crop=0.5), replace(p, size=(4, 4), crop_pad=4)):
        assert apply_preprocess(Image.fromarray(pixels), box)[0, 0].tolist() == [6, 7, 8, 9]
    explicit = replace(p, size=(4, 4), resize_to=8)
    assert apply_preprocess(Image.fromarray(pixels), explicit)[0, 0].tolist() == [6, 7, 8, 9]


def test_tengine_centre_crop() -> None:
    # 480×640: short side 256, long side int(640·(256/480)) = 341, crop 224 at x = 170−112, y = 128−112
    image = noise(480, 640)
    p = Preprocess(size=(224, 224), resize="short-side", filter="opencv-bilinear", resize_to=256)
    whole = apply_preprocess(image, Preprocess(size=(256, 341), filter="opencv-bilinear"))
    assert np.array_equal(apply_preprocess(image, p), whole[:, 16 : 16 + 224, 58 : 58 + 224])


def test_crop_fraction_and_short_side_256_agree() -> None:
    image = noise(300, 400)
    p = Preprocess(size=(224, 224), resize="short-side", filter="bicubic")
    results = [
        apply_preprocess(image, replace(p, **box))
        for box in ({"crop": 0.875}, {"crop_pad": 32}, {"resize_to": 256})
    ]
    shrunk = np.asarray(image.resize((341, 256), Image.Resampling.BICUBIC))[16:240, 58:282]
    for result in results:
        assert np.array_equal(result, shrunk.transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("settings", "size", "box"),
    [
        ({"crop": 0.875}, (224, 224), (256, 256)),
        ({"crop": 0.875}, (299, 299), (342, 342)),
        ({"crop_pad": 32}, (300, 300), (332, 332)),
        ({"resize_to": 256}, (227, 227), (256, 256)),
        ({"resize_to": (240, 320)}, (224, 300), (240, 320)),
        ({}, (224, 192), (224, 192)),
    ],
)
def test_box(settings: dict[str, Any], size: tuple[int, int], box: tuple[int, int]) -> None:
    assert box_size(Preprocess(**settings), size) == box


def test_letterbox_centres_and_pads_in_pixel_units() -> None:
    # 2×4 into 8×8: 4×8, two rows above and two below
    p = Preprocess(size=(8, 8), resize="letterbox", letterbox_color=114, mean=(100.0,), scale=(0.5,))
    got = apply_preprocess(plain(RED, 2, 4), p)
    assert got[0, :, 0].tolist() == [7, 7, 50, 50, 50, 50, 7, 7]
    assert got[2, :, 7].tolist() == [7, 7, -45, -45, -45, -45, 7, 7]


def test_letterbox_odd_margin_is_smaller_before() -> None:
    got = apply_preprocess(
        plain(RED, 3, 8), Preprocess(size=(8, 8), resize="letterbox", letterbox_color=0, color="gray")
    )
    assert [value > 0 for value in got[0, :, 0]] == [False] * 2 + [True] * 3 + [False] * 3


def test_letterbox_without_color_pads_with_one_half_after_scaling() -> None:
    p = Preprocess(size=(8, 8), resize="letterbox", mean=(104.0, 117.0, 123.0), scale=(0.25, 0.5, 2.0))
    got = apply_preprocess(plain(RED, 2, 4), p)
    assert got[:, 0, 0].tolist() == [0.5, 0.5, 0.5]
    yolo = replace(p, mean=(0.0,), scale=(1 / 255,))  # pixel value 127.5
    assert apply_preprocess(plain(RED, 2, 4), yolo)[0, 0, 0] == pytest.approx(127.5 / 255)


def test_uint8_letterbox_keeps_the_color() -> None:
    p = Preprocess(size=(8, 8), resize="letterbox", letterbox_color=114, dtype="uint8")
    got = apply_preprocess(plain(RED, 2, 4), p)
    assert got.dtype == np.uint8 and got[:, 0, 0].tolist() == [114, 114, 114]


def test_focus_after_letterbox() -> None:
    p = Preprocess(size=(8, 8), resize="letterbox", letterbox_color=114, scale=(1 / 255,))
    image = noise(6, 8)
    whole = apply_preprocess(image, p)
    got = apply_preprocess(image, replace(p, focus=True))
    assert got.shape == (12, 4, 4)
    for column in (0, 1):
        for row in (0, 1):
            start = (2 * column + row) * 3
            assert np.array_equal(got[start : start + 3], whole[:, row::2, column::2])


def test_focus_of_an_odd_image_is_refused() -> None:
    with pytest.raises(DataError, match="photo: focus needs an even size, not 5×6"):
        apply_preprocess(noise(5, 6), Preprocess(resize="none", focus=True), "photo")


def test_own_size_and_exact_size() -> None:
    assert apply_preprocess(noise(5, 6), Preprocess(resize="none")).shape == (3, 5, 6)
    with pytest.raises(DataError, match="photo: is 5×6, not 6×6"):
        apply_preprocess(noise(5, 6), Preprocess(size=(6, 6), resize="none"), "photo")


def test_resizing_without_a_size_is_refused() -> None:
    with pytest.raises(UsageError, match="Give size"):
        apply_preprocess(noise(5, 6), Preprocess(resize="warp"))


@pytest.mark.parametrize(("shape", "color"), [((4, 4, 3), "rgb"), ((4, 4), "gray"), ((4, 4, 1), "gray")])
def test_pixels_in_memory_go_the_same_way(shape: tuple[int, ...], color: Any) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, shape, dtype=np.uint8)
    p = Preprocess(size=(6, 6), color=color, mean=(3.0,), scale=(0.5,), filter="bicubic")
    image = Image.fromarray(pixels.reshape(4, 4) if color == "gray" else pixels)
    assert np.array_equal(preprocess_pixels(pixels, p), apply_preprocess(image, p))


def test_pixels_with_alpha_lose_it() -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (4, 4, 4), dtype=np.uint8)
    got = preprocess_pixels(pixels, Preprocess(resize="none", layout="NHWC", dtype="uint8"))
    assert np.array_equal(got, pixels[:, :, :3])


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((4, 4, 3), np.float32),
        np.zeros((3, 4, 5), np.uint8),
        np.zeros((1, 4, 4, 3), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_arrays_that_are_no_pixels_are_refused(pixels: Any) -> None:
    with pytest.raises(DataError, match="is not an image"):
        preprocess_pixels(pixels, Preprocess(resize="none"))


def test_value_range_follows_the_formula() -> None:
    p = Preprocess(mean=(123.675, 116.28, 103.53), scale=(1 / 58.395, 1 / 57.12, 1 / 57.375))
    ranges = value_range(p)
    for (low, high), mean, std in zip(ranges, p.mean, (58.395, 57.12, 57.375), strict=True):
        assert low == pytest.approx(-mean / std, rel=1e-6)
        assert high == pytest.approx((255 - mean) / std, rel=1e-6)


def test_value_range_of_other_settings() -> None:
    assert value_range(Preprocess(dtype="uint8")) == ((0.0, 255.0),) * 3
    assert value_range(Preprocess(color="gray", scale=(0.5,))) == ((0.0, 127.5),)
    assert value_range(Preprocess(color="gray", mean=(255.0,), scale=(-1.0,))) == ((0.0, 255.0),)
    assert len(value_range(Preprocess(focus=True))) == 12
    # the padding lies outside of what pixels can give: 0.5 where they reach 0.255 at most
    padded = Preprocess(color="gray", resize="letterbox", scale=(0.001,))
    assert value_range(padded)[0] == (0.0, 0.5)


def test_every_value_lies_in_the_value_range() -> None:
    p = Preprocess(
        size=(9, 9), resize="letterbox", mean=(104.0, 117.0, 123.0), scale=(0.017,), filter="bicubic"
    )
    got = apply_preprocess(noise(20, 10), p)
    for channel, (low, high) in zip(got, value_range(p), strict=True):
        assert low <= channel.min() and channel.max() <= high


@pytest.mark.parametrize(
    "p",
    [
        Preprocess(),
        Preprocess(size=(224, 192), color="bgr", resize="short-side", filter="bicubic", crop=0.875),
        Preprocess(resize_to=(256, 300), mean=(1.5, 2.25, 3.1), scale=(1 / 255,), layout="NHWC"),
        Preprocess(size=(640, 640), resize="letterbox", letterbox_color=114, focus=True),
        Preprocess(resize="none", color="gray", dtype="uint8"),
    ],
)
def test_json_round_trip(p: Preprocess) -> None:
    text = p.to_json()
    assert "\n" not in text
    assert Preprocess.from_json(text) == p
    assert Preprocess.from_json(text).to_json() == text


def test_equal_settings_have_equal_json() -> None:
    assert Preprocess(mean=(127,), scale=(1,)).to_json() == Preprocess(mean=(127.0,)).to_json()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": 99}, "has version 99"),
        ({"format": "recipe"}, "is not a calib8-preprocess"),
        ({"gamma": 2.2}, "unknown setting 'gamma'"),
        ({"scale": [0.0]}, r"scale cannot be \(0.0,\)"),
        ({"mean": "104"}, "mean cannot be '104'"),
        ({"mean": [float("nan")]}, "mean cannot be"),
        ({"size": [[1], 2]}, "size cannot be"),
    ],
)
def test_broken_json_names_its_source(change: dict[str, Any], problem: str) -> None:
    document = {**json.loads(Preprocess().to_json()), **change}
    with pytest.raises(DataError, match=f"net.onnx: .*{problem}"):
        Preprocess.from_json(json.dumps(document), "net.onnx")
    with pytest.raises(DataError, match="is not JSON"):
        Preprocess.from_json("{", "net.onnx")


@pytest.mark.parametrize(
    ("settings", "subject"),
    [
        ({"color": "hsv"}, "color cannot be 'hsv'"),
        ({"resize": "fit"}, "resize cannot be 'fit'"),
        ({"filter": "area"}, "filter cannot be 'area'"),
        ({"layout": "CHW"}, "layout cannot be 'CHW'"),
        ({"dtype": "int8"}, "dtype cannot be 'int8'"),
        ({"size": (0, 4)}, "size cannot be"),
        ({"size": 224}, "size cannot be"),
        ({"size": (224.0, 224)}, "size cannot be"),
        ({"size": (5, 4), "focus": True, "resize": "none"}, "size cannot be"),
        ({"crop": 0.0}, "crop cannot be"),
        ({"crop": 1.5}, "crop cannot be"),
        *(({"crop": crop, "size": (16, 16)}, "crop cannot be") for crop in (0.0, 1e-300, math.nan, "x", [])),
        ({"crop_pad": -1}, "crop_pad cannot be"),
        ({"resize_to": 0}, "resize_to cannot be"),
        ({"resize_to": (1, 2, 3)}, "resize_to cannot be"),
        ({"resize_to": 200, "size": (224, 224)}, "resize_to 200×200 is smaller than the size 224×224"),
        ({"crop": 0.875, "crop_pad": 32}, "crop and crop_pad contradict each other"),
        ({"crop": 0.875, "resize_to": 256}, "crop and resize_to contradict each other"),
        ({"crop": 0.875, "resize": "letterbox"}, "crop does not go with resize 'letterbox'"),
        ({"resize_to": 9, "resize": "none"}, "resize_to does not go with resize 'none'"),
        ({"letterbox_color": 114}, "letterbox_color cannot be 114"),
        ({"letterbox_color": 300, "resize": "letterbox"}, "letterbox_color cannot be 300"),
        ({"mean": (1.0, 2.0)}, "mean cannot be"),
        ({"mean": 1.0}, "mean cannot be"),
        ({"mean": (1.0, 2.0, 3.0), "color": "gray"}, "mean cannot be"),
        ({"scale": (0.0,)}, "scale cannot be"),
        ({"scale": (1e-50,)}, "scale cannot be"),
        ({"scale": (float("inf"),)}, "scale cannot be"),
        ({"dtype": "uint8", "mean": (1.0,)}, "uint8 takes neither mean nor scale"),
        ({"dtype": "uint8", "scale": (0.5,)}, "uint8 takes neither mean nor scale"),
        ({"dtype": "uint8", "resize": "letterbox"}, "letterbox_color cannot be None"),
        ({"dtype": "uint8", "resize": "letterbox", "letterbox_color": 0.5}, "letterbox_color cannot be 0.5"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], subject: str) -> None:
    with pytest.raises(UsageError) as caught:
        Preprocess(**settings)
    assert subject in str(caught.value)


def test_the_settings_that_differ_are_named() -> None:
    plain = Preprocess(size=(8, 8))
    other = Preprocess(size=(8, 9), crop=0.875, resize="short-side", mean=(1.5, 2, 3), color="bgr")
    assert preprocess_difference(other.to_json(), plain.to_json()) == (
        "color bgr, not rgb; crop 0.875, not none; mean 1.5,2,3, not 0; resize short-side, not warp; "
        "size 8,9, not 8,8"
    )
    assert preprocess_difference(plain.to_json(), plain.to_json()) == ""
    assert preprocess_difference(None, plain.to_json()) == "arrays, not images"
    assert preprocess_difference(plain.to_json(), None) == "images, not arrays"
    assert preprocess_difference("what", "ever") == "what, not ever"


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        ('{"mean": [123.675]}', '{"mean": [123.6751]}', "mean 123.675, not 123.6751"),
        (
            '{"scale": [0.00392156862745098]}',
            '{"scale": [0.003921569]}',
            "0.00392156862745098, not 0.003921569",
        ),
        ('{"mean": [128.0]}', '{"mean": null}', "mean 128, not none"),
        ('{"mean": ["a"]}', '{"mean": [null]}', "mean a, not None"),
        ('{"crop": 224}', "5", '{"crop": 224}, not 5'),
        ("{", '{"crop": 1}', '{, not {"crop": 1}'),
    ],
)
def test_differences_are_told_whatever_they_are(left: str, right: str, told: str) -> None:
    assert told in preprocess_difference(left, right)


def test_lists_of_numbers_are_taken() -> None:
    assert Preprocess(mean=[0.5], scale=[0.25]) == Preprocess(mean=(0.5,), scale=(0.25,))  # type: ignore[arg-type]
    listed = Preprocess(mean=[1.0, 2.0, 3.0], std=[1.0, 2.0, 4.0])  # type: ignore[arg-type]
    assert listed == Preprocess(mean=(1.0, 2.0, 3.0), std=(1.0, 2.0, 4.0))
