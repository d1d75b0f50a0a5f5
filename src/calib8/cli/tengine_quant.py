"""``calib8 tengine-quant``: options and side files of Tengine's quant_tool, for tmfiles and ONNX models.

    -a 0   min-max   minmax            table_minmax.scale
    -a 1   KL        entropy-tengine   table_kl.scale
    -a 2   ACIQ      aciq-tengine      table_aciq.scale

A .tmfile given and wanted becomes what the tool makes of it (``delivery/tmfile``), an .onnx file a QDQ model
of the target ``tengine``. The side files lie in the current folder, as the tool's do: tensor, scale (1/127
behind a Softmax, whatever was seen) and zero point; with ``scale_weight.txt`` and ``scale_bias.txt`` for the
layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias

from calib8.cli import tengine_tmfile
from calib8.cli.compare import comparison_table, say_comparison
from calib8.cli.headings import DATA, RANGES, RESULTS, option
from calib8.cli.options import ReadingOptions, ReportOptions, SkipBadOption
from calib8.cli.outputs import check_outputs, model_bytes_on_disk, write_json
from calib8.cli.progress import shown_progress
from calib8.cli.render import say_repairs, say_sizes
from calib8.cli.steps import look_at_data, say_calibration
from calib8.cli.tengine_options import TengineImages, tengine_preprocess, tengine_shape
from calib8.cli.terminal import Terminal, open_terminal
from calib8.errors import UsageError
from calib8.files import check_written_model
from calib8.ops.questions import is_softmax
from calib8.processors import default_threads
from calib8.tmfile.magic import is_tmfile_name

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

    from calib8.data.preprocess import Preprocess
    from calib8.pipeline import Quantization
    from calib8.table import CalibrationTable
    from calib8.tensors import TensorSpec

Compared: TypeAlias = "tuple[Path | onnx.ModelProto, Path]"
"""The float model, and the one in codes."""

TARGET: Final = "tengine"
WEIGHT_FILE: Final = Path("scale_weight.txt")
BIAS_FILE: Final = Path("scale_bias.txt")
EVALUATED: Final = 32
"""Images for -z 1."""


class Algorithm(NamedTuple):
    """A value of ``-a``: what the tool calls it, method and repair here, and the file of its scales."""

    title: str
    method: str
    file: Path
    repair: str = "none"


ALGORITHMS: Final[dict[int, Algorithm]] = {
    0: Algorithm("min-max", "minmax", Path("table_minmax.scale")),
    1: Algorithm("KL", "entropy-tengine", Path("table_kl.scale")),
    2: Algorithm("ACIQ", "aciq-tengine", Path("table_aciq.scale")),
    3: Algorithm("DFQ", "minmax", Path("table_minmax.scale"), "cle"),
    4: Algorithm("EQ", "minmax", Path("table_minmax.scale"), "eq-tengine"),
}

_MODEL_HELP: Final = "The float model, a .tmfile or an .onnx file."
_OUTPUT_HELP: Final = "The INT8 model to write: a .tmfile of a .tmfile, or an .onnx file."
_IMAGES_HELP: Final = "Folder of images to calibrate with; needed without -f."
_TABLE_HELP: Final = "Scales of an earlier run; nothing is calibrated."
_ALGORITHM_HELP: Final = "How it is calibrated: 0 min-max, 1 KL, 2 ACIQ, 3 DFQ, 4 EQ. Default: 0."
_THREADS_HELP: Final = "Threads; no result depends on it. Default: all usable cores."
_EVALUATE_HELP: Final = "1: show what every layer loses on some of the images. Default: 0."
_UINT8_HELP: Final = "A .tmfile in uint8 as quant_tool_uint8 makes it: zero points, one scale per weight."

ModelOption = Annotated[Path, option(DATA, "-m", "MODEL.tmfile", _MODEL_HELP)]
OutputOption = Annotated[Path, option(RESULTS, "-o", "OUT.tmfile", _OUTPUT_HELP)]


@dataclass(frozen=True, kw_only=True)
class TengineRun:
    """What is done with the model; None: not given."""

    images: Annotated[Path | None, option(DATA, "-i", "DIR", _IMAGES_HELP)] = None
    table: Annotated[Path | None, option(RANGES, "-f", "FILE.scale", _TABLE_HELP)] = None
    algorithm: Annotated[int, option(RANGES, "-a", "0|1|2|3|4", _ALGORITHM_HELP)] = 0
    threads: Annotated[int | None, option(DATA, "-t", "N", _THREADS_HELP)] = None
    skip_bad: SkipBadOption = False
    evaluate: Annotated[int, option(RESULTS, "-z", "0|1", _EVALUATE_HELP)] = 0
    uint8: Annotated[bool, option(RESULTS, "--uint8", None, _UINT8_HELP)] = False

    @property
    def reading(self) -> ReadingOptions:
        """How the images are read."""
        threads = default_threads() if self.threads is None else self.threads
        return ReadingOptions(threads=threads, skip_bad=self.skip_bad)


def tengine_quant(
    model: ModelOption,
    output: OutputOption,
    *,
    run: TengineRun,
    images: TengineImages,
    report: ReportOptions,
) -> None:
    """Quantize with the options of Tengine's quant_tool.

    Writes an int8 tmfile or a QDQ model for Tengine, and in the current folder the scales of tensors, weights
    and biases.
    """
    terminal = open_terminal(report.quiet)
    algorithm = _algorithm(run)
    _check_request(model, output, run, algorithm)
    files = {"-o": output, "the table of scales": None if run.table else algorithm.file}
    outputs = {**files, "the scales of weights": WEIGHT_FILE, "the scales of biases": BIAS_FILE}
    check_outputs({**outputs, "--json": report.json}, [model, run.images, run.table])
    inputs = _inputs(model)
    preprocess = _preprocess(terminal, inputs, images)
    if is_tmfile_name(output):
        if run.images is not None:
            tengine_tmfile.check_batch(model, inputs, images)
        shape = tengine_shape(images, inputs)
        contents, compared = _made_tmfile(terminal, model, output, run, algorithm, preprocess, shape)
    else:
        contents, compared = _made_onnx(terminal, model, output, run, algorithm, preprocess)
    for path in contents:
        terminal.say(f"scales {path}")
    if run.evaluate and run.images is not None:
        _evaluate(terminal, compared, run, preprocess)
    if report.json is not None:
        write_json(report.json, _document(model, output, run, algorithm, preprocess, contents))


def _made_onnx(
    terminal: Terminal,
    model: Path,
    output: Path,
    run: TengineRun,
    algorithm: Algorithm,
    preprocess: Preprocess,
) -> tuple[dict[Path, str], Compared]:
    """Writes a QDQ model and its side files; the files, and the models to compare."""
    result = _quantized(terminal, model, run, algorithm, preprocess)
    contents = _side_files(model, result, None if run.table else algorithm.file)
    result.save(output)
    _write(contents)
    terminal.say_lines(result.summary)
    say_sizes(terminal, (model, model_bytes_on_disk(model)), (output, model_bytes_on_disk(output)))
    return contents, (model, output)


def _made_tmfile(
    terminal: Terminal,
    model: Path,
    output: Path,
    run: TengineRun,
    algorithm: Algorithm,
    preprocess: Preprocess,
    shape: tuple[int, ...] | None,
) -> tuple[dict[Path, str], Compared]:
    """Writes a tmfile in codes and its side files; the files, and the models to compare."""
    reading = None if run.images is None else run.reading.of(str(run.images), preprocess)
    wanted = tengine_tmfile.asked(algorithm.method, algorithm.repair, run.table, run.uint8, shape)
    found = tengine_tmfile.made(terminal, model, reading, wanted)
    table = None if run.table else algorithm.file
    contents = tengine_tmfile.side_files(found, table, WEIGHT_FILE, BIAS_FILE)
    compared = tengine_tmfile.compared(found, output) if run.evaluate else (model, output)
    tengine_tmfile.save(terminal, model, output, found)
    _write(contents)
    return contents, compared


def _algorithm(run: TengineRun) -> Algorithm:
    if run.algorithm not in ALGORITHMS:
        cure = f"Use {', '.join(f'{number} ({one.title})' for number, one in ALGORITHMS.items())}"
        raise UsageError(f"-a {run.algorithm}", "unknown algorithm", cure)
    return ALGORITHMS[run.algorithm]


def _check_request(model: Path, output: Path, run: TengineRun, algorithm: Algorithm) -> None:
    """Refuses what is said wrongly before any work is done."""
    if is_tmfile_name(output):
        tengine_tmfile.check_tmfiles(model, output)
    else:
        check_written_model(output, f"-o {output}")
    if run.uint8:
        tengine_tmfile.check_uint8(output, run.algorithm, algorithm.repair, run.evaluate)
    searched = is_tmfile_name(output) and algorithm.repair == tengine_tmfile.ZOOMS
    if run.images is None and (run.table is None or run.evaluate or searched):
        cure = "Give a folder of images, or scales with -f and neither -a 4 nor -z 1"
        raise UsageError("-i", "images are missing", cure)
    if run.evaluate not in (0, 1):
        raise UsageError(f"-z {run.evaluate}", "is neither 0 nor 1", "Give 1 to see what every layer loses")
    if run.threads is not None and run.threads < 1:
        raise UsageError(f"-t {run.threads}", "is too few threads", "Give at least 1")


def _inputs(model: Path) -> Sequence[TensorSpec]:
    from calib8.model.graph import graph_inputs
    from calib8.model.load import load_model
    from calib8.tmfile.magic import claims_to_be_tmfile

    return (
        tengine_tmfile.input_specs(model) if claims_to_be_tmfile(model) else graph_inputs(load_model(model))
    )


def _preprocess(terminal: Terminal, inputs: Sequence[TensorSpec], images: TengineImages) -> Preprocess:
    found = tengine_preprocess(images, inputs)
    if images.mean is None and found.color == "rgb":
        terminal.say(
            "note: the default mean 104,117,123 is in the order of BGR, and -b 1 feeds RGB; "
            "give -w in the order of the channels, or -b 0",
            style="yellow",
        )
    return found


def _quantized(
    terminal: Terminal, model: Path, run: TengineRun, algorithm: Algorithm, preprocess: Preprocess
) -> Quantization:
    from calib8 import pipeline
    from calib8.formats.tables import read_table

    if run.table is not None or run.images is None:
        with shown_progress(terminal, "quantizing"):
            table = read_table(run.table or "", "tengine")
            return pipeline.quantize(model, table=table, target=TARGET, preprocess=preprocess)
    reading = run.reading.of(str(run.images), preprocess)
    loaded, _ = look_at_data(terminal, model, reading)
    with shown_progress(terminal, "preparing the model", "choosing ranges, quantizing") as progress:
        result = pipeline.quantize(
            loaded,
            reading,
            target=TARGET,
            method=algorithm.method,
            repair=(algorithm.repair,),
            progress=progress,
        )
    if result.calibration is not None:
        say_calibration(terminal, result.calibration, result.table)
    if result.repaired is not None:
        say_repairs(terminal, result.repaired)
    return result


def _side_files(source: Path, result: Quantization, table_file: Path | None) -> dict[Path, str]:
    """Path → content; tensors as Tengine's converter calls those of the model ``source``."""
    from calib8.formats import tengine
    from calib8.formats.tengine_names import with_converter_names
    from calib8.model.load import load_model
    from calib8.passes.converter_names import converter_names

    done = None if result.repaired is None else result.repaired.candidate
    model = result.prepared.model if done is None else done.model
    table = _with_softmax(result.table if done is None else done.table, model)
    corrections = {} if done is None else done.corrections
    files: dict[Path, str] = {}
    if table_file is not None:
        names = converter_names(load_model(source))
        files[table_file] = tengine.write(with_converter_names(table, names))
    return {
        **files,
        WEIGHT_FILE: tengine.write_weight_scales(model, table, corrections),
        BIAS_FILE: tengine.write_bias_scales(model, table, corrections),
    }


def _with_softmax(table: CalibrationTable, model: ir.Model) -> CalibrationTable:
    """The table with [0, 1] for every Softmax, which is the scale 1/127."""
    from calib8.table import Range

    entries = dict(table.entries)
    for node in model.graph:
        name = node.outputs[0].name or ""
        if is_softmax(node) and name in entries:
            entries[name] = replace(entries[name], range=Range(0.0, 1.0))
    return replace(table, entries=entries)


def _write(contents: Mapping[Path, str]) -> None:
    from calib8.files import atomic_output

    for path, text in contents.items():
        with atomic_output(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _evaluate(terminal: Terminal, compared: Compared, run: TengineRun, preprocess: Preprocess) -> None:
    from calib8.analysis import compare as analysis

    fp32, int8 = compared
    with shown_progress(terminal, "opening the models") as progress:
        found = analysis.compare(
            fp32,
            int8,
            str(run.images),
            preprocess=preprocess,
            samples=EVALUATED,
            threads=run.reading.thread_count,
            progress=progress,
        )
    terminal.show(comparison_table(found, len(found.tensors)))
    say_comparison(terminal, found, len(found.tensors))


def _document(
    model: Path,
    output: Path,
    run: TengineRun,
    algorithm: Algorithm,
    preprocess: Preprocess,
    contents: Mapping[Path, str],
) -> dict[str, Any]:
    import json

    done = is_tmfile_name(output) and algorithm.repair != "none"  # beside what the table says
    return {
        "model": str(model),
        "output": str(output),
        "algorithm": algorithm.title if run.table is None or done else None,
        "table": None if run.table is None else str(run.table),
        "preprocess": json.loads(preprocess.to_json()),
        "files": [str(path) for path in contents],
    }
