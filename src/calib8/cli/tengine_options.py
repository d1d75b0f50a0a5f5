"""The options of Tengine's quant_tool, and the preprocessing that they mean.

-g c,h,w     12,h,w: 2h × 2w pixels in RGB or BGR, four pixels to one (focus)
-w, -s       value = (pixel − mean) · scale, in the order of the channels that -b leaves
plain        resized to h × w as OpenCV does, whatever the aspect
-c 1         short side to h / 0.875, middle cut out (256 and 224 of the tool for 224)
-y R,C       aspect kept, padded to R × C with what becomes 0.5
-k 1 -y R,C  the same, then focus
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

from calib8.cli.headings import PREPROCESSING, option
from calib8.errors import UsageError

if TYPE_CHECKING:
    from calib8.data.preprocess import Preprocess
    from calib8.tensors import TensorSpec

DEFAULT_MEAN: Final = (104.0, 117.0, 123.0)
_CROP: Final = 0.875
_TOOL_SIZE: Final = 224

_SIZE_HELP: Final = (
    "Channels, height and width of the input. Default: the model's; 3,224,224 where it is open."
)
_MEAN_HELP: Final = "Mean of each channel, in the order after -b. Default: 104,117,123."
_SCALE_HELP: Final = "Factor of each channel after the mean is subtracted. Default: 1,1,1."
_SWAP_HELP: Final = "1: the channels are fed as RGB; 0: as BGR. Default: 1."
_CROP_HELP: Final = "1: keep the aspect and cut out the middle. Default: 0."
_LETTERBOX_HELP: Final = "Keep the aspect and pad to so many rows and columns; 0,0: do not. Default: 0,0."
_FOCUS_HELP: Final = "1: 2×2 pixels become 4 times the channels (first YOLOv5 models); needs -y. Default: 0."


@dataclass(frozen=True, kw_only=True)
class TengineImages:
    """How images become inputs, in Tengine's words; None: not given."""

    size: Annotated[str | None, option(PREPROCESSING, "-g", "C,H,W", _SIZE_HELP)] = None
    mean: Annotated[str | None, option(PREPROCESSING, "-w", "A,B,C", _MEAN_HELP)] = None
    scale: Annotated[str | None, option(PREPROCESSING, "-s", "A,B,C", _SCALE_HELP)] = None
    swap: Annotated[int, option(PREPROCESSING, "-b", "0|1", _SWAP_HELP)] = 1
    crop: Annotated[int, option(PREPROCESSING, "-c", "0|1", _CROP_HELP)] = 0
    letterbox: Annotated[str, option(PREPROCESSING, "-y", "ROWS,COLS", _LETTERBOX_HELP)] = "0,0"
    focus: Annotated[int, option(PREPROCESSING, "-k", "0|1", _FOCUS_HELP)] = 0


class _Size(NamedTuple):
    channels: int
    height: int
    width: int


def tengine_preprocess(images: TengineImages, inputs: Sequence[TensorSpec]) -> Preprocess:
    """The preprocessing that the options ask for.

    Args:
        images: the options.
        inputs: of the model; where ``-g`` is not given the size is that of its only input.

    Raises:
        UsageError: an option out of its range, too few numbers, or options that contradict each other.
    """
    from calib8.data.preprocess import Preprocess, Resize

    focus, crop = _flag("-k", images.focus), _flag("-c", images.crop)
    box = _letterbox(images.letterbox)
    size = _size(images, inputs, box)
    _check_geometry(size, box, crop, focus)
    colors = 1 if size.channels == 1 else 3
    rgb: Literal["rgb", "bgr"] = "rgb" if _flag("-b", images.swap) else "bgr"
    resize: Resize = "letterbox" if box else "short-side" if crop else "warp"
    return Preprocess(
        size=box or (size.height, size.width),
        color="gray" if colors == 1 else rgb,
        resize=resize,
        filter="opencv-bilinear",
        crop=_CROP if crop else None,
        focus=focus,
        mean=_numbers("-w", images.mean, DEFAULT_MEAN[:colors]),
        scale=_numbers("-s", images.scale, (1.0,) * colors),
    )


def tengine_shape(images: TengineImages, inputs: Sequence[TensorSpec]) -> tuple[int, ...] | None:
    """The sizes that the only input of a tmfile gets: those of ``-g``, or the tool's where it states none.

    None where they are those of the file, or it has another input than an image.
    """
    stated = (inputs[0].shape or ()) if len(inputs) == 1 else None
    if stated is None or len(stated) not in (0, 4):
        return None
    if images.size is None and stated and all(stated):
        return None
    return (1, *_size(images, inputs, _letterbox(images.letterbox)))


def _check_geometry(size: _Size, box: tuple[int, int] | None, crop: bool, focus: bool) -> None:
    """Refuses what the tool takes and answers with a broken input."""
    if focus != (size.channels == 12):
        cure = "Give -g 12,ROWS/2,COLS/2 with -k 1, and -g 3,ROWS,COLS without"
        raise UsageError(f"-k {focus:d}", f"does not go with {size.channels} channels", cure)
    if focus and box is None:
        raise UsageError("-k 1", "needs the size to pad to", "Give -y ROWS,COLS")
    if crop and box is not None:
        raise UsageError("-c 1", "contradicts -y", "Give one of them")
    factor = 2 if focus else 1
    if box is not None and box != (factor * size.height, factor * size.width):
        wanted = f"{factor * size.height},{factor * size.width}"
        problem = f"does not fit an input of {size.height}×{size.width}"
        raise UsageError(f"-y {box[0]},{box[1]}", problem, f"Give -y {wanted}")


def _size(images: TengineImages, inputs: Sequence[TensorSpec], box: tuple[int, int] | None) -> _Size:
    """``-g``, or what the model says, or what follows from the other options, or the tool's 224."""
    if images.size is not None:
        size = _Size(*_integers("-g", images.size, 3))
        if size.channels not in (1, 3, 12) or min(size) < 1:
            raise UsageError(
                f"-g {images.size}", "is not a size of images", "Give 3,H,W, 1,H,W, or 12,H,W with -k"
            )
        return size
    shape = inputs[0].shape if len(inputs) == 1 else None
    known = [n if isinstance(n, int) else None for n in (shape or ())[-3:]]
    channels, height, width = known if len(known) == 3 else (None, None, None)
    if channels not in (None, 1, 3, 12):
        channels = None
    factor = 2 if images.focus == 1 else 1
    rows, columns = (_TOOL_SIZE, _TOOL_SIZE) if box is None else (box[0] // factor, box[1] // factor)
    return _Size(channels or (12 if images.focus == 1 else 3), height or rows, width or columns)


def _letterbox(text: str) -> tuple[int, int] | None:
    rows, columns = _integers("-y", text, 2)
    if rows == columns == 0:
        return None
    if rows < 1 or columns < 1:
        raise UsageError(f"-y {text}", "is not a size in pixels", "Give ROWS,COLS, or 0,0 for none")
    return rows, columns


def _flag(name: str, value: int) -> bool:
    if value not in (0, 1):
        raise UsageError(f"{name} {value}", "is neither 0 nor 1", "Give 0 or 1")
    return value == 1


def _integers(name: str, text: str, count: int) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != count:
        example = "640,640" if count == 2 else "3,224,224"
        raise UsageError(f"{name} {text}", f"is not {count} whole numbers", f"Write {name} {example}")
    return numbers


def _numbers(name: str, text: str | None, default: tuple[float, ...]) -> tuple[float, ...]:
    """One number per colour; the tool leaves what is missing at its default and says nothing."""
    if text is None:
        return default
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(default) == 1 and len(numbers) == len(DEFAULT_MEAN):
        return numbers[:1]  # the tool reads three numbers whatever the image, and takes the first for gray
    if len(numbers) != len(default):
        problem = f"is not {len(default)} number{'s' if len(default) > 1 else ''}, one per colour"
        raise UsageError(f"{name} {text}", problem, f"Write {name} {','.join(f'{n:g}' for n in default)}")
    return numbers
