"""The outputs of an int8 model beside the float one's: all together, each branch, and the best classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from calib8.analysis.evaluate import best_classes, class_scores
from calib8.analysis.model_pair import ModelPair
from calib8.analysis.noise import Distance, DistanceSums
from calib8.errors import ModelError
from calib8.tasks.branches import Meaning

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BranchDistance:
    """How far one branch of the outputs is from the float model's.

    Attributes:
        name: of the branch.
        kind: what it is, see ``calib8.tasks.kinds``.
        distance: over all samples.
    """

    name: str
    kind: str
    distance: Distance


@dataclass
class OutputSums:
    """Running figures of the outputs.

    Attributes:
        meaning: their branches.
        together: all float outputs.
    """

    meaning: Meaning
    together: DistanceSums = field(default_factory=DistanceSums)
    branches: list[DistanceSums] = field(default_factory=list)
    classified: int = 0
    agreeing: int = 0

    def add(self, pair: ModelPair, floats: dict[str, Array], outputs: dict[str, Array]) -> None:
        """The outputs by their place: noise over all of them, agreement on the first.

        Raises:
            ModelError: an output of the int8 model has another shape than the float model's.
        """
        pairs = list[tuple[Array, Array]]()
        for index, (name, value) in enumerate(zip(pair.outputs, pair.int8.graph.outputs, strict=True)):
            expected, output = floats.get(name), outputs[value.name or ""]
            if expected is None or expected.dtype != np.float32 or output.dtype != np.float32:
                continue
            if expected.shape != output.shape:
                raise ModelError(
                    pair.int8_name,
                    f"its output '{value.name}' has shape {list(output.shape)} instead of "
                    f"{list(expected.shape)}",
                    "Give the float model that it was made from",
                )
            self.together.add(expected, output)
            pairs.append((expected, output))
            left, right = class_scores(expected), class_scores(output)
            if index == 0 and left is not None and right is not None:
                self.classified += len(left)
                self.agreeing += int(np.sum(best_classes(left, 1) == best_classes(right, 1)))
        self._add_branches([pair[0] for pair in pairs], [pair[1] for pair in pairs])

    def _add_branches(self, expected: list[Array], outputs: list[Array]) -> None:
        told = self.meaning.judged
        if not self.meaning.several or any(piece.index >= len(expected) for piece in self.meaning.pieces):
            return
        self.branches = self.branches or [DistanceSums() for _ in told]
        for branch, sums in zip(told, self.branches, strict=True):
            for left, right in zip(branch.of(expected), branch.of(outputs), strict=True):
                sums.add(np.ascontiguousarray(left), np.ascontiguousarray(right))

    @property
    def agreement(self) -> float | None:
        """Share of samples with the float model's best class; None without classes."""
        return self.agreeing / self.classified if self.classified else None

    def distances(self) -> tuple[BranchDistance, ...]:
        """Of every branch where there are several, the worst first."""
        pairs = zip(self.meaning.judged, self.branches, strict=False)
        found = [BranchDistance(one.name, one.kind, sums.distance()) for one, sums in pairs]
        return tuple(sorted(found, key=lambda one: one.distance.sqnr_db))
