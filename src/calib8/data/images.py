"""Image files and Pillow images as 8-bit gray or RGB pixels, upright, without alpha."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from PIL import Image, ImageOps

from calib8.data.listed_files import FileKind
from calib8.errors import DataError
from calib8.parameters import parameter

IMAGE_SUFFIXES: Final = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"}
)
"""Lower-case suffixes of the files that count as images."""

IMAGES: Final = FileKind("image", "images", IMAGE_SUFFIXES)


def read_image(path: Path | BinaryIO, name: str) -> Image.Image:
    """The first frame of the image in a file, as stored; ``eight_bit`` turns it upright.

    Raises:
        DataError: the file is missing, corrupt, truncated or of unknown format; ``name`` is its subject.
    """
    try:
        with _opened(path) as file, Image.open(file) as image:
            image.load()
            return image.copy()
    except MemoryError:
        raise
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise _unreachable(name, error) from error
    except Exception as error:  # Pillow's decoders let many types escape from broken files
        raise undecodable(name, error) from error


class _WithinFile(io.BufferedReader):
    """A file of which no more is asked for than it has: Pillow asks for as much as a broken file states."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._end = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1) -> bytes:
        """So many bytes, or those that are left."""
        left = max(0, self._end - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left))


@contextmanager
def _opened(path: Path | BinaryIO) -> Iterator[BinaryIO]:
    if not isinstance(path, Path):
        yield path
        return
    with _WithinFile(path) as file:
        yield file


def eight_bit(image: Image.Image, gray: bool, name: str) -> Image.Image:
    """The image turned upright by its EXIF orientation, as mode ``L`` or ``RGB``.

    Alpha is dropped, not blended. 16-bit gray keeps the upper byte. RGB becomes gray as
    0.299·R + 0.587·G + 0.114·B (ITU-R BT.601).

    Raises:
        DataError: pixels that are no 8- or 16-bit integers.
    """
    try:
        image = ImageOps.exif_transpose(image)
        if image.mode.startswith("I"):
            image = _upper_byte(image, name)
        if image.mode == "F":
            raise DataError(name, "holds floating-point pixels", "Save it with 8 bits per channel")
        if "transparency" in image.info:
            image = image.convert("RGBA")
        if image.mode == "L":
            return image if gray else image.convert("RGB")
        image = image.convert("RGB")
        return image.convert("L") if gray else image
    except (OSError, ValueError, SyntaxError) as error:
        raise undecodable(name, error) from error


OPENCV_GRAY: Final = (9798, 19235, 3735)
"""Weights of red, green and blue in OpenCV, of 2¹⁵ together."""


def opencv_gray(image: Image.Image) -> Image.Image:
    """An 8-bit RGB image as mode ``L`` with OpenCV's rounding: ⌊(w · pixel) / 2¹⁵ + ½⌋.

    Pillow's differs from it by 1 in some pixels of a hundred.
    """
    pixels = np.asarray(image).astype(np.int32)
    sums = pixels @ np.asarray(OPENCV_GRAY, np.int32)
    return Image.fromarray(((sums + (1 << 14)) >> 15).astype(np.uint8))


def _upper_byte(image: Image.Image, name: str) -> Image.Image:
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 0xFFFF:
        bounds = f"{values.min()} … {values.max()}"
        raise DataError(name, f"holds pixels {bounds}, outside of 16 bits", "Save it with 8 or 16 bits")
    return Image.fromarray((values >> 8).astype(np.uint8))


def _unreachable(name: str, error: OSError) -> DataError:
    """What to say of a path behind which no file can be read."""
    other = f"or pass over bad images with {parameter('skip_bad', True)}"
    if isinstance(error, FileNotFoundError):
        return DataError(
            name, "does not exist", f"A text is read as the path of a picture: check it, {other}"
        )
    if isinstance(error, IsADirectoryError):
        return DataError(name, "is a folder, not a picture", "Give a folder by itself, or list its pictures")
    return DataError(name, "cannot be read (permission denied)", f"Check its permissions, {other}")


def undecodable(name: str, error: Exception) -> DataError:
    """What to say of an image that Pillow cannot decode."""
    reason = str(error).partition(" <")[0] or type(error).__name__
    return DataError(
        name,
        f"cannot be decoded as an image ({reason})",
        f"Repair or remove it, or pass over bad images with {parameter('skip_bad', True)}",
    )
