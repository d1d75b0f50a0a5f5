"""Batch normalizations whose own statistics are wrong, told from those that only see what a wrong one gives.

A wrong variance moves everything behind it, often further than itself. So every normalization is judged
behind others that have been given the statistics of the data already: what still is adrift is so by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx_ir as ir

from calib8.analysis.batch_norms import MAX_RATIO, inspect_batch_norms
from calib8.model.runtime import Arrays
from calib8.quantization.qdq import label
from calib8.repair.batch_norm_statistics import BatchNormDrift, reestimate_batch_norms
from calib8.scheme import WEIGHTED_OPS

LOOKED_AT: Final = 16
"""Samples that are run once for every normalization on the longest way."""

FEWEST: Final = 4
"""Fewer samples are no statistics."""


def wrong_statistics(
    model: ir.Model, runs: Sequence[Arrays], drifts: Sequence[BatchNormDrift], threads: int
) -> tuple[BatchNormDrift, ...]:
    """The normalizations that are adrift by themselves, in graph order.

    Those that see the input are left out: it is the input that they tell of. So are those that scale one
    channel out of all proportion (``calib8.analysis.batch_norms``), whose channels fit nothing.

    Args:
        model: a float model; not changed.
        runs: inputs of single runs.
        drifts: of its normalizations on these runs as they are; if all of them pass, so do all.
        threads: for ONNX Runtime.
    """
    if len(runs) < FEWEST or not any(drift.suspicious for drift in drifts):
        return ()
    _, alone = reestimate_batch_norms(model, runs[:LOOKED_AT], threads)
    apart = {one.name for one in inspect_batch_norms(model) if one.ratio > MAX_RATIO}
    found = (drift for drift in alone if drift.suspicious and drift.name not in apart)
    return tuple(drift for drift in found if not sees_the_input(model, drift.name))


def sees_the_input(model: ir.Model, name: str) -> bool:
    """No more than one layer with weights lies before a node: other images would hardly move it."""
    node, layers = next((one for one in model.graph if label(one) == name), None), 0
    while node is not None and layers < 2:
        layers += node.op_type in WEIGHTED_OPS
        source = node.inputs[0] if node.inputs else None
        node = None if source is None else source.producer()
    return layers < 2
