"""Which layers ruin each branch of the outputs: what their codes alone do to this branch.

    share of the noise ≈ 10^((SQNR of the branch − SQNR of it with this layer's codes alone) / 10)

Boxes and scores lose by other layers: the layers that are worst for all of the outputs may say nothing of the
scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from calib8.analysis.findings import INNOCENT_DB, LayerLoss
from calib8.autorange.check import Check
from calib8.tasks.branches import Meaning
from calib8.tasks.kinds import Kind

NAMED: Final = 5
"""Layers that are named for a branch."""


@dataclass(frozen=True)
class Culprit:
    """A layer whose codes cost a branch much.

    Attributes:
        node: the layer, None for an input of the model.
        tensor: what it yields.
        sqnr_db: of the branch if this layer alone has codes.
        share: about so much of the noise of the branch is its own, 0 … 1.
    """

    node: str | None
    tensor: str
    sqnr_db: float
    share: float


@dataclass(frozen=True)
class BranchLoss:
    """What becomes of a branch, and by which layers.

    Attributes:
        name, kind: of the branch.
        sqnr_db: of INT8.
        culprits: the worst first, ``NAMED`` at most; those with less than a tenth of the noise are left out.
    """

    name: str
    kind: Kind
    sqnr_db: float
    culprits: tuple[Culprit, ...]


def branch_losses(whole: Check, meaning: Meaning, losses: Sequence[LayerLoss]) -> tuple[BranchLoss, ...]:
    """One per branch that is judged, the worst first; none where there is a single one.

    Args:
        whole: the int8 model.
        meaning: what its outputs mean.
        losses: its layers.
    """
    kinds = {branch.name: branch.kind for branch in meaning.judged}
    found = []
    for branch in sorted(whole.branches, key=lambda one: one.sqnr_db):
        told = [
            Culprit(loss.row.node, loss.row.tensor, alone, min(1.0, 10.0 ** ((branch.sqnr_db - alone) / 10)))
            for loss in losses
            if (alone := loss.damage.branches.get(branch.name)) is not None
            and alone < branch.sqnr_db + INNOCENT_DB
        ]
        told.sort(key=lambda one: one.sqnr_db)
        found.append(BranchLoss(branch.name, kinds[branch.name], branch.sqnr_db, tuple(told[:NAMED])))
    return tuple(found)
