"""Recipes of other libraries as a ``Preprocess``: timm, torchvision, Hugging Face.

    timm            box = ⌊size / crop_pct⌋, cut out of its middle;  (pixel/255 − mean) / std
    torchvision     Resize, CenterCrop, ToTensor, Normalize, as a Compose or as weights.transforms()
    Hugging Face    resize, center_crop, rescale, normalize, as an image processor says them; those that
                    resize tensors, not Pillow images, differ by a level or two of 255

Their objects are read, none of the libraries is imported but timm where a model is named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final, cast

import numpy as np

from calib8.data.preprocess import Preprocess
from calib8.data.resize import PILLOW_FILTERS, Filter
from calib8.errors import UsageError
from calib8.type_texts import a_type

_IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
_IMAGENET_STD: Final = (0.229, 0.224, 0.225)
_BEYOND: Final = (
    "do_pad", "do_thumbnail", "do_crop_margin", "do_align_long_axis", "do_align_axis", "keep_aspect_ratio",
    "ensure_multiple_of", "rescale_offset",
)  # fmt: skip
"""Settings of image processors that must be off."""

_CURE: Final = "Write the recipe as calib8.Preprocess(…)"


def from_timm(model: Any) -> Preprocess:
    """The evaluation recipe of a timm model (``timm.data.create_transform(is_training=False)``).

    Args:
        model: the model, its ``pretrained_cfg``, what ``timm.data.resolve_data_config`` returns, or a name.

    Raises:
        UsageError: none of these, or a recipe that ``Preprocess`` has no settings for.
    """
    config = _timm_config(model)
    channels, height, width = config.get("input_size") or (3, 224, 224)
    if channels not in (1, 3):
        raise _beyond("timm", f"takes {channels} channels")
    crop = float(config.get("crop_pct") or 0.875)
    box = (math.floor(height / crop), math.floor(width / crop))
    mode = config.get("crop_mode") or "center"
    mean, std = _numbers(config, "mean", _IMAGENET_MEAN), _numbers(config, "std", _IMAGENET_STD)
    if mode not in ("center", "squash"):
        raise _beyond("timm", f"has the crop_mode '{mode}'")
    if mode == "center" and box[0] != box[1]:
        raise _beyond("timm", f"has an input of {height}×{width}, which it resizes by another filter,")
    return Preprocess(
        size=(height, width),
        resize="warp" if mode == "squash" else "short-side",
        resize_to=box[0] if box[0] == box[1] else box,
        odd_margin="even",
        filter=_filter_named(config.get("interpolation") or "bicubic", "timm"),
        color="gray" if channels == 1 else "rgb",
        mean=mean[:channels],
        std=std[:channels],
        units="0-1",
    )


def from_torchvision(transforms: Any) -> Preprocess:
    """The recipe of torchvision's transforms.

    Args:
        transforms: ``weights.transforms()``, the weights themselves, or a ``Compose`` of Resize, CenterCrop,
            Grayscale, ToTensor and Normalize, of either version.

    Raises:
        UsageError: none of these, or a transform that ``Preprocess`` has no settings for.
    """
    made = getattr(transforms, "transforms", None)
    if callable(made):  # weights
        return from_torchvision(made())
    if isinstance(made, Sequence):
        return _of_steps(made)
    if not hasattr(transforms, "mean") or not getattr(transforms, "resize_size", None):
        raise _unknown(transforms, "torchvision", "weights.transforms() of a classifier, or a Compose")
    crop = getattr(transforms, "crop_size", None)
    steps = _Steps(
        resize=_lengths(transforms.resize_size),
        crop=None if crop is None else _lengths(crop),
        filter=_filter_named(transforms.interpolation, "torchvision"),
        mean=tuple(transforms.mean),
        std=tuple(transforms.std),
    )
    return steps.preprocess("torchvision")


def from_huggingface(processor: Any) -> Preprocess:
    """The recipe of an image processor (``AutoImageProcessor``), or of one as part of a processor.

    Args:
        processor: the object, its ``to_dict()``, or what a ``preprocessor_config.json`` holds.

    Raises:
        UsageError: none of these, or settings that ``Preprocess`` does not have.
    """
    held = getattr(processor, "image_processor", None)
    if held is not None:
        return from_huggingface(held)
    settings = _as_settings(processor)
    if settings is None or not {"do_resize", "do_normalize", "image_mean"} & settings.keys():
        raise _unknown(processor, "Hugging Face", "an image processor")
    for name in _BEYOND:
        if settings.get(name) and (name, settings[name]) != ("ensure_multiple_of", 1):
            raise _beyond("Hugging Face", f"has {name}")
    rescale = float(settings.get("rescale_factor") or 1 / 255) if settings.get("do_rescale", True) else 1.0
    normalizes = bool(settings.get("do_normalize", settings.get("image_mean") is not None))
    if normalizes and (settings.get("image_mean") is None or settings.get("image_std") is None):
        raise _beyond("Hugging Face", "normalizes by an image_mean or image_std that it does not tell")
    mean = _floats(settings["image_mean"]) if normalizes else (0.0,)
    std = _floats(settings["image_std"]) if normalizes else (1.0,)
    if settings.get("include_top"):  # EfficientNet divides by the deviation once more
        std = tuple(value * value for value in std)
    return replace(
        _huggingface_steps(settings).preprocess("Hugging Face", even=False),
        color="bgr" if settings.get("do_flip_channel_order") else "rgb",
        mean=tuple(value / rescale for value in mean),
        scale=tuple(rescale / value for value in std),
    )


@dataclass(frozen=True)
class _Steps:
    """A resize and a crop, sizes as (side,) of the short side or (H, W), and a normalization of 0 … 1."""

    resize: tuple[int, ...] | None = None
    crop: tuple[int, ...] | None = None
    filter: str = "bilinear"
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    gray: bool = False

    def preprocess(self, library: str, *, even: bool = True) -> Preprocess:
        """The same as settings.

        Raises:
            UsageError: a crop larger than what is resized to.
        """
        common: dict[str, Any] = {
            "filter": self.filter,
            "color": "gray" if self.gray else "rgb",
            "mean": self.mean,
            "std": self.std,
            "units": "0-1",
        }
        crop = None if self.crop is None else _square(self.crop)
        if self.resize is None:
            if crop is not None:
                raise _beyond(library, "cuts without a resize before it")
            return Preprocess(resize="none", **common)
        box, short_side = _square(self.resize), len(self.resize) == 1
        if crop is not None and (crop[0] > box[0] or crop[1] > box[1]):
            raise _beyond(library, f"cuts {crop[0]}×{crop[1]} out of {box[0]}×{box[1]}, and pads")
        return Preprocess(
            size=crop or (None if short_side else box),
            resize="short-side" if short_side else "warp",
            resize_to=box[0] if box[0] == box[1] else box,
            odd_margin="even" if even else "after",
            **common,
        )


def _square(lengths: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of one length, or two."""
    return lengths[0], lengths[-1]


def _timm_config(model: Any) -> Mapping[str, Any]:
    if isinstance(model, str):
        try:
            get_pretrained_cfg = import_module("timm.models").get_pretrained_cfg
        except ImportError as error:
            raise UsageError(
                "timm", "is not installed", "Run: pip install timm; or give the model"
            ) from error
        found = get_pretrained_cfg(model)
        if found is None:
            raise UsageError("timm", f"has no model '{model}'", "Give a name of timm.list_pretrained()")
        model = found
    config = getattr(model, "pretrained_cfg", model)
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping) or not {"crop_pct", "interpolation", "mean"} & config.keys():
        raise _unknown(model, "timm", "a model, its pretrained_cfg or its name")
    return config


_PLACES: Final = {"Grayscale": 0, "Resize": 1, "CenterCrop": 2, "Normalize": 4} | dict.fromkeys(
    ("ToTensor", "PILToTensor", "ToImage", "ConvertImageDtype", "ToDtype", "ToPureTensor"), 3
)
"""The order in which a Compose may have its steps; those of place 3 several times."""


def _of_steps(transforms: Sequence[Any]) -> Preprocess:
    """A Compose."""
    found, place, scaled = _Steps(), -1, False
    for step in transforms:
        kind = type(step).__name__
        if kind not in _PLACES:
            raise _beyond("torchvision", f"has the transform {kind}")
        if _PLACES[kind] < place or (_PLACES[kind] == place != 3):
            raise _beyond("torchvision", f"has {kind} behind another step than usual")
        place = _PLACES[kind]
        scaled |= kind in ("ToTensor", "ConvertImageDtype") or bool(getattr(step, "scale", False))
        found = _with_step(found, step)
    if not scaled:
        raise _beyond("torchvision", "leaves pixels at 0 … 255 (no ToTensor, or ToDtype without scale)")
    return found.preprocess("torchvision")


def _with_step(found: _Steps, step: Any) -> _Steps:
    kind = type(step).__name__
    if kind == "Resize":
        if getattr(step, "max_size", None) is not None:
            raise _beyond("torchvision", "resizes to a max_size")
        if getattr(step, "antialias", True) is False:
            raise _beyond("torchvision", "resizes without antialiasing")
        how = _filter_named(step.interpolation, "torchvision")
        return replace(found, resize=_lengths(step.size), filter=how)
    if kind == "CenterCrop":
        return replace(found, crop=_lengths(step.size))
    if kind == "Grayscale":
        if step.num_output_channels != 1:
            raise _beyond("torchvision", f"has gray in {step.num_output_channels} channels")
        return replace(found, gray=True)
    if kind == "Normalize":
        return replace(found, mean=_floats(step.mean), std=_floats(step.std))
    return found


def _huggingface_steps(settings: Mapping[str, Any]) -> _Steps:
    resize: tuple[int, ...] | None = None
    crop: tuple[int, ...] | None = None
    crop_pct = settings.get("crop_pct")
    kind = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "")
    if settings.get("do_resize", settings.get("size") is not None):
        if settings.get("size") is None:
            raise _beyond("Hugging Face", "resizes to a size that it does not tell")
        resize = _huggingface_size(settings["size"])
        if "levit" in kind.lower() and len(resize) == 1:
            resize = (int(256 / 224 * resize[0]),)
        if crop_pct and len(resize) == 1:  # ConvNeXt: images of 384 and more are only resized
            crop = resize * 2
            resize = resize * 2 if resize[0] >= 384 else (int(resize[0] / crop_pct),)
    if settings.get("do_center_crop"):
        size = settings.get("crop_size") or settings.get("size")
        crop = (size, size) if isinstance(size, int) else _huggingface_size(size)
    resample = settings.get("resample")
    names = {int(number): name for name, number in PILLOW_FILTERS.items()}
    return _Steps(resize, crop, names[2 if resample is None else int(resample)])


def _huggingface_size(size: Any) -> tuple[int, ...]:
    """(side,) of the short side, or (height, width)."""
    if not isinstance(size, (Mapping, Sequence, int)) and hasattr(size, "__dict__"):
        size = vars(size)  # a SizeDict
    if isinstance(size, int):
        raise _beyond("Hugging Face", f"has the size {size}, a square or the short side,")
    if not isinstance(size, Mapping):
        return _lengths(size)
    given = {key: int(value) for key, value in size.items() if value is not None}
    if given.keys() == {"height", "width"}:
        return (given["height"], given["width"])
    if given.keys() == {"shortest_edge"}:
        return (given["shortest_edge"],)
    raise _beyond("Hugging Face", f"resizes to {', '.join(f'{key} {value}' for key, value in given.items())}")


def _as_settings(processor: Any) -> Mapping[str, Any] | None:
    if isinstance(processor, Mapping):
        return processor
    if callable(getattr(processor, "to_dict", None)):
        return {"image_processor_type": type(processor).__name__, **processor.to_dict()}
    return None


def _filter_named(name: Any, library: str) -> Filter:
    text = str(getattr(name, "value", name)).lower()
    if text not in PILLOW_FILTERS:
        raise _beyond(library, f"resamples by '{text}'")
    return cast(Filter, text)


def _lengths(size: Any) -> tuple[int, ...]:
    return tuple(int(length) for length in size) if isinstance(size, Sequence) else (int(size),)


def _numbers(config: Mapping[str, Any], key: str, default: tuple[float, ...]) -> tuple[float, ...]:
    return _floats(config.get(key) or default)


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(np.asarray(values, np.float64).reshape(-1).tolist())


def _unknown(value: Any, library: str, wanted: str) -> UsageError:
    return UsageError("preset", f"{a_type(value)} is no recipe of {library}", f"Give {wanted}")


def _beyond(library: str, problem: str) -> UsageError:
    return UsageError("preset", f"the recipe of {library} {problem}, which no setting says", _CURE)
