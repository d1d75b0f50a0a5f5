"""Which branches of the outputs are so poor that single layers or tensors shall cost more: by their kind.

text       40 dB: a line is right only if all of its characters are
others     30 dB
classes    20 dB, where layers become float: the largest of a few numbers mostly stays the largest
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calib8.autorange.check import Check, Expected, check_model, float_outputs
from calib8.repair.candidate import Candidate, RepairData
from calib8.tasks.branches import Meaning
from calib8.tasks.kinds import Kind
from calib8.tasks.meaning import meaning_of

GOOD_DB: Final = 40.0
ENOUGH_DB: Final = 30.0
CLASSES_DB: Final = 20.0

FOR_SPOTS: Final[Mapping[Kind, float]] = {"ctc": GOOD_DB}
FOR_FLOATS: Final[Mapping[Kind, float]] = {"ctc": GOOD_DB, "logits": CLASSES_DB, "probabilities": CLASSES_DB}
"""What a kind needs; others need ``ENOUGH_DB``."""


def poor_branches(candidate: Candidate, data: RepairData, needs: Mapping[Kind, float]) -> dict[str, float]:
    """Branches with less than their kind needs → what it needs, in dB; called "" where there is one.

    All runs that repair judge: a network that takes turns, such as a tree of decisions, may take the right
    one in a few of them.

    Raises:
        ModelError, DataError: ONNX Runtime cannot run the model.
    """
    meaning = meaning_of(candidate.model) if data.meaning is None else data.meaning
    expected = Expected.of(float_outputs(candidate.model, data.runs, data.threads), meaning)
    check = check_model("", candidate.coded.model, data.runs, expected, data.threads)
    needed = {name: (figure, _needed(name, meaning, needs)) for name, figure in figures_of(check).items()}
    return {name: least for name, (figure, least) in needed.items() if figure < least}


def figures_of(check: Check) -> dict[str, float]:
    """Branch → dB; of one branch alone, all."""
    found = {one.name: (one.typical_db + one.sqnr_db) / 2.0 for one in check.branches}
    return found or {"": check.sqnr_db}


def _needed(name: str, meaning: Meaning, needs: Mapping[Kind, float]) -> float:
    kinds = (branch.kind for branch in meaning.judged if name in ("", branch.name))
    return max((needs.get(kind, ENOUGH_DB) for kind in kinds), default=ENOUGH_DB)
