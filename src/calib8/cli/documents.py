"""Results as JSON documents for machines; what is unknown or not finite is null."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calib8.analysis.evaluate import Evaluation
    from calib8.autorange.check import Check
    from calib8.autorange.choose import AutoReport
    from calib8.data.preflight import InputCheck
    from calib8.formats.bind import Binding
    from calib8.judge import Preflight
    from calib8.passes.place import Placement
    from calib8.pipeline import Calibration, Collection
    from calib8.repair.result import Repaired
    from calib8.table import CalibrationTable
    from calib8.tasks.judges.interface import TaskFigures
    from calib8.tasks.verdict import Verdict


def evaluation_document(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """``{"models": [{"model", "runtime", "images", "top1", …}]}``; shares are 0 … 1."""
    return {"models": [_evaluation(evaluation) for evaluation in evaluations]}


def _evaluation(e: Evaluation) -> dict[str, Any]:
    return {
        "model": e.model,
        "runtime": e.runtime,
        "images": e.images,
        "top1": e.top1,
        "top5": e.top5,
        "agreement": e.agreement,
        "sqnr_db": finite(e.sqnr_db),
        "branches": [
            {"name": one.name, "kind": one.kind, "sqnr_db": finite(one.sqnr_db)} for one in e.branches
        ],
        "seconds": e.seconds,
        "warnings": list(e.warnings),
        "failure": e.failure,
        "verdict": verdict_document(e.verdict),
        "task": None if e.task is None else task_document(e.task),
    }


def verdict_document(verdict: Verdict | None) -> dict[str, Any] | None:
    """The verdict for machines."""
    if verdict is None:
        return None
    return {
        "state": verdict.state,
        "text": verdict.text,
        "samples": verdict.samples,
        "shared": verdict.shared,
        "tasks": [
            {"name": one.name, "task": one.task, "branches": list(one.branches), "state": one.state,
             "figures": {name: finite(value) for name, value in one.figures.items()},
             "counted": one.counted, "text": one.text}
            for one in verdict.tasks
        ],
        "branches": [
            {"name": one.name, "kind": one.kind, "state": one.state, "value": finite(one.value),
             "text": one.text}
            for one in verdict.branches
        ],
    }  # fmt: skip


def task_document(told: TaskFigures) -> dict[str, Any]:
    """What a judge says of one model."""
    return {
        "task": told.task,
        "samples": told.samples,
        "against_float": dict(told.against_float),
        "against_labels": dict(told.against_labels),
    }


def preflight_document(found: Preflight) -> dict[str, Any]:
    """What was seen before calibrating."""
    return {
        "inputs": [_input(check) for check in found.inputs],
        "images": found.images,
        "top1": None if found.evaluation is None else found.evaluation.top1,
        "warnings": list(found.warnings),
    }


def _input(check: InputCheck) -> dict[str, Any]:
    return {
        "input": check.input,
        "minimum": [finite(value) for value in check.minimum],
        "maximum": [finite(value) for value in check.maximum],
        "implied": None if check.implied is None else [list(bounds) for bounds in check.implied],
        "warnings": list(check.warnings),
    }


def calibration_document(
    calibration: Calibration | Collection, table: CalibrationTable | None
) -> dict[str, Any]:
    """What was calibrated; samples are those that went through the model, in this run or before."""
    methods = set() if table is None else {entry.method for entry in table.entries.values()}
    skipped = [] if calibration.dataset is None else calibration.dataset.skipped
    return {
        "samples": calibration.statistics.samples,
        "resumed": calibration.resumed,
        "skipped": [{"name": bad.name, "reason": bad.reason} for bad in skipped],
        "model_hash": calibration.statistics.model_hash,
        "methods": sorted(methods),
        "tensors": len(calibration.statistics.tensors),
        "auto": None if calibration.auto is None else auto_document(calibration.auto),
    }


def binding_document(binding: Binding | None) -> dict[str, Any] | None:
    """Which names of a table belong to the model; None where there was no table."""
    if binding is None:
        return None
    return {
        "used": len(binding.table.entries),
        "unused": list(binding.unused),
        "unknown": list(binding.unknown),
        "borrowed": [{"tensor": tensor, "range_of": other} for tensor, other in binding.borrowed],
    }


def auto_document(report: AutoReport) -> dict[str, Any]:
    """How ``auto`` came to its table."""
    return {
        "chosen": report.chosen,
        "wins": dict(report.wins),
        "checks": [
            {"name": c.name, "sqnr_db": finite(c.sqnr_db), "typical_db": finite(c.typical_db),
             "total_db": finite(c.total_db), "evaluated_db": finite(c.evaluated_db), "runs": c.runs,
             "branches": branches_document(c)}
            for c in report.checks
        ],
        "scored": report.scored,
        "held_back": report.held_back,
        "shared": report.shared,
        "notes": list(report.notes),
    }  # fmt: skip


def placement_document(placement: Placement) -> list[dict[str, Any]]:
    """One entry per node that works on float activations, in graph order."""
    return [
        {"node": d.node, "op_type": d.op_type, "quantized": d.quantized, "reason": d.reason}
        for d in placement.decisions
    ]


def finite(value: float | None) -> float | None:
    """The value, or None where JSON has no number for it."""
    return value if value is not None and math.isfinite(value) else None


def repairs_document(found: Repaired | None) -> dict[str, Any] | None:
    """What was tried to keep the accuracy."""
    if found is None:
        return None
    return {
        "effort": found.effort or None,
        "held_back": found.held_back,
        "shared": found.shared,
        "warning": found.warning or None,
        "steps": [
            {
                "name": step.name,
                "before_db": finite(step.before_db),
                "after_db": finite(step.after_db),
                "before": measures_document(step.before),
                "after": measures_document(step.after),
                "kept": step.kept,
                "layers": list(step.layers),
                "notes": list(step.notes),
            }
            for step in found.steps
        ],
    }


def measures_document(check: Check) -> dict[str, Any]:
    """What is printed of it."""
    return {
        "evaluated_db": finite(check.evaluated_db),
        "typical_db": finite(check.typical_db),
        "branches": branches_document(check),
    }


def branches_document(check: Check) -> list[dict[str, Any]]:
    """One entry per branch of the outputs, where there are several."""
    return [
        {"name": one.name, "sqnr_db": finite(one.sqnr_db), "typical_db": finite(one.typical_db)}
        for one in check.branches
    ]
