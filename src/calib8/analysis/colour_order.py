"""Whether a float model wants red and blue of its images exchanged.

Where its first normalization sees the input, that tells alone, as it fits one of the orders; else the entropy
of class scores does, or of a detector the best scores, see ``calib8.data.channel_order``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from calib8.analysis.sureness import Witness
from calib8.analysis.wrong_statistics import sees_the_input
from calib8.data.channel_order import FEWEST_SAMPLES, colour_axis, reversed_channels
from calib8.data.preprocess import Preprocess
from calib8.model.runtime import Arrays
from calib8.parameters import Text, parameter
from calib8.repair.batch_norm_statistics import BatchNormDrift, first_batch_norm_drift

ADRIFT: Final = 0.12
"""Shift of the first normalization below which no order is suspected …"""

NEARER: Final = 0.5
"""… and the part of it that must be left with red and blue exchanged."""


@dataclass(frozen=True)
class Exchanged:
    """What tells that red and blue are exchanged.

    Attributes:
        text: the evidence, half a sentence.
        cure: what to do, a sentence without its end.
    """

    text: str
    cure: str


def red_and_blue_exchanged(
    witness: Witness, first: BatchNormDrift | None, p: Preprocess | None
) -> Exchanged | None:
    """Whether red and blue go in the wrong way round; None where nothing tells so beyond doubt.

    Needs one float image input of three channels, and samples enough.

    Args:
        witness: the float model and the inputs as they are fed.
        first: of its first normalization on these inputs; None where it has none.
        p: what images went through; None for arrays.

    Raises:
        ModelError, DataError: the model cannot be run.
    """
    axis = picture_axis(witness.runs[0], p) if witness.runs else None
    if axis is None or samples(witness.runs) < FEWEST_SAMPLES:
        return None
    text = _told_by_statistics(witness, first, axis) if first is not None else ""
    if first is None or not (first.suspicious or sees_the_input(witness.model, first.name)):
        text = _told_by_entropy(witness, axis)
    return Exchanged(text, Text(_cure(p, axis))) if text else None


def picture_axis(inputs: Arrays, p: Preprocess | None) -> int | None:
    """The axis of red, green and blue of the only input, 1 or 3; None where there is none."""
    [values] = inputs.values() if len(inputs) == 1 else [None]
    if values is None or values.dtype.kind != "f" or values.ndim != 4:
        return None
    if p is None:
        return colour_axis(values.shape)
    found = 3 if p.layout == "NHWC" else 1
    return found if p.channels == values.shape[found] == 3 else None


def samples(runs: Sequence[Arrays]) -> int:
    """Of all runs, told by the first axis of their first input."""
    return sum(len(next(iter(run.values()))) for run in runs)


def _told_by_statistics(witness: Witness, first: BatchNormDrift, axis: int) -> str:
    if first.shift < ADRIFT or not sees_the_input(witness.model, first.name):
        return ""
    other = ({name: reversed_channels(array, axis) for name, array in run.items()} for run in witness.runs)
    drift = first_batch_norm_drift(witness.model, other, witness.threads)
    if drift is None or drift.shift > NEARER * first.shift:
        return ""
    return (
        f"the first normalization ({first.name}) is {first.shift:.2f} standard deviations off, with red and "
        f"blue exchanged {drift.shift:.2f}"
    )


def _told_by_entropy(witness: Witness, axis: int) -> str:
    found = witness.surer(lambda values: reversed_channels(values, axis))
    if found is None:
        return ""
    fed, other = found
    surer = int(np.sum(fed.entropy > other.entropy))
    if not fed.of:
        before, after = (float(np.exp(-one.entropy.mean())) for one in (fed, other))
        return (
            "the model is surer of what it finds with red and blue exchanged (best scores "
            f"{before:.2f} → {after:.2f}, on {surer} of {len(fed.entropy)} samples)"
        )
    return (
        "the model is surer of its classes with red and blue exchanged (entropy "
        f"{fed.entropy.mean():.2f} → {other.entropy.mean():.2f}, on {surer} of {len(fed.entropy)} samples)"
    )


def _cure(p: Preprocess | None, axis: int) -> str:
    if p is None:
        code = "array[:, ::-1]" if axis == 1 else "array[..., ::-1]"
        return f"Give {code}, or see how the model was trained"
    other = "rgb" if p.color == "bgr" else "bgr"
    return f"Give {parameter('color', other)} and the mean in that order, or see how the model was trained"
