"""How far down the codes of masked scores reach: to where a Softmax has next to nothing left.

y = x + m,  m constant,  read by a Softmax:   y_min = x_min + min over rows of max m − 10   where it was lower
                                              y_max = x_max + max m                          there

In every row something has at least x_min plus the largest m of the row: what lies 10 below has e^−10 of its
weight at most. Without it, masks of −100 or −10⁴ leave a few codes to all scores, and bins as wide as these
tell little of the upper end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import onnx_ir as ir

from calib8.model.graph import constant, sole_consumer
from calib8.ops.questions import adds
from calib8.passes.finite_masks import LOWEST, is_over_rows
from calib8.table import Range, TableEntry

MARGIN: Final = 10.0


def cut_masked_scores(
    model: ir.Model,
    ranges: dict[str, Range],
    entries: Mapping[str, TableEntry],
    given: Collection[str],
) -> None:
    """Takes what a mask put far below all scores out of their ranges.

    Args:
        model: a prepared float graph.
        ranges: tensor → range; changed.
        entries: of the table, for scores that have no codes of their own.
        given: tensors whose range the user gave.
    """
    for node in model.graph:
        name = node.outputs[0].name or ""
        if not adds(node) or name not in ranges or name in given:
            continue
        reader = sole_consumer(node.outputs[0])
        arrays = [constant(value) for value in node.inputs]
        mask = next((array for array in arrays if array is not None and array.ndim > 0), None)
        if reader is None or not is_over_rows(reader) or mask is None or mask.size == 0:
            continue
        scores = node.inputs[1 if arrays[0] is not None else 0]
        before = entries.get("" if scores is None else scores.name or "")
        if before is None:
            continue
        tops = np.max(mask, axis=-1)
        seen = tops[tops > LOWEST / 2]  # what a row that sees nothing yields is of no use
        if seen.size == 0:
            continue
        least = float(seen.min()) + before.range.min - MARGIN
        if ranges[name].min < min(least, 0.0):
            most = float(np.max(mask)) + before.range.max
            ranges[name] = Range(min(least, 0.0), max(most, 0.0))
