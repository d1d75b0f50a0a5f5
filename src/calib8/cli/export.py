"""``calib8 export``: a quantized model in the form of another runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from calib8.cli.choices import BORDER_TYPES, FORMS, completed
from calib8.cli.headings import EXPORTING, RESULTS, option
from calib8.cli.options import INTEGER_ONLY_HELP, PROFILE_HELP, SHAPE_HELP, ReportOptions
from calib8.cli.outputs import check_outputs, model_bytes_on_disk, write_json
from calib8.cli.pairs import fixed_values
from calib8.cli.program import read_shapes
from calib8.cli.progress import shown_progress
from calib8.cli.stream_options import FixModelOption
from calib8.cli.terminal import open_terminal
from calib8.number_texts import count
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.delivery.epcontext import EpContextExport
    from calib8.delivery.exporting import Export
    from calib8.exporting.c.export import CExport
    from calib8.exporting.qoperator import QOperatorReport
    from calib8.exporting.tflite.export import TfliteExport
    from calib8.program.program import Program
    from calib8.tmfile.graph import Graph

QuantizedArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        help="The quantized model, an .onnx or .tflite file, or a saved program; for a tmfile "
        "also a float model.",
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
        help="What to write: tflite, qoperator, program, epcontext, tmfile or c.",
        rich_help_panel=EXPORTING,
        autocompletion=completed("--to", FORMS),
    ),
]
_INPUTS_HELP = (
    "Type of the inputs of a TFLite model or C code: float32, int8 or uint8. Default: as in the model."
)
_OUTPUTS_HELP = (
    "Type of the outputs of a TFLite model or C code: float32, int8 or uint8. Default: as in the model."
)
_ARENA_HELP = "Of C code: RAM that there is. What does not fit is refused, with the tensors that take most."
_FLASH_HELP = "Of C code: flash that there is for constants. What does not fit is refused, with its weights."

_PLAN_BESIDE_HELP = "Write the plans of an epcontext model into files beside it."


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """How the result is made; None: not given."""

    inputs: Annotated[str | None, option(EXPORTING, "--inputs", "TYPE", _INPUTS_HELP, BORDER_TYPES)] = None
    outputs: Annotated[str | None, option(EXPORTING, "--outputs", "TYPE", _OUTPUTS_HELP, BORDER_TYPES)] = None
    shape: Annotated[list[str] | None, option(EXPORTING, "--shape", "NAME=A,B,…", SHAPE_HELP)] = None
    profile: Annotated[str | None, option(EXPORTING, "--profile", "NAME", PROFILE_HELP)] = None
    integer_only: Annotated[bool, option(EXPORTING, "--integer-only", None, INTEGER_ONLY_HELP)] = False
    fix: FixModelOption = None
    plan_beside: Annotated[bool, option(EXPORTING, "--plan-beside", None, _PLAN_BESIDE_HELP)] = False
    arena_limit: Annotated[int | None, option(EXPORTING, "--arena-limit", "BYTES", _ARENA_HELP)] = None
    flash_limit: Annotated[int | None, option(EXPORTING, "--flash-limit", "BYTES", _FLASH_HELP)] = None


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
    check_outputs({"--output": output, "--json": report.json}, [model])

    from calib8.delivery.exporting import export as exported

    with shown_progress(terminal, "exporting"):
        found = exported(
            model,
            output,
            to,
            inputs=exporting.inputs,
            outputs=exporting.outputs,
            shapes=read_shapes(exporting.shape or ()),
            profile=exporting.profile,
            integer_only=exporting.integer_only,
            fix=fixed_values(exporting.fix),
            plan_beside=exporting.plan_beside,
            arena_limit=exporting.arena_limit,
            flash_limit=exporting.flash_limit,
        )
    sizes = {"model": model_bytes_on_disk(model), "output": found.bytes}
    terminal.say(f"{output}  {decimal(sizes['output'])} ({decimal(sizes['model'])} as {model.name})")
    lines, document = _told(found)
    for line in lines:
        terminal.say(line)
    for note in found.notes:
        terminal.say(f"note: {on_command_line(note)}")
    if report.json is not None:
        head = {"model": str(model), "output": str(output), "to": to, "bytes": sizes}
        write_json(report.json, {**head, **document})


def _told(found: Export) -> tuple[list[str], dict[str, Any]]:
    """What became of the model, for people and for machines."""
    if found.tflite is not None:
        return _of_tflite(found.tflite)
    if found.qoperator is not None:
        return _of_operators(found.qoperator)
    if found.tmfile is not None:
        return _of_tmfile(found.tmfile, found.operators)
    if found.epcontext is not None:
        return _of_plans(found.epcontext)
    if found.c is not None:
        return _of_c(found.c)
    assert found.program is not None
    return _of_program(found.program)


def _of_tflite(result: TfliteExport) -> tuple[list[str], dict[str, Any]]:
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
    return lines, {
        "operators": dict(result.operators),
        "requantizations": result.requantizations,
        "tables": result.tables,
        "notes": list(result.notes),
    }


def _of_tmfile(graph: Graph, operators: Mapping[str, int]) -> tuple[list[str], dict[str, Any]]:
    from calib8.tmfile.kinds import kind
    from calib8.tmfile.ports import port_specs

    inputs, outputs = (
        port_specs(graph, places) for places in (graph.input_tensors(), graph.output_tensors())
    )
    lines = [f"{side} {spec}" for side, specs in (("input", inputs), ("output", outputs)) for spec in specs]
    lines.append(f"{kind(graph)} Tengine model of {count(sum(operators.values()), 'operator')}")
    return lines, {
        "kind": kind(graph),
        "inputs": [str(spec) for spec in inputs],
        "outputs": [str(spec) for spec in outputs],
        "operators": dict(operators),
    }


def _of_plans(result: EpContextExport) -> tuple[list[str], dict[str, Any]]:
    ports = [*((spec, "input") for spec in result.inputs), *((spec, "output") for spec in result.outputs)]
    lines = [f"{side} {spec}" for spec, side in ports]
    where = f" beside it: {', '.join(file.name for file in result.files)}" if result.files else ""
    lines.append(
        f"{count(sum(result.instructions.values()), 'instruction')}, "
        f"{count(len(result.plans), 'plan')} of {decimal(result.plan_bytes)}{where}, "
        f"{count(len(result.float_nodes), 'node')} left to ONNX Runtime"
    )
    return lines, {
        "inputs": [str(spec) for spec in result.inputs],
        "outputs": [str(spec) for spec in result.outputs],
        "instructions": dict(result.instructions),
        "plans": list(result.plans),
        "files": [str(file) for file in result.files],
        "plan_bytes": result.plan_bytes,
        "float_nodes": list(result.float_nodes),
        "free_batch": result.free_batch,
    }


def _of_c(result: CExport) -> tuple[list[str], dict[str, Any]]:
    scalar, vector = result.cmsis_nn_bytes
    lines = [
        f"{count(sum(result.instructions.values()), 'instruction')}, "
        f"{result.by_cmsis_nn} of them by CMSIS-NN where CALIB8_CMSIS_NN is defined",
        f"flash {result.flash_bytes:,} bytes of constants, RAM {result.arena_bytes:,} bytes of arena",
    ]
    if result.by_cmsis_nn:
        lines.append(f"with CMSIS-NN RAM {scalar:,} bytes, on a processor with vectors (MVE) {vector:,}")
    return lines, {
        "name": result.name,
        "instructions": dict(result.instructions),
        "by_cmsis_nn": result.by_cmsis_nn,
        "flash": result.flash_bytes,
        "arena": result.arena_bytes,
        "arena_with_cmsis_nn": scalar,
        "arena_with_cmsis_nn_and_mve": vector,
        "notes": list(result.notes),
    }


def _of_operators(report: QOperatorReport) -> tuple[list[str], dict[str, Any]]:
    fused = ", ".join(f"{number} {op_type}" for op_type, number in report.fused.items())
    lines = [
        f"{count(sum(report.fused.values()), 'operator')} on codes{': ' if fused else ''}{fused}",
        f"{count(report.quantizers, 'quantizer')} left, {count(len(report.kept), 'node')} in float",
    ]
    kept = Counter((kept.op_type, kept.reason) for kept in report.kept)
    lines += [f"{number} {op_type} in float: {reason}" for (op_type, reason), number in kept.items()]
    return lines, {
        "operators": dict(report.fused),
        "quantizers": report.quantizers,
        "kept": [asdict(kept) for kept in report.kept],
        "notes": list(report.notes),
    }


def _of_program(program: Program) -> tuple[list[str], dict[str, Any]]:
    from calib8.cli.program import program_document
    from calib8.program.listing import summary

    found = summary(program)
    lines = [
        f"{count(len(program.instructions), 'instruction')}, profile {program.profile}, "
        f"{decimal(found.weight_bytes)} of weights",
        f"{count(len(found.float_nodes), 'node')} without an integer form",
    ]
    return lines, program_document(program)
