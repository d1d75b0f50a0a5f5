"""The real networks that the conformance tests run on: where they are and how their images are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from _pytest.mark.structures import ParameterSet

from calib8.data.preprocess import Preprocess
from calib8.data.presets import preset
from calib8.pipeline import Calibration
from slow_cases import slow_but


@dataclass(frozen=True)
class Network:
    """Paths are relative to the folder of shared data."""

    file: str
    preprocess: Preprocess
    calibration: str
    evaluation: str


SQUEEZENET: Final = Preprocess(color="bgr", resize="short-side", mean=(104.0, 117.0, 123.0))
UNIT: Final = Preprocess(resize="warp", mean=(127.0,), scale=(1 / 128,))
PADDLE: Final = replace(preset("torchvision"), color="bgr", resize="warp", crop=None)
IMAGENET: Final = ("imagenet/calib", "imagenet/eval")
CIFAR: Final = ("cifar10/train1024.npz", "cifar10/test5000.npz")
PHOTOS: Final = ("photos", "photos")

LITE = replace(preset("efficientnet_lite"), crop_pad=None, resize_to=256)

NETWORKS: Final[dict[str, Network]] = {
    "efficientnet_lite0": Network("models/efficientnet_lite0.onnx", LITE, *IMAGENET),
    "mobilenet_v2": Network("models/mobilenet_v2_torchvision.onnx", preset("torchvision"), *IMAGENET),
    "squeezenet": Network("models/squeezenet_v1.1.onnx", SQUEEZENET, *IMAGENET),
    "resnet20": Network("models/resnet20_cifar10.onnx", preset("cifar10"), *CIFAR),
    "resnet56": Network("models/resnet56_cifar10.onnx", preset("cifar10"), *CIFAR),
    "resnet8": Network("models/resnet8_cifar10_mlperftiny.onnx", Preprocess(resize="none"), *CIFAR),
    "ultraface": Network("models/ultraface_RFB-320.onnx", UNIT, *PHOTOS),
    "ocr_detector": Network("models/ch_PP-OCRv4_det_infer.onnx", replace(PADDLE, size=(640, 640)), *PHOTOS),
    "ocr_direction": Network(
        "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", replace(UNIT, color="bgr", size=(48, 192)), *PHOTOS
    ),
}

CLASSIFIERS: Final = ("efficientnet_lite0", "mobilenet_v2", "squeezenet", "resnet20", "resnet56", "resnet8")

SLOW: Final = frozenset({"efficientnet_lite0", "squeezenet", "resnet56"})
"""Networks of which another of their kind is tested, where a test takes half a minute."""


def with_slow_ones(names: Iterable[str], *others: str) -> list[ParameterSet]:
    """The names as parameters; ``scripts/check-full`` alone runs the test for ``SLOW`` and ``others``."""
    return slow_but(set(names) - SLOW - set(others), names)


SMALL: Final = ("resnet8", "resnet20", "squeezenet", "mobilenet_v2")
"""Networks that are quantized and run in seconds."""

EVERY_NETWORK: Final = slow_but(SMALL, NETWORKS)
"""All as parameters; ``scripts/check-full`` alone runs the test for those that are not ``SMALL``."""


Calibrated = Callable[[str], Calibration]
"""What the fixture ``calibrated`` gives: the calibration of a network by name."""

Quantized = Callable[[str], Path]
"""What the fixture ``quantized`` gives: the path of the quantized network by name."""
