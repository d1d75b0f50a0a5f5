"""The presets against the published formulas."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from calib8.data.preprocess import apply_preprocess, box_size, value_range
from calib8.data.presets import PRESETS, preset
from calib8.errors import UsageError

NAMES = {
    "torchvision", "caffe_bvlc", "mobilenet_caffe", "tf_inception", "tf_vgg", "keras_caffe",
    "efficientnet_lite", "yolo", "ssd_mobilenet_caffe", "cifar10", "mnist",
}  # fmt: skip


def test_all_presets_are_there() -> None:
    assert set(PRESETS) == NAMES


def test_unknown_preset_lists_the_known() -> None:
    with pytest.raises(UsageError) as caught:
        preset("resnet")
    assert all(name in str(caught.value) for name in NAMES)


@pytest.mark.parametrize(
    ("name", "order", "mean", "scale"),
    [
        ("torchvision", "rgb", (123.675, 116.28, 103.53), (0.01712475, 0.01750700, 0.01742919)),
        ("caffe_bvlc", "bgr", (104.007, 116.669, 122.679), (1, 1, 1)),
        ("mobilenet_caffe", "bgr", (103.94, 116.78, 123.68), (0.017, 0.017, 0.017)),
        ("tf_inception", "rgb", (127.5,) * 3, (0.00784314,) * 3),
        ("tf_vgg", "rgb", (123.68, 116.78, 103.94), (1, 1, 1)),
        ("keras_caffe", "bgr", (103.939, 116.779, 123.68), (1, 1, 1)),
        ("efficientnet_lite", "rgb", (127,) * 3, (1 / 128,) * 3),
        ("yolo", "rgb", (0,) * 3, (1 / 255,) * 3),
        ("ssd_mobilenet_caffe", "bgr", (127.5,) * 3, (0.007843,) * 3),
        ("cifar10", "rgb", (123.675, 116.28, 103.53), (0.01712475, 0.01750700, 0.01742919)),
        ("mnist", "gray", (255 * 0.1307,), (1 / (255 * 0.3081),)),
    ],
)
def test_mean_scale_and_order(
    name: str, order: str, mean: tuple[float, ...], scale: tuple[float, ...]
) -> None:
    p = replace(preset(name), size=(64, 64), resize_to=None, crop=None, crop_pad=None)
    color = (250, 130, 10)
    got = apply_preprocess(Image.new("RGB", (64, 64), color), p)[:, 32, 32]
    pixels = {"rgb": color, "bgr": color[::-1], "gray": (round(0.299 * 250 + 0.587 * 130 + 0.114 * 10),)}
    expected = [(v - m) * s for v, m, s in zip(pixels[order], mean, scale, strict=True)]
    assert got.tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "size", "box"),
    [
        ("torchvision", 224, 256),
        ("caffe_bvlc", 224, 256),
        ("caffe_bvlc", 227, 256),
        ("mobilenet_caffe", 224, 256),
        ("tf_inception", 299, 342),
        ("tf_vgg", 224, 256),
        ("keras_caffe", 224, 224),
        ("efficientnet_lite", 224, 256),
        ("efficientnet_lite", 240, 272),
        ("ssd_mobilenet_caffe", 300, 300),
        ("cifar10", 32, 32),
        ("mnist", 28, 28),
    ],
)
def test_boxes(name: str, size: int, box: int) -> None:
    assert box_size(preset(name), (size, size)) == (box, box)


def test_fixed_sizes() -> None:
    sizes = {name: p.size for name, p in PRESETS.items() if p.size is not None}
    assert sizes == {"ssd_mobilenet_caffe": (300, 300), "cifar10": (32, 32), "mnist": (28, 28)}


def test_efficientnet_lite_is_bicubic_256_crop_224() -> None:
    pixels = np.random.default_rng(7).integers(0, 256, (300, 500, 3), dtype=np.uint8)
    got = apply_preprocess(Image.fromarray(pixels), replace(preset("efficientnet_lite"), size=(224, 224)))
    shrunk = Image.fromarray(pixels).resize((426, 256), Image.Resampling.BICUBIC)
    cropped = np.asarray(shrunk, np.float32)[16:240, 101:325]
    assert np.array_equal(got, ((cropped - 127) / 128).transpose(2, 0, 1))


def test_yolo_pads_with_114() -> None:
    got = apply_preprocess(Image.new("RGB", (64, 32)), replace(preset("yolo"), size=(64, 64)))
    assert got[:, 0, 0].tolist() == pytest.approx([114 / 255] * 3)
    assert got[:, 32, 32].tolist() == [0, 0, 0]


def test_tf_inception_reaches_minus_one_to_one() -> None:
    assert value_range(preset("tf_inception")) == ((-1.0, 1.0),) * 3
