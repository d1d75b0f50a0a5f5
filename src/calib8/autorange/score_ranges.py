"""Tensors that decide whether something is found keep every value that was seen.

Of the values before a score nearly all say "nothing here". The few large ones are what the network is for,
and what a search for the least error cuts off first: with few objects in the calibration images it cuts the
logits of all objects to the same low score. So these tensors are not clipped:

    what scores or objectness depend on and no other branch does      the head of the scores
    what lies between the last layers and scores or objectness        the logits, joined with others or not

What a function reads keeps the low end that was chosen: SiLU and its like forget what lies far below 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import onnx_ir as ir

from calib8.calibration.decide import AUTO, Wish
from calib8.calibration.functions_behind import functions_behind
from calib8.calibration.ranges import BEHIND, clipped_share
from calib8.calibration.ranges.minmax import minmax
from calib8.calibration.tensor_statistics import TensorStatistics
from calib8.qparams import QuantSpec
from calib8.table import GIVEN, CalibrationTable, Range, TableEntry
from calib8.tasks.branches import Meaning
from calib8.tasks.kinds import LEADING
from calib8.tasks.reach import reached

WHOLE: Final = "decides what is found: nothing that was seen is clipped"
"""Reason of such a range."""


def with_whole_scores(
    table: CalibrationTable,
    model: ir.Model,
    meaning: Meaning | None,
    statistics: Mapping[str, TensorStatistics],
    spec: QuantSpec,
    wish: Wish,
) -> CalibrationTable:
    """The table with the ranges of such tensors by min-max; as it was where a method was named.

    Args:
        table: ranges by ``auto`` or ``mse-behind``; those that the user gave stay.
        model: the prepared float graph.
        meaning: branches of its outputs; None: not known.
        statistics: of its tensors.
        spec: type of the codes.
        wish: the method, and whether scales are powers of two, which keeps all ranges as they are.
    """
    if meaning is None or not meaning.several or wish.method not in (AUTO, BEHIND) or wish.power_of_two:
        return table
    entries, functions = dict(table.entries), functions_behind(model)
    for name in score_tensors(model, meaning) & entries.keys() & statistics.keys():
        seen = statistics[name]
        if entries[name].method != GIVEN and entries[name].clipped > 0.0 and not seen.is_degenerate:
            entries[name] = _whole(entries[name], minmax(seen, spec), seen, name in functions)
    return replace(table, entries=entries)


def _whole(
    entry: TableEntry, everything: Range, seen: TensorStatistics, read_by_function: bool
) -> TableEntry:
    """The entry with all that was seen, at the low end what it has where a function reads the tensor."""
    if not read_by_function or everything.max <= 0.0 or everything.min == -everything.max:
        return replace(entry, range=everything, method="minmax", clipped=0.0, reason=WHOLE)
    found = Range(entry.range.min, max(entry.range.max, everything.max))
    return replace(entry, range=found, clipped=clipped_share(seen, found), reason=WHOLE)


def score_tensors(model: ir.Model, meaning: Meaning) -> frozenset[str]:
    """Names of the tensors that decide what is found, see the top of the file."""
    leading = [branch for branch in meaning.judged if branch.kind in LEADING]
    others = [branch for branch in meaning.judged if branch.kind not in LEADING]
    if not leading:
        return frozenset()
    alone = reached(model, leading) - reached(model, others)
    return alone | reached(model, leading, within_tail=True)
