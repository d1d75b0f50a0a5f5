"""The page of one model, program or plan: what ``inspect`` knows of it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from calib8.analysis.inspection import Inspection
from calib8.number_texts import NOTHING
from calib8.run_report.marked_up import Words, breakable, bullets, definitions, pill, section, table
from calib8.run_report.told import Figure
from calib8.tensors import TensorSpec, shape_text
from calib8.viewer.frame import framed

if TYPE_CHECKING:  # a plan is shown without what reads models
    from calib8.analysis.inspect import ModelInspection
    from calib8.analysis.plan_inspect import PlanInspection
    from calib8.analysis.tflite_inspect import TfliteInspection
    from calib8.program.program import Program


def model_page(found: Inspection, *, typed: bool) -> str:
    """The page.

    Args:
        found: what ``inspect`` knows.
        typed: texts name parameters as on the command line; else as in Python.
    """
    say = Words(typed)
    parts: list[str] = []
    if found.model is not None:
        parts += _of_model(found.model, say)
    if found.tflite is not None:
        parts += _of_tflite(found.tflite, say)
    if found.plan is not None:
        parts += _of_plan(found.plan, say)
    if found.program is not None:
        parts += _of_program(found.program, say)
    parts.append(section("notes", "Notes", bullets(found.notes, say)))
    above = f'<p class="note">{say(found.kind)}: {say(found.path)}</p>'
    return framed(found.path.rpartition("/")[2], "\n".join(filter(None, parts)), above)


def _of_model(found: ModelInspection, say: Words) -> list[str]:
    done = sum(layer.quantized for layer in found.layers)
    would = "would be " if found.kind == "float" else ""
    facts = [
        Figure("kind", found.kind), Figure("operator set", str(found.opset)),
        Figure("parameters", f"{found.parameters:,}"), Figure("multiply-accumulates", _count(found.macs)),
        Figure("layers", f"{done} of {len(found.layers)} {would}in int8"),
        *_ports(found.inputs, found.outputs), *(Figure(*entry) for entry in found.metadata.items()),
    ]  # fmt: skip
    rows = [
        (
            breakable(layer.name, say), say(layer.op_type), _shape(layer.output_shape),
            _count(layer.macs), pill("int8" if layer.quantized else "float"),
            say(layer.reason or layer.engine or ""),
        )
        for layer in found.layers
    ]  # fmt: skip
    columns = ("layer", "op", "output", "MACs", "computed in" if not would else "would be", "why")
    return [
        section("about", "About", definitions(facts, "facts", say)),
        section("warnings", "Warnings", bullets(found.warnings, say)),
        section(
            "layers", "Layers", table("Table of layers", columns, rows, (1, 4, 5), (2, 3)) if rows else ""
        ),
        section("ops", "Ops", _counts("Ops", ("op", "nodes"), found.ops.items(), say)),
    ]


def _of_tflite(found: TfliteInspection, say: Words) -> list[str]:
    facts = [
        Figure("kind", found.kind), Figure("description", found.description or NOTHING),
        Figure("parameters", f"{found.parameters:,}"), Figure("multiply-accumulates", _count(found.macs)),
        Figure("bytes of constants", f"{found.constant_bytes:,}"),
        *_ports(found.inputs, found.outputs), *(Figure(*entry) for entry in found.metadata.items()),
    ]  # fmt: skip
    rows = [
        (
            say(str(place)),
            say(one.op),
            breakable(", ".join(one.outputs), say),
            _count(one.macs),
            say(one.works_on),
        )
        for place, one in enumerate(found.operators)
    ]
    columns = ("place", "operator", "output", "MACs", "works on")
    return [
        section("about", "About", definitions(facts, "facts", say)),
        section("warnings", "Warnings", bullets(found.caveats, say)),
        section(
            "layers", "Operators", table("Table of operators", columns, rows, (1, 2, 4), (3,)) if rows else ""
        ),
        section("ops", "Kinds", _counts("Kinds", ("operator", "how many"), found.ops.items(), say)),
    ]


def _of_plan(found: PlanInspection, say: Words) -> list[str]:
    plan = found.plan
    facts = [
        Figure("rounding profile", str(plan.profile)), Figure("made for", plan.isa or "any machine"),
        Figure("multiply-accumulates in integers", f"{found.integer_macs:,}"),
        Figure("bytes of weights", f"{plan.weight_bytes:,}"),
        Figure("bytes of the arena", f"{plan.arena_bytes:,}"),
        Figure("bytes per thread", f"{found.scratch_bytes:,}"),
        Figure("nodes without an integer form", str(len(plan.float_nodes))),
    ]  # fmt: skip
    return [
        section("about", "About", definitions(facts, "facts", say)),
        section("layers", "Steps", _counts("Steps", ("step", "how many"), found.steps.items(), say)),
    ]


def _of_program(program: Program, say: Words) -> list[str]:
    from calib8.program.listing import summary

    found = summary(program)
    facts = [
        Figure("rounding profile", str(found.profile)),
        Figure("multiply-accumulates in integers", f"{found.integer_macs:,}"),
        Figure("multiply-accumulates in float", _count(found.float_macs)),
        Figure("bytes of weights", f"{found.weight_bytes:,}"),
        Figure("bytes of tensors at a time", f"{found.peak_bytes:,}"),
    ]
    floats = [(breakable(name, say), say(why)) for name, why in program.float_reasons.items()]
    kinds = _counts("Instructions", ("instruction", "how many"), found.instructions.items(), say)
    return [
        section("program", "Integer program", definitions(facts, "facts", say) + kinds),
        section(
            "floats",
            "Nodes in float",
            table("Table of nodes in float", ("node", "why"), floats, (1,)) if floats else "",
        ),
    ]


def _counts(name: str, columns: Sequence[str], counts: Iterable[tuple[str, int]], say: Words) -> str:
    rows = [(say(kind), f"{many:,}") for kind, many in counts]
    return f'<div class="narrow">{table(f"Table of {name.lower()}", columns, rows)}</div>' if rows else ""


def _ports(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> list[Figure]:
    return [*(Figure("input", str(one)) for one in inputs), *(Figure("output", str(one)) for one in outputs)]


def _shape(shape: Sequence[int | str | None] | None) -> str:
    return NOTHING if shape is None else html.escape(shape_text(tuple(shape)))


def _count(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"
