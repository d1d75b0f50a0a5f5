"""Whether a float model answers better with red and blue of its images exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from calib8.analysis.evaluate import class_scores
from calib8.analysis.wrong_statistics import sees_the_input
from calib8.data.channel_order import clearly_surer, colour_axis, entropies, reversed_channels
from calib8.model.graph import graph_inputs
from calib8.model.runtime import Arrays, open_session
from calib8.repair.batch_norm_statistics import BatchNormDrift, batch_norm_drift

ADRIFT: Final = 0.12
"""Shift of the first normalization below which no order is suspected …"""

NEARER: Final = 0.5
"""… and the part of it that must be left with the channels reversed."""

FEWEST: Final = 16
"""Fewer samples have shifts of their own."""


def seems_reversed(
    model: ir.Model, runs: Sequence[Arrays], drifts: Sequence[BatchNormDrift], threads: int
) -> str:
    """What tells that the channels go in the wrong way round, empty where nothing does.

    Told by the first normalization where it sees the input, as it fits one of the orders alone, else by the
    entropy of class scores, see ``calib8.data.channel_order``. Needs one image input of three channels.

    Args:
        model: a float model.
        runs: inputs of single runs.
        drifts: of its normalizations on these runs, in graph order.
        threads: for ONNX Runtime.
    """
    inputs = graph_inputs(model)
    axis = colour_axis(inputs[0].shape) if len(inputs) == 1 else None
    if axis is None or len(runs) < FEWEST:
        return ""
    other = [{inputs[0].name: reversed_channels(run[inputs[0].name], axis)} for run in runs]
    if drifts and sees_the_input(model, drifts[0].name):
        return _told_by_statistics(model, other, drifts[0], threads)
    fed, reversed_ = (_entropies(model, some, threads) for some in (runs, other))
    if fed is None or reversed_ is None or not clearly_surer(fed, reversed_):
        return ""
    surer = int(np.sum(fed > reversed_))
    return (
        f"the float model is surer of its classes with the channels in reverse order, on {surer} of "
        f"{len(fed)} samples (entropy {float(np.mean(reversed_)):.2f}, as they are {float(np.mean(fed)):.2f})"
    )


def _told_by_statistics(model: ir.Model, other: Sequence[Arrays], first: BatchNormDrift, threads: int) -> str:
    if first.shift < ADRIFT:
        return ""
    shift = batch_norm_drift(model, other, threads)[0].shift
    if shift > NEARER * first.shift:
        return ""
    return (
        f"the first BatchNormalization is {first.shift:.2f} standard deviations off, with the channels in "
        f"reverse order {shift:.2f}"
    )


def _entropies(model: ir.Model, runs: Sequence[Arrays], threads: int) -> npt.NDArray[np.float64] | None:
    """Of every sample; None where the first output is no row of class scores."""
    session = open_session(model, threads=threads)
    found = []
    for run in runs:
        scores = class_scores(session.run(run)[0])
        if scores is None:
            return None
        found.append(entropies(scores))
    return np.concatenate(found)
