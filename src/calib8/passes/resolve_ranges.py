"""From a calibration table to the ranges that the quantizers get: what only the graph can tell.

1. fixed       Softmax, Sigmoid → [0, 1), Tanh → [−1, 1): their limits are known, no data needed; what a
               mask put below all scores has no codes of its own (``passes/masked_scores``)
2. handed up   an op that moves codes or takes their maximum keeps them: the value before it, if nobody
               else reads it, takes the range behind it
3. shared      ops that need one scale on all sides: every class takes the hull of its members
4. rounded     where scales are to be powers of two

A class with one spot (``passes/spots``) in it has 16-bit codes as a whole, and the hull of ``wide_ranges``;
who shares is decided before. Where limits are known, its range ends one step of those before them.

A range that the user gave stays as it is through all of them, and its class takes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

import onnx_ir as ir

from calib8.errors import TableError
from calib8.model.graph import activation_inputs, constant, input_at, scalar_constant, sole_consumer
from calib8.ops.groups import CLAMPS, CODE_PRESERVING_OPS, LIMITED, PERMUTING, RESHAPING
from calib8.ops.questions import clips, joins, pads, resizes
from calib8.passes.masked_scores import cut_masked_scores
from calib8.passes.place import Placement, clip_limits
from calib8.passes.recurrent_nodes import is_recurrent
from calib8.passes.wide_ranges import with_wide_ranges
from calib8.qparams import QuantSpec
from calib8.scheme import QuantScheme
from calib8.table import GIVEN, CalibrationTable, Range

Rounding: TypeAlias = Callable[[Range, QuantSpec], Range]

FIXED_LIMITS: Final = {op: LIMITED[op] for op in ("Softmax", "Sigmoid", "Tanh")}
"""Op → limits that its codes have whatever was seen, as in the kernels of runtimes: for these ops alone."""

_COMMUTING: Final = CLAMPS | RESHAPING | PERMUTING | {"MaxPool", "GlobalMaxPool"}
"""Ops f with f(clip(x)) = clip(f(x)) that read one tensor, every useful value of which they yield."""


def resolve_ranges(
    model: ir.Model,
    placement: Placement,
    table: CalibrationTable,
    scheme: QuantScheme,
    rounding: Rounding | None = None,
    spots: frozenset[str] = frozenset(),
) -> dict[str, Range]:
    """The final range of every tensor that carries Q/DQ.

    Args:
        model: a prepared float graph.
        placement: which tensors.
        table: what was chosen for each, or given by the user.
        scheme: the target's rules.
        rounding: what makes of a range one whose scale can be used, None: any scale can.
        spots: tensors of 16-bit codes, whole classes of them as ``shared_with`` names them.

    Raises:
        TableError: the table lacks a tensor, or two given ranges differ where there is one scale only.
    """
    ranges, fixed, given = _before_sharing(model, placement, table, scheme)
    classes = _classes(model, placement, ranges, fixed, given, scheme)
    if spots:
        wide, _, _ = _before_sharing(model, placement, with_wide_ranges(table, spots), scheme)
        ranges |= {name: _within_limits(wide[name], ranges[name], classes, fixed, name) for name in spots}
    kept = _share(model, classes, ranges, fixed, given, scheme, spots)
    if rounding is None:
        return ranges
    return {
        name: found if name in kept else rounding(found, scheme.code_of(name, spots))
        for name, found in ranges.items()
    }


def _within_limits(
    wide: Range, narrow: Range, classes: _Classes, fixed: Mapping[str, str], name: str
) -> Range:
    """A range with room for more, but none for what the limits of its class keep away."""
    if classes.members_of_classes({name}) & fixed.keys():
        return narrow
    limit = max(classes.limit[classes.root(name)], narrow.max)
    return Range(wide.min, min(wide.max, limit))


def shared_with(
    model: ir.Model,
    placement: Placement,
    table: CalibrationTable,
    scheme: QuantScheme,
    tensors: Collection[str],
) -> dict[str, frozenset[str]]:
    """Each of the tensors → all that share its scale, itself included.

    Args:
        model, placement, table, scheme: as for ``resolve_ranges``.
        tensors: of ``placement.readers``.

    Raises:
        TableError: the table lacks a tensor.
    """
    ranges, fixed, given = _before_sharing(model, placement, table, scheme)
    classes = _classes(model, placement, ranges, fixed, given, scheme)
    return {name: frozenset(classes.members_of_classes({name})) for name in tensors}


def _before_sharing(
    model: ir.Model, placement: Placement, table: CalibrationTable, scheme: QuantScheme
) -> tuple[dict[str, Range], dict[str, str], set[str]]:
    """Ranges after steps 1 and 2, tensors of known limits → op, and those whose range the user gave."""
    missing = [name for name in placement.readers if name not in table.entries]
    if missing:
        raise TableError(
            missing[0],
            f"the table lacks {len(missing)} of {len(placement.readers)} tensors",
            "Calibrate this model again; the table was made for other ops",
        )
    ranges = {name: table.entries[name].range.widened_to_zero() for name in placement.readers}
    given = {name for name in ranges if table.entries[name].method == GIVEN}
    fixed = _fix(model, ranges, scheme.activations, given)
    cut_masked_scores(model, ranges, table.entries, given)
    _hand_up(model, placement, ranges, {*fixed, *given})
    return ranges, fixed, given


def fixed_range(op_type: str, spec: QuantSpec) -> Range:
    """Range of an op with known limits.

    Scale 1/2^bits for 0 … 1, 2/2^bits for −1 … 1; symmetric 1/(2^(bits−1)−1).
    8 bits: 1/256 with the zero point at the lowest code, 1/128 with it in the middle, 1/127.
    """
    low, high = FIXED_LIMITS[op_type]
    if spec.symmetric:
        return Range(-1.0, 1.0)
    return Range(low, high - (high - low) / (1 << spec.bits))


def _fix(model: ir.Model, ranges: dict[str, Range], spec: QuantSpec, given: set[str]) -> dict[str, str]:
    fixed: dict[str, str] = {}
    for node in model.graph:
        name = node.outputs[0].name or ""
        if node.op_type in FIXED_LIMITS and name in ranges and name not in given:
            ranges[name] = fixed_range(node.op_type, spec)
            fixed[name] = node.op_type
    return fixed


def _hand_up(model: ir.Model, placement: Placement, ranges: dict[str, Range], known: set[str]) -> None:
    """Walks backwards, so that a chain of such ops hands its last range all the way up.

    ``known`` are the names whose range is not touched.
    """
    quantized = placement.quantized_nodes()
    for node in reversed(list(model.graph)):
        if node.name not in quantized or node.op_type not in _COMMUTING:
            continue
        source, result = node.inputs[0], node.outputs[0].name or ""
        if source is None or source.name not in ranges or result not in ranges or source.name in known:
            continue
        if sole_consumer(source) is node and _covers(node, ranges[result]):
            ranges[source.name or ""] = ranges[result]


def _covers(node: ir.Node, result: Range) -> bool:
    """A Clip hands its range up only if the range lies within its limits."""
    if not clips(node):
        return True
    low, high = clip_limits(node)
    return low <= 0.0 and low <= result.min and result.max <= high


@dataclass
class _Classes:
    """Tensors that share a scale, as trees of names.

    Attributes:
        parent: name → another name of its class; the root is its own parent.
        hull: root → hull of the ranges of the class.
        least: root → smallest magnitude of a range of the class, those of only zero left out.
        limit: root → lowest upper limit of the Clips whose output is in the class.
    """

    parent: dict[str, str]
    hull: dict[str, Range]
    least: dict[str, float]
    limit: dict[str, float]

    def root(self, name: str) -> str:
        """The name that stands for the class."""
        while self.parent[name] != name:
            name = self.parent[name]
        return name

    def members_of_classes(self, names: set[str]) -> set[str]:
        """All that share a scale with one of the names."""
        roots = {self.root(name) for name in names}
        return {name for name in self.parent if self.root(name) in roots} if roots else set()

    def join(self, left: str, right: str) -> None:
        """The classes of both names become one."""
        kept, gone = self.root(left), self.root(right)
        self.parent[gone] = kept
        self.hull[kept] = self.hull[kept].hull(self.hull[gone])
        self.least[kept] = min(self.least[kept], self.least[gone])
        self.limit[kept] = min(self.limit[kept], self.limit[gone])


def _classes(
    model: ir.Model,
    placement: Placement,
    ranges: Mapping[str, Range],
    fixed: Collection[str],
    given: set[str],
    scheme: QuantScheme,
) -> _Classes:
    quantized = placement.quantized_nodes()
    upper = {node.outputs[0].name: clip_limits(node)[1] for node in model.graph if clips(node)}
    limits = {name: upper.get(name, math.inf) for name in ranges}
    least = {name: found.magnitude or math.inf for name, found in ranges.items()}
    classes = _Classes({name: name for name in ranges}, dict(ranges), least, limits)
    for node in model.graph:
        if node.name in quantized:
            members = _one_scale(node, classes, fixed, given, scheme)
            for name in members[1:]:
                classes.join(members[0], name)
    return classes


def _share(
    model: ir.Model,
    classes: _Classes,
    ranges: dict[str, Range],
    fixed: Mapping[str, str],
    given: set[str],
    scheme: QuantScheme,
    spots: frozenset[str],
) -> set[str]:
    """Gives every class its range; returns the names in classes that have a given one."""
    groups: dict[str, list[str]] = {}
    for name in ranges:
        groups.setdefault(classes.root(name), []).append(name)
    kept: set[str] = set()
    for members in groups.values():
        for name in spots & fixed.keys() & set(members):
            ranges[name] = fixed_range(fixed[name], scheme.code_of(name, spots))
        hull = reduce(Range.hull, (ranges[name] for name in members))
        if pinned := _given_range(members, ranges, given):
            kept.update(members)
        constants = _constants(model, set(members), scheme)
        chosen = pinned or _group_range(members, hull, ranges, fixed, constants)
        for name in members:
            ranges[name] = chosen
    return kept


def _given_range(members: list[str], ranges: Mapping[str, Range], given: set[str]) -> Range | None:
    """The one range that the user gave to members of a class."""
    names = [name for name in members if name in given]
    for name in names[1:]:
        if ranges[name] != ranges[names[0]]:
            first, other = ranges[names[0]], ranges[name]
            raise TableError(
                name,
                f"was given [{other.min:g}, {other.max:g}], but shares its scale with '{names[0]}', given "
                f"[{first.min:g}, {first.max:g}]",
                "Give one of them, or both the same",
            )
    return ranges[names[0]] if names else None


def _one_scale(
    node: ir.Node, classes: _Classes, fixed: Collection[str], given: set[str], scheme: QuantScheme
) -> list[str]:
    """Names of the tensors of a node that must have one scale, none where they may differ."""
    inputs = [value.name or "" for value in activation_inputs(node)]
    outputs = [value.name or "" for value in node.outputs]
    if node.op_type in CODE_PRESERVING_OPS and not overshoots(node):
        inputs = inputs[:1]
    elif joins(node):
        always = math.isinf(scheme.concat_share_ratio)
        own = set() if always else classes.members_of_classes(given)
        free = [name for name in inputs if name not in fixed and name not in own]
        fits = own.isdisjoint(outputs) and _alike([*free, *outputs], classes, scheme.concat_share_ratio)
        inputs = free if fits else []
    elif is_recurrent(node):
        inputs = outputs[1:2]
    elif node.op_type not in scheme.shared_scale_ops:
        return []
    return [name for name in [*outputs, *inputs] if name in classes.parent] if inputs else []


def overshoots(node: ir.Node) -> bool:
    """A cubic Resize yields values that its input does not have."""
    mode = node.attributes.get("mode")
    return resizes(node) and mode is not None and mode.as_string() == "cubic"


def _alike(names: list[str], classes: _Classes, ratio: float) -> bool:
    """Whether the tensors around a Concat share one scale: their ranges differ by no more than ``ratio``.

    What they share a scale with already counts, lest a chain of Concats drift apart step by step.
    Not where a range from 0 would get negative values, or one below the limit of a Clip higher ones:
    the quantizer behind that Relu or Clip would no longer do its work, and the layer could not be fused.
    """
    if math.isinf(ratio) or ratio == 0:
        return ratio > 0
    roots = [classes.root(name) for name in names if name in classes.parent]
    hulls = [classes.hull[root] for root in roots if classes.hull[root].magnitude > 0]
    if not hulls:
        return True
    lows, highs = [hull.min for hull in hulls], [hull.max for hull in hulls]
    if min(lows) < max(lows) == 0.0 or max(highs) > min(classes.limit[root] for root in roots):
        return False
    largest = max(hull.magnitude for hull in hulls)
    return largest <= ratio * min(classes.least[root] for root in roots)


def _group_range(
    members: list[str],
    hull: Range,
    ranges: Mapping[str, Range],
    fixed: Collection[str],
    constants: list[float],
) -> Range:
    """The fixed range of a member if it holds everything up to one step of the code, else the hull."""
    for value in constants:
        hull = hull.hull(Range(value, value))
    for name in members:
        low, high = ranges[name].min, math.ceil(ranges[name].max)
        if name in fixed and low <= hull.min and hull.max <= high:
            return ranges[name]
    return hull


def _constants(model: ir.Model, members: set[str], scheme: QuantScheme) -> list[float]:
    """Values that nodes mix into a class: what a Pad fills in, constants of a Concat with one scale."""
    values: list[float] = []
    for node in model.graph:
        if node.outputs[0].name not in members:
            continue
        if pads(node):
            fill = scalar_constant(input_at(node, 2))
            values += [fill] if fill is not None and math.isfinite(fill) else []
        elif joins(node) and "Concat" in scheme.shared_scale_ops:
            arrays = (constant(value) for value in node.inputs)
            values += [bound for a in arrays if a is not None for bound in (float(a.min()), float(a.max()))]
    return values
