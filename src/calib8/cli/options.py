"""The options that commands share, as annotated types and as frozen dataclasses of them.

``calib8.cli.commands.as_command`` turns each field of a dataclass into one option.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

_DATA: Final = "Data"
_PREPROCESSING: Final = "Preprocessing of images: value = (pixel 0 … 255 − mean) · scale"
_RANGES: Final = "Ranges"
_OUTPUT: Final = "Output"

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", show_default=False, help="The model, an .onnx file.")
]

_DATA_OPTION: Final = typer.Option(
    "--data",
    metavar="DIR|FILE",
    show_default=False,
    rich_help_panel=_DATA,
    help="Image folder (with its sub-folders), one image, or an .npz or .npy of arrays or uint8 images.",
)
DataOption = Annotated[Path, _DATA_OPTION]
OptionalDataOption = Annotated[Path | None, _DATA_OPTION]

LabelsOption = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        rich_help_panel=_DATA,
        help="List of 'file class-number' lines for an image folder. Default: its labels.txt or sub-folders.",
    ),
]

KeepFloatOption = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-float",
        metavar="NODE",
        rich_help_panel=_RANGES,
        help="Name of a node to leave in float; may be given several times.",
    ),
]


def usable_cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How much of the data is read, and how."""

    samples: Annotated[
        int | None,
        typer.Option(
            "--samples", metavar="N", rich_help_panel=_DATA, help="At most so many, evenly spaced. Default: all."
        ),
    ] = None
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch", metavar="N", rich_help_panel=_DATA, help="Samples per run; changes no result. Default: 1."
        ),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", metavar="N", rich_help_panel=_DATA, help="Changes no result. Default: all usable cores."
        ),
    ] = None
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad", rich_help_panel=_DATA, help="Pass over images that cannot be read; they are counted."
        ),
    ] = False

    @property
    def batch_size(self) -> int:
        """Samples per run."""
        return 1 if self.batch is None else self.batch

    @property
    def thread_count(self) -> int:
        """Threads to use."""
        return usable_cores() if self.threads is None else self.threads


@dataclass(frozen=True, kw_only=True)
class PreprocessOptions:
    """How images become inputs; None: not given. ``calib8.cli.preprocessing`` makes a Preprocess of it."""

    preprocess: Annotated[
        str | None,
        typer.Option(
            "--preprocess",
            metavar="PRESET",
            rich_help_panel=_PREPROCESSING,
            help="Start from a family: torchvision, caffe_bvlc, mobilenet_caffe, tf_inception, tf_vgg, keras_caffe, "
            "efficientnet_lite, yolo, ssd_mobilenet_caffe, cifar10, mnist. The flags below override it.",
        ),
    ] = None
    size: Annotated[
        str | None,
        typer.Option(
            "--size",
            metavar="H,W",
            rich_help_panel=_PREPROCESSING,
            help="Size that the model sees. Default: that of its input.",
        ),
    ] = None
    mean: Annotated[
        str | None,
        typer.Option(
            "--mean", metavar="A,B,C", rich_help_panel=_PREPROCESSING, help="Pixel value that becomes 0. Default: 0."
        ),
    ] = None
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale",
            metavar="A,B,C",
            rich_help_panel=_PREPROCESSING,
            help="Factor after the mean is subtracted; 1/255 is understood. Default: 1.",
        ),
    ] = None
    color: Annotated[
        str | None,
        typer.Option("--color", metavar="rgb|bgr|gray", rich_help_panel=_PREPROCESSING, help="Default: rgb."),
    ] = None
    resize: Annotated[
        str | None,
        typer.Option(
            "--resize",
            metavar="warp|short-side|letterbox|none",
            rich_help_panel=_PREPROCESSING,
            help="What happens to the aspect ratio. Default: warp.",
        ),
    ] = None
    filter: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="nearest|bilinear|bicubic|…",
            rich_help_panel=_PREPROCESSING,
            help="Resampling: nearest, box, bilinear, hamming, bicubic, lanczos (as Pillow), opencv-bilinear. "
            "Default: bilinear.",
        ),
    ] = None
    crop: Annotated[
        float | None,
        typer.Option(
            "--crop",
            metavar="FRACTION",
            rich_help_panel=_PREPROCESSING,
            help="Resize to size/FRACTION and cut out the middle, such as 0.875.",
        ),
    ] = None
    crop_pad: Annotated[
        int | None,
        typer.Option(
            "--crop-pad",
            metavar="N",
            rich_help_panel=_PREPROCESSING,
            help="Resize to size + N pixels and cut out the middle.",
        ),
    ] = None
    resize_to: Annotated[
        str | None,
        typer.Option(
            "--resize-to",
            metavar="N|H,W",
            rich_help_panel=_PREPROCESSING,
            help="Resize to so many pixels and cut out the middle.",
        ),
    ] = None
    letterbox_color: Annotated[
        float | None,
        typer.Option(
            "--letterbox-color",
            metavar="VALUE",
            rich_help_panel=_PREPROCESSING,
            help="Pixel value 0 … 255 around a letterboxed image. Default: what becomes 0.5.",
        ),
    ] = None
    focus: Annotated[
        bool | None,
        typer.Option(
            "--focus/--no-focus",
            rich_help_panel=_PREPROCESSING,
            help="2×2 pixels become 4 times the channels (first YOLOv5 models).",
        ),
    ] = None
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout",
            metavar="NCHW|NHWC",
            rich_help_panel=_PREPROCESSING,
            help="Default: what the model's input shape says.",
        ),
    ] = None
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            metavar="float32|uint8",
            rich_help_panel=_PREPROCESSING,
            help="uint8 passes the pixels on without mean and scale. Default: float32.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RangeOptions:
    """How the range of a tensor is chosen; None: not given."""

    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="minmax|percentile|mse|entropy",
            rich_help_panel=_RANGES,
            help="How the range of a tensor is chosen. Default: mse.",
        ),
    ] = None
    percent: Annotated[
        float | None,
        typer.Option(
            "--percent",
            metavar="P",
            rich_help_panel=_RANGES,
            help="With --method percentile: keep P % of the values, 50 … 100.",
        ),
    ] = None
    activations: Annotated[
        str | None,
        typer.Option(
            "--activations",
            metavar="uint8|int8|int8-symmetric",
            rich_help_panel=_RANGES,
            help="Code of the activations. Default: what the target takes, else uint8.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Where the results of a command go beside its own files."""

    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", rich_help_panel=_OUTPUT, help="Write the results for machines."),
    ] = None
    quiet: Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=_OUTPUT, help="Print errors only.")] = False
