"""Preprocessing of well-known model families, as data; adding one means adding a line to ``PRESETS``.

    value = (pixel − mean)·scale in the order of ``color``;  a division by std is scale = 1/std

Where no size is given it is that of the model. Families trained with OpenCV or TensorFlow use
``opencv-bilinear`` (no antialiasing), those trained with Pillow use Pillow's filters.
"""

from __future__ import annotations

from typing import Final

from calib8.data.foreign_recipes import from_huggingface, from_timm, from_torchvision
from calib8.data.preprocess import Preprocess
from calib8.errors import UsageError
from calib8.parameters import one_of, parameter
from calib8.type_texts import a_type

_IMAGENET_MEAN: Final = (123.675, 116.28, 103.53)
_IMAGENET_SCALE: Final = (1 / 58.395, 1 / 57.12, 1 / 57.375)
"""255·(0.485, 0.456, 0.406) and 1 / (255·(0.229, 0.224, 0.225)), of ImageNet's training images."""

PRESETS: Final[dict[str, Preprocess]] = {
    # torchvision's classifiers: 224 out of a short side of 256, 299 out of 342
    "torchvision": Preprocess(resize="short-side", crop=0.875, mean=_IMAGENET_MEAN, scale=_IMAGENET_SCALE),
    # Caffe's AlexNet, GoogLeNet: 224 or 227 out of 256×256
    "caffe_bvlc": Preprocess(
        color="bgr", filter="opencv-bilinear", resize_to=256, mean=(104.007, 116.669, 122.679)
    ),
    # MobileNet v1 and v2 for Caffe
    "mobilenet_caffe": Preprocess(
        color="bgr",
        resize="short-side",
        filter="opencv-bilinear",
        crop=0.875,
        mean=(103.94, 116.78, 123.68),
        scale=(0.017,),
    ),
    # TensorFlow slim's Inception and MobileNet: the middle 87.5 % of both sides, to −1 … 1
    "tf_inception": Preprocess(filter="opencv-bilinear", crop=0.875, mean=(127.5,), scale=(1 / 127.5,)),
    # TensorFlow slim's VGG and ResNet v1
    "tf_vgg": Preprocess(
        resize="short-side", filter="opencv-bilinear", crop=0.875, mean=(123.68, 116.78, 103.94)
    ),
    # Keras' ResNet50 and VGG: the whole image
    "keras_caffe": Preprocess(color="bgr", filter="opencv-bilinear", mean=(103.939, 116.779, 123.68)),
    # EfficientNet-lite: 224 out of a short side of 256, 300 out of 332
    "efficientnet_lite": Preprocess(
        resize="short-side", filter="bicubic", crop_pad=32, mean=(127.0,), scale=(1 / 128,)
    ),
    # YOLOv5 and later
    "yolo": Preprocess(resize="letterbox", filter="opencv-bilinear", letterbox_color=114, scale=(1 / 255,)),
    # MobileNet-SSD for Caffe
    "ssd_mobilenet_caffe": Preprocess(
        size=(300, 300), color="bgr", filter="opencv-bilinear", mean=(127.5,), scale=(0.007843,)
    ),
    # PyTorch's CIFAR-10 networks
    "cifar10": Preprocess(size=(32, 32), mean=_IMAGENET_MEAN, scale=_IMAGENET_SCALE),
    # PyTorch's MNIST example: 255·0.1307 and 1 / (255·0.3081)
    "mnist": Preprocess(size=(28, 28), color="gray", mean=(33.3285,), scale=(1 / 78.5655,)),
}


class Presets:
    """Preprocessing by the name of a model family, or as another library has it.

    ``calib8.preset("torchvision")``, ``calib8.preset.from_timm(model)``.
    """

    def __call__(self, name: str) -> Preprocess:
        """The preprocessing of a model family.

        Raises:
            UsageError: there is no such preset; the message lists them.
        """
        if not _is_name(name):
            problem = f"is {a_type(name)}, not the name of a preset"
            raise UsageError(parameter("preprocess"), problem, one_of("", PRESETS))
        if name not in PRESETS:
            raise UsageError(parameter("preprocess", name), "unknown preset", one_of(name, PRESETS))
        return PRESETS[name]

    from_timm = staticmethod(from_timm)
    from_torchvision = staticmethod(from_torchvision)
    from_huggingface = staticmethod(from_huggingface)


preset: Final = Presets()


def known_preprocess(given: Preprocess | str | None) -> Preprocess | None:
    """Settings as they are, or those of the preset that is named; None where nothing is given.

    Raises:
        UsageError: there is no such preset, or it is neither a name nor settings.
    """
    if isinstance(given, str):
        return preset(given)
    if given is None or _is_preprocess(given):
        return given
    problem = f"is of type {type(given).__name__}"
    raise UsageError(
        "preprocess", problem, "Give the name of a preset, such as 'torchvision', or a Preprocess"
    )


def _is_name(value: object) -> bool:
    return isinstance(value, str)


def _is_preprocess(value: object) -> bool:
    return isinstance(value, Preprocess)
