"""``calib8 inspect``: what is in a model, what is or would be quantized, which rules it breaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calib8.cli.options import ModelArgument, ReportOptions
from calib8.cli.outputs import check_outputs, write_json
from calib8.cli.progress import shown_progress
from calib8.cli.render import say_inspection, say_violations, shape_text
from calib8.cli.terminal import open_terminal
from calib8.errors import UsageError

if TYPE_CHECKING:
    from calib8.analysis.inspect import ModelInspection
    from calib8.analysis.lint import Violation

TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME",
        help="Check a quantized model against the rules of a target: onnxruntime, openvino, tflite, "
        "tensorrt, tengine or ncnn. Any violation makes the exit code 1.",
    ),
]


def inspect(model: ModelArgument, *, target: TargetOption = None, report: ReportOptions) -> None:
    """Show what is in a model.

    Its layers, which of them are or would be quantized, and why the others are not.
    """
    terminal = open_terminal(report.quiet)
    check_outputs({"--json": report.json}, [model])

    from calib8.analysis.inspect import inspect_model
    from calib8.analysis.lint import lint
    from calib8.scheme import target_scheme

    if target is not None:
        target_scheme(target)
    with shown_progress(terminal, "looking at the model"):
        found = inspect_model(model)
        if target is not None and found.kind == "float":
            raise UsageError(
                f"--target {target}",
                f"{model} is a float model, which has no rules",
                "Give a quantized model",
            )
        violations = () if target is None else lint(model, target)
    say_inspection(terminal, found)
    if target is not None:
        say_violations(terminal, target, violations)
    if report.json is not None:
        write_json(report.json, _document(found, target, violations))
    if violations:
        raise typer.Exit(1)


def _document(found: ModelInspection, target: str | None, violations: Sequence[Violation]) -> dict[str, Any]:
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
            }
            for layer in found.layers
        ],
        "warnings": list(found.warnings),
        "metadata": dict(found.metadata),
        "target": target,
        "violations": [
            {"node": v.node, "rule": v.rule, "problem": v.problem, "cure": v.cure} for v in violations
        ],
    }
