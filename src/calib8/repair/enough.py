"""Which branches of the outputs are so poor that single layers or tensors shall cost more, and what shows it.

text       40 dB: a line is right only if all of its characters are
others     30 dB
classes    20 dB, where layers become float: the largest of a few numbers mostly stays the largest
streams    20 dB more than that

A frame of a stream is judged with the state of the float model; a stream carries its own, with what all
frames before have lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from calib8.autorange.check import Check, Expected, float_outputs, judged, run_energies
from calib8.model.runtime import Arrays
from calib8.repair.candidate import Candidate, RepairData
from calib8.tasks.branches import Meaning
from calib8.tasks.figures import Energies
from calib8.tasks.kinds import Kind
from calib8.tasks.meaning import meaning_of

LOOKED_AT: Final = 8
"""Runs: what ranks parts is a difference of many dB."""

LEAST_HELD: Final = 0.25
"""Of the noise that as many runs have on average: with less the first ones are not like the others."""

GOOD_DB: Final = 40.0
ENOUGH_DB: Final = 30.0
CLASSES_DB: Final = 20.0

STREAM_DB: Final = 20.0
"""silero_vad has 35.7 dB frame by frame, 39.3 of its state, and 25.3 as a stream."""

FOR_SPOTS: Final[Mapping[Kind, float]] = {"ctc": GOOD_DB}
FOR_FLOATS: Final[Mapping[Kind, float]] = {
    "ctc": GOOD_DB, "logits": CLASSES_DB, "probabilities": CLASSES_DB, "decisions": CLASSES_DB
}  # fmt: skip
"""What a kind needs; others need ``ENOUGH_DB``."""


@dataclass(frozen=True)
class Poor:
    """What is poor.

    Attributes:
        needs: branch with less than its kind needs → what it needs, in dB; called "" where there is one.
        runs: the first ones, or where these have little of the noise there, those with most of it.
    """

    needs: Mapping[str, float]
    runs: tuple[Arrays, ...] = ()


def poor_branches(candidate: Candidate, data: RepairData, needs: Mapping[Kind, float]) -> Poor:
    """Branches with less than their kind needs, and the runs that show why.

    All runs that repair judge: a network that takes turns, such as a tree of decisions, may take the right
    one in most of them, and what makes it take the wrong one is seen where it does.

    Args:
        candidate: whose int8 graph is judged.
        data: its runs, and what the branches need beyond that; where none lacks even this, all are poor.
        needs: dB that kinds of branches need, others ``ENOUGH_DB``.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    meaning = meaning_of(candidate.model) if data.meaning is None else data.meaning
    expected = Expected.of(float_outputs(candidate.model, data.runs, data.threads), meaning)
    energies = run_energies(candidate.coded.model, data.runs, expected, data.threads)
    figures = figures_of(judged("", energies, meaning, expected.signals))
    more = data.more_db + (STREAM_DB if data.dataset is not None and data.dataset.carried else 0.0)
    needed = {name: (figure, _needed(name, meaning, needs) + more) for name, figure in figures.items()}
    poor = {name: least for name, (figure, least) in needed.items() if figure < least}
    if data.more_db and not poor:  # its task says that they are not good enough, whatever they have
        poor = dict.fromkeys(needed, math.inf)
    if not poor or not energies.size:  # no output is float: nothing tells a model from another
        return Poor({})
    there = ["" in poor or branch.name in poor for branch in meaning.judged]
    noise = meaning.joined(energies)[:, there, 1]
    return Poor(poor, tuple(data.runs[index] for index in _telling(noise)))


def _telling(noise: Energies) -> list[int]:
    """Of the noise [runs, branches] the first runs, or those of the largest shares in a branch; ascending.

    The loudest ones are odd ones as well: they tell where the first ones tell next to nothing.
    """
    most = np.finfo(np.float64).max / len(noise)
    finite = np.nan_to_num(noise, nan=most, posinf=most)
    held = finite[:LOOKED_AT].sum(axis=0) / np.maximum(finite.sum(axis=0), np.finfo(np.float64).tiny)
    if np.all(held >= LEAST_HELD * LOOKED_AT / len(noise)):
        return list(range(min(LOOKED_AT, len(noise))))
    shares = finite / np.maximum(finite.max(axis=0), np.finfo(np.float64).tiny)
    order = np.argsort(-shares.max(axis=1), kind="stable")
    return sorted(int(index) for index in order[:LOOKED_AT])


def figures_of(check: Check) -> dict[str, float]:
    """Branch → dB; of one branch alone, all."""
    found = {one.name: (one.typical_db + one.sqnr_db) / 2.0 for one in check.branches}
    return found or {"": check.sqnr_db}


def _needed(name: str, meaning: Meaning, needs: Mapping[Kind, float]) -> float:
    kinds = (branch.kind for branch in meaning.judged if name in ("", branch.name))
    return max((needs.get(kind, ENOUGH_DB) for kind in kinds), default=ENOUGH_DB)
