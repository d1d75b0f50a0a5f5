"""Labels of pixels: a PNG per image whose values are numbers of classes.

``sub/a.jpg`` is labelled by ``sub/a.png`` or ``a.png`` of the folder; palettes count by their indices.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
import numpy.typing as npt

from calib8.data.images import read_image
from calib8.errors import DataError

VOID: Final = 255
"""What stands for pixels that no one labelled."""

_MODES: Final = ("1", "L", "P", "I", "I;16")


def mask_file(folder: Path, file: str) -> Path:
    """The label file of an image.

    Raises:
        DataError: there is none.
    """
    relative = PurePosixPath(file).with_suffix(".png")
    for path in (folder / relative, folder / relative.name):
        if path.is_file():
            return path
    named = f"'{file}'" + (f", '{relative}'" if str(relative) != file else "")
    problem = f"lacks the label of {named}"
    raise DataError(str(folder), problem, "Give the folder of the labels, one PNG per image")


def read_mask(path: Path, size: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Numbers of classes int64 [h, w] as they are stored.

    Args:
        path: the PNG.
        size: height and width of the picture.

    Raises:
        DataError: no image, a picture of colours, or of another size than its picture.
    """
    try:
        image = read_image(path, str(path))
    except DataError as error:  # the picture may be good: it is not passed over with the bad ones
        raise DataError(error.subject, error.problem, "Repair the label, or leave its picture out") from error
    if image.mode not in _MODES:
        problem = f"is a picture of colours (mode {image.mode}), no numbers of classes"
        raise DataError(str(path), problem, "Save the numbers as grey values or a palette")
    if (image.height, image.width) != size:
        problem = f"is {image.height}×{image.width}, its picture {size[0]}×{size[1]}"
        raise DataError(str(path), problem, "Give labels of these pictures")
    return np.asarray(image).astype(np.int64)
