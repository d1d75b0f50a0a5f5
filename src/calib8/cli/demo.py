"""``calib8 demo``: the whole way with the small model and the images that come with the package."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calib8.cli.documents import evaluation_document
from calib8.cli.headings import RESULTS
from calib8.cli.options import ReportOptions
from calib8.cli.outputs import check_outputs, model_bytes_on_disk, write_json
from calib8.cli.progress import shown_progress
from calib8.cli.render import evaluation_table, say_preflight, say_repairs
from calib8.cli.steps import say_calibration
from calib8.cli.terminal import Terminal, open_terminal
from calib8.cli.verdict import say_verdicts
from calib8.errors import PlaceError
from calib8.files import atomic_output
from calib8.processors import default_threads

if TYPE_CHECKING:
    from calib8.analysis.evaluate import Evaluation
    from calib8.pipeline import Quantization

FolderOption = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Folder for the results; made if it is missing.",
        rich_help_panel=RESULTS,
    ),
]


def demo(*, output: FolderOption = Path("calib8-demo"), report: ReportOptions) -> None:
    """Quantize and compare a small model that comes along."""
    terminal = open_terminal(report.quiet)
    _make_folder(output)
    float_model, int8_model = output / "digits-fp32.onnx", output / "digits-int8.onnx"
    table, figures = output / "digits-table.json", output / "digits-evaluation.json"
    check_outputs({"--output": float_model, "--json": report.json}, [int8_model, table, figures])

    from calib8 import demo as assets

    with atomic_output(float_model) as temporary:
        shutil.copyfile(assets.MODEL_PATH, temporary)
    result = _quantize(terminal, float_model)
    result.table.save(table)
    result.save(int8_model)
    terminal.say_lines(result.summary)
    evaluations = _evaluate(terminal, [float_model, int8_model])
    write_json(figures, evaluation_document(evaluations))
    if report.json is not None:
        write_json(report.json, evaluation_document(evaluations))
    for title, path in (("FP32", float_model), ("INT8", int8_model), ("table", table), ("figures", figures)):
        terminal.say(f"{title:8}{path}")
    terminal.say("")
    terminal.say(f"Try: calib8 inspect {int8_model} --target onnxruntime")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise PlaceError(
            f"--output {folder}", f"cannot be made ({reason})", "Choose another --output"
        ) from error


def _quantize(terminal: Terminal, model: Path) -> Quantization:
    from calib8 import demo as assets
    from calib8 import judge, pipeline
    from calib8.data.preprocess import Preprocess

    preprocess = Preprocess(color="gray", mean=(assets.PIXEL_MEAN,), scale=(assets.PIXEL_SCALE,))
    data, threads = assets.CALIBRATION_PATH, default_threads()
    say_preflight(terminal, judge.preflight(model, data, preprocess=preprocess, threads=threads))
    with shown_progress(terminal, "preparing the model", "choosing ranges, quantizing") as progress:
        result = pipeline.quantize(model, data, preprocess=preprocess, threads=threads, progress=progress)
    if result.calibration is not None:
        say_calibration(terminal, result.calibration, result.table)
    if result.repaired is not None:
        say_repairs(terminal, result.repaired)
    return result


def _evaluate(terminal: Terminal, models: list[Path]) -> list[Evaluation]:
    from calib8 import demo as assets
    from calib8 import judge

    with shown_progress(terminal, "opening the models") as progress:
        threads = default_threads()
        evaluations = judge.evaluate(models, assets.HELDOUT_PATH, threads=threads, progress=progress)
    terminal.say("")
    terminal.say(f"{evaluations[0].images} images that neither training nor calibration saw:")
    terminal.show(evaluation_table(evaluations, [model_bytes_on_disk(model) for model in models]))
    say_verdicts(terminal, evaluations)
    return evaluations
