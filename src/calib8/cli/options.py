"""The options that commands share, as annotated types and as frozen dataclasses of them.

``calib8.cli.commands.as_command`` turns each field of a dataclass into one option.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from calib8.cli.headings import (
    DATA,
    PREPROCESSING,
    PROGRAM,
    RANGES,
    REPAIR,
    RESULTS,
    RUNTIME,
    STATISTICS,
    TARGET,
    option,
)
from calib8.cli.pairs import declared_states, fixed_values, pairs_of
from calib8.cli.sound_options import SoundOptions
from calib8.cli.stream_options import FixOption, StateOption
from calib8.processors import default_threads

if TYPE_CHECKING:
    from calib8.calibration.range_choice import RangeChoice
    from calib8.data.preprocess import Preprocess
    from calib8.data.reading import Reading
    from calib8.repair.wanted import RepairChoice

ModelArgument = Annotated[
    Path,
    typer.Argument(metavar="MODEL", show_default=False, help="The float model: .onnx, .tflite or .tmfile."),
]
OpenableArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", show_default=False, help="An .onnx, .tflite or .tmfile, a saved program or a plan."
    ),
]

_DATA_HELP: Final = (
    "Folder of images or WAV files (with its sub-folders), one of them, .npz or .npy of arrays or uint8 "
    "images; tar shards, Parquet files, or an address of them or of images, such as "
    "'s3://bucket/train-{000..099}.tar'."
)
DataOption = Annotated[str, option(DATA, "--data", "DIR|FILE|URL", _DATA_HELP)]
OptionalDataOption = Annotated[str | None, option(DATA, "--data", "DIR|FILE|URL", _DATA_HELP)]

_LABELS_HELP: Final = (
    "Lines of 'file class-number' for an image folder. Default: its labels.txt or sub-folders."
)
LabelsOption = Annotated[Path | None, option(DATA, "--labels", "FILE", _LABELS_HELP)]

_TASK_LABELS_HELP: Final = (
    "Lines of 'file class-number' for an image folder, default its labels.txt or sub-folders; with --task "
    "detect or keypoints a COCO JSON file or a folder of YOLO text files, with segment a folder of PNGs, "
    "with enhance a folder of clean WAV files of the same names."
)
TaskLabelsOption = Annotated[Path | None, option(DATA, "--labels", "FILE|DIR", _TASK_LABELS_HELP)]

_KEEP_FLOAT_HELP: Final = (
    "Node to leave in float, by its name or a tensor that it yields; may be given several times."
)
KeepFloatOption = Annotated[list[str] | None, option(RANGES, "--keep-float", "NODE", _KEEP_FLOAT_HELP)]

_SPOT_HELP: Final = (
    "Tensor whose codes have 16 bits in place of 8, with --target calib8 or tflite; "
    "may be given several times."
)
SpotOption = Annotated[
    list[str] | None,
    typer.Option("--spot", metavar="TENSOR", show_default=False, help=_SPOT_HELP, rich_help_panel=TARGET),
]

_BATCH_HELP: Final = (
    "Samples per run; no result depends on it. Default: 1, for calibration what serves the model best."
)
ThreadsOption = Annotated[
    int | None, option(DATA, "--threads", "N", "No result depends on it. Default: all usable cores.")
]
SkipBadOption = Annotated[
    bool, option(DATA, "--skip-bad", None, "Pass over images that cannot be read; they are counted.")
]
_MAP_HELP: Final = (
    "Column of tar shards or Parquet files that an input of the model takes, or the label "
    "(label=COLUMN); may be given several times. Default: told by names and contents."
)
_MAP_CURE: Final = "Write it like --input-map image=jpg, each input once"
InputMapOption = Annotated[list[str] | None, option(DATA, "--input-map", "INPUT=COLUMN", _MAP_HELP)]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(SoundOptions):
    """How much of the data is read, and how; None: not given."""

    samples: Annotated[
        int | None,
        option(DATA, "--samples", "N", "At most so many, evenly spaced. Default: all; 32 for diagnose."),
    ] = None
    batch: Annotated[
        int | None,
        option(DATA, "--batch", "N", _BATCH_HELP),
    ] = None
    threads: ThreadsOption = None
    skip_bad: SkipBadOption = False
    input_map: InputMapOption = None
    fix: FixOption = None
    state: StateOption = None

    def of(
        self, data: str | None, preprocess: Preprocess | None = None, labels: Path | None = None
    ) -> Reading:
        """The request that these options and those beside them are.

        Raises:
            UsageError: a count below 1, a column that is none, a value that is no number.
        """
        from calib8.data.reading import Reading

        return Reading(
            data, preprocess, labels, self.samples, self.batch, self.thread_count, self.skip_bad,
            input_map=pairs_of("--input-map", self.input_map or (), "INPUT=COLUMN", _MAP_CURE) or None,
            fix=fixed_values(self.fix), state=declared_states(self.state), framing=self.framing(),
        )  # fmt: skip

    @property
    def thread_count(self) -> int:
        """Threads to use."""
        return default_threads() if self.threads is None else self.threads


FORMATS_HELP: Final = (
    "calib8, tensorrt, tensorrt-ranges, ncnn, tengine, tengine-uint8, mxnet, onnxruntime, aimet or "
    "aimet-0.6.1."
)
TOLD: Final = "told by the content"

_PRESET_HELP: Final = (
    "Start from a family: torchvision, caffe_bvlc, mobilenet_caffe, tf_inception, tf_vgg, keras_caffe, "
    "efficientnet_lite, yolo, ssd_mobilenet_caffe, cifar10, mnist. The flags below override it."
)
_SIZE_HELP: Final = "Height and width that the model sees. Default: those of its input."
_MEAN_HELP: Final = (
    "Pixel value 0 … 255 that becomes 0, one per channel or one for all; beside --std also of pixels that "
    "are divided by 255. Default: 0."
)
_SCALE_HELP: Final = "Factor after the mean is subtracted; 1/255 is understood. Default: 1."
_STD_HELP: Final = "In place of --scale: standard deviation to divide by, one per channel or one for all."
_UNITS_HELP: Final = (
    "With --std: what it and --mean count in, 0-1 (pixels divided by 255) or 0-255. Default: what the "
    "numbers are of, told by their size; asked for where that is not clear."
)
_COLOR_HELP: Final = "Order of the channels. Default: rgb."
_RESIZE_HELP: Final = "What happens to the aspect ratio: warp, short-side, letterbox or none. Default: warp."
_FILTER_HELP: Final = (
    "Resampling: nearest, box, bilinear, hamming, bicubic or lanczos (as Pillow), or opencv-bilinear. "
    "Default: bilinear."
)
_CROP_HELP: Final = "Resize to size/FRACTION and cut out the middle, such as 0.875."
_CROP_PAD_HELP: Final = "Resize to size + N pixels and cut out the middle."
_RESIZE_TO_HELP: Final = "Resize to so many pixels and cut out the middle."
_ODD_MARGIN_HELP: Final = (
    "If an odd number of pixels is cut off: after (one more below and right), or even (half of it "
    "rounded to an even number, as torchvision does). Default: after."
)
_LETTERBOX_HELP: Final = "Pixel value 0 … 255 around a letterboxed image. Default: what becomes 0.5."
_FOCUS_HELP: Final = "2×2 pixels become 4 times the channels (first YOLOv5 models)."
_LAYOUT_HELP: Final = "Default: what the shape of the model's input says."
_DTYPE_HELP: Final = "uint8 passes the pixels on without mean and scale. Default: float32."


@dataclass(frozen=True, kw_only=True)
class PreprocessOptions:
    """How images become inputs; None: not given. ``calib8.cli.preprocessing`` makes a Preprocess of it."""

    preprocess: Annotated[str | None, option(PREPROCESSING, "--preprocess", "PRESET", _PRESET_HELP)] = None
    size: Annotated[str | None, option(PREPROCESSING, "--size", "H,W", _SIZE_HELP)] = None
    mean: Annotated[str | None, option(PREPROCESSING, "--mean", "A,B,C", _MEAN_HELP)] = None
    scale: Annotated[str | None, option(PREPROCESSING, "--scale", "A,B,C", _SCALE_HELP)] = None
    std: Annotated[str | None, option(PREPROCESSING, "--std", "A,B,C", _STD_HELP)] = None
    units: Annotated[str | None, option(PREPROCESSING, "--units", "0-1|0-255", _UNITS_HELP)] = None
    color: Annotated[str | None, option(PREPROCESSING, "--color", "rgb|bgr|gray", _COLOR_HELP)] = None
    resize: Annotated[str | None, option(PREPROCESSING, "--resize", "HOW", _RESIZE_HELP)] = None
    filter: Annotated[str | None, option(PREPROCESSING, "--filter", "NAME", _FILTER_HELP)] = None
    crop: Annotated[float | None, option(PREPROCESSING, "--crop", "FRACTION", _CROP_HELP)] = None
    crop_pad: Annotated[int | None, option(PREPROCESSING, "--crop-pad", "N", _CROP_PAD_HELP)] = None
    resize_to: Annotated[str | None, option(PREPROCESSING, "--resize-to", "N|H,W", _RESIZE_TO_HELP)] = None
    odd_margin: Annotated[
        str | None, option(PREPROCESSING, "--odd-margin", "after|even", _ODD_MARGIN_HELP)
    ] = None
    letterbox_color: Annotated[
        float | None, option(PREPROCESSING, "--letterbox-color", "VALUE", _LETTERBOX_HELP)
    ] = None
    focus: Annotated[bool | None, option(PREPROCESSING, "--focus/--no-focus", None, _FOCUS_HELP)] = None
    layout: Annotated[str | None, option(PREPROCESSING, "--layout", "NCHW|NHWC", _LAYOUT_HELP)] = None
    dtype: Annotated[str | None, option(PREPROCESSING, "--dtype", "float32|uint8", _DTYPE_HELP)] = None


_METHOD_HELP: Final = (
    "How the range of a tensor is chosen: auto, minmax, mean-minmax, percentile, mse, mse-behind, "
    "entropy, aciq or aciq-tengine; ema; by reading the data twice entropy-mxnet, entropy-ncnn, "
    "entropy-tengine, entropy-smooth or entropy-tensorrt-exact. Default: auto; mse-behind with --from-stats."
)
_PERCENT_HELP: Final = "With --method percentile: keep P % of the values, 50 … 100."
_DECAY_HELP: Final = "With --method ema: weight of the samples before, 0 … 1. Default: 0.99."
_ACTIVATIONS_HELP: Final = (
    "Code of the activations: uint8, int8 or int8-symmetric. Default: what the target takes, else uint8."
)
_POWER_OF_TWO_HELP: Final = "Widen every range so that its scale is a power of two."
_RANGE_HELP: Final = (
    "Your own range of the tensors whose names match: 'NAME=LOW,HIGH', 'NAME=T' for −T … T, "
    "'NAME=scale:S' or 'NAME=scale:S,ZEROPOINT'; * and ? stand for anything. May be given several times; "
    "the last match counts."
)
PowerOfTwoOption = Annotated[bool, option(RANGES, "--power-of-two", None, _POWER_OF_TWO_HELP)]
GivenRangesOption = Annotated[list[str] | None, option(RANGES, "--range", "NAME=…", _RANGE_HELP)]


@dataclass(frozen=True, kw_only=True)
class RangeOptions:
    """How the range of a tensor is chosen; None: not given."""

    method: Annotated[str | None, option(RANGES, "--method", "NAME", _METHOD_HELP)] = None
    percent: Annotated[float | None, option(RANGES, "--percent", "P", _PERCENT_HELP)] = None
    decay: Annotated[float | None, option(RANGES, "--decay", "D", _DECAY_HELP)] = None
    activations: Annotated[str | None, option(RANGES, "--activations", "TYPE", _ACTIVATIONS_HELP)] = None
    power_of_two: PowerOfTwoOption = False
    range: GivenRangesOption = None

    def choice(self) -> RangeChoice:
        """The request that these options are.

        Raises:
            UsageError: no such method, options that do not fit it, a range that is none.
        """
        from calib8.calibration.given import parse_given
        from calib8.calibration.range_choice import RangeChoice

        given = parse_given(self.range or ())
        return RangeChoice(self.method, self.percent, self.decay, self.power_of_two, given)


_EFFORT_HELP: Final = (
    "How much is tried to keep the accuracy: fast, balanced or best. Default with --data: balanced."
)
_REPAIR_HELP: Final = "In place of an effort: repairs to carry out, separated by commas, or none."


@dataclass(frozen=True, kw_only=True)
class RepairOptions:
    """What is done beyond ranges to keep the accuracy; None: not given."""

    effort: Annotated[str | None, option(REPAIR, "--effort", "NAME", _EFFORT_HELP)] = None
    repair: Annotated[str | None, option(REPAIR, "--repair", "NAME,…", _REPAIR_HELP)] = None

    @property
    def names(self) -> tuple[str, ...] | None:
        """The repairs named."""
        if self.repair is None:
            return None
        return tuple(name.strip() for name in self.repair.split(","))

    def choice(self, keep_float: Sequence[str] | None, spots: Sequence[str] | None) -> RepairChoice:
        """The request that these options and those beside them are.

        Raises:
            UsageError: an effort or a repair that does not exist, or both.
        """
        from calib8.repair.wanted import RepairChoice

        return RepairChoice(self.effort, self.names, keep_float or (), spots or ())


_FROM_STATS_HELP: Final = "Statistics of an earlier run in place of --data."
FromStatsOption = Annotated[Path | None, option(STATISTICS, "--from-stats", "FILE", _FROM_STATS_HELP)]
_STATS_HELP: Final = "Write the statistics, for --from-stats and 'stats merge'."
_SHARD_HELP: Final = "Read part I of N of the data, and write --stats only."
_CHECKPOINT_HELP: Final = (
    "Save the run on the way; where FILE exists, go on with it. It is removed when all is done."
)
_EVERY_HELP: Final = "Samples between two savings. Default: so that they cost little."


@dataclass(frozen=True, kw_only=True)
class StatisticsOptions:
    """Where statistics come from and go to; None: not given."""

    stats: Annotated[Path | None, option(STATISTICS, "--stats", "FILE", _STATS_HELP)] = None
    from_stats: FromStatsOption = None
    shard: Annotated[str | None, option(STATISTICS, "--shard", "I/N", _SHARD_HELP)] = None
    checkpoint: Annotated[Path | None, option(STATISTICS, "--checkpoint", "FILE", _CHECKPOINT_HELP)] = None
    checkpoint_every: Annotated[int | None, option(STATISTICS, "--checkpoint-every", "N", _EVERY_HELP)] = None


_RUNTIME_HELP: Final = (
    "Where the models run: onnxruntime, openvino, calib8 (its own engine, for quantized models, saved "
    "programs and plans), reference (its definition of every rounding, slow), or for TFLite models litert "
    "(LiteRT with XNNPACK), litert-optimized or litert-reference (LiteRT's own kernels). "
    "Default: onnxruntime; calib8 where a model is a quantized one of TFLite or Tengine."
)
PROFILE_HELP: Final = (
    "How calib8 rounds: onnx, tflite or single. Default: onnx; single with --integer-only; a saved program "
    "or plan has its own; a TFLite model is always tflite, one of Tengine tengine."
)
INTEGER_ONLY_HELP: Final = "Refuse a model of which a part has no integer form."


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """Where models run; None: not given. The last two go with the runtimes of calib8 only."""

    runtime: Annotated[str | None, option(RUNTIME, "--runtime", "NAME", _RUNTIME_HELP)] = None
    profile: Annotated[str | None, option(RUNTIME, "--profile", "NAME", PROFILE_HELP)] = None
    integer_only: Annotated[bool, option(RUNTIME, "--integer-only", None, INTEGER_ONLY_HELP)] = False


_PROGRAM_HELP: Final = (
    "Show the integer program that a quantized model is lowered to; a saved one is shown anyway."
)
SHAPE_HELP: Final = (
    "Sizes of an input in the model's order, such as image=1,3,224,224, or 1,224,224,3 for TFLite; may be "
    "given several times. Default: a free batch is 1, other free sizes are those of a TFLite file if it has "
    "some."
)
UNTIL_HELP: Final = (
    "Tensor of a TFLite model that becomes an output in place of the model's own; may be given several "
    "times. What lies behind is left out."
)
_SAVE_HELP: Final = "Write the program, for 'compile' and the runtimes 'calib8' and 'reference'."


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """The integer program of a model; the others go with ``program`` only."""

    program: Annotated[bool, option(PROGRAM, "--program", None, _PROGRAM_HELP)] = False
    profile: Annotated[str | None, option(PROGRAM, "--profile", "NAME", PROFILE_HELP)] = None
    integer_only: Annotated[bool, option(PROGRAM, "--integer-only", None, INTEGER_ONLY_HELP)] = False
    shape: Annotated[list[str] | None, option(PROGRAM, "--shape", "NAME=A,B,…", SHAPE_HELP)] = None
    until: Annotated[list[str] | None, option(PROGRAM, "--until", "TENSOR", UNTIL_HELP)] = None
    save: Annotated[Path | None, option(PROGRAM, "--save", "FILE.c8p", _SAVE_HELP)] = None


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Where the results of a command go beside its own files."""

    json: Annotated[Path | None, option(RESULTS, "--json", "FILE", "Write the results for machines.")] = None
    quiet: Annotated[bool, option(RESULTS, "--quiet", None, "Print errors only.")] = False
