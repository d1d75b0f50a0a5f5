"""Geometry of preprocessing: how large an image becomes, which part is kept, how it is resampled.

    cover       (h, w) → smallest (h', w') with the same aspect that covers the box, long side rounded down
    letterbox   r = min(R/h, C/w) as float32,  (h', w') = (int(r·h), int(r·w)),  top = (R−h')//2
    centre crop top = (h − H)//2,  left = (w − W)//2;  or both rounded to the nearest even number at a half

    opencv-bilinear, for output x of n and input size m (the same for rows):
        f = float32((x + 0.5)·m/n − 0.5),  i = floor(f),  weights rint((1−(f−i))·2^11), rint((f−i)·2^11)
    columns first, then rows as (((b0·(s0 >> 4)) >> 16) + ((b1·(s1 >> 4)) >> 16) + 2) >> 2

Pillow's filters widen with the shrinking factor (antialiasing). ``opencv-bilinear`` always looks at 2×2
pixels: these are the integers of OpenCV's INTER_LINEAR on 8-bit images, what Caffe, Tengine and most
detectors were trained or deployed with.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

Filter = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos", "opencv-bilinear"]

OPENCV: Final = "opencv-bilinear"
"""The filter of OpenCV; with it images become gray as there, too."""

PILLOW_FILTERS: Final[dict[str, Image.Resampling]] = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}

_WEIGHT_BITS: Final = 11


def cover_size(size: tuple[int, int], box: tuple[int, int]) -> tuple[int, int]:
    """Height and width of an image of ``size`` (H, W) after the smallest resize that covers ``box``.

    For a square box this is "short side to n": the long side is n·long/short, rounded down.
    """
    height, width = size
    if box[0] * width >= box[1] * height:
        return box[0], width * box[0] // height
    return height * box[1] // width, box[1]


def letterbox_size(size: tuple[int, int], box: tuple[int, int]) -> tuple[int, int]:
    """Height and width of an image of ``size`` (H, W) after the largest resize that fits into ``box``.

    Products are float32 and cut off, as Tengine's quantization tool computes them; at least one pixel.
    """
    ratio = np.float32(min(box[0] / size[0], box[1] / size[1]))
    fitted = [int(ratio * np.float32(length)) for length in size]
    return min(max(fitted[0], 1), box[0]), min(max(fitted[1], 1), box[1])


def centre_crop(
    pixels: npt.NDArray[np.uint8], size: tuple[int, int], *, even: bool = False
) -> npt.NDArray[np.uint8]:
    """The middle (H, W) of an (h, w, C) array, h >= H and w >= W.

    An odd margin leaves more below and right; with ``even`` half of it is rounded to an even number, as
    torchvision does.
    """
    top, left = (
        round(margin / 2) if even else margin // 2
        for margin in (pixels.shape[0] - size[0], pixels.shape[1] - size[1])
    )
    return pixels[top : top + size[0], left : left + size[1]]


def pad_to_centre(
    pixels: npt.NDArray[np.generic], size: tuple[int, int], colour: npt.NDArray[np.generic]
) -> npt.NDArray[np.generic]:
    """An (h, w, C) array in the middle of an (H, W, C) canvas of one colour (C,), same dtype."""
    height, width = pixels.shape[:2]
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    canvas = np.empty((*size, pixels.shape[2]), pixels.dtype)
    canvas[:] = colour
    canvas[top : top + height, left : left + width] = pixels
    return canvas


def space_to_depth(pixels: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """YOLOv5's focus: (2h, 2w, C) → (h, w, 4C), ``out[y, x, (2i+g)·C + c] = in[2y+g, 2x+i, c]``."""
    blocks = [pixels[row::2, column::2] for column in (0, 1) for row in (0, 1)]
    return np.concatenate(blocks, axis=2)


def resample(image: Image.Image, size: tuple[int, int], name: Filter) -> npt.NDArray[np.uint8]:
    """An 8-bit gray or RGB image resized to (H, W), as uint8 of shape (H, W, C), C = 1 or 3."""
    if name != OPENCV and size != (image.height, image.width):
        image = image.resize((size[1], size[0]), PILLOW_FILTERS[name])
    pixels = np.asarray(image, np.uint8)
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    return _opencv_bilinear(pixels, size) if pixels.shape[:2] != size else pixels


def _opencv_bilinear(pixels: npt.NDArray[np.uint8], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    first, row_weights = _taps(size[0], pixels.shape[0])
    left, column_weights = _taps(size[1], pixels.shape[1])
    # Columns past an edge repeat the edge pixel with weight 2^11; rows do so with both weights kept,
    # which may differ in the last bit.
    column_weights[:, (left < 0) | (left >= pixels.shape[1] - 1)] = [[1 << _WEIGHT_BITS], [0]]
    lines = [
        _weighted_columns(pixels[np.clip(rows, 0, pixels.shape[0] - 1)], left, column_weights)
        for rows in (first, first + 1)
    ]
    upper, lower = (
        (weight[:, None, None] * (line >> 4)) >> 16 for weight, line in zip(row_weights, lines, strict=True)
    )
    blended: npt.NDArray[np.int32] = (upper + lower + 2) >> 2
    return blended.astype(np.uint8)


def _weighted_columns(
    lines: npt.NDArray[np.uint8], left: npt.NDArray[np.int64], weights: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    last = lines.shape[1] - 1
    near, far = (lines[:, np.clip(left + step, 0, last)].astype(np.int32) for step in (0, 1))
    mixed: npt.NDArray[np.int32] = near * weights[0][:, None] + far * weights[1][:, None]
    return mixed


def _taps(output: int, source: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """First source index of each output position (−1 … source − 1) and its two weights, shape (2, output)."""
    # OpenCV takes the reciprocal of the ratio; dividing directly may differ in the last bit.
    step = 1.0 / (output / source)
    position = ((np.arange(output) + 0.5) * step - 0.5).astype(np.float32)
    first = np.floor(position)
    fraction = position - first
    weights = np.rint(np.stack([np.float32(1) - fraction, fraction]) * np.float32(1 << _WEIGHT_BITS))
    return first.astype(np.int64), weights.astype(np.int32)
