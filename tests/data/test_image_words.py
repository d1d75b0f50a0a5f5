"""The way of a picture in words: what is resized to which size, and which box is cut out of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calib8.data.fed import Fed, fed_from
from calib8.data.geometry import geometry_of
from calib8.data.image_words import image_words
from calib8.data.opening import open_dataset
from calib8.data.preprocess import Preprocess
from calib8.data.presets import preset
from calib8.tensors import TensorSpec


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": (224, 200)}, "stretched to 224 × 200 (bilinear filter)"),
        ({"size": (224, 224), "resize_to": 256},
         "stretched to 256 × 256, the middle 224 × 224 cut out (bilinear filter)"),
        ({"size": (224, 224), "resize": "short-side", "crop": 0.875, "filter": "bicubic"},
         "the shorter side resized to 256 pixels, the middle 224 × 224 cut out (bicubic filter)"),
        ({"size": (100, 200), "resize": "short-side"},
         "resized until it just covers 100 × 200, the middle 100 × 200 cut out (bilinear filter)"),
        ({"size": (64, 64), "resize": "letterbox", "letterbox_color": 114.0},
         "resized to fit into 64 × 64, the border filled with 114 (bilinear filter)"),
        ({"resize": "none"}, "in its own size"),
        ({"resize": "short-side", "crop": 0.5},
         "resized until it just covers the size of the model's input, the middle cut out (bilinear filter)"),
    ],
)  # fmt: skip
def test_sizes_and_boxes(settings: dict[str, object], words: str) -> None:
    assert image_words(Preprocess(**settings)).split("; ")[0] == words  # type: ignore[arg-type]


def test_the_box_that_is_told_is_the_one_that_is_cut() -> None:
    p = Preprocess(size=(224, 224), resize="short-side", crop=0.875)
    geometry = geometry_of(p, (512, 1024))
    assert f"shorter side resized to {min(geometry.resized)} pixels" in image_words(p)
    assert "224 × 224 cut out" in image_words(p) and geometry.size == (224, 224)


def test_colours_and_values() -> None:
    p = Preprocess(size=(8, 8), color="bgr", mean=(127.5,), scale=(1 / 127.5,), focus=True)
    told = image_words(p).split("; ")
    assert told[1:] == [
        "BGR, blue first", "every 2 × 2 pixels as channels of one",
        "(pixel − 127.5) · 0.00784314, so that 0 … 255 become −1 … 1",
    ]  # fmt: skip
    three = image_words(preset("torchvision"))
    assert "(pixel − (123.675, 116.28, 103.53)) · (0.0171248, 0.017507, 0.0174292)" in three
    assert image_words(Preprocess(dtype="uint8")).endswith("pixels 0 … 255 as they are")


def test_how_many_samples_of_how_many(tmp_path: Path) -> None:
    for number in range(5):
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(tmp_path / f"{number}.png")
    spec = TensorSpec("x", np.dtype(np.float32), ("N", 3, 8, 8))
    some = open_dataset(tmp_path, [spec], Preprocess(), samples=2)
    fed = fed_from(some, sum(1 for _ in some))
    assert fed.data_words == f"{tmp_path}, 2 of its 5 samples"
    assert fed.image_words.startswith("stretched to 8 × 8")
    arrays = open_dataset(np.zeros((3, 3, 8, 8), np.float32), [spec], None)
    whole = fed_from(arrays, 3)
    assert (whole.data_words, whole.image_words) == ("array, 3 samples", "")
    listed = open_dataset([Image.new("RGB", (8, 8))] * 4, [spec], Preprocess(), samples=1)
    assert fed_from(listed, 1).data_words == "data, 1 of its 4 samples"
    endless = Fed("data", 7, None, None)
    assert endless.data_words == "data, 7 samples"
