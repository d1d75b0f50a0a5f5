"""Puts a table of another tool onto a model: whose names are whose, what is missing, what cannot be.

The tool saw the model as it was exported, calib8 quantizes it prepared (BatchNormalization folded and so on):

    same name            the range is taken; a folded layer keeps the name of the BatchNormalization's output
    same values          a tensor without a range takes that of one tied to it by Identity, Reshape …
    known limits         Softmax, Sigmoid and Tanh need no range
    a layer              ncnn's names stand for the first input of the layer
    a fusion             Tengine calls the result of Conv and Relu what the Conv's is called
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

import onnx_ir as ir

from calib8.errors import TableError
from calib8.formats.ncnn import layer_inputs
from calib8.formats.table_file import TableFile, entry_without_statistics, is_symmetric, listed
from calib8.formats.tengine import TYPES as TENGINE_FORMATS
from calib8.formats.tengine_names import with_made, with_own_names
from calib8.model.graph import (
    activation_inputs,
    float_attribute,
    input_at,
    is_activation,
    model_hash,
    scalar_constant,
)
from calib8.ops.groups import CLAMPS, FROM_ZERO, MOVE_OPS, POOL_OPS, SAME_VALUES, WEIGHTED_OPS
from calib8.ops.questions import pads
from calib8.parameters import parameter
from calib8.passes.converter_names import converter_names
from calib8.passes.place import Placement, calibration_tensors, clip_limits, place
from calib8.passes.resolve_ranges import FIXED_LIMITS, overshoots
from calib8.scheme import QuantScheme
from calib8.table import CalibrationTable, Range, TableEntry
from calib8.tmfile.graph import made_for

_WITHIN_INPUT: Final = (MOVE_OPS - {"Pad"}) | POOL_OPS
"""Ops whose result stays within the limits of their first input and 0."""

_TENSORRT_OWN: Final = "(Unnamed Layer* "
"""Begins the names that TensorRT makes up for what has none in the model."""


@dataclass(frozen=True)
class Binding:
    """What became of a table on a model.

    Attributes:
        table: ranges of tensors of the prepared model, bound to it by its hash.
        unused: names of the table that the model has, but that carry no codes in any target.
        unknown: names of the table that the model does not have.
        borrowed: tensor without a range of its own → name of the table with the same values.
        float_layers: nodes of the model that an ncnn table leaves in float.
        source: the file, for messages.
        of_layers: an ncnn table, which has ranges for the inputs of layers alone.
        without_scale: tensors that the table lists with the scale 0, or with none.
    """

    table: CalibrationTable
    unused: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    borrowed: tuple[tuple[str, str], ...] = ()
    float_layers: tuple[str, ...] = ()
    source: str = "calibration table"
    of_layers: bool = False
    without_scale: frozenset[str] = frozenset()


def bind(
    file: TableFile,
    prepared: ir.Model,
    original: ir.Model,
    *,
    partial: bool = False,
    zero_points: bool = False,
) -> Binding:
    """The table of ``file`` for a model.

    Args:
        file: a table of any format.
        prepared: the float graph that is going to be quantized.
        original: the same model as it was loaded.
        partial: pass over names that the model does not have.
        zero_points: the ranges are for codes with a zero point, see ``narrowed``.

    Raises:
        TableError: the table is bound to another model; it has names that the model does not have.
    """
    bound_to, own = file.table.model_hash, model_hash(prepared)
    if bound_to:
        if bound_to != own:
            raise TableError(file.source, "was made for another model", "Calibrate this model again")
        return Binding(narrowed(file.table, prepared) if zero_points else file.table, source=file.source)
    known = _names(original) | _names(prepared)
    if file.keys == "layers":
        entries, unknown = _of_layers(file, prepared)
    else:
        if file.format in TENGINE_FORMATS:
            file = replace(file, table=with_own_names(file.table, converter_names(original)))
        entries = dict(file.table.entries)
        named = [*entries, *file.without_scale]
        unknown = tuple(sorted(n for n in named if not _is_known(n, known, file.format)))
        if file.format in TENGINE_FORMATS:
            entries = with_made(entries, calibration_tensors(prepared))
    if unknown and not partial:
        raise TableError(
            file.source,
            f"names {len(unknown)} of {len(file.table.entries) + len(file.without_scale)} {file.keys} "
            f"that the model does not have: {listed(unknown)}",
            f"Give the model that it was made for; {parameter('partial', True)} passes over them",
        )
    wanted = calibration_tensors(prepared)
    borrowed = _borrow(entries, wanted, prepared, original)
    _add_known_limits(entries, wanted, prepared)
    used = {name: entries[name] for name in sorted(wanted) if name in entries}
    unused = tuple(sorted(set(entries) - set(used) - set(unknown) - {name for _, name in borrowed}))
    table = CalibrationTable(own, used)
    floats = set(file.without_scale) - set(unknown) if file.keys == "layers" else ()
    return Binding(
        narrowed(table, prepared) if zero_points else table,
        unused,
        unknown,
        borrowed,
        tuple(sorted(floats)),
        file.source,
        file.keys == "layers",
        _without_scale(file, original),
    )


def _is_known(name: str, known: Collection[str | None], form: str) -> bool:
    """Whether a table may have a name: a tensor's, or one that belongs to the tool."""
    made = form in TENGINE_FORMATS and made_for(name) in known
    return name in known or made or name.startswith(_TENSORRT_OWN)


def without_range(
    model: ir.Model, scheme: QuantScheme, keep_float: frozenset[str], binding: Binding, *, partial: bool
) -> dict[str, str]:
    """Nodes that cannot be quantized for want of a range → reason.

    Those are the layers that an ncnn table leaves in float, and with ``partial`` every node that reads or
    yields a tensor without a range, as TensorRT does with it. Where a target looks at the inputs of layers
    alone, an ncnn table does so without ``partial`` for all nodes that it cannot hold: ncnn runs additions
    and pools in float.

    Raises:
        TableError: there are other tensors without a range and not ``partial`` (they are listed), or no
            weighted layer is left.
    """
    alone = binding.of_layers and scheme.placement == "weighted-inputs"
    layers = set(layer_inputs(model))
    reasons = dict.fromkeys(binding.float_layers, "the table leaves it in float")
    while True:
        placement = place(model, scheme, keep_float | set(reasons))
        missing = [name for name in placement.readers if name not in binding.table.entries]
        if not missing:
            break
        floats = dict(_around(model, placement, missing)) if partial or alone else {}
        if not partial:
            floats = {node: tensor for node, tensor in floats.items() if node not in layers}
        if not floats:
            raise _lacking(binding, missing, len(placement.readers), alone=alone)
        reasons |= {node: f"the table has no range for '{tensor}'" for node, tensor in floats.items()}
    if reasons and not any(d.quantized and d.op_type in WEIGHTED_OPS for d in placement.decisions):
        problem = "has no range that a layer of the model could use"
        raise TableError(binding.source, problem, "Give the model that it was made for")
    return reasons


def _lacking(binding: Binding, missing: list[str], wanted: int, *, alone: bool) -> TableError:
    other = f"{parameter('partial', True)} leaves the nodes around them in float"
    cure = f"Give them with {parameter('ranges')}, or calibrate again; {other}"
    if binding.of_layers and not alone:
        needs = f"{parameter('target', 'ncnn')} needs the inputs of layers alone"
        cure = f"{needs}; for this one: {cure[0].lower()}{cure[1:]}"
    zero = [name for name in missing if name in binding.without_scale]
    others = [name for name in missing if name not in binding.without_scale]
    told = ("has no scale above 0 for", zero), ("lacks", others)
    problem = "; ".join(f"{verb} {len(n)} of {wanted} tensors: {listed(n)}" for verb, n in told if n)
    return TableError(binding.source, problem, cure)


def _without_scale(file: TableFile, original: ir.Model) -> frozenset[str]:
    """Tensors of the model that a table lists without a scale, one of Tengine by its converter's names."""
    listed_so = frozenset(file.without_scale if file.keys == "tensors" else ())
    if file.format not in TENGINE_FORMATS or not listed_so:
        return listed_so
    names = converter_names(original)
    return listed_so.union(name for name, theirs in names.items() if theirs in listed_so)


def narrowed(table: CalibrationTable, model: ir.Model) -> CalibrationTable:
    """The table for codes with a zero point: symmetric ranges without values that the graph rules out.

    A scale of TensorRT says [−T, T] even behind a Relu, where [0, T] has twice as fine codes. Entries with
    statistics are left alone: they hold nothing that was not seen.
    """
    limits = _limits(model)
    entries = dict(table.entries)
    for name, entry in table.entries.items():
        low, high = limits.get(name, (-math.inf, math.inf))
        if entry.count == 0 and is_symmetric(entry.range) and low <= 0.0 <= high:
            bounds = Range(max(entry.range.min, low), min(entry.range.max, high))
            entries[name] = replace(entry, range=bounds)
    return replace(table, entries=entries)


def layers_to_tensors(file: TableFile, model: ir.Model) -> TableFile:
    """A table of layers as one of their input tensors; one of tensors as it is."""
    if file.keys == "tensors":
        return file
    entries, unknown = _of_layers(file, model)
    if unknown:
        problem = f"names layers that the model does not have: {listed(unknown)}"
        raise TableError(file.source, problem, "Give the model that it was made for")
    return replace(file, table=replace(file.table, entries=entries), keys="tensors")


def _of_layers(file: TableFile, model: ir.Model) -> tuple[dict[str, TableEntry], tuple[str, ...]]:
    """Input tensor → entry, and the layers that the model does not have.

    Of layers that read one tensor with different scales the largest range counts: it clips nothing that
    one of them needs.
    """
    inputs = layer_inputs(model)
    entries: dict[str, TableEntry] = {}
    for layer, entry in file.table.entries.items():
        tensor = inputs.get(layer)
        if tensor is None:
            continue
        other = entries.get(tensor)
        if other is None or other.range.magnitude < entry.range.magnitude:
            entries[tensor] = entry
    named = [*file.table.entries, *file.without_scale]
    return entries, tuple(sorted(name for name in named if name not in inputs))


def _names(model: ir.Model) -> set[str]:
    """Inputs, constants and results of a graph."""
    found = {value.name or "" for value in model.graph.inputs} | set(model.graph.initializers)
    return found | {value.name or "" for node in model.graph for value in node.outputs}


def _borrow(
    entries: dict[str, TableEntry], wanted: tuple[str, ...], prepared: ir.Model, original: ir.Model
) -> tuple[tuple[str, str], ...]:
    """Gives tensors without a range that of another one with the same values; the first one in the graph."""
    neighbours: dict[str, list[str]] = {}
    for model in (original, prepared):
        for node in model.graph:
            first = input_at(node, 0)
            if first is not None and _keeps_values(node):
                source, result = first.name or "", node.outputs[0].name or ""
                neighbours.setdefault(source, []).append(result)
                neighbours.setdefault(result, []).append(source)
    found = {}
    for name in wanted:
        if name not in entries:
            other = next((alias for alias in _reached(name, neighbours) if alias in entries), None)
            if other is not None:
                found[name] = other
    entries.update({name: entries[other] for name, other in found.items()})
    return tuple(sorted(found.items()))


def _keeps_values(node: ir.Node) -> bool:
    """The zeros of a Pad are in every range; older operator sets have them as an attribute."""
    if not pads(node):
        return node.op_type in SAME_VALUES
    mode, fill = node.attributes.get("mode"), input_at(node, 2)
    zeros = float_attribute(node, "value", 0.0) == 0.0 and (fill is None or scalar_constant(fill) == 0.0)
    return zeros and (mode is None or mode.as_string() == "constant")


def _reached(start: str, neighbours: dict[str, list[str]]) -> Iterator[str]:
    """All names that a chain of neighbours leads to, nearest first."""
    seen, queue = {start}, [start]
    for name in queue:
        for other in neighbours.get(name, []):
            if other not in seen:
                seen.add(other)
                queue.append(other)
                yield other


def _add_known_limits(entries: dict[str, TableEntry], wanted: tuple[str, ...], model: ir.Model) -> None:
    for node in model.graph:
        name = node.outputs[0].name or ""
        if node.op_type in FIXED_LIMITS and name in wanted and name not in entries:
            limits = Range(*FIXED_LIMITS[node.op_type])
            entries[name] = entry_without_statistics(limits, f"limits of {node.op_type}")


def _around(model: ir.Model, placement: Placement, missing: list[str]) -> Iterator[tuple[str, str]]:
    """Quantized nodes that read the codes of a tensor or, where all its readers do, yield it."""
    quantized = placement.quantized_nodes()
    wanted = set(missing)
    for node in model.graph:
        if node.name not in quantized:
            continue
        read = {value.name or "" for value in activation_inputs(node)}
        for tensor in sorted(read & wanted):
            readers = placement.readers[tensor]
            if readers is None or node.name in readers:
                yield node.name, tensor
        for value in node.outputs:
            if value.name in wanted and placement.readers[value.name] is None:
                yield node.name, value.name


def _limits(model: ir.Model) -> dict[str, tuple[float, float]]:
    """Tensor → limits that its values cannot leave, as far as single nodes tell."""
    found: dict[str, tuple[float, float]] = {}
    for node in model.graph:
        source = node.inputs[0].name or "" if node.inputs and node.inputs[0] is not None else ""
        for value in node.outputs:
            if not is_activation(value):
                continue
            if node.op_type in CLAMPS:
                found[value.name or ""] = clip_limits(node)
            elif node.op_type in FROM_ZERO:
                found[value.name or ""] = FROM_ZERO[node.op_type]
            elif node.op_type in _WITHIN_INPUT and source in found and not overshoots(node):
                low, high = found[source]
                found[value.name or ""] = (min(low, 0.0), max(high, 0.0))
    return found
