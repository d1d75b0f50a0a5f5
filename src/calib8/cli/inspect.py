"""``calib8 inspect``: what is in a model or plan, what is quantized, broken rules, what goes wrong inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calib8.cli.choices import completed
from calib8.cli.guards import (
    GuardOptions,
    check_guards,
    guards_document,
    say_guards,
    say_observation,
)
from calib8.cli.headings import TARGET
from calib8.cli.options import (
    OpenableArgument,
    PreprocessOptions,
    ProgramOptions,
    ReadingOptions,
    ReportOptions,
)
from calib8.cli.outputs import check_outputs, write_json
from calib8.cli.plan import plan_document, say_plan
from calib8.cli.preprocessing import chosen_preprocess, stored_in_file
from calib8.cli.program import (
    check_save,
    program_document,
    read_shapes,
    say_program,
)
from calib8.cli.progress import shown_progress
from calib8.cli.render import say_inspection, say_missing, say_violations, shape_text
from calib8.cli.terminal import Terminal, open_terminal
from calib8.cli.tflite import say_tflite, tflite_document
from calib8.cli.tmfile import say_tmfile, tmfile_document
from calib8.files import check_model_file
from calib8.parameters import on_command_line

if TYPE_CHECKING:
    from calib8.analysis.inspect import ModelInspection
    from calib8.analysis.inspection import Inspection

TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME",
        help="Check a quantized model against the rules of a target: onnxruntime, onnxruntime-avx2, "
        "calib8, openvino, tflite, tensorrt, tengine or ncnn. Any violation makes the exit code 1.",
        rich_help_panel=TARGET,
        autocompletion=completed("--target"),
    ),
]


def inspect(
    model: OpenableArgument,
    *,
    target: TargetOption = None,
    guards: GuardOptions,
    lowering: ProgramOptions,
    reading: ReadingOptions,
    preprocessing: PreprocessOptions,
    report: ReportOptions,
) -> None:
    """Show what is in a model.

    Its layers, which of them are or would be quantized, and why the others are not; or the integer program
    of a quantized model; or what a plan holds, or the operators, tensors and scales of a TFLite file or of a
    tmfile of Tengine. With --data also what goes wrong inside while it runs.
    """
    terminal = open_terminal(report.quiet)
    from calib8.engine.plan_file import ANY_MODEL

    check_model_file(model, ANY_MODEL)
    check_guards(guards, reading, preprocessing)
    check_outputs({"--save": lowering.save, "--json": report.json}, [model, guards.data])
    check_save(model, lowering)

    from calib8.analysis.inspection import inspect as inspected

    samples = (
        reading.of(None)
        if guards.data is None
        else reading.of(guards.data, chosen_preprocess(preprocessing, stored_in_file([model])))
    )
    with shown_progress(terminal, "looking at the model") as progress:
        found = inspected(
            model, samples, target=target, program=lowering.program,
            profile=lowering.profile, integer_only=lowering.integer_only,
            shapes=read_shapes(lowering.shape or ()), until=lowering.until or (),
            avx2_safety=guards.avx2_safety, progress=progress,
        )  # fmt: skip
    _save(found, lowering)
    _say(terminal, model, found)
    if target is not None:
        say_violations(terminal, target, found.violations)
    if report.json is not None:
        write_json(report.json, _document(model, found))
    if found.violations:
        raise typer.Exit(1)


def _save(found: Inspection, lowering: ProgramOptions) -> None:
    if lowering.save is not None and found.program is not None:
        from calib8.program.file import save_program

        save_program(found.program, lowering.save)


def _say(terminal: Terminal, model: Path, found: Inspection) -> None:
    if found.observation is not None:
        say_missing(terminal, found.observation.skipped)
    if found.plan is not None:
        say_plan(terminal, model, found.plan)
    elif found.program is not None:
        say_program(terminal, found.program)
    elif found.tflite is not None:
        say_tflite(terminal, found.tflite)
    elif found.tmfile is not None:
        say_tmfile(terminal, found.tmfile)
    elif found.model is not None:
        say_inspection(terminal, found.model)
        say_guards(terminal, found.model)
    for note in found.notes:
        terminal.say(f"note: {on_command_line(note)}")
    if found.observation is not None:
        say_observation(terminal, found.observation)


def _document(model: Path, found: Inspection) -> dict[str, Any]:
    """Of a saved program there is nothing but the program."""
    lowered = None if found.program is None else program_document(found.program)
    violations = [
        {"node": v.node, "rule": v.rule, "problem": v.problem, "cure": v.cure} for v in found.violations
    ]
    if found.plan is not None:
        return plan_document(model, found.plan)
    if found.tmfile is not None:
        return tmfile_document(found.tmfile)
    if found.tflite is not None:
        return tflite_document(found.tflite, found.target, violations, lowered)
    if found.model is None:
        return {"model": str(model), "kind": "program", "program": lowered}
    return {
        **_inspection(found.model),
        "target": found.target,
        "violations": violations,
        "program": lowered,
        **guards_document(found.model, found.observation),
    }


def _inspection(found: ModelInspection) -> dict[str, Any]:
    return {
        "model": str(found.path),
        "kind": found.kind,
        "opset": found.opset,
        "inputs": [str(spec) for spec in found.inputs],
        "outputs": [str(spec) for spec in found.outputs],
        "parameters": found.parameters,
        "macs": found.macs,
        "coded_macs_share": found.coded_share,
        "ops": dict(found.ops),
        "layers": [
            {
                "name": layer.name,
                "op_type": layer.op_type,
                "output_shape": shape_text(layer.output_shape),
                "parameters": layer.parameters,
                "macs": layer.macs,
                "quantized": layer.quantized,
                "reason": layer.reason,
                "engine": layer.engine,
            }
            for layer in found.layers
        ],
        "warnings": list(found.warnings),
        "metadata": dict(found.metadata),
    }
