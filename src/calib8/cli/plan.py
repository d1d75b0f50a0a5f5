"""``calib8 inspect`` of a plan: what was compiled, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from calib8.cli.options import ProgramOptions
from calib8.cli.program import float_nodes_document, given_options, say_float_nodes
from calib8.cli.render import count, shape_text
from calib8.cli.terminal import Terminal
from calib8.errors import ModelError, UsageError

if TYPE_CHECKING:
    from calib8.engine.plan import Plan, PlanPort


def shown_as_plan(model: Path) -> bool:
    """The file is a plan that ``calib8 compile`` wrote, or named like one."""
    from calib8.engine.plan_file import claims_to_be_plan

    return claims_to_be_plan(model)


def refuse_plan(model: Path) -> None:
    """What is made from models is not made from plans.

    Raises:
        UsageError: the file is one.
    """
    from calib8.engine.plan_file import is_plan_file

    if is_plan_file(model):
        raise UsageError(str(model), "is a plan", "Give the model or program that it was made from")


def read_plan(model: Path, options: ProgramOptions, target: str | None) -> Plan:
    """The plan of a file.

    Raises:
        UsageError: options that concern what it was made from.
        ModelError: it is damaged.
    """
    from calib8.engine.plan_file import load_plan

    others = {"--target": target, "--program": options.program}
    for name in [name for name, value in others.items() if value] + given_options(options):
        problem = f"does not go with {model}, which is a plan"
        raise UsageError(name, problem, "Give the model or program that it was made from")
    return load_plan(model)


def _scratch_bytes(model: Path, plan: Plan) -> int:
    """Memory that each thread needs beside the arena, which the native core alone knows.

    Raises:
        ModelError: it would not run such a plan.
    """
    from calib8.engine.run import Engine

    try:
        return Engine(plan, isa="reference").scratch_bytes
    except ValueError as error:
        raise ModelError(str(model), f"cannot be run ({error})", "Compile it again from the model") from error


def say_plan(terminal: Terminal, model: Path, plan: Plan) -> None:
    """What runs, where it reads and writes, how large it is, and what ONNX Runtime does of it.

    Raises:
        ModelError: the native core would not run it.
    """
    named = f' "{plan.name}"' if plan.name else ""
    terminal.say(f"{model}: plan{named}, profile {plan.profile}, made for {plan.isa or 'any machine'}")
    for what, ports in (("input", plan.inputs), ("output", plan.outputs)):
        for port in _ports(ports):
            terminal.say(f"{what} {port}")
    kinds = ", ".join(f"{number} {kind}" for kind, number in _kinds(plan).items())
    terminal.say(f"{count(len(plan.rows), 'step')}: {kinds}")
    terminal.say(f"{sum(plan.step_macs):,} multiply-accumulates in integers")
    terminal.say(
        f"{decimal(plan.weight_bytes)} of weights, {decimal(plan.constants.nbytes)} of constants in all, "
        f"arena {decimal(plan.arena_bytes)}, {decimal(_scratch_bytes(model, plan))} more per thread"
    )
    terminal.say(f"{count(len(plan.float_nodes), 'node')} without an integer form")
    say_float_nodes(terminal, plan.floats)


def plan_document(model: Path, plan: Plan) -> dict[str, Any]:
    """What ``say_plan`` tells."""
    return {
        "model": str(model),
        "kind": "plan",
        "plan": {
            "name": plan.name,
            "profile": plan.profile,
            "isa": plan.isa,
            "inputs": _ports(plan.inputs),
            "outputs": _ports(plan.outputs),
            "steps": _kinds(plan),
            "integer_macs": sum(plan.step_macs),
            "weight_bytes": plan.weight_bytes,
            "constant_bytes": plan.constants.nbytes,
            "arena_bytes": plan.arena_bytes,
            "scratch_bytes": _scratch_bytes(model, plan),
            "float_nodes": float_nodes_document(plan.floats),
        },
    }


def _ports(ports: Iterable[PlanPort]) -> list[str]:
    return [f"{port.name}: {port.dtype} {shape_text(port.shape)}" for port in ports]


def _kinds(plan: Plan) -> dict[str, int]:
    """Kind → number of steps, most frequent first."""
    return dict(Counter(row.opcode for row in plan.rows).most_common())
