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
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import onnx_ir as ir

from calib8.calibration.decide import AUTO, Wish
from calib8.calibration.functions_behind import functions_behind
from calib8.calibration.ranges import BEHIND, clipped_share
from calib8.calibration.ranges.minmax import minmax
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.model.graph import activation_inputs
from calib8.qparams import QuantSpec
from calib8.scheme import WEIGHTED_OPS
from calib8.table import GIVEN, CalibrationTable, Range, TableEntry
from calib8.tasks.branches import Meaning
from calib8.tasks.kinds import LEADING
from calib8.tasks.reach import reached

WHOLE: Final = "decides what is found: nothing that was seen is clipped"
"""Reason of such a range."""

MORE: Final = 10
"""Times as many samples as were seen: what they would show is within the range."""

LIMITED: Final = frozenset({"Clip", "HardSigmoid", "Sigmoid", "Softmax", "Softsign", "Tanh"})
"""Functions whose largest values are known."""


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
) -> CalibrationTable:
    """The table with the ranges of such tensors wide enough.

    Args:
        table: ranges of all tensors; those that the user gave stay.
        model: the prepared float graph.
        meaning: branches of its outputs; None: not known.
        statistics: of its tensors.
        spec: type of the codes.
    """
    if meaning is None or not meaning.several:
        return table
    entries, functions = dict(table.entries), functions_behind(model)
    limited = limited_tensors(model) | {value.name for value in model.graph.inputs}
    for name in score_tensors(model, meaning) & entries.keys() & statistics.keys():
        seen = statistics[name]
        if entries[name].method == GIVEN or seen.is_degenerate:
            continue
        ends = name in limited
        entries[name] = _whole(entries[name], seen, spec, limited=ends, function=name in functions)
    return replace(table, entries=entries)


def _whole(
    entry: TableEntry, seen: TensorStatistics, spec: QuantSpec, *, limited: bool, function: bool
) -> TableEntry:
    """The entry with all that was seen and room for more, at the low end what it has where a function reads
    the tensor; as it was where its range is as wide."""
    everything = minmax(seen, spec) if limited else with_reach(seen, spec)
    if not function or everything.max <= 0.0 or everything.min == -everything.max:
        low, high = min(everything.min, entry.range.min), max(everything.max, entry.range.max)
    else:
        low, high = entry.range.min, max(everything.max, entry.range.max)
    if (low, high) == (entry.range.min, entry.range.max):
        return entry
    found = Range(low, high)
    return replace(entry, range=found, method="minmax", clipped=clipped_share(seen, found), reason=WHOLE)


def with_reach(seen: TensorStatistics, spec: QuantSpec) -> Range:
    """Min-max, and above it room for what ``MORE`` times as many samples would show."""
    everything = minmax(seen, spec)
    if seen.samples < MORE or everything.max <= 0.0:
        return everything
    room = (seen.maximum - seen.mean_maximum) * math.log(MORE) / math.log(seen.samples)
    high = max(everything.max, seen.maximum + room)
    return Range(-high if everything.min == -everything.max else everything.min, high)


def limited_tensors(model: ir.Model) -> frozenset[str]:
    """Names of tensors all of which a function of ``LIMITED`` made, moved, pooled or joined since or not."""
    found = set[str]()
    for node in model.graph:
        sources = [value.name for value in activation_inputs(node)]
        kept = node.op_type not in WEIGHTED_OPS and bool(sources) and found.issuperset(sources)
        if kept or node.op_type in LIMITED:
            found.update(value.name or "" for value in node.outputs)
    return frozenset(found)


def score_tensors(model: ir.Model, meaning: Meaning) -> frozenset[str]:
    """Names of the tensors that decide what is found, see the top of the file."""
    leading = [branch for branch in meaning.judged if branch.kind in LEADING]
    others = [branch for branch in meaning.judged if branch.kind not in LEADING]
    if not leading:
        return frozenset()
    alone = reached(model, leading) - reached(model, others)
    return alone | reached(model, leading, within_tail=True)
