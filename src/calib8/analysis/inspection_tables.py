"""What an inspection shows in notebooks, by kind of file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calib8.notebook import facts, grid, notes
from calib8.number_texts import percent
from calib8.tensors import TensorSpec, shape_text

if TYPE_CHECKING:  # plans are looked at without what reads models
    from calib8.analysis.inspect import LayerInspection, ModelInspection
    from calib8.analysis.lint import Violation
    from calib8.analysis.observed import Observation
    from calib8.analysis.plan_inspect import PlanInspection
    from calib8.analysis.tflite_inspect import TfliteInspection
    from calib8.analysis.tmfile_inspect import TmfileInspection
    from calib8.program.program import Program

Facts = list[tuple[str, object]]


def model_tables(found: ModelInspection) -> str:
    """Of an ONNX model: inputs and outputs, layers and why some stay float, warnings."""
    layers = grid(
        ("layer", "op", "output", "parameters", "MACs", "INT8", "why not"), found.layers, _layer_row
    )
    about: Facts = [("opset", found.opset), *_ports(found.inputs, found.outputs)]
    about += [("parameters", found.parameters), ("MACs of a sample", found.macs)]
    return facts(about) + layers + notes(found.warnings)


def _layer_row(layer: LayerInspection) -> tuple[object, ...]:
    shape = None if layer.output_shape is None else shape_text(layer.output_shape)
    why = layer.reason or layer.engine
    return (layer.name, layer.op_type, shape, layer.parameters, layer.macs, layer.quantized, why or "")


def tflite_tables(found: TfliteInspection) -> str:
    """Of a TFLite model: inputs and outputs, operators, what a runtime makes of it."""
    operators = grid(
        ("operator", "version", "output", "works on", "MACs"),
        found.operators,
        lambda one: (one.op, one.version, one.outputs[0] if one.outputs else "", one.works_on, one.macs),
    )
    about: Facts = [("kind", found.kind), *_ports(found.inputs, found.outputs)]
    about += [("parameters", found.parameters), ("MACs of a run", found.macs)]
    return facts(about) + operators + notes(found.caveats)


def tmfile_tables(found: TmfileInspection) -> str:
    """Of a Tengine model: inputs and outputs, nodes, what does not fit."""
    nodes = grid(
        ("node", "operator", "output", "MACs"),
        found.nodes,
        lambda one: (one.name, one.op, one.outputs[0], one.macs),
    )
    about: Facts = [("kind", found.kind), *_ports(found.inputs, found.outputs)]
    about += [("parameters", found.parameters), ("MACs of a run", found.macs)]
    return facts(about) + nodes + notes(found.caveats)


def plan_tables(found: PlanInspection) -> str:
    """Of a plan: memory and steps."""
    plan = found.plan
    about: Facts = [
        ("profile", plan.profile),
        ("made for", plan.isa or "any machine"),
        ("MACs in integers", found.integer_macs),
        ("bytes of weights", plan.weight_bytes),
        ("bytes of the arena", plan.arena_bytes),
        ("bytes per thread", found.scratch_bytes),
        ("nodes without an integer form", len(plan.float_nodes)),
    ]
    return facts(about) + grid(("step", "how many"), list(found.steps.items()), lambda step: step)


def program_tables(program: Program) -> str:
    """Of an integer program: its instructions, and the nodes that have no integer form."""
    from calib8.program.listing import summary

    found = summary(program)
    about: Facts = [
        ("profile", found.profile),
        ("MACs in integers", found.integer_macs),
        ("MACs in float", found.float_macs),
        ("bytes of weights", found.weight_bytes),
        ("bytes of tensors at a time", found.peak_bytes),
    ]
    kinds = grid(("instruction", "how many"), list(found.instructions.items()), lambda kind: kind)
    floats = grid(("node in float", "why"), list(program.float_reasons.items()), lambda node: node)
    return facts(about) + kinds + floats


def violation_table(violations: tuple[Violation, ...]) -> str:
    """The rules of a target that a model breaks."""
    return grid(
        ("node", "rule", "problem", "what to do"),
        violations,
        lambda one: (one.node, one.rule, one.problem, one.cure),
    )


def observation_table(seen: Observation) -> str:
    """The tensors of which data show that codes cut values."""
    return grid(
        ("tensor", "saturated", "observed", "representable"),
        [one for one in seen.tensors if one.saturated > 0.0],
        lambda one: (one.tensor, percent(one.saturated), _span(one.observed), _span(one.representable)),
    )


def _span(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.4g} … {ends[1]:.4g}"


def _ports(inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> Facts:
    ports = [*(("input", one) for one in inputs), *(("output", one) for one in outputs)]
    return [(what, str(one)) for what, one in ports]
