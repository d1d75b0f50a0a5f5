"""``calib8 export``: a quantized model in the form of another runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.filesize import decimal

from calib8.cli.choices import BORDER_TYPES, FORMS, completed
from calib8.cli.headings import EXPORTING, RESULTS, option
from calib8.cli.options import INTEGER_ONLY_HELP, PROFILE_HELP, SHAPE_HELP, ProgramOptions, ReportOptions
from calib8.cli.outputs import check_outputs, model_bytes_on_disk, write_json
from calib8.cli.plan import refuse_plan
from calib8.cli.program import read_shapes, say_sizes_taken
from calib8.cli.progress import shown_progress
from calib8.cli.render import count
from calib8.cli.terminal import open_terminal
from calib8.errors import ModelError, UsageError
from calib8.parameters import on_command_line, one_of

if TYPE_CHECKING:
    from calib8.exporting.qoperator import QOperatorReport
    from calib8.exporting.tflite.export import TfliteExport

QuantizedArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help="The quantized model, an .onnx or .tflite file, or a saved program.",
    ),
]
OutputOption = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="OUT",
        show_default=False,
        help="Where to write the result.",
        rich_help_panel=RESULTS,
    ),
]
ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="FORM",
        show_default=False,
        help="What to write: tflite, qoperator or program.",
        rich_help_panel=EXPORTING,
        autocompletion=completed("--to", FORMS),
    ),
]
_INPUTS_HELP = "Type of the inputs of a TFLite model: float32, int8 or uint8. Default: as in the model."
_OUTPUTS_HELP = "Type of the outputs of a TFLite model: float32, int8 or uint8. Default: as in the model."


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """How the result is made; None: not given."""

    inputs: Annotated[str | None, option(EXPORTING, "--inputs", "TYPE", _INPUTS_HELP, BORDER_TYPES)] = None
    outputs: Annotated[str | None, option(EXPORTING, "--outputs", "TYPE", _OUTPUTS_HELP, BORDER_TYPES)] = None
    shape: Annotated[list[str] | None, option(EXPORTING, "--shape", "NAME=A,B,…", SHAPE_HELP)] = None
    profile: Annotated[str | None, option(EXPORTING, "--profile", "NAME", PROFILE_HELP)] = None
    integer_only: Annotated[bool, option(EXPORTING, "--integer-only", None, INTEGER_ONLY_HELP)] = False


@dataclass(frozen=True)
class Exported:
    """What is to be told of a result.

    Attributes:
        lines: for people.
        document: for machines.
    """

    lines: tuple[str, ...]
    document: Mapping[str, Any] = field(default_factory=dict)


def export(
    model: QuantizedArgument,
    output: OutputOption,
    *,
    to: ToOption,
    exporting: ExportOptions,
    report: ReportOptions,
) -> None:
    """Write a quantized model in the form of another runtime.

    Scales and codes stay as they are; what has to be added or cannot be kept exactly is told.
    """
    terminal = open_terminal(report.quiet)
    if to not in TARGETS:
        raise UsageError(f"--to {to}", "unknown form", one_of(to, TARGETS))
    target = TARGETS[to]
    check_outputs({"--output": output, "--json": report.json}, [model])
    _check_suffix(output, to, target)
    _check_options(exporting, to, target)
    refuse_plan(model)
    with shown_progress(terminal, "exporting"):
        result = target.write(model, output, exporting)
    sizes = {"model": model_bytes_on_disk(model), "output": output.stat().st_size}
    terminal.say(f"{output}  {decimal(sizes['output'])} ({decimal(sizes['model'])} as {model.name})")
    for line in result.lines:
        terminal.say(line)
    say_sizes_taken(terminal, model, read_shapes(exporting.shape or ()))
    if report.json is not None:
        head = {"model": str(model), "output": str(output), "to": to, "bytes": sizes}
        write_json(report.json, {**head, **result.document})


def to_tflite_file(model: Path, output: Path, options: ExportOptions) -> Exported:
    """Writes a .tflite file.

    Raises:
        Calib8Error: model or options do not fit, or something in the model has no form in TFLite.
    """
    from calib8.cli.preprocessing import stored_in_file
    from calib8.exporting.tflite.export import to_tflite
    from calib8.session import InferenceSession
    from calib8.tflite.write import write_tflite

    shapes = read_shapes(options.shape or ())
    program = InferenceSession(model, runtime="reference", profile="tflite", shapes=shapes).program
    stored = stored_in_file([model])
    preprocess = None if stored is None else replace(stored, layout="NHWC").to_json()
    result = to_tflite(
        program, inputs=options.inputs, outputs=options.outputs, preprocess=preprocess, name=str(model)
    )
    write_tflite(result.graph, output)
    return _told(result)


def _told(result: TfliteExport) -> Exported:
    graph = result.graph
    ports = [*((place, "input") for place in graph.inputs), *((place, "output") for place in graph.outputs)]
    lines = [
        f"{side} {graph.tensors[place].name}: {graph.tensors[place].dtype} "
        + "×".join(map(str, graph.tensors[place].shape))
        for place, side in ports
    ]
    lines.append(
        f"{count(len(graph.operators), 'operator')}, "
        f"{count(result.requantizations, 'change')} of scale, {count(result.tables, 'table')}"
    )
    lines += [f"note: {on_command_line(note)}" for note in result.notes]
    document = {
        "operators": dict(result.operators),
        "requantizations": result.requantizations,
        "tables": result.tables,
        "notes": list(result.notes),
    }
    return Exported(tuple(lines), document)


def to_qoperator_file(model: Path, output: Path, options: ExportOptions) -> Exported:
    """Writes an .onnx file of operators on codes.

    Raises:
        Calib8Error: the model is not in QDQ form, or its quantization is broken.
    """
    from calib8.cli.program import is_saved_program
    from calib8.exporting.qoperator import to_qoperator
    from calib8.model.load import load_model, naming_file
    from calib8.model.save import save_model
    from calib8.tflite.magic import claims_to_be_tflite

    if is_saved_program(model):
        problem = "is a saved program, which has no operators of ONNX"
        raise ModelError(str(model), problem, "Give the .onnx file that it was made from")
    if claims_to_be_tflite(model):
        problem = "is a TFLite model, and operators of ONNX on codes are made of an ONNX model"
        raise ModelError(str(model), problem, "Give the .onnx file that it was made from")
    loaded = load_model(model)
    with naming_file(loaded):
        result, report = to_qoperator(loaded)
    save_model(result, output)
    return _told_operators(report)


def _told_operators(report: QOperatorReport) -> Exported:
    fused = ", ".join(f"{number} {op_type}" for op_type, number in report.fused.items())
    lines = [
        f"{count(sum(report.fused.values()), 'operator')} on codes{': ' if fused else ''}{fused}",
        f"{count(report.quantizers, 'quantizer')} left, {count(len(report.kept), 'node')} in float",
    ]
    kept = Counter((kept.op_type, kept.reason) for kept in report.kept)
    lines += [f"{number} {op_type} in float: {reason}" for (op_type, reason), number in kept.items()]
    lines += [f"note: {on_command_line(note)}" for note in report.notes]
    document = {
        "operators": dict(report.fused),
        "quantizers": report.quantizers,
        "kept": [asdict(kept) for kept in report.kept],
        "notes": list(report.notes),
    }
    return Exported(tuple(lines), document)


def to_program_file(model: Path, output: Path, options: ExportOptions) -> Exported:
    """Writes the integer program, as ``inspect --program --save`` does.

    Raises:
        Calib8Error: model or options do not fit.
    """
    from calib8.cli.program import program_document, read_program
    from calib8.program.listing import summary

    wanted = ProgramOptions(
        program=True,
        profile=options.profile,
        integer_only=options.integer_only,
        shape=options.shape,
        save=output,
    )
    program = read_program(model, wanted)
    found = summary(program)
    lines = (
        f"{count(len(program.instructions), 'instruction')}, profile {program.profile}, "
        f"{decimal(found.weight_bytes)} of weights",
        f"{count(len(found.float_nodes), 'node')} without an integer form",
    )
    return Exported(lines, program_document(program))


@dataclass(frozen=True)
class Target:
    """A form that a model can be exported to.

    Attributes:
        write: writes the file and says what is to be told.
        suffix: of its files.
        options: fields of ``ExportOptions`` that it takes.
    """

    write: Callable[[Path, Path, ExportOptions], Exported]
    suffix: str
    options: tuple[str, ...]


TARGETS: Final[Mapping[str, Target]] = {
    "tflite": Target(to_tflite_file, ".tflite", ("inputs", "outputs", "shape")),
    "qoperator": Target(to_qoperator_file, ".onnx", ()),
    "program": Target(to_program_file, ".c8p", ("shape", "profile", "integer_only")),
}
"""Value of ``--to`` → how it is written."""


def _check_suffix(output: Path, to: str, target: Target) -> None:
    if output.suffix.lower() != target.suffix:
        problem = f"does not end in {target.suffix}, as files of --to {to} do"
        cure = f"Give another name, such as {output.with_suffix(target.suffix).name}"
        raise UsageError(f"--output {output}", problem, cure)


def _check_options(options: ExportOptions, to: str, target: Target) -> None:
    for name, value in vars(options).items():
        if value and name not in target.options:
            flag = "--" + name.replace("_", "-")
            raise UsageError(flag, f"does not go with --to {to}", "Leave it out")
