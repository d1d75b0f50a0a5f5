"""``calib8 quantize``: from a float model, and data or a table, to an INT8 model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calib8.cli.calibrate import check_ranges, look_at_data, say_calibration
from calib8.cli.documents import calibration_document, placement_document, preflight_document
from calib8.cli.options import (
    DataOption,
    KeepFloatOption,
    LabelsOption,
    ModelArgument,
    PreprocessOptions,
    RangeOptions,
    ReadingOptions,
    ReportOptions,
)
from calib8.cli.outputs import check_outputs, model_bytes_on_disk, write_json
from calib8.cli.preprocessing import chosen_preprocess
from calib8.cli.progress import shown_progress
from calib8.cli.render import say_sizes
from calib8.cli.terminal import Terminal, open_terminal
from calib8.errors import UsageError

if TYPE_CHECKING:
    from calib8.data.preprocess import Preprocess
    from calib8.pipeline import Quantization

TargetOption = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="NAME",
        help="Runtime of the result: onnxruntime, openvino, tflite, tensorrt, tengine or ncnn.",
    ),
]


def quantize(
    model: ModelArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT.onnx", show_default=False, help="The INT8 model to write.")
    ],
    table: Annotated[
        Path | None,
        typer.Option(
            "--table",
            metavar="TABLE.json",
            help="Ranges of an earlier calibration to use; with --data the file to write them to.",
        ),
    ] = None,
    target: TargetOption = "onnxruntime",
    data: DataOption | None = None,
    *,
    labels: LabelsOption,
    reading: ReadingOptions,
    ranges: RangeOptions,
    keep_float: KeepFloatOption,
    preprocessing: PreprocessOptions,
    report: ReportOptions,
) -> None:
    """Make an INT8 model from a float one, with images to calibrate on or a table."""
