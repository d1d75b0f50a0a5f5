"""From an image to the numbers a model was trained on: ``value = (pixel − mean) · scale``.

    image ─ upright, 8 bit ─ gray | RGB ─ resize, crop ─ BGR? ─ (pixel − mean)·scale ─ pad ─ focus ─ layout

Pixels are 0 … 255; mean is subtracted first, both in float32, in the order of the channels after the colour
conversion. A recipe written as (x/255 − m)/s has mean = 255·m and scale = 1/(255·s).
"""

from __future__ import annotations

import json
from dataclasses import InitVar, asdict, dataclass, fields
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt
from PIL import Image

from calib8.data.images import eight_bit, opencv_gray
from calib8.data.resize import (
    OPENCV,
    Filter,
    centre_crop,
    cover_size,
    letterbox_size,
    pad_to_centre,
    resample,
    space_to_depth,
)
from calib8.data.units import Units, mean_and_scale
from calib8.errors import DataError, UsageError
from calib8.json_texts import parse_json
from calib8.parameters import one_of, parameter

PREPROCESS_FORMAT: Final = "calib8-preprocess"
PREPROCESS_VERSION: Final = 1

_FLOAT32_MAX: Final = float(np.finfo(np.float32).max)
LEAST_CROP: Final = 0.01
"""Of an image: a hundredth of it in each direction."""

_FLOAT32_TINY: Final = float(np.finfo(np.float32).tiny)

Color = Literal["rgb", "bgr", "gray"]
Resize = Literal["warp", "short-side", "letterbox", "none"]
Layout = Literal["NCHW", "NHWC"]
OddMargin = Literal["after", "even"]


@dataclass(frozen=True)
class Preprocess:
    """How an image becomes the input of a model.

    Attributes:
        size: height and width of the result (before ``focus``). None: those of the model's input, or,
            with ``resize="none"``, those of the image.
        color: order of the channels.
        resize: ``warp`` to the box whatever the aspect; ``short-side``: keep the aspect and just cover
            the box; ``letterbox``: keep the aspect, fit into ``size`` and pad; ``none``: the image must
            already have ``size``. After ``warp`` and ``short-side`` the middle ``size`` is cut out.
        filter: resampling filter, see ``calib8.data.resize``; with OpenCV's images become gray as there, too.
        crop: the box is round(size / crop), 0.01 <= crop <= 1; 0.875 takes 224 out of 256.
        crop_pad: or the box is size + crop_pad pixels; 32 takes 224 out of 256 and 300 out of 332.
        resize_to: or the box is this many pixels, (H, W) or the side of a square.
            Without any of the three the box is ``size`` and nothing is cut off but the longer side.
        odd_margin: where the middle lies if an odd number of pixels is cut off, see
            ``calib8.data.resize.centre_crop``.
        letterbox_color: the pixel value 0 … 255 around a letterboxed image; None is the value that
            becomes 0.5 (0.5/scale + mean, as Tengine pads).
        focus: 2×2 pixels become 4 times the channels (YOLOv5): channel (2·column + row)·C + c.
        mean: pixel value that becomes 0, one per channel or one for all.
        scale: factor after the mean is subtracted, one per channel or one for all.
        layout: channels first or last.
        dtype: ``uint8`` passes the pixels on without mean and scale.

    Args:
        std: in place of ``scale``, standard deviations that the difference is divided by.
        units: with ``std``: what mean and std count in, ``0-1`` or ``0-255``; None: told by the numbers, see
            ``calib8.data.units``. Mean and scale for pixels 0 … 255 are what is kept: ``std`` and ``units``
            read as None afterwards, whatever was given.

    Raises:
        UsageError: a value out of its range, or settings that exclude each other.
    """

    size: tuple[int, int] | None = None
    color: Color = "rgb"
    resize: Resize = "warp"
    filter: Filter = "bilinear"
    crop: float | None = None
    crop_pad: int | None = None
    resize_to: int | tuple[int, int] | None = None
    odd_margin: OddMargin = "after"
    letterbox_color: float | None = None
    focus: bool = False
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    layout: Layout = "NCHW"
    dtype: Literal["float32", "uint8"] = "float32"
    std: InitVar[tuple[float, ...] | None] = None
    units: InitVar[Units | None] = None

    def __post_init__(self, std: tuple[float, ...] | None, units: Units | None) -> None:
        """Turns ``std`` into scale and lists into tuples; refuses what no image can go through."""
        for key in ("mean", "scale"):
            if isinstance(given := getattr(self, key), list):
                object.__setattr__(self, key, tuple(given))
        std = tuple(std) if isinstance(std, list) else std
        _check_choices(self)
        _check_sizes(self)
        if std is not None:
            _check_mean_and_std(self, std)
            mean, scale = mean_and_scale(self.mean, std, units)
            object.__setattr__(self, "mean", mean)
            object.__setattr__(self, "scale", scale)
        elif units is not None:
            raise UsageError("preprocessing", f"units {units} say what std counts in", "Give std too")
        _check_numbers(self)
        _check_combinations(self)

    @property
    def channels(self) -> int:
        """Channels of the result: 1 or 3, four times that with ``focus``."""
        return (1 if self.color == "gray" else 3) * (4 if self.focus else 1)

    def to_json(self) -> str:
        """One line of JSON, equal for equal settings."""
        settings = asdict(self)
        settings["mean"] = [float(value) for value in self.mean]
        settings["scale"] = [float(value) for value in self.scale]
        if self.odd_margin == "after":  # older versions do not know the setting
            del settings["odd_margin"]
        document = {"format": PREPROCESS_FORMAT, "version": PREPROCESS_VERSION, **settings}
        return json.dumps(document, sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, source: str = "preprocessing") -> Preprocess:
        """Reads what ``to_json`` wrote; ``source`` names the file or model in messages.

        Raises:
            DataError: not such a document, another version, unknown or wrong settings.
        """
        settings = _parse(text, source)
        unknown = sorted(set(settings) - {field.name for field in fields(cls)})
        if unknown:
            raise _broken(source, f"has the unknown setting '{unknown[0]}'")
        try:
            return cls(**settings)
        except UsageError as error:
            raise _broken(source, f"is broken ({error.subject} {error.problem})") from error


def apply_preprocess(image: Image.Image, p: Preprocess, name: str = "image") -> npt.NDArray[np.generic]:
    """One image as the model takes it, without batch axis.

    Args:
        image: any Pillow image; it is turned upright, alpha is dropped, 16 bits become 8.
        p: the settings, with a ``size`` unless ``resize`` is ``none``.
        name: subject of error messages.

    Returns:
        Contiguous array (C, H, W) or (H, W, C) by ``p.layout``, of ``p.dtype``.

    Raises:
        UsageError: ``p`` has no size and resizes.
        DataError: the image cannot be read as 8-bit pixels, or has not the size that ``resize="none"`` needs.
    """
    gray, opencv = p.color == "gray", p.filter == OPENCV
    upright = eight_bit(image, gray and not opencv, name)
    if gray and opencv:
        upright = opencv_gray(upright)
    pixels = _resized(upright, p, name)
    if p.color == "bgr":
        pixels = pixels[:, :, ::-1]
    values = _normalized(pixels, p)
    if p.resize == "letterbox":
        values = pad_to_centre(values, _known_size(p), _padding(p))
    if p.focus:
        if values.shape[0] % 2 or values.shape[1] % 2:
            raise DataError(
                name,
                f"focus needs an even size, not {values.shape[0]}×{values.shape[1]}",
                "Resize it to an even one",
            )
        values = space_to_depth(values)
    return np.ascontiguousarray(values.transpose(2, 0, 1) if p.layout == "NCHW" else values)


def preprocess_pixels(
    array: npt.NDArray[np.uint8], p: Preprocess, name: str = "image"
) -> npt.NDArray[np.generic]:
    """``apply_preprocess`` for pixels in memory.

    Args:
        array: uint8 of shape (H, W), (H, W, 1), (H, W, 3) in RGB order, or (H, W, 4) with alpha.
        p: as for ``apply_preprocess``.
        name: subject of error messages.

    Raises:
        DataError: another shape or dtype; and all that ``apply_preprocess`` raises.
    """
    pixels = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    image_like = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (3, 4))
    if array.dtype != np.uint8 or not image_like or not array.size:
        first = array.ndim == 3 and array.shape[0] in (1, 3, 4)
        how = ": image.transpose(1, 2, 0), for all at once images.transpose(0, 2, 3, 1)" if first else ""
        problem = f"an array {array.dtype} of shape {array.shape} is not an image"
        raise DataError(name, problem, f"Give uint8 pixels H×W×C, C = 1, 3 or 4{how}")
    return apply_preprocess(Image.fromarray(np.ascontiguousarray(pixels)), p, name)


def value_range(p: Preprocess) -> tuple[tuple[float, float], ...]:
    """Smallest and largest value of each channel of the result, in their order (length ``p.channels``).

    (0 − mean)·scale and (255 − mean)·scale, in ascending order; the padding of a letterbox is included.
    """
    corners = [np.zeros((1, 1, _colors(p)), np.uint8), np.full((1, 1, _colors(p)), 255, np.uint8)]
    values = [_normalized(corner, p)[0, 0] for corner in corners]
    if p.resize == "letterbox":
        values.append(_padding(p))
    low, high = np.min(values, axis=0), np.max(values, axis=0)
    return tuple((float(a), float(b)) for a, b in zip(low, high, strict=True)) * (4 if p.focus else 1)


def box_size(p: Preprocess, size: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the box that ``warp`` fills and ``short-side`` covers, for a result of ``size``.

    Raises:
        UsageError: ``resize_to`` is smaller than ``size``.
    """
    if p.crop is not None:
        return round(size[0] / p.crop), round(size[1] / p.crop)
    if p.crop_pad is not None:
        return size[0] + p.crop_pad, size[1] + p.crop_pad
    if p.resize_to is None:
        return size
    box = (p.resize_to, p.resize_to) if isinstance(p.resize_to, int) else p.resize_to
    if box[0] < size[0] or box[1] < size[1]:
        problem = f"resize_to {box[0]}×{box[1]} is smaller than the size {size[0]}×{size[1]} to cut out of it"
        raise UsageError("preprocessing", problem, "Resize to at least the size")
    return box


def _resized(image: Image.Image, p: Preprocess, name: str) -> npt.NDArray[np.uint8]:
    own = (image.height, image.width)
    if p.resize == "none":
        if p.size not in (None, own):
            wanted = "×".join(map(str, _known_size(p)))
            raise DataError(name, f"is {own[0]}×{own[1]}, not {wanted}", "Choose a way to resize it")
        return resample(image, own, p.filter)
    size = _known_size(p)
    if p.resize == "letterbox":
        return resample(image, letterbox_size(own, size), p.filter)
    box = box_size(p, size)
    aim = cover_size(own, box) if p.resize == "short-side" else box
    return centre_crop(resample(image, aim, p.filter), size, even=p.odd_margin == "even")


def _known_size(p: Preprocess) -> tuple[int, int]:
    if p.size is None:
        cure = f"Give {parameter('size')}"
        raise UsageError("preprocessing", f"resize '{p.resize}' has no size to aim at", cure)
    return p.size


def _normalized(pixels: npt.NDArray[np.uint8], p: Preprocess) -> npt.NDArray[np.generic]:
    if p.dtype == "uint8":
        return pixels
    return (pixels.astype(np.float32) - np.asarray(p.mean, np.float32)) * np.asarray(p.scale, np.float32)


def _padding(p: Preprocess) -> npt.NDArray[np.generic]:
    """Value of the letterbox's border, shape (channels before focus,), after mean and scale."""
    if p.dtype == "uint8":
        return np.full(_colors(p), p.letterbox_color, np.uint8)
    mean, scale = (np.broadcast_to(np.asarray(v, np.float32), _colors(p)) for v in (p.mean, p.scale))
    color = np.float32(0.5) / scale + mean if p.letterbox_color is None else np.float32(p.letterbox_color)
    return (color - mean) * scale


def _colors(p: Preprocess) -> int:
    return 1 if p.color == "gray" else 3


def _check_choices(p: Preprocess) -> None:
    choices: dict[str, tuple[Any, ...]] = {
        "color": get_args(Color),
        "resize": get_args(Resize),
        "filter": get_args(Filter),
        "layout": get_args(Layout),
        "odd_margin": get_args(OddMargin),
        "dtype": ("float32", "uint8"),
        "focus": (False, True),
    }
    for key, allowed in choices.items():
        if getattr(p, key) not in allowed:
            raise _refused(key, getattr(p, key), one_of(getattr(p, key), map(str, allowed)))


def _check_sizes(p: Preprocess) -> None:
    if p.size is not None and not _is_size(p.size):
        raise _refused("size", p.size, "Give height and width in pixels, both at least 1")
    if p.resize_to is not None and not (_is_length(p.resize_to) or _is_size(p.resize_to)):
        raise _refused("resize_to", p.resize_to, "Give one length or height and width in pixels")
    if p.crop_pad is not None and not (p.crop_pad == 0 or _is_length(p.crop_pad)):
        raise _refused("crop_pad", p.crop_pad, "Give a number of pixels, 0 or more")
    if p.crop is not None and not (_is_number(p.crop) and LEAST_CROP <= p.crop <= 1):
        raise _refused("crop", p.crop, f"Give a fraction from {LEAST_CROP} to 1, such as 0.875")
    if p.size is not None and p.resize in ("warp", "short-side"):
        box_size(p, p.size)
    if p.focus and p.size is not None and (p.size[0] % 2 or p.size[1] % 2):
        raise _refused("size", p.size, "Give an even height and width for focus")


def _check_numbers(p: Preprocess) -> None:
    if p.letterbox_color is not None and not (
        _is_number(p.letterbox_color) and 0 <= p.letterbox_color <= 255
    ):
        raise _refused("letterbox_color", p.letterbox_color, "Give a pixel value 0 … 255")
    for key, values in (("mean", p.mean), ("scale", p.scale)):
        _check_values(p, key, values)
    if any(abs(value) < _FLOAT32_TINY for value in p.scale):
        raise _refused("scale", p.scale, "Give factors other than 0; 1/std divides by std")


def _check_mean_and_std(p: Preprocess, std: object) -> None:
    _check_values(p, "mean", p.mean)
    _check_values(p, "std", std)
    if p.scale != (1.0,):
        cure = "Give one of them; dataclasses.replace takes scale=(1.0,) beside a std"
        raise UsageError("preprocessing", "std and scale contradict each other", cure)


def _check_values(p: Preprocess, key: str, values: object) -> None:
    """Refuses all but one number, or one per channel."""
    if (
        not isinstance(values, tuple)
        or len(values) not in {1, _colors(p)}
        or not all(map(_is_number, values))
    ):
        count = "1 number" if _colors(p) == 1 else "1 or 3 numbers"
        raise _refused(key, values, f"Give {count} for color '{p.color}', each within float32")


def _check_combinations(p: Preprocess) -> None:
    boxes = [key for key in ("crop", "crop_pad", "resize_to") if getattr(p, key) is not None]
    if len(boxes) > 1:
        raise UsageError("preprocessing", f"{' and '.join(boxes)} contradict each other", "Give one of them")
    if boxes and p.resize not in ("warp", "short-side"):
        raise UsageError(
            "preprocessing", f"{boxes[0]} does not go with resize '{p.resize}'", "Use warp or short-side"
        )
    if p.letterbox_color is not None and p.resize != "letterbox":
        raise _refused("letterbox_color", p.letterbox_color, "Leave it out unless resize is letterbox")
    if p.dtype == "float32":
        return
    if any(p.mean) or set(p.scale) != {1}:
        raise UsageError(
            "preprocessing", "uint8 takes neither mean nor scale", "Leave them out or use float32"
        )
    if p.resize == "letterbox" and (p.letterbox_color is None or p.letterbox_color % 1):
        raise _refused("letterbox_color", p.letterbox_color, "Give an integer 0 … 255 for uint8, such as 114")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _FLOAT32_MAX


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_size(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(_is_length, value))


def _refused(key: str, value: object, cure: str) -> UsageError:
    return UsageError("preprocessing", f"{key} cannot be {value!r}", cure)


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        document = parse_json(text)
    except (ValueError, TypeError) as error:
        raise _broken(source, f"is not JSON ({error})") from error
    if not isinstance(document, dict) or document.get("format") != PREPROCESS_FORMAT:
        raise _broken(source, f"is not a {PREPROCESS_FORMAT}")
    if document.get("version") != PREPROCESS_VERSION:
        raise _broken(source, f"has version {document.get('version')}, not {PREPROCESS_VERSION}")
    settings = {key: value for key, value in document.items() if key not in ("format", "version")}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}


def _broken(source: str, problem: str) -> DataError:
    cure = f"Write it again with this version of calib8 or give {parameter('preprocess')}"
    return DataError(source, problem, cure)
