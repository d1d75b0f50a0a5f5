"""``calib8 inspect``: what is in a model or plan, what is quantized, broken rules, what goes wrong inside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calib8.cli.choices import completed
from calib8.cli.guards import (
    GuardOptions,
    check_guards,
    guards_document,
    look_inside,
    refuse_guards,
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
from calib8.cli.outputs import check_outputs, check_suffix, write_json
from calib8.cli.plan import plan_document, read_plan, say_plan, shown_as_plan
from calib8.cli.program import (
    is_saved_program,
    program_document,
    read_program,
    read_shapes,
    say_program,
    say_sizes_taken,
    wants_program,
)
from calib8.cli.progress import shown_progress
from calib8.cli.render import say_inspection, say_violations, shape_text
from calib8.cli.terminal import Terminal, open_terminal
from calib8.cli.tflite import look_at_tflite, say_tflite, shown_as_tflite, tflite_document
from calib8.errors import UsageError
from calib8.files import check_model_file

if TYPE_CHECKING:
    from calib8.analysis.inspect import ModelInspection
    from calib8.analysis.lint import Violation
    from calib8.analysis.observed import Observation
    from calib8.program.program import Program

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
    of a quantized model; or what a plan holds, or the operators, tensors and scales of a TFLite file. With
    --data also what goes wrong inside while it runs.
    """
    terminal = open_terminal(report.quiet)
    from calib8.engine.plan_file import ANY_MODEL

    check_model_file(model, ANY_MODEL)
    check_guards(guards, reading, preprocessing)
    check_outputs({"--save": lowering.save, "--json": report.json}, [model, guards.data])
    if lowering.save is not None:
        check_suffix("--save", lowering.save, "program")
    if shown_as_plan(model):
        refuse_guards(guards, model, "plan")
        _inspect_plan(terminal, model, target, lowering, report)
        return
    with_program = wants_program(model, lowering)
    if shown_as_tflite(model):
        refuse_guards(guards, model, "TFLite model")
        _inspect_tflite(terminal, model, target, lowering if with_program else None, report)
        return
    if target is not None:
        _check_target(target, model)
    if is_saved_program(model):
        refuse_guards(guards, model, "program")
    found: ModelInspection | None = None
    violations: Sequence[Violation] = ()
    program: Program | None = None
    with shown_progress(terminal, "looking at the model"):
        if not is_saved_program(model):
            found, violations = _look(model, target)
        if with_program:
            program = read_program(model, lowering)
    seen = look_inside(terminal, model, guards, reading, preprocessing)
    _say(terminal, found, program, seen)
    if target is not None:
        say_violations(terminal, target, violations)
    if report.json is not None:
        document = _document(model, found, target, violations, program)
        write_json(report.json, {**document, **({} if found is None else guards_document(found, seen))})
    if violations:
        raise typer.Exit(1)


def _say(
    terminal: Terminal, found: ModelInspection | None, program: Program | None, seen: Observation | None
) -> None:
    if program is not None:
        say_program(terminal, program)
    elif found is not None:
        say_inspection(terminal, found)
        say_guards(terminal, found)
    if seen is not None:
        say_observation(terminal, seen)


def _inspect_plan(
    terminal: Terminal, model: Path, target: str | None, lowering: ProgramOptions, report: ReportOptions
) -> None:
    """What a plan holds."""
    plan = read_plan(model, lowering, target)
    say_plan(terminal, model, plan)
    if report.json is not None:
        write_json(report.json, plan_document(model, plan))


def _inspect_tflite(
    terminal: Terminal,
    model: Path,
    target: str | None,
    lowering: ProgramOptions | None,
    report: ReportOptions,
) -> None:
    """What is in a TFLite file, or with ``lowering`` its program."""
    program = None
    with shown_progress(terminal, "looking at the model"):
        found, violations = look_at_tflite(model, target)
        if lowering is not None:
            program = read_program(model, lowering)
    if program is None:
        say_tflite(terminal, found)
    else:
        say_program(terminal, program)
    if lowering is not None:
        say_sizes_taken(terminal, model, read_shapes(lowering.shape or ()))
    if target is not None:
        say_violations(terminal, target, violations)
    if report.json is not None:
        lowered = None if program is None else program_document(program)
        write_json(report.json, tflite_document(found, target, _violations(violations), lowered))
    if violations:
        raise typer.Exit(1)


def _check_target(target: str, model: Path) -> None:
    from calib8.scheme import target_scheme

    target_scheme(target)
    if is_saved_program(model):
        raise UsageError(
            f"--target {target}", f"{model} is a program, which has no rules", "Give an ONNX model"
        )


def _look(model: Path, target: str | None) -> tuple[ModelInspection, Sequence[Violation]]:
    """What is in an ONNX file, and the rules of the target that it breaks."""
    from calib8.analysis.inspect import inspect_model
    from calib8.analysis.lint import lint

    found = inspect_model(model)
    if target is None:
        return found, ()
    if found.kind == "float":
        problem = f"{model} is a float model, which has no rules"
        raise UsageError(f"--target {target}", problem, "Give a quantized model")
    return found, lint(model, target)


def _document(
    model: Path,
    found: ModelInspection | None,
    target: str | None,
    violations: Sequence[Violation],
    program: Program | None,
) -> dict[str, Any]:
    """Of a saved program there is nothing but the program."""
    lowered = None if program is None else program_document(program)
    if found is None:
        return {"model": str(model), "kind": "program", "program": lowered}
    return {**_inspection(found), "target": target, "violations": _violations(violations), "program": lowered}


def _inspection(found: ModelInspection) -> dict[str, Any]:
    return {
        "model": str(found.path),
        "kind": found.kind,
        "opset": found.opset,
        "inputs": [str(spec) for spec in found.inputs],
        "outputs": [str(spec) for spec in found.outputs],
        "parameters": found.parameters,
        "macs": found.macs,
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


def _violations(violations: Sequence[Violation]) -> list[dict[str, str]]:
    return [{"node": v.node, "rule": v.rule, "problem": v.problem, "cure": v.cure} for v in violations]
