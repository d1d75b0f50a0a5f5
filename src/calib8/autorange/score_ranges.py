"""Tensors that decide whether something is found keep every value that was seen.

Of the values before a score nearly all say "nothing here". The few large ones are what the network is for,
and what a search for the least error cuts off first: with few objects in the calibration images it cuts the
logits of all objects to the same low score. So these tensors are not clipped:

    what scores or objectness depend on and no other branch does      the head of the scores
    what lies between the last layers and scores or objectness        the logits, joined with others or not

What a function reads keeps the low end that was chosen: SiLU and its like forget what lies far below 0.

The few large values are the rarest too, and other images hold larger ones. So there is room for what ten
times as many samples would show, if the largest values of samples have an exponential tail (Gumbel); not
behind functions that end at a limit:

    reach    M + (M − m) · ln 10 / ln n        n ≥ 10 samples; M the largest of all values, m the mean of
                                               the samples' largest
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

import onnx_ir as ir

from calib8.calibration.decide import AUTO, Wish
from calib8.calibration.functions_behind import functions_behind
from calib8.calibration.ranges import BEHIND, clipped_share
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.model.graph import activation_inputs, float_attribute, input_at, scalar_constant
from calib8.ops.groups import BINARY_OPS, LIMITED, MOVE_OPS, POOL_OPS
from calib8.ops.questions import clips
from calib8.qparams import FLOAT32_MAX, QuantSpec
from calib8.table import GIVEN, CalibrationTable, Range, TableEntry
from calib8.tasks.branches import Meaning
from calib8.tasks.kinds import LEADING
from calib8.tasks.reach import reached

WHOLE: Final = "decides what is found: holds the largest value that was seen, and room for more"
"""Reason of such a range."""

MORE: Final = 10
"""Times as many samples as were seen: what they would show is within the range."""

KEEP_LIMITS: Final = MOVE_OPS | POOL_OPS | BINARY_OPS | {"Concat"}
"""What of such values alone has a limit as well, beside functions that end at one."""


def with_whole_scores(
    table: CalibrationTable,
    model: ir.Model,
    meaning: Meaning | None,
    statistics: Mapping[str, TensorStatistics],
    spec: QuantSpec,
    wish: Wish,
) -> CalibrationTable:
    """The table as ``whole_scores`` leaves it; as it was where a method was named.

    Args:
        table: ranges by ``auto`` or ``mse-behind``.
        model, meaning, statistics, spec: see ``whole_scores``.
        wish: the method, and whether scales are powers of two, which keeps all ranges as they are.
    """
    if wish.method not in (AUTO, BEHIND) or wish.power_of_two:
        return table
    return whole_scores(table, model, meaning, statistics, spec)


def whole_scores(
    table: CalibrationTable,
    model: ir.Model,
    meaning: Meaning | None,
    statistics: Mapping[str, TensorStatistics],
    spec: QuantSpec,
    *,
    among: Collection[str] | None = None,
) -> CalibrationTable:
    """The table with the ranges of such tensors wide enough.

    Args:
        table: ranges of all tensors; those that the user gave stay.
        model: the prepared float graph.
        meaning: branches of its outputs; None: not known.
        statistics: of its tensors.
        spec: type of the codes.
        among: names of the tensors to look at; None: all.
    """
    if meaning is None or not meaning.several:
        return table
    entries, functions = dict(table.entries), functions_behind(model)
    limited = limited_tensors(model) | {value.name for value in model.graph.inputs}
    decisive = score_tensors(model, meaning) & entries.keys() & statistics.keys()
    for name in decisive if among is None else decisive & set(among):
        seen = statistics[name]
        if entries[name].method == GIVEN or seen.is_degenerate:
            continue
        high = seen.maximum if name in limited else reach(seen)
        entries[name] = _whole(entries[name], seen, high, spec, function=name in functions)
    return replace(table, entries=entries)


def _whole(
    entry: TableEntry, seen: TensorStatistics, high: float, spec: QuantSpec, *, function: bool
) -> TableEntry:
    """The entry with all that was seen and room up to ``high``; at the low end what it has where a function
    reads the tensor and codes have a zero point; as it was where its range is as wide."""
    keeps_low = function and not spec.symmetric and high > 0.0
    found = Range(
        entry.range.min if keeps_low else min(entry.range.min, seen.minimum), max(entry.range.max, high, 0.0)
    )
    if found == entry.range:
        return entry
    method = entry.method if keeps_low else "minmax"
    return replace(entry, range=found, method=method, clipped=clipped_share(seen, found), reason=WHOLE)


def reach(seen: TensorStatistics) -> float:
    """What ``MORE`` times as many samples would show at most, see the top of the file."""
    if seen.samples < MORE or seen.maximum <= 0.0:
        return seen.maximum
    room = (seen.maximum - max(seen.mean_maximum, 0.0)) * math.log(MORE) / math.log(seen.samples)
    return min(seen.maximum + max(room, 0.0), float(FLOAT32_MAX))


def limited_tensors(model: ir.Model) -> frozenset[str]:
    """Names of tensors all of which came from functions that end at a limit, and ``KEEP_LIMITS`` since."""
    found = set[str]()
    for node in model.graph:
        sources = [value.name for value in activation_inputs(node)]
        kept = node.op_type in KEEP_LIMITS and bool(sources) and found.issuperset(sources)
        if kept or node.op_type in LIMITED or _has_upper_limit(node):
            found.update(value.name or "" for value in node.outputs)
    return frozenset(found)


def _has_upper_limit(node: ir.Node) -> bool:
    """Whether it is a Clip that has one."""
    if not clips(node):
        return False
    limit = float_attribute(node, "max", math.inf)
    if len(node.inputs) > 1:
        limit = scalar_constant(input_at(node, 2)) or math.inf
    return limit < FLOAT32_MAX


def score_tensors(model: ir.Model, meaning: Meaning) -> frozenset[str]:
    """Names of the tensors that decide what is found, see the top of the file."""
    leading = [branch for branch in meaning.judged if branch.kind in LEADING]
    others = [branch for branch in meaning.judged if branch.kind not in LEADING]
    if not leading:
        return frozenset()
    alone = reached(model, leading) - reached(model, others)
    return alone | reached(model, leading, within_tail=True)
