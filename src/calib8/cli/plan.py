"""``calib8 inspect`` of a plan: what was compiled, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from calib8.cli.program import float_nodes_document, say_float_gates, say_float_nodes
from calib8.cli.render import shape_text
from calib8.cli.terminal import Terminal
from calib8.number_texts import count

if TYPE_CHECKING:
    from calib8.analysis.plan_inspect import PlanInspection
    from calib8.engine.plan import PlanPort


def say_plan(terminal: Terminal, model: Path, found: PlanInspection) -> None:
    """What runs, where it reads and writes, how large it is, and what ONNX Runtime does of it."""
    plan = found.plan
    named = f' "{plan.name}"' if plan.name else ""
    terminal.say(f"{model}: plan{named}, profile {plan.profile}, made for {plan.isa or 'any machine'}")
    for what, ports in (("input", plan.inputs), ("output", plan.outputs)):
        for port in _ports(ports):
            terminal.say(f"{what} {port}")
    kinds = ", ".join(f"{number} {kind}" for kind, number in found.steps.items())
    terminal.say(f"{count(len(plan.rows), 'step')}: {kinds}")
    terminal.say(f"{found.integer_macs:,} multiply-accumulates in integers")
    terminal.say(
        f"{decimal(plan.weight_bytes)} of weights, {decimal(plan.constants.nbytes)} of constants in all, "
        f"arena {decimal(plan.arena_bytes)}, {decimal(found.scratch_bytes)} more per thread"
    )
    terminal.say(f"{count(len(plan.float_nodes), 'node')} without an integer form")
    say_float_gates(terminal, found.float_gates)
    say_float_nodes(terminal, plan.floats)


def plan_document(model: Path, found: PlanInspection) -> dict[str, Any]:
    """What ``say_plan`` tells."""
    plan = found.plan
    return {
        "model": str(model),
        "kind": "plan",
        "plan": {
            "name": plan.name,
            "profile": plan.profile,
            "isa": plan.isa,
            "inputs": _ports(plan.inputs),
            "outputs": _ports(plan.outputs),
            "steps": dict(found.steps),
            "integer_macs": found.integer_macs,
            "weight_bytes": plan.weight_bytes,
            "constant_bytes": plan.constants.nbytes,
            "arena_bytes": plan.arena_bytes,
            "scratch_bytes": found.scratch_bytes,
            "float_nodes": float_nodes_document(plan.floats),
            "float_gates": list(found.float_gates),
        },
    }


def _ports(ports: Iterable[PlanPort]) -> list[str]:
    return [f"{port.name}: {port.dtype} {shape_text(port.shape)}" for port in ports]
